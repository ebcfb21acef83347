"""Style of the figures, and marks that several of them share. Plots take and return an Axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes  # noqa: PLC0414  # the other figures import it from here
    from matplotlib.axis import Axis

    from reflexion_lab.analysis.arms import Arm
else:
    Axes = Any  # for annotations: matplotlib takes long to load

Style = dict[str, Any]
"""Keyword arguments of a plotting function."""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Distinct for colour-blind readers (Okabe and Ito 2008, jfly.uni-koeln.de/color), the strongest first."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
"""Markers, one per curve, for print in grey."""

INK, FAINT = "#333333", "#D9D9D9"
UPPER_BOUND = "UPPER BOUND"
LINES, BANDS = 0.24, 0.06
"""Darkness on white, from 0 to 1, of intervals drawn as lines and as bands, the same for every colour."""
SMALL: Style = {"fontsize": 8, "color": INK}


class Ends(Protocol):
    """An estimate, rate or point with an interval."""

    @property
    def low(self) -> float: ...

    @property
    def high(self) -> float: ...


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


def marker_only(style: Style) -> Style:
    """The marker of a series, without its line."""
    return style | {"linestyle": ""}


def frame(ax: Axes, grid: Literal["x", "y", "both"]) -> Axes:
    """Plain axes with a faint grid."""
    ax.grid(axis=grid, color=FAINT, linewidth=0.7)
    ax.set_axisbelow(True)
    ax.tick_params(length=0, colors=INK, labelsize=9)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.spines["bottom"].set_color(FAINT)
    for label in (ax.xaxis.label, ax.yaxis.label):
        label.set(color=INK, fontsize=9)
    return ax


def weighed(colour: str, darkness: float) -> Style:
    """`colour` so transparent that its luma on white is 1 - `darkness`, so that no interval looks surer than another.

    Luma by Rec. 709. The lightest of `COLOURS` reaches a darkness of 0.35.
    """
    red, green, blue = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    luma = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return {"color": colour, "alpha": min(1.0, darkness / (1 - luma))}


def share_limits(shares: Sequence[float], room: float = 0.06) -> tuple[float, float]:
    """Range of `shares` with `room` on both sides in [0, 1], at least a third: small differences must not look big."""
    low, high = min(shares), max(shares)
    room = max(room, (1 / 3 - (high - low)) / 2)
    low, high = low - room, high + room
    return max(0.0, low - max(0.0, high - 1)), min(1.0, high + max(0.0, -low))


def share_axis(ax: Axes, values: Iterable[float], label: str) -> None:
    """Limits of a y axis of shares by `share_limits`; the label names them if they are not 0 and 100 %."""
    low, high = share_limits(list(values))
    part = "" if (low, high) == (0, 1) else f" (axis: {100 * low:.0f} to {100 * high:.0f} %)"
    ax.set_ylim(low - 0.02 * (low == 0), high + 0.02 * (high == 1))
    ax.set_ylabel(f"{label}{part}")
    per_cent(ax.yaxis)


def per_cent(axis: Axis) -> None:
    """Label shares in [0, 1] in per cent."""
    axis.set_major_formatter(lambda share, _: f"{100 * share:g} %")


def named(arm: Arm) -> str:
    """Its name in a legend."""
    return f"{arm.label} ({UPPER_BOUND})" if arm.is_upper_bound else arm.label


def watermark(ax: Axes, names: Sequence[str] = (), height: float = 0.5) -> Axes:
    """Write UPPER BOUND across `ax`, with the `names` of the arms concerned, at `height` in [0, 1] of the axes."""
    who = ", ".join(names) if len(names) < 3 else f"{len(names)} arms"
    text = f"{UPPER_BOUND}: {who}" if names else UPPER_BOUND
    turn = 20 if height == 0.5 else 0
    place: Style = {"ha": "center", "va": "center", "rotation": turn, "transform": ax.transAxes, "zorder": 10}
    size = min(17.0, 17.0 * 40 / max(len(text), 1))
    mark = ax.text(0.5, height, text, fontsize=size, fontweight="bold", color=INK, alpha=0.25, gid="watermark", **place)
    mark.set_in_layout(False)  # else the layout makes room for it, and cuts what stands beside the axes
    return ax


def mark_bounds(ax: Axes, arms: Iterable[Arm]) -> None:
    """Watermark `ax` with the names of those `arms` that are upper bounds, if there are any."""
    if above := [arm.label for arm in arms if arm.is_upper_bound]:
        watermark(ax, above, height=0.05)


def bars(x: Iterable[float], ends: Iterable[Ends], colour: str, ax: Axes) -> None:
    """Draw vertical intervals."""
    lines = [(end.low, end.high) for end in ends]
    low, high = [line[0] for line in lines], [line[1] for line in lines]
    ax.vlines(list(x), low, high, linewidth=1.6, gid="interval", **weighed(colour, LINES))


def spread(heights: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Positions of labels: at least `gap` apart where there is room, in the same order, within [low, high].

    Nearest to `heights` in the sum of squares: isotonic regression by the max-min formula (Barlow et al. 1972,
    Statistical Inference under Order Restrictions).
    """
    gap = min(gap, (high - low) / max(1, len(heights) - 1))
    order, last = sorted(range(len(heights)), key=lambda place: heights[place]), len(heights) - 1
    free = [heights[place] - rank * gap for rank, place in enumerate(order)]
    placed = {}
    for rank, place in enumerate(order):
        mean = max(min(fmean(free[i : j + 1]) for j in range(rank, last + 1)) for i in range(rank + 1))
        placed[place] = min(max(mean, low), high - gap * last) + rank * gap
    return [placed[place] for place in range(len(heights))]


def caption(ax: Axes, text: str) -> Axes:
    where: dict[str, Any] = {"xycoords": "axes fraction", "xytext": (0, -42), "textcoords": "offset points"}
    ax.annotate(text, (0, 0), **where, va="top", fontsize=8, color=INK, linespacing=1.5, gid="caption")
    return ax
