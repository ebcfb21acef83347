"""Dots with their intervals, one line a thing that is compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from reflexion_lab.analysis.figures.style import COLOURS, FAINT, INK, MARKERS
from reflexion_lab.analysis.stats.intervals import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def forest(rows: Mapping[str, Mapping[str, Estimate]], ax: Axes, label: str) -> Axes:
    """Draw one line a retriever, the first on top, with one dot and interval for each text that it matched.

    Parameters
    ----------
    rows : mapping
        By retriever, by text.
    label : str
        Names the measure, in [0, 1].
    """
    series = list(dict.fromkeys(name for row in rows.values() for name in row))
    step = 0.76 / max(1, len(series))
    for number, name in enumerate(series):
        look: dict[str, Any] = {"color": COLOURS[number % len(COLOURS)]}
        dot = {**look, "marker": MARKERS[number % len(MARKERS)], "markersize": 6, "markeredgecolor": "white"}
        offset = (number - (len(series) - 1) / 2) * step
        for place, estimate in ((place, row[name]) for place, row in enumerate(rows.values()) if name in row):
            ax.hlines(place + offset, estimate.low, estimate.high, **look, linewidth=2.4, alpha=0.45)
            ax.plot(estimate.value, place + offset, **dot, linestyle="", zorder=4, label=name)
    ax.set_yticks(range(len(rows)), list(rows))
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_xlim(-0.02, 1.02)
    ax.set_xlabel(label, color=INK)
    ax.hlines([place + 0.5 for place in range(len(rows) - 1)], -0.02, 1.02, color=FAINT, linewidth=0.7)
    ax.grid(axis="x", color=FAINT, linewidth=0.7)
    ax.set_axisbelow(True)
    ax.tick_params(length=0, colors=INK)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.spines["bottom"].set_color(FAINT)
    return ax
