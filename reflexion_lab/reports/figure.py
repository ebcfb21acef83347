"""The one style of the lab's figures, and what several of them share. Plots take and return an Axes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from reflexion_lab.statistics.intervals import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Style = dict[str, Any]
"""Keyword arguments of a plotting function."""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Told apart by colour-blind readers (Okabe and Ito 2008, jfly.uni-koeln.de/color), the strongest first."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
"""One a curve, for readers in grey."""

INK, FAINT = "#333333", "#D9D9D9"


def forest(rows: Mapping[str, Mapping[str, Estimate]], ax: Axes, label: str) -> Axes:
    """Draw one line a retriever, the first on top, with one dot and interval for each text that it matched.

    Args:
        rows: by retriever, by text.
        label: names the measure, in [0, 1].
    """
    series = list(dict.fromkeys(name for row in rows.values() for name in row))
    step = 0.76 / max(1, len(series))
    for number, name in enumerate(series):
        look: dict[str, Any] = {"color": COLOURS[number % len(COLOURS)]}
        dot = {**look, "marker": MARKERS[number % len(MARKERS)], "markersize": 6, "markeredgecolor": "white"}
        offset = (number - (len(series) - 1) / 2) * step
        for place, found in ((place, row[name]) for place, row in enumerate(rows.values()) if name in row):
            ax.hlines(place + offset, found.low, found.high, **look, linewidth=2.4, alpha=0.45)
            ax.plot(found.value, place + offset, **dot, linestyle="", zorder=4, label=name)
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


def caption(ax: Axes, text: str) -> Axes:
    """Write what it takes to read a figure below `ax`: n, sources, method."""
    where: dict[str, Any] = {"xycoords": "axes fraction", "xytext": (0, -42), "textcoords": "offset points"}
    ax.annotate(text, (0, 0), **where, va="top", fontsize=8, color=INK, linespacing=1.5, gid="caption")
    return ax
