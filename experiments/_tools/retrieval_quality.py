"""Retrieval quality: hit@k, MRR and nDCG@k with intervals, and paired differences.

Queries about one task are not independent: intervals take the task as the unit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from experiments._tools.output import clustered_rate, percentile_estimate
from reflexion_lab.analysis.stats.intervals import Estimate, Rate, resamples
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Record

NO_QUERY = "queries: got none, expected at least one with a relevant document"
MEASURES = ("hit", "reciprocal_rank", "ndcg")


class Answer(Record, frozen=True, kw_only=True):
    """Measures of one query, each in [0, 1], higher is better."""

    task_id: str
    hit: float
    """1.0 if one of the first k documents is relevant, else 0.0."""
    reciprocal_rank: float
    """1 / rank of the first relevant document; 0.0 if none was retrieved."""
    ndcg: float
    best_score: float = 0.0
    """The retriever's score of the first document, in [0, 1]; 0.0 if none was retrieved."""


class Quality(Record, frozen=True, kw_only=True):
    """Mean measures of one retriever over queries of one kind."""

    queries: int
    tasks: int
    k: int
    hit: Rate
    """Wilson interval at the effective number of queries."""
    mrr: Estimate
    """Bootstrap over tasks, as for `ndcg`."""
    ndcg: Estimate


def answer(task_id: str, hits: Sequence[bool], relevant: int, k: int, best_score: float = 0.0) -> Answer:
    """Measures of one ranking.

    nDCG@k has binary gains and the discount log2(rank + 1): Järvelin and Kekäläinen 2002 (ACM TOIS 20:422-446), in the
    now common form that discounts from the second rank on. MRR: Voorhees 1999 (TREC-8 question answering).

    Parameters
    ----------
    hits : Sequence[bool]
        Whether each retrieved document is relevant, best first.
    relevant : int
        Number of relevant documents in the pool, at least 1.
    k : int
        Number of documents that count for `hit` and `ndcg`, at least 1.

    Raises
    ------
    ConfigError
        `k` or `relevant` is below 1, or `hits` has more than `relevant` relevant documents.
    """
    if k < 1:
        raise ConfigError("k", k, "1 or more")
    if not max(1, sum(hits)) <= relevant:
        raise ConfigError("relevant", f"{relevant}, and {sum(hits)} in the ranking", "1 or more, and at least as many")
    from sklearn.metrics import ndcg_score  # imports for two seconds

    top = [*hits[:k], *[False] * (k - len(hits))]
    gains = [*top, *[True] * (relevant - sum(top)), False]  # missed documents come after rank k
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
    tasks = [result.task_id for result in answers]
    return Quality(
        queries=len(answers),
        tasks=len(set(tasks)),
        k=k,
        hit=clustered_rate(sum(result.hit > 0 for result in answers), tasks),
        mrr=_bootstrap(_by_task(answers, lambda result: result.reciprocal_rank), seed),
        ndcg=_bootstrap(_by_task(answers, lambda result: result.ndcg), seed),
    )


def difference(first: Sequence[Answer], second: Sequence[Answer], measure: str, seed: int = 0) -> Estimate:
    """Mean of second - first over the same queries in the same order, in [-1, 1]; bootstrap over tasks.

    Raises ConfigError: the tasks of the answers differ, there is no answer, or the measure is unknown.
    """
    if measure not in MEASURES:
        raise ConfigError("measure", repr(measure), f"one of {', '.join(MEASURES)}")
    if [result.task_id for result in first] != [result.task_id for result in second]:
        raise ConfigError("answers", f"{len(first)} and {len(second)}", "two per query, in the same order")
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
    """Mean over all values; bootstrap over clusters, without width if all values are equal."""
    import numpy as np

    if not clusters:
        raise ConfigError(NO_QUERY)
    sums, counts = (np.array([float(of(values)) for values in clusters]) for of in (sum, len))
    weights = resamples(len(clusters), f"{seed}:retrieval")
    return percentile_estimate(float(sums.sum() / counts.sum()), (weights @ sums) / (weights @ counts))
