"""The one style of the lab's figures, and what several of them share. Plots take and return an Axes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

Style = dict[str, Any]
"""Keyword arguments of a plotting function."""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Told apart by colour-blind readers (Okabe and Ito 2008, jfly.uni-koeln.de/color), the strongest first."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
"""One a curve, for readers in grey."""

INK, FAINT = "#333333", "#D9D9D9"
UPPER_BOUND = "UPPER BOUND"
ASIDE = 36
"""Letters of a line beside an axis."""
SMALL: Style = {"fontsize": 8, "color": INK}


def look(place: int) -> Style:
    """Colour, marker and line of the series at `place`, from 0. The second seven are hollow and dashed."""
    colour, lap = COLOURS[place % len(COLOURS)], place // len(COLOURS)
    return {
        "color": colour,
        "marker": MARKERS[place % len(MARKERS)],
        "markerfacecolor": "white" if lap else colour,
        "markeredgecolor": colour if lap else "white",
        "linestyle": (0, (4, 1.5)) if lap else "-",
    }


def frame(ax: Axes, grid: Literal["x", "y", "both"]) -> Axes:
    """The lab's plain axes, with a faint grid."""
    ax.grid(axis=grid, color=FAINT, linewidth=0.7)
    ax.set_axisbelow(True)
    ax.tick_params(length=0, colors=INK, labelsize=9)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.spines["bottom"].set_color(FAINT)
    for label in (ax.xaxis.label, ax.yaxis.label):
        label.set(color=INK, fontsize=9)
    return ax


def per_cent(axis: Axis) -> None:
    """Label shares in [0, 1] as per cent, with no more digits than they have."""
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.3g} %"))


def named(arm: str, is_upper_bound: bool) -> str:
    """An arm's name in a legend."""
    return f"{arm} ({UPPER_BOUND})" if is_upper_bound else arm


def folded(name: str) -> str:
    """A name beside an axis, on as many lines as it takes."""
    return textwrap.fill(name, ASIDE)


def beside(names: Sequence[str]) -> float:
    """Inches that names beside an axis take, beyond the width of a short one."""
    return 0.08 * max(0, min(ASIDE, max(map(len, names))) - 16)


def watermark(ax: Axes, names: Sequence[str] = (), height: float = 0.5) -> Axes:
    """Write across `ax`, faintly, that arms in it saw the hidden tests: these `names`, or all of them.

    Parameters
    ----------
    height : float, default 0.5
        Of the words, in [0, 1] of the axes; level anywhere but in the middle.
    """
    text = f"{', '.join(names)}: {UPPER_BOUND}" if names else UPPER_BOUND
    turn = 20 if height == 0.5 else 0
    place: Style = {"ha": "center", "va": "center", "rotation": turn, "transform": ax.transAxes, "zorder": 10}
    ax.text(0.5, height, text, fontsize=17, fontweight="bold", color=INK, alpha=0.25, gid="watermark", **place)
    return ax


def mark_bounds(ax: Axes, names: Iterable[str]) -> None:
    """Name the upper bounds among the arms of `ax`, if there are any, near its bottom."""
    if above := list(names):
        watermark(ax, above, height=0.05)


def note(ax: Axes, y: float, text: str, gap: float = 8) -> None:
    """Write `text` to the right of `ax`, level with `y`, so many points away."""
    where: Style = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "va": "center"}
    ax.annotate(text, (1, y), (gap, 0), **where, annotation_clip=False, **SMALL)


def spread(heights: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Heights for labels: at least `gap` apart, in the same order, in [low, high], and else as near as it goes.

    Nearest in the sum of squares: isotonic regression by pooling neighbours (Barlow et al. 1972, Statistical Inference
    under Order Restrictions). They are closer where there is no room for all.
    """
    gap = min(gap, (high - low) / max(1, len(heights) - 1))
    order = sorted(range(len(heights)), key=lambda place: heights[place])
    blocks: list[tuple[float, int]] = []
    for rank, place in enumerate(order):
        total, size = heights[place] - rank * gap, 1
        while blocks and blocks[-1][0] / blocks[-1][1] > total / size:
            before, more = blocks.pop()
            total, size = total + before, size + more
        blocks.append((total, size))
    means = (total / size for total, size in blocks for _ in range(size))
    top = high - gap * (len(heights) - 1)
    placed = {
        place: min(max(mean, low), top) + rank * gap
        for rank, (place, mean) in enumerate(zip(order, means, strict=True))
    }
    return [placed[place] for place in range(len(heights))]


def caption(ax: Axes, text: str) -> Axes:
    """Write what it takes to read a figure below `ax`: n, sources, method."""
    where: dict[str, Any] = {"xycoords": "axes fraction", "xytext": (0, -42), "textcoords": "offset points"}
    ax.annotate(text, (0, 0), **where, va="top", fontsize=8, color=INK, linespacing=1.5, gid="caption")
    return ax
