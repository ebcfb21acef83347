"""The figure of a comparison of rules on real failures, and the files that an experiment keeps of it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from experiments._tools import output
from experiments._tools.failing_attempts import Failure
from experiments._tools.failure_cases import RULES, SHOWN, Comparison
from experiments._tools.failures_report import as_rows, problems
from experiments._tools.forest import forest
from experiments._tools.output import legend_above
from reflexion_lab.analysis.figures.style import INK, caption
from reflexion_lab.analysis.stats.intervals import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

METHOD = (
    "Dot: share of a class's failures that are called so; bar: Wilson 95 %, failures discounted for sharing problems.\n"
    "With type: the truth is the exception's type, which the lab's rules read, so that they cannot but be right.\n"
    "Without: the type is cut out of a traceback with source lines; the truth is what a reader of that text said.\n"
    "Keywords: the rules of two earlier systems, reconstructed. What a class is wrongly given shows in the table alone."
)


def draw(comparisons: Sequence[Comparison], failures: Sequence[Failure], figure: Figure) -> Figure:
    """Fill an empty figure: recall by class with the type in the traceback, and without it against the labels."""
    typed = next(comparison for comparison in comparisons if comparison.typed and comparison.evidence == "traceback")
    read = [
        comparison
        for comparison in comparisons
        if comparison.against == "labels, held out" and comparison.evidence == SHOWN
    ]
    panels_of = [typed, *read]
    figure.set_size_inches(
        5.4 * len(panels_of), 1.2 + 0.62 * max(len(comparison.scores[0].classes) for comparison in panels_of)
    )
    panels = figure.subplots(1, len(panels_of), squeeze=False)[0]
    figure.subplots_adjust(wspace=0.34)
    for ax, comparison in zip(panels, panels_of, strict=True):
        forest(_recalls(comparison), ax, "recall")
        _title(ax, comparison)
    files = len({comparison.file for comparison in failures})
    sources = f"{len(failures)} failing attempts at {problems(failures)} problems, from {files} files of recorded runs."
    caption(panels[0], f"{sources}\n{METHOD}")
    legend_above(panels[0])
    return figure


def save(comparisons: Sequence[Comparison], failures: Sequence[Failure], folder: Path) -> list[Path]:
    """Write `table.csv` and `figure.svg` into `folder`, and name them."""
    drawing = partial(draw, comparisons, failures)
    return output.save(list(as_rows(comparisons)), drawing, folder, salt="failures", line_end="\n", pad_inches=0.2)


def _recalls(comparison: Comparison) -> dict[str, dict[str, Estimate]]:
    rows: dict[str, dict[str, Estimate]] = {}
    for rules in RULES:
        for kind in comparison.score(rules).classes:
            estimate = Estimate(value=kind.recall.share, low=kind.recall.low, high=kind.recall.high)
            rows.setdefault(f"{kind.name}\nn = {kind.recall.n}", {})[rules] = estimate
    return rows


def _title(ax: Axes, comparison: Comparison) -> None:
    what = (
        f"{comparison.evidence}, type raised"
        if comparison.typed
        else f"{comparison.evidence}, no type, read by hand, held out"
    )
    ax.set_title(f"{what}: n = {len(comparison.cases)}", fontsize=10, loc="left", color=INK)
