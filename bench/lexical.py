"""What the lexical retrievers cost, beside the linear scan of the source systems. See retrieval.py.

The descriptions are drawn word by word from the frequencies of the 164 HumanEval prompts, at the prompts' lengths. The
share of the prompts' words that stand there once (Good and Turing's estimate of what was not seen) goes to invented
words with a Zipf tail, so that the vocabulary grows as that of real text does. A query is one more such description, a
whole prompt long.
"""

import gc
import itertools
import os
import statistics
import time
from collections import Counter
from pathlib import Path

import numpy as np
from table import Row

from reflexion_lab.memory.retrieval.bm25 import BM25
from reflexion_lab.memory.retrieval.jaccard import Jaccard
from reflexion_lab.memory.retrieval.tfidf import TfIdf
from reflexion_lab.tasks.benchmarks.humaneval import humaneval
from reflexion_lab.text.replies.tokens import WORD, tokens

RARE = 200_000
OURS = {"jaccard": Jaccard, "tfidf": TfIdf, "bm25": BM25}
TOP = 5
ROUND = 16


def descriptions(number, seed):
    """So many synthetic task descriptions, stop words included."""
    prompts = [WORD.findall(task.prompt.casefold()) for task in humaneval()]
    counts = Counter(itertools.chain.from_iterable(prompts))
    once = sum(count == 1 for count in counts.values()) / counts.total()
    words = [*counts, *(f"rare{rank}" for rank in range(RARE))]
    tail = 1 / np.arange(1, RARE + 1)
    chances = np.append(np.array([*counts.values()]) / counts.total() * (1 - once), tail / tail.sum() * once)
    random = np.random.default_rng(seed)
    ends = np.cumsum(random.choice([len(prompt) for prompt in prompts], number))
    values = random.choice(len(words), ends[-1], p=chances).tolist()
    starts = [0, *ends[:-1]]
    return [" ".join(words[place] for place in values[a:b]) for a, b in zip(starts, ends, strict=True)]


def seconds(work, *arguments):
    start = time.perf_counter()
    result = work(*arguments)
    return time.perf_counter() - start, result


def resident():
    """Megabytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def built(make, texts):
    """A retriever of `texts`, its bytes a document, and the CPU milliseconds until its first answer."""
    gc.collect()
    before, retriever, start = resident(), make(), time.process_time()
    retriever.add(texts)
    retriever.rank("return", TOP)
    return retriever, (resident() - before) * 2**20 / len(texts), 1000 * (time.process_time() - start)


def grown(retriever, texts, queries):
    """Add a round of descriptions and forget as many, then query, again and again: CPU milliseconds of one."""
    durations = []
    for number, query in enumerate(queries, 1):
        start = time.process_time()
        retriever.add(texts[(number - 1) * ROUND : number * ROUND])
        retriever.forget(number * ROUND)
        retriever.rank(query, TOP)
        durations.append(time.process_time() - start)
    return 1000 * statistics.median(durations)


def scanned(query, texts):
    """The linear scan: every stored description is split into words again for every query, and all are sorted."""
    wanted = set(tokens(query))
    scores = []
    for number, text in enumerate(texts):
        words = set(tokens(text))
        scores.append((len(wanted & words) / len(wanted | words), number))
    return sorted(scores, reverse=True)[:TOP]


def alternating(rankers, queries):
    """Median milliseconds of a query with each of the rankers, in turns; a first round warms them up."""
    durations = {name: [] for name in rankers}
    for turn in range(4):
        for query in queries:
            for name, rank in rankers.items():
                spent, _ = seconds(rank, query, TOP)
                if turn:
                    durations[name].append(spent * 1e3)
    return {name: statistics.median(each) for name, each in durations.items()}


def bm25s_of(texts):
    """The index of bm25s over the texts, as a function of query and k; None where it is not installed."""
    try:
        import bm25s
    except ImportError:
        return None
    peer = bm25s.BM25(method="lucene")
    peer.index([tokens(text) for text in texts], show_progress=False)
    return lambda query, k: peer.retrieve([tokens(query)], k=k, show_progress=False)


def rows(documents, queries):
    """Milliseconds are medians; contenders take turns."""
    texts, repeated, new = descriptions(documents, 0), descriptions(queries, 1), descriptions(queries * ROUND, 2)
    contenders = {name: built(make, texts) for name, make in OURS.items()}
    peer = bm25s_of(texts)
    ms = alternating({n: each[0].rank for n, each in contenders.items()} | ({"bm25s": peer} if peer else {}), repeated)
    scans = [seconds(scanned, query, texts) for query in repeated[:3]]
    ms["linear scan"] = statistics.median(spent for spent, _ in scans) * 1e3
    hits = [[(hit.score, hit.number) for hit in contenders["jaccard"][0].rank(query, TOP)] for query in repeated[:3]]
    assert hits == [scores for _, scores in scans], "jaccard ranks otherwise than the scan"
    for name, (retriever, costs, building) in contenders.items():
        other = {"jaccard": "linear scan", "bm25": "bm25s"}.get(name, "")
        work = f"{name}, {documents:,} documents: "
        yield Row(f"{work}a query", "ms", ms[name], other, ms.get(other), 20, limits_ours=True)
        grown_ms = grown(retriever, new, repeated)
        yield Row(f"{work}a round of {ROUND} and a query", "CPU ms", grown_ms, "build anew", building, 50, True)
        yield Row(f"{work}memory of one", "bytes", costs)
