"""What a comparison of retrievers found: sheets for terminal and notebook, and rows for files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from experiments._tools.output import show_sheet
from experiments._tools.probes import Probe
from experiments._tools.recollected import Recollected
from experiments._tools.retrieval_quality import Estimate
from experiments._tools.retrievers_compared import Cell, Comparison
from reflexion_lab.analysis.report.cells import counts
from reflexion_lab.analysis.report.sheets import Sheet, as_table
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Episode

if TYPE_CHECKING:
    from rich.console import Console

BASELINE, PLAIN = "jaccard", "task"
"""The retriever and the text that the others are paired with, where they were asked."""
MIN_SCORE = 0.25
"""That of `recall=similar`."""


def show(recollected: Recollected, comparison: Comparison, console: Console) -> None:
    """Print what lies in memory, then each probe: what is found, against the baseline, against plain task text."""
    console.print(as_table(contents(recollected)))
    for probe in comparison.probes:
        if not probe.questions:
            console.print(f"{probe.name}: no query has a relevant document in its pool", highlight=False)
            continue
        for sheet in (found, partial(gained, over="retriever"), partial(gained, over="match"), reached):
            show_sheet(sheet(comparison, probe.name), console)
    show_sheet(speeds(comparison), console)


def contents(recollected: Recollected) -> Sheet:
    """Models, their reflections, tasks and classes of failure."""
    by_model: dict[str, list[Episode]] = {}
    for episode in recollected.episodes:
        by_model.setdefault(episode.agent_id, []).append(episode)
    rows = [
        (
            model,
            counts(Counter(episode.category for episode in own)),
            str(len(own)),
            str(len({episode.task_id for episode in own})),
        )
        for model, own in [*by_model.items(), ("all", list(recollected.episodes))]
    ]
    caption = (
        f"Left out: {recollected.unshown} reflections on attempts of which no failing assert could be shown again."
    )
    columns = ("model", "classes of failure", "reflections", "tasks")
    return Sheet(title="Documents", columns=columns, rows=tuple(rows), names=2, caption=caption)


def found(comparison: Comparison, probe: str) -> Sheet:
    """nDCG@k with its interval: a row a retriever, a column a pair of texts."""
    grid = _grid(comparison, probe, lambda cell: _cell(cell.quality.ndcg))
    return _sheet(probe, grid, f"100 × nDCG@{comparison.k}", _caption(comparison, probe))


def gained(comparison: Comparison, probe: str, over: str) -> Sheet:
    """Paired differences of nDCG@k: over the baseline retriever (`over="retriever"`) or over plain task text ("match").

    Raises
    ------
    ConfigError
        `over` is neither.
    """
    if over not in ("retriever", "match"):
        raise ConfigError("over", repr(over), "retriever or match")
    named = baseline(comparison) if over == "retriever" else plain(comparison)

    def gain(cell: Cell) -> str:
        first = reference(comparison, cell, over)
        return "" if first is cell else _cell(comparison.minus(cell, first), sign="+")

    what = f"100 × nDCG@{comparison.k} minus that of {named}, query by query"
    return _sheet(probe, _grid(comparison, probe, gain), what)


def reached(comparison: Comparison, probe: str) -> Sheet:
    """How many queries find anything at the least score that recall asks for, which was chosen for Jaccard."""
    grid = _grid(comparison, probe, lambda cell: f"{100 * reach(cell):.0f} %")
    return _sheet(probe, grid, f"queries whose best hit scores {MIN_SCORE} or more")


def reach(cell: Cell) -> float:
    """Share of the queries, in [0, 1], whose best hit has `MIN_SCORE`."""
    return sum(answer.best_score >= MIN_SCORE for answer in cell.answers) / len(cell.answers)


def speeds(comparison: Comparison) -> Sheet:
    """Milliseconds a query and seconds to index, for every retriever."""
    views = list(dict.fromkeys(speed.match for speed in comparison.speeds))
    rows: dict[str, list[str]] = {}
    for speed in comparison.speeds:
        rows.setdefault(speed.retriever, []).append(f"{speed.query_ms:.2f} ms\n{speed.index_seconds:.2f} s")
    caption = f"Median time of a top-{comparison.k} query, and seconds from nothing to the first answer."
    title = f"Time, {comparison.documents} documents"
    return Sheet(
        title=title,
        columns=("retriever", *views),
        rows=tuple((name, *row) for name, row in rows.items()),
        caption=caption,
    )


def as_rows(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """One row a cell: the contract of `table.csv` and of `--json`."""
    probes = {probe.name: probe for probe in comparison.probes}
    times = {(speed.match, speed.retriever): speed for speed in comparison.speeds}
    for cell in comparison.cells:
        quality, probe, speed = cell.quality, probes[cell.probe], times[cell.match, cell.retriever]
        row: dict[str, Any] = {"probe": cell.probe, "match": cell.match, "retriever": cell.retriever}
        row |= {"queries": quality.queries, "tasks": quality.tasks, "left_out": probe.alone}
        row |= {"documents": comparison.documents, "chance": round(probe.chance, 4), "k": quality.k}
        gains = {over: comparison.minus(cell, reference(comparison, cell, over)) for over in ("retriever", "match")}
        row |= _flat("hit", quality.hit) | _flat("mrr", quality.mrr) | _flat("ndcg", quality.ndcg)
        row[f"score_{MIN_SCORE}"] = round(reach(cell), 4)
        row |= _flat(f"minus_{baseline(comparison)}", gains["retriever"])
        row |= _flat(f"minus_{plain(comparison)}", gains["match"])
        yield row | {"index_seconds": round(speed.index_seconds, 4), "query_ms": round(speed.query_ms, 4)}


def baseline(comparison: Comparison) -> str:
    names = [cell.retriever for cell in comparison.cells]
    return BASELINE if BASELINE in names else names[0]


def plain(comparison: Comparison) -> str:
    names = [cell.match for cell in comparison.cells]
    return PLAIN if PLAIN in names else names[0]


def reference(comparison: Comparison, cell: Cell, over: str) -> Cell:
    """What a cell is paired with: the same text by the baseline, or plain text by the same retriever."""
    if over == "retriever":
        return comparison.cell(cell.probe, cell.match, baseline(comparison))
    return comparison.cell(cell.probe, plain(comparison), cell.retriever)


def _sheet(probe: str, grid: Mapping[str, Mapping[str, str]], what: str, caption: str = "") -> Sheet:
    views = list(dict.fromkeys(view for row in grid.values() for view in row))
    rows = tuple((name, *(row.get(view, "") for view in views)) for name, row in grid.items())
    return Sheet(title=f"{probe}: {what}", columns=("retriever", *views), rows=rows, caption=caption)


def _caption(comparison: Comparison, probe: str) -> str:
    asked = next(candidate for candidate in comparison.probes if candidate.name == probe)
    return (
        f"{asked.asks}; {n_of(comparison, asked)}, {asked.alone} left out, to which nothing is relevant; "
        f"{100 * asked.chance:.1f} % of the documents are, on average. 95 % intervals, bootstrap over tasks."
    )


def _grid(comparison: Comparison, probe: str, text: Callable[[Cell], str]) -> dict[str, dict[str, str]]:
    grid: dict[str, dict[str, str]] = {}
    for cell in comparison.cells:
        if cell.probe == probe:
            grid.setdefault(cell.retriever, {})[cell.match] = text(cell)
    return grid


def n_of(comparison: Comparison, probe: Probe) -> str:
    cell = next((cell for cell in comparison.cells if cell.probe == probe.name), None)
    return f"{cell.quality.queries} queries on {cell.quality.tasks} tasks" if cell else "no query"


def _cell(estimate: Estimate, sign: str = "") -> str:
    return f"{100 * estimate.value:{sign}.1f}\n[{round(100 * estimate.low)}, {round(100 * estimate.high)}]"


def _flat(name: str, estimate: Estimate) -> dict[str, float]:
    return {
        name: round(estimate.value, 4),
        f"{name}_low": round(estimate.low, 4),
        f"{name}_high": round(estimate.high, 4),
    }
