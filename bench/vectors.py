"""What sentence embeddings cost, and searching them, beside a bare NumPy product. Last line: one JSON object.

    python bench/vectors.py [--vectors 100000] [--texts 3000] [--noise 0.5] [--keep vectors.npy]
    python bench/vectors.py --batches [--texts 3000]   # embedder=sentence_transformer beside `encode` of its library

Vectors to search are those of real texts, the docstrings of the standard library, each repeated with Gaussian noise of
length `noise` added before they are scaled to 1 again (0.5: a cosine of 0.89 to the text's own). Queries are vectors of
texts that are not among them, perturbed alike; they are given as vectors. `--keep` holds the texts' vectors from run to
run. Ratios are of calls that take turns. Cosines compare int8 with fp32 weights; without sentence-transformers they are
left out. With `--batches`: texts per second of CPU time, on one thread, and the largest difference of a component to
that of the text alone.
"""

import argparse
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

from reflexion_lab.memory.embedders.cached import CachedEmbedder
from reflexion_lab.memory.embedders.minilm import MiniLM
from reflexion_lab.memory.embedders.sentence_transformer import SentenceTransformer
from reflexion_lab.memory.retrieval.embedding import Vectors
from reflexion_lab.tasks.benchmarks.humaneval import humaneval

SIZES = (16_384, 32_768, 65_536, 131_072)
SLOW_MS = 5.0
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
        _, first_ms = timed(lambda: cached.embed(prompts))
        cached.close()
        cached = CachedEmbedder(embedder, Path(folder) / "embeddings.sqlite")
        opened_ms, *again_ms = [timed(lambda: cached.embed(prompts))[1] for _ in range(11)]
        cached.close()
    one_ms = [timed(lambda prompt=prompt: embedder.embed([prompt]))[1] for prompt in prompts[:20]]
    return {
        "texts": len(prompts),
        "load_seconds": round(load_ms / 1000, 2),
        "seconds": round(first_ms / 1000, 2),
        "per_second": round(1000 * len(prompts) / first_ms, 1),
        "one_ms": round(statistics.median(one_ms), 1),
        "cached_ms": round(statistics.median(again_ms), 2),
        "cached_ms_with_opening": round(opened_ms, 2),
    }


def agreement(embedder, texts):
    """Cosines between the vectors of int8 and fp32 weights."""
    if importlib.util.find_spec("sentence_transformers") is None:
        return {}
    exact = SentenceTransformer()
    groups = {"humaneval": [task.prompt for task in humaneval()], "docstrings": texts[:300]}
    report = {}
    for name, group in groups.items():
        cosines = (embedder.embed(group) * exact.embed(group)).sum(axis=1)
        report[f"cosine_{name}_min"] = round(float(cosines.min()), 5)
        report[f"cosine_{name}_mean"] = round(float(cosines.mean()), 5)
    return report


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
        vectors, one = rated(lambda cut=cut: alone.embed(cut))
        others, many = rated(lambda cut=cut: batched.embed(cut))
        _, library = rated(lambda cut=cut: batched._load().encode(cut, normalize_embeddings=True))
        with tempfile.TemporaryDirectory() as folder:
            cached = CachedEmbedder(batched, Path(folder) / "embeddings.sqlite")
            _, stored = rated(lambda cut=cut, cached=cached: cached.embed(cut))
            cached.close()
        rates = {"alone": one, "batches": many, "cached": stored, "encode": library, "cpu_ratio": library / stored}
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
    ratio = statistics.median(a / b for a, b in zip(ours, bare, strict=True))
    return statistics.median(ours), statistics.median(bare), ratio


def real_vectors(embedder, texts, keep):
    if keep and keep.exists() and len(kept := np.load(keep)) == len(texts):
        return kept, 0.0
    vectors, ms = timed(lambda: embedder.embed(texts))
    if keep:
        np.save(keep, vectors)
    return vectors, ms / 1000


def measure(vectors=100_000, texts=3000, noise=0.5, keep=None, queries=100):
    """All figures. `keep`: an .npy file for the texts' vectors; None embeds them again."""
    embedder, generator, documents = MiniLM(), np.random.default_rng(0), docstrings(texts)
    report = {"embedding": embedding(embedder) | agreement(embedder, documents)}
    real, seconds = real_vectors(embedder, documents, keep)
    real = real[generator.permutation(len(real))]
    held = perturbed(real[: len(real) // 10], queries, noise, generator)
    rows = perturbed(real[len(real) // 10 :], max(vectors, SIZES[-1]), noise, generator)
    ours, bare, ratio = exact_search(rows[:vectors], held)
    by_size = {size: exact_search(rows[:size], held[:50])[0] for size in SIZES}
    slope = statistics.median(ms / size for size, ms in by_size.items())
    report["data"] = {
        "real_texts": len(real),
        "characters_of_a_text": round(statistics.median(map(len, documents))),
        "seconds_to_embed_them": round(seconds, 1),
        "noise": noise,
        "dimensions": real.shape[1],
        "queries": len(held),
    }
    report["exact"] = {
        "vectors": vectors,
        "ms": round(ours, 2),
        "bare_product_ms": round(bare, 2),
        "ratio": round(ratio, 3),
        "ms_by_size": {str(size): round(ms, 2) for size, ms in by_size.items()},
        "size_at_5_ms": round(SLOW_MS / slope),
    }
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", type=int, default=100_000)
    parser.add_argument("--texts", type=int, default=3000)
    parser.add_argument("--noise", type=float, default=0.5)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--batches", action="store_true")
    options = parser.parse_args()
    is_batches, texts = options.batches, options.texts
    report = batches(texts) if is_batches else measure(options.vectors, texts, options.noise, options.keep)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
