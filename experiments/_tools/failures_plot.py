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


def draw(found: Sequence[Comparison], failures: Sequence[Failure], figure: Figure) -> Figure:
    """Fill an empty figure: recall by class with the type in the traceback, and without it against the labels."""
    typed = next(one for one in found if one.typed and one.evidence == "traceback")
    read = [one for one in found if one.against == "labels, held out" and one.evidence == SHOWN]
    shown = [typed, *read]
    figure.set_size_inches(5.4 * len(shown), 1.2 + 0.62 * max(len(one.scores[0].classes) for one in shown))
    panels = figure.subplots(1, len(shown), squeeze=False)[0]
    figure.subplots_adjust(wspace=0.34)
    for ax, one in zip(panels, shown, strict=True):
        forest(_recalls(one), ax, "recall")
        _title(ax, one)
    files = len({one.file for one in failures})
    told = f"{len(failures)} failing attempts at {problems(failures)} problems, from {files} files of recorded runs."
    caption(panels[0], f"{told}\n{METHOD}")
    legend_above(panels[0])
    return figure


def save(found: Sequence[Comparison], failures: Sequence[Failure], folder: Path) -> list[Path]:
    """Write `table.csv` and `figure.svg` into `folder`, and name them."""
    drawing = partial(draw, found, failures)
    return output.save(list(as_rows(found)), drawing, folder, salt="failures", line_end="\n", pad_inches=0.2)


def _recalls(one: Comparison) -> dict[str, dict[str, Estimate]]:
    rows: dict[str, dict[str, Estimate]] = {}
    for rules in RULES:
        for kind in one.score(rules).classes:
            found = Estimate(value=kind.recall.share, low=kind.recall.low, high=kind.recall.high)
            rows.setdefault(f"{kind.name}\nn = {kind.recall.n}", {})[rules] = found
    return rows


def _title(ax: Axes, one: Comparison) -> None:
    what = f"{one.evidence}, type raised" if one.typed else f"{one.evidence}, no type, read by hand, held out"
    ax.set_title(f"{what}: n = {len(one.cases)}", fontsize=10, loc="left", color=INK)
