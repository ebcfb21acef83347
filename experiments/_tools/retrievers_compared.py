"""Comparison of retrievers on the same probes: quality and speed."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median

from experiments._tools.probes import VIEWS, Probe, Question, documents, probes, queries
from experiments._tools.retrieval_quality import Answer, Quality, answer, difference, quality
from reflexion_lab.analysis.stats.intervals import Estimate
from reflexion_lab.audit.stored_programs import counter
from reflexion_lab.errors import ConfigError
from reflexion_lab.protocols import Hit, Retriever
from reflexion_lab.records import Episode, Record

DEEP = 100
"""Maximum rank of the first relevant document in a pool; below it, the reciprocal rank is 0."""
TIMED = 20
"""Number of timed queries."""


class Cell(Record, frozen=True, kw_only=True):
    """Results of one retriever on one probe and pair of texts."""

    probe: str
    match: str
    """One of `VIEWS`."""
    retriever: str
    answers: tuple[Answer, ...]
    """One per query, in the order of the probe: cells of one probe can be paired."""
    quality: Quality


class Speed(Record, frozen=True, kw_only=True):
    """Time of one retriever over all documents of a view."""

    match: str
    retriever: str
    index_seconds: float
    """From an empty index to the first answer, including uncached embeddings."""
    query_ms: float
    """Median of a top-k query with a new text."""


class Comparison(Record, frozen=True, kw_only=True):
    """All cells on the same episodes."""

    k: int
    seed: int
    documents: int
    tasks: int
    probes: tuple[Probe, ...]
    cells: tuple[Cell, ...]
    speeds: tuple[Speed, ...]

    def cell(self, probe: str, match: str, retriever: str) -> Cell:
        """Raises LookupError: there is no such cell."""
        for cell in self.cells:
            if (cell.probe, cell.match, cell.retriever) == (probe, match, retriever):
                return cell
        raise LookupError(f"{retriever} on {match} for {probe}: got nothing, expected one of the cells")

    def minus(self, second: Cell, first: Cell) -> Estimate:
        """Paired difference of nDCG@k, second minus first, of two cells of one probe."""
        return difference(first.answers, second.answers, "ndcg")


def compare(
    episodes: Sequence[Episode],
    retrievers: Mapping[str, Callable[[], Retriever]],
    views: Sequence[str] = VIEWS,
    *,
    unseen: Mapping[str, Callable[[str], object]] | None = None,
    k: int = 5,
    seed: int = 0,
    quiet: bool = False,
) -> Comparison:
    """Query every retriever with every probe in every view; a probe without questions has no cells.

    All episodes are documents of one index. Documents outside a query's pool are removed from its ranking; word
    frequencies are those of all documents.

    Parameters
    ----------
    retrievers : mapping
        Constructors of empty retrievers, by name.
    unseen : mapping, optional
        Cost of a new query text that a cache would hide, by name (`Contestants`).

    Raises
    ------
    ConfigError
        No retriever, view or episode, an unknown view, or k below 1.
    """
    for name, value in (("retrievers", retrievers), ("views", views), ("episodes", episodes)):
        if not value:
            raise ConfigError(name, "none", "at least one")
    if k < 1:
        raise ConfigError("k", k, "1 or more")
    probed = probes(episodes)
    cells: list[Cell] = []
    speeds: list[Speed] = []
    # Excluded documents occupy ranks: deep enough that each pool is ranked at least down to DEEP.
    depth = max(DEEP, k) + max((len(question.excluded) for probe in probed for question in probe.questions), default=0)
    with counter("retrieval", "text", len(views), quiet) as bar:
        for view in views:
            texts, texts_asked = documents(episodes, view), queries(episodes, view)
            indexed = {name: _indexed(make, texts, texts_asked[0]) for name, make in retrievers.items()}
            latencies = _latencies(indexed, unseen or {}, texts_asked, k, seed)
            for name, (retriever, seconds) in indexed.items():
                speeds.append(Speed(match=view, retriever=name, index_seconds=seconds, query_ms=latencies[name]))
                rankings = _rankings(retriever, texts_asked, depth)
                for probe in (probe for probe in probed if probe.questions):
                    answers = tuple(_answer(episodes, rankings, question, k) for question in probe.questions)
                    measured = quality(answers, k)
                    cells.append(Cell(probe=probe.name, match=view, retriever=name, answers=answers, quality=measured))
            bar.update()
    return Comparison(
        k=k,
        seed=seed,
        documents=len(episodes),
        tasks=len({episode.task_id for episode in episodes}),
        probes=tuple(probed),
        cells=tuple(cells),
        speeds=tuple(speeds),
    )


def _indexed(make: Callable[[], Retriever], texts: Sequence[str], first: str) -> tuple[Retriever, float]:
    """A retriever of `texts`, and the seconds that it took."""
    start = time.perf_counter()
    retriever = make()
    retriever.add(texts)
    retriever.rank(first, 1)  # some build their index at the first query
    return retriever, time.perf_counter() - start


def _latencies(
    indexed: Mapping[str, tuple[Retriever, float]],
    unseen: Mapping[str, Callable[[str], object]],
    texts: Sequence[str],
    k: int,
    seed: int,
) -> dict[str, float]:
    """Median milliseconds per query. Retrievers take turns, so that a busy machine slows all of them alike."""
    times: dict[str, list[float]] = {name: [] for name in indexed}
    for query in random.Random(f"{seed}:latency").choices(texts, k=TIMED):
        for name, (retriever, _) in indexed.items():
            start = time.perf_counter()
            unseen.get(name, str)(query)
            retriever.rank(query, k)
            times[name].append(time.perf_counter() - start)
    return {name: 1000 * median(seconds) for name, seconds in times.items()}


def _rankings(retriever: Retriever, texts: Sequence[str], depth: int) -> list[list[Hit]]:
    """The ranking of each query; equal queries are ranked once."""
    rankings = {text: retriever.rank(text, depth) for text in dict.fromkeys(texts)}
    return [rankings[text] for text in texts]


def _answer(episodes: Sequence[Episode], rankings: Sequence[Sequence[Hit]], question: Question, k: int) -> Answer:
    relevant_hits: list[bool] = []
    best = 0.0
    for hit in rankings[question.number]:
        if hit.number not in question.excluded:
            best = best or hit.score
            relevant_hits.append(hit.number in question.relevant)
            if len(relevant_hits) >= k and any(relevant_hits):  # later ranks change no measure
                break
    return answer(episodes[question.number].task_id, relevant_hits, len(question.relevant), k, best)
