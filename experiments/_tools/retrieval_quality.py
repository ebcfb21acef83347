"""Retrieval quality: hit@k, MRR and nDCG@k with intervals, and paired differences.

Queries about one task are not independent: intervals take the task as the cluster.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from reflexion_lab.analysis.stats import bootstrap
from reflexion_lab.analysis.stats.clusters import ALONE, by_cluster
from reflexion_lab.analysis.stats.intervals import Estimate, Rate
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Record

"""Bootstrap samples of tasks for an interval."""
NO_QUERY = "queries: got none, expected at least one with a relevant document"
MEASURES = ("hit", "reciprocal_rank", "ndcg")


class Answer(Record, frozen=True, kw_only=True):
    """Ranking and measures of one query; measures in [0, 1], higher is better."""

    task_id: str
    hit: float
    """1.0 if one of the first k documents is relevant, else 0.0."""
    reciprocal_rank: float
    """1 / rank of the first relevant document; 0.0 if none was retrieved."""
    ndcg: float
    top: str = ""
    """Relevance of the first k retrieved documents, 1 or 0 each, best first."""
    best_score: float = 0.0
    """The retriever's score of the first document, in [0, 1]; 0.0 if none was retrieved."""


class Quality(Record, frozen=True, kw_only=True):
    """Mean measures of one retriever over queries of one kind."""

    queries: int
    tasks: int
    k: int
    hit: Rate
    mrr: Estimate
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
    top = "".join(str(int(good)) for good in hits[:k])
    first = next((rank for rank, good in enumerate(hits, 1) if good), 0)
    return Answer(
        task_id=task_id,
        hit=float(any(hits[:k])),
        reciprocal_rank=1 / first if first else 0.0,
        ndcg=_ndcg(top, relevant, k),
        top=top,
        best_score=best_score,
    )


@functools.cache
def _ndcg(top: str, relevant: int, k: int) -> float:
    from sklearn.metrics import ndcg_score  # imports for two seconds

    ranked = [*map(int, top), *[0] * (k - len(top))]
    gains = [*ranked, *[1] * (relevant - sum(ranked)), 0]  # missed documents come after rank k
    return min(1.0, float(ndcg_score([gains], [range(len(gains), 0, -1)], k=k)))


def quality(answers: Sequence[Answer], k: int) -> Quality:
    """Means over queries with the intervals of `bootstrap.interval` over tasks.

    Raises ConfigError: there is no answer.
    """
    if not answers:
        raise ConfigError(NO_QUERY)
    hit = _mean(answers, (result.hit for result in answers))
    return Quality(
        queries=len(answers),
        tasks=len({result.task_id for result in answers}),
        k=k,
        hit=Rate(
            k=sum(result.hit > 0 for result in answers), n=len(answers), share=hit.value, low=hit.low, high=hit.high
        ),
        mrr=_mean(answers, (result.reciprocal_rank for result in answers)),
        ndcg=_mean(answers, (result.ndcg for result in answers)),
    )


def _mean(answers: Sequence[Answer], values: Iterable[float]) -> Estimate:
    tasks = (result.task_id for result in answers)
    return bootstrap.interval(by_cluster(zip(tasks, values, strict=True), ALONE))


def difference(first: Sequence[Answer], second: Sequence[Answer], measure: str) -> Estimate:
    """Mean of second - first over the same queries in the same order, in [-1, 1], with tasks as clusters.

    Raises ConfigError: the tasks of the answers differ, there is no answer, or the measure is unknown.
    """
    if measure not in MEASURES:
        raise ConfigError("measure", repr(measure), f"one of {', '.join(MEASURES)}")
    if [result.task_id for result in first] != [result.task_id for result in second]:
        raise ConfigError("answers", f"{len(first)} and {len(second)}", "two per query, in the same order")
    if not first:
        raise ConfigError(NO_QUERY)
    before, after = (
        by_cluster(((result.task_id, getattr(result, measure)) for result in side), ALONE) for side in (first, second)
    )
    return bootstrap.difference(before, after)
