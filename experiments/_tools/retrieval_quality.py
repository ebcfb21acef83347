"""Is what a retriever finds relevant? hit@k, MRR and nDCG@k with intervals, and paired differences.

Queries about one task are not independent: intervals take the task as the unit, and n is that of queries and of tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reflexion_lab.analysis.stats.intervals import LEVEL, RESAMPLES, Estimate, clustered, effective, resamples
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Record

__all__ = [
    "RESAMPLES",
    "Answer",
    "Estimate",
    "Quality",
    "answer",
    "difference",
    "effective",
    "quality",
]

NO_QUERY = "queries: got none, expected at least one with a relevant document"
MEASURES = ("hit", "reciprocal_rank", "ndcg")


class Answer(Record, frozen=True, kw_only=True):
    """What came of one query; every measure is in [0, 1], higher is better."""

    task_id: str
    hit: float
    """1.0 where one of the first k documents is relevant, else 0.0."""
    reciprocal_rank: float
    """1 / rank of the first relevant document of all that were found; 0.0 where none was."""
    ndcg: float
    best_score: float = 0.0
    """The retriever's own score of the first document, in [0, 1]; 0.0 where none was found."""


class Quality(Record, frozen=True, kw_only=True):
    """All answers of one retriever to the same kind of query."""

    queries: int
    tasks: int
    k: int
    hit: Estimate
    """Wilson interval, with the queries discounted for sharing tasks (`effective`)."""
    mrr: Estimate
    """Bootstrap over tasks, as that of `ndcg`."""
    ndcg: Estimate


def answer(task_id: str, hits: Sequence[bool], relevant: int, k: int, best_score: float = 0.0) -> Answer:
    """Measure one ranking.

    nDCG@k has binary gains and the discount log2(rank + 1): Järvelin and Kekäläinen 2002 (ACM TOIS 20:422-446) in the
    form that is common since, which discounts from the second rank on. MRR: Voorhees 1999 (TREC-8 question answering).

    Parameters
    ----------
    hits : Sequence[bool]
        For each retrieved document, best first, whether it is relevant.
    relevant : int
        Relevant documents in the pool, found or not; at least 1.
    k : int
        Documents that count for `hit` and `ndcg`; at least 1.

    Raises
    ------
    ConfigError
        K or `relevant` is below 1, or more relevant documents were found than there are.
    """
    if k < 1:
        raise ConfigError("k", k, "1 or more")
    if not max(1, sum(hits)) <= relevant:
        raise ConfigError("relevant", f"{relevant}, and {sum(hits)} in the ranking", "1 or more, and as many at least")
    from sklearn.metrics import ndcg_score  # two seconds of an import that nothing else here needs

    shown = [*hits[:k], *[False] * (k - len(hits))]
    gains = [*shown, *[True] * (relevant - sum(shown)), False]  # what was missed stands behind rank k
    first = next((rank for rank, good in enumerate(hits, 1) if good), 0)
    return Answer(
        task_id=task_id,
        hit=float(any(hits[:k])),
        reciprocal_rank=1 / first if first else 0.0,
        ndcg=float(ndcg_score([gains], [range(len(gains), 0, -1)], k=k)),
        best_score=best_score,
    )


def quality(answers: Sequence[Answer], k: int, seed: int = 0) -> Quality:
    """Means over queries with 95 % intervals.

    Raises ConfigError: there is no answer.
    """
    if not answers:
        raise ConfigError(NO_QUERY)
    hits = _by_task(answers, lambda result: result.hit)
    share = sum(result.hit for result in answers) / len(answers)
    low, high = clustered(share, [len(values) for values in hits])
    return Quality(
        queries=len(answers),
        tasks=len(hits),
        k=k,
        hit=Estimate(value=share, low=low, high=high),
        mrr=_bootstrap(_by_task(answers, lambda result: result.reciprocal_rank), seed),
        ndcg=_bootstrap(_by_task(answers, lambda result: result.ndcg), seed),
    )


def difference(first: Sequence[Answer], second: Sequence[Answer], measure: str, seed: int = 0) -> Estimate:
    """Mean of second - first over the same queries in the same order, in [-1, 1]; bootstrap over tasks.

    Raises ConfigError: the answers are not about the same tasks in the same order, there is none, or no such measure.
    """
    if measure not in MEASURES:
        raise ConfigError("measure", repr(measure), f"one of {', '.join(MEASURES)}")
    if [result.task_id for result in first] != [result.task_id for result in second]:
        raise ConfigError("answers", f"{len(first)} and {len(second)}", "two to each query, in one order")
    gains: dict[str, list[float]] = {}
    for before, after in zip(first, second, strict=True):
        gains.setdefault(before.task_id, []).append(getattr(after, measure) - getattr(before, measure))
    return _bootstrap(list(gains.values()), seed)


def _by_task(answers: Sequence[Answer], value: Callable[[Answer], float]) -> list[list[float]]:
    values: dict[str, list[float]] = {}
    for result in answers:
        values.setdefault(result.task_id, []).append(value(result))
    return list(values.values())


def _bootstrap(clusters: Sequence[Sequence[float]], seed: int) -> Estimate:
    """Mean over all values with the percentile interval of resampled clusters (Efron and Tibshirani 1993, ch. 13).

    Has no width where all values are equal: then nothing varied, which is not to say that nothing could.
    """
    import numpy as np

    if not clusters:
        raise ConfigError(NO_QUERY)
    sums, counts = (np.array([float(of(values)) for values in clusters]) for of in (sum, len))
    often = resamples(len(clusters), f"{seed}:retrieval")
    low, high = np.quantile((often @ sums) / (often @ counts), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    value = float(sums.sum() / counts.sum())
    return Estimate(value=value, low=min(float(low), value), high=max(float(high), value))
