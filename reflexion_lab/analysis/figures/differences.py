"""Every arm's difference to the baseline, with what could not have been seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.comparison import Comparison
from reflexion_lab.analysis.comparison.row import Difference, Row
from reflexion_lab.analysis.figures.drawing import Drawing, facts, figure
from reflexion_lab.analysis.figures.style import (
    COLOURS,
    FAINT,
    INK,
    UPPER_BOUND,
    Style,
    beside,
    folded,
    frame,
    note,
    watermark,
)
from reflexion_lab.analysis.report import cells

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = ("arm", "budget", "n", "seeds", "difference", "low", "high", "won", "lost", "p", "p_tasks", "p_holm", "least",
           "minimum", "detected")  # fmt: skip
BUDGETS: tuple[Style, Style] = (
    {"color": COLOURS[0], "marker": "o", "markersize": 7, "markeredgecolor": "white"},
    {"color": COLOURS[1], "marker": "s", "markersize": 6, "markerfacecolor": "white", "markeredgecolor": COLOURS[1]},
)
"""As run, and at an equal budget."""


def differences(rows: Sequence[Row], baseline: str, ax: Axes) -> Axes:
    """Draw two lines an arm, the first arm on top: as run, and at an equal budget.

    Grey bars reach as far as differences that are too small to be found four times in five.

    Parameters
    ----------
    rows : Sequence[Row]
        Each with a difference.
    """
    from matplotlib.ticker import FuncFormatter

    for place, row in enumerate(rows):
        both = _both(row)
        for number, difference in enumerate(both):
            y = place + (number - (len(both) - 1) / 2) * 0.36
            _line(difference, BUDGETS[number], y, ax)
            text = f"{cells.estimate(difference.estimate, signed=True).replace('-', '−')}  {_said(row, difference)}"
            note(ax, y, text)
    ax.axvline(0, color=INK, linewidth=0.9, zorder=2)
    ax.set_yticks(range(len(rows)), [_name(row) for row in rows])
    ax.set_ylim(len(rows) - 0.5, -0.5)
    every = [difference for row in rows for difference in _both(row)]
    widest = max(
        max(abs(difference.estimate.low), abs(difference.estimate.high), difference.minimum or 0)
        for difference in every
    )
    ax.set_xlim(-1.08 * widest, 1.08 * widest)
    ax.set_xlabel(f"solved, points more than {baseline}")
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: cells.number(x, 0, signed=True).replace("-", "−")))
    ax.hlines([place + 0.5 for place in range(len(rows) - 1)], -1, 1, color=FAINT, linewidth=0.7)
    for place in (place for place, row in enumerate(rows) if row.is_upper_bound):
        watermark(ax, height=1 - (place + 0.5) / len(rows))
    _legend(rows, ax)
    return frame(ax, "x")


@figure(30, is_compared=True)
def drawing(comparison: Comparison, arms: Sequence[Arm]) -> Drawing | None:
    """None where there is no difference: one arm, no baseline, or all were refused."""
    rows = [row for row in comparison.rows if _both(row)]
    if not rows or comparison.baseline is None:
        return None
    known = {comparison.baseline, *(row.arm for row in rows)}
    lines = [
        (row.arm, difference.budget, difference.n, " ".join(map(str, difference.seeds)), difference.estimate.value,
         difference.estimate.low, difference.estimate.high, difference.won, difference.lost, difference.p,
         difference.p_tasks, difference.p_holm, difference.least, difference.minimum,
         "" if row.is_upper_bound else difference.is_detected)
        for row in rows
        for difference in _both(row)
    ]  # fmt: skip
    methods = " and ".join(dict.fromkeys(difference.method for row in rows for difference in _both(row)))
    unmatched = [f"{row.arm} ({row.unmatched})" for row in rows if row.unmatched]
    refused = [f"{row.arm} ({row.refused})" for row in comparison.rows if row.refused]
    text = (
        f"{facts([arm for arm in arms if arm.label in known])} Paired by task and seed; 95 % intervals, each by "
        f"itself: {methods}. p: tasks as units, Holm over the arms at a budget. Grey: a true difference within it "
        f"would be found less often than four times in five; where there is none, no difference would."
        + f" Without a difference: {', '.join(refused)}." * bool(refused)
        + f" As run alone: {', '.join(unmatched)}." * bool(unmatched)
    )
    baseline = comparison.baseline
    size = 6.4 + beside([row.arm for row in rows]), 1.3 + 0.62 * len(rows)
    title = f"Difference to {baseline}"
    return Drawing("differences", title, [lambda ax: differences(rows, baseline, ax)], COLUMNS, lines, text, size)


def _both(row: Row) -> list[Difference]:
    return [difference for difference in (row.as_run, row.matched) if difference]


def _line(difference: Difference, style: Style, y: float, ax: Axes) -> None:
    if difference.minimum is not None:
        ax.barh(
            y,
            2 * difference.minimum,
            left=-difference.minimum,
            height=0.3,
            color=FAINT,
            alpha=0.75,
            zorder=1,
            gid="minimum",
        )
    ax.hlines(
        y, difference.estimate.low, difference.estimate.high, color=style["color"], linewidth=2.2, alpha=0.6, zorder=3
    )
    ax.plot(difference.estimate.value, y, **style, linestyle="", zorder=4, gid=difference.budget)


def _legend(rows: Sequence[Row], ax: Axes) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    names = list(dict.fromkeys(difference.budget for row in rows for difference in _both(row)))
    marks = [Line2D([], [], linestyle="", **style, label=name) for style, name in zip(BUDGETS, names, strict=False)]
    place: Style = {"loc": "lower left", "bbox_to_anchor": (0, 1.0), "ncols": 3, "borderaxespad": 0.2}
    has_minimum = any(difference.minimum is not None for row in rows for difference in _both(row))
    handles = [*marks, *[Patch(color=FAINT, label="too small to be found")] * has_minimum]
    ax.legend(handles=handles, **place, frameon=False, fontsize=8.5, labelcolor=INK)


def _said(row: Row, difference: Difference) -> str:
    if row.is_upper_bound:
        return UPPER_BOUND
    return f"p = {difference.p_holm:.2g}" if difference.p_holm >= 1e-4 else "p < 0.0001"


def _name(row: Row) -> str:
    name = folded(row.arm)
    return f"{name}\n{UPPER_BOUND}" if row.is_upper_bound else name
