"""Retrievers side by side on the same probes: what they find, and how long they take."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median

from experiments._tools.probes import VIEWS, Probe, Question, documents, probes, queries
from experiments._tools.retrieval_quality import Answer, Estimate, Quality, answer, difference, quality
from reflexion_lab.errors import ConfigError
from reflexion_lab.io.terminal import in_notebook
from reflexion_lab.protocols import Hit, Retriever
from reflexion_lab.records import Episode, Record

DEEP = 100
"""Places of a pool that are looked through for its first relevant document; below them its reciprocal rank is 0."""
TIMED = 20
"""Queries whose time is taken."""


class Cell(Record, frozen=True, kw_only=True):
    """One retriever on one probe, comparing one pair of texts."""

    probe: str
    match: str
    """One of `VIEWS`."""
    retriever: str
    answers: tuple[Answer, ...]
    """One a query, in the order of the probe's: cells of one probe can be paired."""
    quality: Quality


class Speed(Record, frozen=True, kw_only=True):
    """What one retriever took over all documents of a view."""

    match: str
    retriever: str
    index_seconds: float
    """From nothing to the first answer; embeddings included that no cache held."""
    query_ms: float
    """Median of a top-k query whose text is new."""


class Comparison(Record, frozen=True, kw_only=True):
    """All cells over the same episodes."""

    k: int
    seed: int
    documents: int
    tasks: int
    probes: tuple[Probe, ...]
    cells: tuple[Cell, ...]
    speeds: tuple[Speed, ...]

    def cell(self, probe: str, match: str, retriever: str) -> Cell:
        """Raises LookupError where there is none."""
        for cell in self.cells:
            if (cell.probe, cell.match, cell.retriever) == (probe, match, retriever):
                return cell
        raise LookupError(f"{retriever} on {match} for {probe}: got nothing, expected one of the cells")

    def minus(self, second: Cell, first: Cell) -> Estimate:
        """How much higher nDCG@k is in the second of two cells of one probe, query by query."""
        return difference(first.answers, second.answers, "ndcg", self.seed)


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
    """Ask every probe of every retriever over every view; a probe without questions has no cells.

    All episodes are documents of one index. Those that are not in a query's pool are struck from the ranking, which
    leaves the order of the others as it is; rarity of words is counted over all of them.

    Parameters
    ----------
    retrievers : mapping
        Makes each, empty; by name.
    unseen : mapping, optional
        What a new query text costs some of them, by name, where a cache spares it here (`Contestants`).

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
    asked = probes(episodes)
    cells: list[Cell] = []
    speeds: list[Speed] = []
    # What is struck takes places: so each pool is seen at least to its place DEEP.
    depth = max(DEEP, k) + max((len(question.excluded) for probe in asked for question in probe.questions), default=0)
    for view in _shown(views, quiet):
        texts, wanted = documents(episodes, view), queries(episodes, view)
        ready = {name: _filled(make, texts, wanted[0]) for name, make in retrievers.items()}
        filled = {name: retriever for name, (retriever, _) in ready.items()}
        latencies = _latencies(filled, unseen or {}, wanted, k, seed)
        for name, (retriever, seconds) in ready.items():
            speeds.append(Speed(match=view, retriever=name, index_seconds=seconds, query_ms=latencies[name]))
            rankings = _rankings(retriever, wanted, depth)
            for probe in filter(lambda probe: probe.questions, asked):
                answers = tuple(_answered(episodes, rankings, question, k) for question in probe.questions)
                measured = quality(answers, k, seed)
                cells.append(Cell(probe=probe.name, match=view, retriever=name, answers=answers, quality=measured))
    return Comparison(
        k=k,
        seed=seed,
        documents=len(episodes),
        tasks=len({episode.task_id for episode in episodes}),
        probes=tuple(asked),
        cells=tuple(cells),
        speeds=tuple(speeds),
    )


def _filled(make: Callable[[], Retriever], texts: Sequence[str], first: str) -> tuple[Retriever, float]:
    start = time.perf_counter()
    retriever = make()
    retriever.add(texts)
    retriever.rank(first, 1)  # an index may be built when it is first needed
    return retriever, time.perf_counter() - start


def _latencies(
    retrievers: Mapping[str, Retriever],
    unseen: Mapping[str, Callable[[str], object]],
    wanted: Sequence[str],
    k: int,
    seed: int,
) -> dict[str, float]:
    """Median milliseconds a query. Retrievers take turns, so that all share what else the machine does."""
    sample = random.Random(f"{seed}:latency").choices(wanted, k=TIMED)
    taken: dict[str, list[float]] = {name: [] for name in retrievers}
    for query in sample:
        for name, retriever in retrievers.items():
            start = time.perf_counter()
            unseen.get(name, str)(query)
            retriever.rank(query, k)
            taken[name].append(time.perf_counter() - start)
    return {name: 1000 * median(seconds) for name, seconds in taken.items()}


def _rankings(retriever: Retriever, wanted: Sequence[str], depth: int) -> list[list[Hit]]:
    """What each query finds; equal queries are asked once."""
    rankings = {text: retriever.rank(text, depth) for text in dict.fromkeys(wanted)}
    return [rankings[text] for text in wanted]


def _answered(episodes: Sequence[Episode], rankings: Sequence[Sequence[Hit]], question: Question, k: int) -> Answer:
    relevant_hits: list[bool] = []
    best = 0.0
    for hit in rankings[question.number]:
        if hit.number not in question.excluded:
            best = best or hit.score
            relevant_hits.append(hit.number in question.relevant)
            if len(relevant_hits) >= k and any(relevant_hits):  # what comes later changes no measure
                break
    return answer(episodes[question.number].task_id, relevant_hits, len(question.relevant), k, best)


def _shown(views: Sequence[str], quiet: bool) -> Iterator[str]:
    """The views, counted on a bar."""
    from tqdm.auto import tqdm

    hidden = quiet or not (sys.stderr.isatty() or in_notebook())
    yield from tqdm(views, desc="retrieval", unit="text", disable=hidden, dynamic_ncols=True, leave=False)
