"""pass@1 by attempt, all arms in one figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.figures.convergence import Curve
from reflexion_lab.analysis.figures.drawing import Drawing, facts
from reflexion_lab.analysis.figures.style import SMALL, UPPER_BOUND, Style, frame, look, per_cent, spread, watermark

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_BANDS = 2
"""Of more curves, bands would hide each other, and in grey be nobody's: their intervals are bars, side by side."""
COLUMNS = ("arm", "feedback_source", "seeds", "attempt", "n", "solved", "share", "low", "high", "any_solved", "tokens")


def curves(found: Sequence[Curve], ax: Axes) -> Axes:
    """Draw the curves with their intervals, and name each at its end with its last share in per cent.

    Args:
        found: one at least, all of the same length.
    """
    from matplotlib.ticker import MaxNLocator

    last = found[0].points[-1].attempt
    is_crowded = len(found) > MOST_BANDS or last == 1
    step = 0.5 / len(found) if is_crowded else 0.04  # curves that coincide are both to be seen
    shifts = [(place - (len(found) - 1) / 2) * step for place in range(len(found))]
    for place, (curve, shift) in enumerate(zip(found, shifts, strict=True)):
        _curve(curve, place, shift, is_crowded, ax)
    low, high = _span(found)
    ax.set(xlim=(0.65, last + 0.4), ylim=(low, high), xlabel="loop cut at attempt", ylabel="share of tasks solved")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    per_cent(ax.yaxis)
    _names(found, shifts, ax)
    if above := [curve.label for curve in found if curve.is_upper_bound]:
        watermark(ax, above, height=0.05)
    return frame(ax, "y")


def drawing(arms: Sequence[Arm], seed: int = 0) -> Drawing:
    """Of one arm or more."""
    longest = max(arm.longest for arm in arms)
    found = [Curve.over(arm, longest, seed) for arm in arms]
    rows = [
        (c.label, c.feedback_source, " ".join(map(str, c.seeds)), p.attempt, p.n, p.solved, p.pass_at_1, p.low, p.high,
         p.any_solved, p.tokens_cum)
        for c in found
        for p in c.points
    ]  # fmt: skip
    kinds = {
        True: "bootstrap over tasks and seeds (percentiles of 10,000 draws; score intervals where few tasks speak)",
        False: "Wilson (one seed)",
    }
    methods = " and ".join(dict.fromkeys(kinds[len(arm.seeds) > 1] for arm in arms))
    text = f"Hidden verdict on what would have been submitted at each cut. {facts(arms)} 95 % intervals: {methods}."
    if len(arms) > 1:
        text += f" {_shared(arms)}"
    longest_name = max(len(_name(curve)) for curve in found)
    panel = 7.6 + 0.07 * max(0, longest_name - 20), 4.2 + 0.2 * max(0, len(arms) - 5)
    metric = "Share solved" if all(arm.is_upper_bound for arm in arms) else "pass@1"
    return Drawing("curves", f"{metric} by attempt", [lambda ax: curves(found, ax)], COLUMNS, rows, text, panel)


def _curve(curve: Curve, place: int, shift: float, is_crowded: bool, ax: Axes) -> None:
    x = [point.attempt + shift for point in curve.points]
    low, high = [point.low for point in curve.points], [point.high for point in curve.points]
    style = look(place)
    if is_crowded:
        ax.vlines(x, low, high, color=style["color"], linewidth=1.6, alpha=0.5, gid="interval")
    else:
        ax.fill_between(x, low, high, color=style["color"], alpha=0.13, linewidth=0, gid="interval")
        for edge in (low, high):
            ax.plot(x, edge, color=style["color"], linestyle=style["linestyle"], linewidth=0.6, alpha=0.5)
    shares = [point.pass_at_1 for point in curve.points]
    ax.plot(x, shares, **style, linewidth=1.8, markersize=7, zorder=4, label=_name(curve), gid="pass_at_1")


def _name(curve: Curve) -> str:
    return f"{curve.label} ({UPPER_BOUND}, not pass@1)" if curve.is_upper_bound else curve.label


def _span(found: Sequence[Curve]) -> tuple[float, float]:
    """All intervals, and a third of the scale at least."""
    low = min(point.low for curve in found for point in curve.points)
    high = max(point.high for curve in found for point in curve.points)
    pad = max(0.06, (0.34 - (high - low)) / 2)
    return max(-0.02, low - pad), min(1.02, high + pad)


def _names(found: Sequence[Curve], shifts: Sequence[float], ax: Axes) -> None:
    """Beside the ends, clear of each other, each tied to its own."""
    (low, high), right = ax.get_ylim(), ax.get_xlim()[1]
    ends = [curve.points[-1].pass_at_1 for curve in found]
    heights = spread(ends, (high - low) * 0.062, max(low, 0.0), min(high, 1.0))
    for place, (curve, end, height) in enumerate(zip(found, ends, heights, strict=True)):
        style, x = look(place), curve.points[-1].attempt + shifts[place]
        ax.plot((x, right), (end, height), color=style["color"], linewidth=0.6, alpha=0.6, clip_on=False, zorder=3)
        mark: Style = {key: style[key] for key in ("color", "marker", "markerfacecolor", "markeredgecolor")}
        ax.plot(right, height, **mark, markersize=6, clip_on=False, zorder=5)
        text = f"  {100 * end:.1f}  {_name(curve)}"
        ax.annotate(text, (right, height), (4, 0), textcoords="offset points", va="center", gid="name", **SMALL)


def _shared(arms: Sequence[Arm]) -> str:
    """Whether the first attempts are the very same programs."""
    first = [{case: made[0].trajectory.solution for case, made in arm.attempts.items()} for arm in arms]
    odd = [
        arm.label
        for arm, own in zip(arms[1:], first[1:], strict=True)
        if any(own[case] != solution for case, solution in first[0].items() if case in own)
    ]
    if not odd:
        return "All arms share the same first attempts."
    return f"The first attempts of {', '.join(odd)} are not those of {arms[0].label}."
