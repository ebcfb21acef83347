"""A comparison of retrievers as tables, rows and a figure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from experiments._tools import output
from experiments._tools.output import columns
from experiments._tools.probes import TASK_FIRST, Probe
from experiments._tools.recollected import Recollected
from experiments._tools.retrievers_compared import Cell, Comparison
from reflexion_lab.analysis.figures.style import INK, caption
from reflexion_lab.analysis.report.cells import counts
from reflexion_lab.analysis.report.sheets import Sheet, as_table
from reflexion_lab.analysis.stats.intervals import Estimate
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Episode

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

T = TypeVar("T")

BASELINE, PLAIN = "jaccard", "task"
"""Retriever and text of the paired differences, if they are compared."""
MIN_SCORE = 0.25
"""That of `recall=similar`."""
METHOD = (
    "Dot: mean over queries; bar: 95 % interval over tasks. The pool lacks the asking model (same task)\n"
    "or the asking task (class). program: error and code without prompt, docstrings and names; words: the prompt\n"
    "against the reflection's words. random and recency read no document."
)


def show(recollected: Recollected, comparison: Comparison, console: Console) -> None:
    """Print the documents, then for each probe quality, paired differences and reach."""
    console.print(as_table(contents(recollected)))
    for probe in comparison.probes:
        if not probe.questions:
            console.print(f"{probe.name}: no query has a relevant document in its pool", highlight=False)
            continue
        for sheet in (ndcg_sheet, partial(gained, over="retriever"), partial(gained, over="match"), reached):
            output.show_sheet(sheet(comparison, probe.name), console)
    output.show_sheet(speeds(comparison), console)


def contents(recollected: Recollected) -> Sheet:
    """Reflections, tasks and failure classes by model."""
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
    text = f"Left out: {recollected.unshown} reflections on attempts without an assert that fails again."
    names = ("model", "failure classes", "reflections", "tasks")
    return Sheet(title="Documents", columns=names, rows=tuple(rows), names=2, caption=text)


def ndcg_sheet(comparison: Comparison, probe: str) -> Sheet:
    """nDCG@k with its interval, by retriever and compared texts."""
    probed = next(candidate for candidate in comparison.probes if candidate.name == probe)
    text = (
        f"{probed.asks}; {n_of(comparison, probed)}, {probed.alone} left out without a relevant document; on average "
        f"{100 * probed.chance:.1f} % of the documents are relevant. 95 % intervals over tasks."
    )
    return _sheet(comparison, probe, f"100 × nDCG@{comparison.k}", lambda cell: _cell(cell.quality.ndcg), text)


def gained(comparison: Comparison, probe: str, over: str) -> Sheet:
    """Paired differences of nDCG@k: over the baseline retriever (`over="retriever"`) or over plain task text ("match").

    Raises ConfigError: `over` is neither.
    """
    if over not in ("retriever", "match"):
        raise ConfigError("over", repr(over), "retriever or match")
    baseline = _baselines(comparison)[over]

    def gain(cell: Cell) -> str:
        first = _reference(comparison, cell, over)
        return "" if first is cell else _cell(comparison.minus(cell, first), sign="+")

    return _sheet(comparison, probe, f"100 × nDCG@{comparison.k} minus that of {baseline}, query by query", gain)


def reached(comparison: Comparison, probe: str) -> Sheet:
    """Share of queries with a hit at the minimum score of recall, which was chosen for Jaccard."""
    title = f"queries whose best hit scores {MIN_SCORE} or more"
    return _sheet(comparison, probe, title, lambda cell: f"{100 * reach(cell):.0f} %")


def reach(cell: Cell) -> float:
    """Share of the queries, in [0, 1], whose best hit has `MIN_SCORE`."""
    return sum(answer.best_score >= MIN_SCORE for answer in cell.answers) / len(cell.answers)


def speeds(comparison: Comparison) -> Sheet:
    """Milliseconds per query and seconds to index, by retriever."""
    views = list(dict.fromkeys(speed.match for speed in comparison.speeds))
    rows: dict[str, list[str]] = {}
    for speed in comparison.speeds:
        rows.setdefault(speed.retriever, []).append(f"{speed.query_ms:.2f} ms\n{speed.index_seconds:.2f} s")
    text = f"Median time of a top-{comparison.k} query; time to index all documents and answer the first query."
    title = f"Time, {comparison.documents} documents"
    cells = tuple((name, *row) for name, row in rows.items())
    return Sheet(title=title, columns=("retriever", *views), rows=cells, caption=text)


def as_rows(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """Rows of `table.csv` and of `--json`, one per cell."""
    baselines = _baselines(comparison)
    probes = {probe.name: probe for probe in comparison.probes}
    times = {(speed.match, speed.retriever): speed for speed in comparison.speeds}
    for cell in comparison.cells:
        quality, probe, speed = cell.quality, probes[cell.probe], times[cell.match, cell.retriever]
        row: dict[str, Any] = {"probe": cell.probe, "match": cell.match, "retriever": cell.retriever}
        row |= {"queries": quality.queries, "tasks": quality.tasks, "left_out": probe.alone}
        row |= {"documents": comparison.documents, "chance": round(probe.chance, 4), "k": quality.k}
        for measure in ("hit", "mrr", "ndcg"):
            row |= columns(getattr(quality, measure), measure, f"{measure}_")
        row[f"score_{MIN_SCORE}"] = round(reach(cell), 4)
        for over, name in baselines.items():
            gain = comparison.minus(cell, _reference(comparison, cell, over))
            row |= columns(gain, f"minus_{name}", f"minus_{name}_")
        yield row | {"index_seconds": round(speed.index_seconds, 4), "query_ms": round(speed.query_ms, 4)}


def _baselines(comparison: Comparison) -> dict[str, str]:
    """The retriever and the text that others are compared with."""
    names = {"retriever": BASELINE, "match": PLAIN}
    for over, name in names.items():
        compared = [getattr(cell, over) for cell in comparison.cells]
        names[over] = name if name in compared else next(iter(compared), name)
    return names


def _reference(comparison: Comparison, cell: Cell, over: str) -> Cell:
    """The cell to subtract: the baseline retriever on the same text, or the same retriever on plain text."""
    baselines = _baselines(comparison)
    if over == "retriever":
        return comparison.cell(cell.probe, cell.match, baselines[over])
    return comparison.cell(cell.probe, baselines[over], cell.retriever)


def _sheet(comparison: Comparison, probe: str, title: str, text: Callable[[Cell], str], note: str = "") -> Sheet:
    """One row per retriever, one column per pair of texts."""
    rows = _grid(comparison, probe, text)
    views = list(dict.fromkeys(view for row in rows.values() for view in row))
    cells = tuple((name, *(row.get(view, "") for view in views)) for name, row in rows.items())
    return Sheet(title=f"{probe}: {title}", columns=("retriever", *views), rows=cells, caption=note)


def _grid(comparison: Comparison, probe: str, value: Callable[[Cell], T]) -> dict[str, dict[str, T]]:
    """Values of the cells of a probe, by retriever and pair of texts."""
    rows: dict[str, dict[str, T]] = {}
    for cell in comparison.cells:
        if cell.probe == probe:
            rows.setdefault(cell.retriever, {})[cell.match] = value(cell)
    return rows


def _drawn(comparison: Comparison, probe: str) -> dict[str, dict[str, Estimate]]:
    grid = _grid(comparison, probe, lambda cell: cell.quality.ndcg)
    return {name: {view: own for view, own in row.items() if view != TASK_FIRST} for name, row in grid.items()}


def n_of(comparison: Comparison, probe: Probe) -> str:
    cell = next((cell for cell in comparison.cells if cell.probe == probe.name), None)
    return f"{cell.quality.queries} queries on {cell.quality.tasks} tasks" if cell else "no query"


def _cell(estimate: Estimate, sign: str = "") -> str:
    return f"{100 * estimate.value:{sign}.1f}\n[{round(100 * estimate.low)}, {round(100 * estimate.high)}]"


def save(comparison: Comparison, sources: Sequence[str], folder: Path) -> list[Path]:
    """Write `table.csv` and `figure.svg`."""
    drawing = partial(draw, comparison, sources)
    return output.save(list(as_rows(comparison)), drawing, folder, salt="retrieval", line_end="\n", pad_inches=0.2)


def draw(comparison: Comparison, sources: Sequence[str], figure: Figure) -> Figure:
    """Draw one panel per probe with questions into an empty figure."""
    items = [probe for probe in comparison.probes if probe.questions]
    names = list(dict.fromkeys(cell.retriever for cell in comparison.cells))
    figure.set_size_inches(4 * len(items), 0.8 + 0.75 * len(names))
    panels = figure.subplots(1, len(items), squeeze=False)[0]
    figure.subplots_adjust(wspace=0.08)
    for ax, probe in zip(panels, items, strict=True):
        output.forest(_drawn(comparison, probe.name), ax, f"nDCG@{comparison.k}")
        ax.set_title(f"{probe.name}: {n_of(comparison, probe)}", fontsize=10, loc="left", color=INK)
        if ax is not panels[0]:
            ax.set_yticklabels([])
    sources_line = f"{comparison.documents} documents from {', '.join(sources)}; seed {comparison.seed}."
    caption(panels[0], f"{sources_line}\n{METHOD}")
    output.legend_above(panels[0])
    return figure
