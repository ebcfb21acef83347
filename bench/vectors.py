"""What sentence embeddings cost, and searching them, beside a bare NumPy product. See retrieval.py.

Vectors to search are those of real texts, the docstrings of the standard library, each repeated with Gaussian noise of
length `noise` added before they are scaled to 1 again (0.5: a cosine of 0.89 to the text's own). Queries are vectors of
texts that are not among them, perturbed alike; they are given as vectors. Cosines compare int8 with fp32 weights;
without sentence-transformers they are left out.

    python bench/vectors.py [--texts 3000]   # embedder=sentence_transformer beside `encode` of its library

As a script of its own: texts per second of CPU time, on one thread, and the largest difference of a component to that
of the text alone.
"""

import ast
import importlib.util
import json
import random
import statistics
import sysconfig
import tempfile
import time
from pathlib import Path

import numpy as np
from table import Row, options_of

from reflexion_lab.memory.embedders.cached import CachedEmbedder
from reflexion_lab.memory.embedders.minilm import MiniLM
from reflexion_lab.memory.embedders.sentence_transformer import SentenceTransformer
from reflexion_lab.memory.retrieval.embedding import Vectors
from reflexion_lab.tasks.benchmarks.humaneval import humaneval

BATCH = 50_000


def docstrings(count):
    """Docstrings of the standard library of 60 characters and more, each once."""
    unique = {}
    for file in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("**/*.py")):
        if len(unique) >= count:
            break
        if not {"site-packages", "test", "tests"} & set(file.parts):
            try:
                nodes = list(ast.walk(ast.parse(file.read_text())))
            except (SyntaxError, ValueError):
                continue
            kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
            texts = [ast.get_docstring(node) or "" for node in nodes if isinstance(node, kinds)]
            unique |= dict.fromkeys(text for text in texts if len(text) >= 60)
    return list(unique)[:count]


def timed(call):
    start = time.perf_counter()
    value = call()
    return value, 1000 * (time.perf_counter() - start)


def embedding(embedder):
    """164 prompts of HumanEval: embedded, then answered by the cache."""
    prompts = [task.prompt for task in humaneval()]
    _, load_ms = timed(lambda: embedder.embed(["."]))
    with tempfile.TemporaryDirectory() as folder:
        cached = CachedEmbedder(embedder, Path(folder) / "embeddings.sqlite")
        cached.embed(prompts)
        cached.close()
        cached = CachedEmbedder(embedder, Path(folder) / "embeddings.sqlite")
        _, *again_ms = [timed(lambda: cached.embed(prompts))[1] for _ in range(11)]
        cached.close()
    one_ms = [timed(lambda prompt=prompt: embedder.embed([prompt]))[1] for prompt in prompts[:20]]
    return {
        "load": load_ms / 1000, "one": statistics.median(one_ms), "cached": statistics.median(again_ms) / len(prompts)
    }  # fmt: skip


def agreement(embedder, texts):
    """Cosines between the vectors of int8 and fp32 weights."""
    if importlib.util.find_spec("sentence_transformers") is None:
        return
    exact = SentenceTransformer()
    groups = {"humaneval": [task.prompt for task in humaneval()], "docstrings": texts[:300]}
    for name, group in groups.items():
        cosines = (embedder.embed(group) * exact.embed(group)).sum(axis=1)
        yield f"{name}, least", float(cosines.min())
        yield f"{name}, mean", float(cosines.mean())


def batches(texts):
    """Docstrings cut at 60 and 300 characters and whole, in batches of 1 and 16, with a cache, and by `encode`."""
    import torch

    torch.set_num_threads(1)
    drawn, report = random.Random(0).sample(docstrings(100_000), texts), {}
    alone, batched = SentenceTransformer(device="cpu", batch_size=1), SentenceTransformer(device="cpu", batch_size=16)
    alone.embed(["."]), batched.embed(["."])

    def rated(call):
        start = time.process_time()
        return call(), texts / (time.process_time() - start)

    for length in (60, 300, None):
        cut = [text[:length] for text in drawn]
        vectors, rate_alone = rated(lambda cut=cut: alone.embed(cut))
        others, many = rated(lambda cut=cut: batched.embed(cut))
        _, library = rated(lambda cut=cut: batched._load().encode(cut, normalize_embeddings=True))
        with tempfile.TemporaryDirectory() as folder:
            cached = CachedEmbedder(batched, Path(folder) / "embeddings.sqlite")
            _, stored = rated(lambda cut=cut, cached=cached: cached.embed(cut))
            cached.close()
        rates = {
            "alone": rate_alone,
            "batches": many,
            "cached": stored,
            "encode": library,
            "cpu_ratio": library / stored,
        }
        difference = float(np.abs(vectors - others).max())
        report[f"{length or 'whole'}"] = {name: round(rate, 2) for name, rate in rates.items()} | {"differ": difference}
    return report


def perturbed(vectors, count, noise, generator):
    """`count` noisy copies of rows drawn from `vectors`, in parts that fit memory."""
    rows = np.empty((count, vectors.shape[1]), np.float32)
    for start in range(0, count, BATCH):
        part = rows[start : start + BATCH]
        part[:] = generator.standard_normal(part.shape, dtype=np.float32)
        part *= noise / np.linalg.norm(part, axis=1, keepdims=True)
        part += vectors[generator.integers(0, len(vectors), len(part))]
        part /= np.linalg.norm(part, axis=1, keepdims=True)
    return rows


def exact_search(rows, queries, k=5):
    """Top-k of `rows` and a bare product over the very same matrix, in turns."""
    vectors = Vectors()
    vectors.add(rows)
    matrix, _ = vectors._matrix()
    ours, bare = [], []
    for query in queries:
        bare.append(timed(lambda query=query: matrix @ query)[1])
        ours.append(timed(lambda query=query: vectors.rank(query, k))[1])
    return statistics.median(ours), "bare product", statistics.median(bare)


def rows(vectors, texts, noise=0.5, queries=100):
    embedder, generator, documents = MiniLM(), np.random.default_rng(0), docstrings(texts)
    figures = embedding(embedder)
    yield Row("minilm: its weights load", "s", figures["load"])
    yield Row("minilm: a prompt of HumanEval", "ms", figures["one"], "cached", figures["cached"])
    yield from (Row(f"minilm: cosine to fp32, {name}", "", cosine) for name, cosine in agreement(embedder, documents))
    real = embedder.embed(documents)
    real = real[generator.permutation(len(real))]
    held = perturbed(real[: max(1, len(real) // 10)], queries, noise, generator)
    queries = perturbed(real[len(real) // 10 :], vectors, noise, generator)
    yield Row(f"vectors, {vectors:,}: a query", "ms", *exact_search(queries, held), 1.5)


if __name__ == "__main__":
    print(json.dumps(batches(options_of(__doc__, texts=3000).texts)))
