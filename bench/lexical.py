"""What the lexical retrievers cost, beside the linear scan of the source systems. See retrieval.py.

The descriptions are drawn word by word from the frequencies of the 164 HumanEval prompts, at the prompts' lengths. The
share of the prompts' words that stand there once (Good and Turing's estimate of what was not seen) goes to invented
words with a Zipf tail, so that the vocabulary grows as that of real text does. A query is one more such description, a
whole prompt long.
"""

import gc
import itertools
import os
import resource
import statistics
import time
from collections import Counter
from pathlib import Path

import numpy as np

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
    """A retriever of `texts`, what it took, and the seconds of it."""
    gc.collect()
    before, retriever = resident(), make()
    adding, _ = seconds(retriever.add, texts)
    settling, _ = seconds(retriever.rank, "return", TOP)
    report = {
        "add_per_second": round(len(texts) / adding),
        "settle_ms": round(settling * 1e3, 1),
        "bytes_per_document": round((resident() - before) * 2**20 / len(texts)),
    }
    return retriever, report, adding + settling


def grown(retriever, texts, queries, building):
    """Add a round of descriptions and forget as many, then query, again and again: CPU time, beside a rebuild."""
    durations = []
    for number, query in enumerate(queries, 1):
        start = time.process_time()
        retriever.add(texts[(number - 1) * ROUND : number * ROUND])
        retriever.forget(number * ROUND)
        retriever.rank(query, TOP)
        durations.append(time.process_time() - start)
    middle = statistics.median(durations)
    return {"round_and_query_ms": round(middle * 1e3, 2), "share_of_a_rebuild": round(middle / building, 5)}


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


def sizes(texts, queries):
    """What was asked of whom: words are those that count, without stop words."""
    documents, words = [tokens(text) for text in texts], [tokens(query) for query in queries]
    frequencies = Counter(itertools.chain.from_iterable(map(set, documents)))
    return {
        "documents": len(texts),
        "vocabulary": len(frequencies),
        "words_per_document": round(statistics.mean(map(len, documents)), 1),
        "words_per_query": statistics.median(map(len, words)),
        "different_words_per_query": statistics.median(len(set(query)) for query in words),
        "postings_per_query": round(statistics.median(sum(frequencies[w] for w in set(query)) for query in words)),
    }


def measure(documents=100_000, queries=30):
    """All figures on so many descriptions, in one run: milliseconds are medians, ratios are of turns taken."""
    texts, repeated, new = descriptions(documents, 0), descriptions(queries, 1), descriptions(queries * ROUND, 2)
    contenders = {name: built(make, texts) for name, make in OURS.items()}
    ours = {name: retriever for name, (retriever, _, _) in contenders.items()}
    ms = alternating({name: each.rank for name, each in ours.items()}, repeated)
    scans = [seconds(scanned, query, texts) for query in repeated[:3]]
    hits = [[(hit.score, hit.number) for hit in ours["jaccard"].rank(query, TOP)] for query in repeated[:3]]
    report = {
        **sizes(texts, repeated),
        "ms": {name: round(each, 2) for name, each in ms.items()},
        "scan_ms": round(statistics.median(spent for spent, _ in scans) * 1e3, 1),
        "scan_finds_what_jaccard_finds": hits == [numbers for _, numbers in scans],
    }
    report["scan_to_jaccard"] = round(report["scan_ms"] / ms["jaccard"])
    for name, (retriever, costs, spent) in contenders.items():
        report[name] = {"build_seconds": round(spent, 2), **costs, **grown(retriever, new, repeated, spent)}
    return report


def measure_large(documents, queries=10):
    """Our own figures one retriever at a time, without the scan."""
    texts, repeated, new = descriptions(documents, 0), descriptions(queries, 1), descriptions(queries * ROUND, 2)
    report = {"documents": documents}
    for name, make in OURS.items():
        retriever, costs, spent = built(make, texts)
        ms = alternating({name: retriever.rank}, repeated)[name]
        report[name] = {"build_seconds": round(spent, 2), **costs, "ms": round(ms, 2)}
        report[name].update(grown(retriever, new, repeated, spent))
        del retriever
    report["peak_rss_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return report
