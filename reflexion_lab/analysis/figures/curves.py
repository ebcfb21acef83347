"""pass@1 by attempt, an arm a curve."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.figures import style as styles
from reflexion_lab.analysis.figures.drawing import CROWDED, FEW, Drawing, facts, figure, share_methods
from reflexion_lab.analysis.figures.heat_map import config, key_name, swept
from reflexion_lab.analysis.figures.style import UPPER_BOUND, Axes, Style, frame, look
from reflexion_lab.analysis.stats.estimators import Point

MOST_BANDS = 2
"""Maximum number of curves with bands; those of more would hide each other, and are bars side by side."""
ENDED = "Ring: the last attempt of an arm's loops."
COLUMNS = ("arm", "feedback_source", "seeds", "attempt", "n", "solved", "share", "low", "high", "any_solved", "tokens")


class Curve(NamedTuple):
    """The convergence curve of an arm over all of its seeds; n counts cases, a task at a seed each."""

    arm: Arm
    points: list[Point]

    @classmethod
    def over(cls, arm: Arm, last: int = 0) -> Curve:
        """Up to attempt `last`; 0: that of the arm's longest loop, which later points repeat.

        Intervals are those of `Arm.share`.
        """
        points = [_pooled(points) for points in zip(*(log.curve(last or arm.longest) for log in arm.logs), strict=True)]
        shares = [arm.share(arm.verdicts(point.attempt)) for point in points]
        return cls(arm, [replace(p, low=share.low, high=share.high) for p, share in zip(points, shares, strict=True)])


def curves(arm_curves: Sequence[Curve], ax: Axes, title: str = "", beside: Sequence[Curve] = ()) -> Axes:
    """Draw the curves with their intervals, on an axis with room for those `beside` it; each is named at its end with
    its last share in per cent.

    A curve whose loops end before the last attempt has a ring there, and is dotted after it. All are equally long.
    """
    from matplotlib.ticker import MaxNLocator

    last = arm_curves[0].points[-1].attempt
    is_crowded = len(arm_curves) > MOST_BANDS or last == 1
    step = 0.5 / len(arm_curves) if is_crowded else 0.04  # curves that coincide are both to be seen
    shifts = [(place - (len(arm_curves) - 1) / 2) * step for place in range(len(arm_curves))]
    for place, (curve, shift) in enumerate(zip(arm_curves, shifts, strict=True)):
        _curve(curve, place, shift, is_crowded, ax)
    points = [point for curve in (*arm_curves, *beside) for point in curve.points]
    styles.share_axis(ax, [end for point in points for end in (point.low, point.high)], "share of tasks solved")
    ax.set(xlim=(0.65, last + 0.4), xlabel="loop cut at attempt")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    ax.set_title(title, loc="left", fontsize=9)
    _names(arm_curves, shifts, ax)
    styles.mark_bounds(ax, [curve.arm for curve in arm_curves])
    return frame(ax, "y")


@figure(10, FEW, alone={"is_single": True})
def drawing(arms: Sequence[Arm], is_single: bool = False) -> Drawing:
    """All arms in one panel, if `is_single` or no more than `CROWDED`."""
    longest = max(arm.longest for arm in arms)
    arm_curves = [Curve.over(arm, longest) for arm in arms]
    rows = [
        (arm.label, arm.feedback_source, " ".join(map(str, arm.seeds)), p.attempt, p.n, p.solved, p.pass_at_1, p.low,
         p.high, p.any_solved, p.tokens_cum)
        for arm, points in arm_curves
        for p in points
    ]  # fmt: skip
    methods = share_methods(arms)
    notes = [ENDED * any(arm.longest < longest for arm in arms), _unlike(arms)]
    text = " ".join([f"{facts(arms)} 95 % intervals: {methods}.", *filter(None, notes)])
    groups = {"": arm_curves} if is_single or len(arms) <= CROWDED else _groups(arm_curves)
    longest_name, most = max(len(_name(arm)) for arm in arms), max(map(len, groups.values()))
    panel = 7.6 + 0.07 * max(0, longest_name - 20), 4.2 + 0.2 * max(0, most - 5)
    metric = "Share solved" if all(arm.is_upper_bound for arm in arms) else "pass@1"
    panels = [partial(curves, group, title=title, beside=arm_curves) for title, group in groups.items()]
    return Drawing("curves", f"{metric} by attempt", panels, COLUMNS, rows, text, panel)


def _groups(arm_curves: Sequence[Curve]) -> dict[str, list[Curve]]:
    """Curves by panel: by a swept key, the one with the fewest values that leaves no panel crowded; else one panel."""
    by_key: list[dict[str, list[Curve]]] = []
    for key in swept([curve.arm for curve in arm_curves]):
        by_key.append({})
        for curve in arm_curves:
            by_key[-1].setdefault(f"{key_name(key)}: {config(curve.arm).get(key, 'none')}", []).append(curve)
    fitting = [groups for groups in by_key if max(map(len, groups.values())) <= CROWDED]
    return min(fitting, key=len, default={"": list(arm_curves)})


def _pooled(points: Sequence[Point]) -> Point:
    """One point of several runs, pooled, without its interval."""
    n, solved = sum(point.n for point in points), sum(point.solved for point in points)
    n_feedback, names = sum(point.n_feedback for point in points), ("visible_pass", "reward")
    sums = {name: sum((getattr(point, name) or 0) * point.n_feedback for point in points) for name in names}
    return replace(
        points[0],
        n=n,
        solved=solved,
        pass_at_1=solved / n,
        any_solved=sum(point.any_solved * point.n for point in points) / n,
        n_feedback=n_feedback,
        tokens_cum=sum(point.tokens_cum for point in points),
        **{name: total / n_feedback if n_feedback else None for name, total in sums.items()},
    )


def _curve(curve: Curve, place: int, shift: float, is_crowded: bool, ax: Axes) -> None:
    x = [point.attempt + shift for point in curve.points]
    style, end = look(place), curve.arm.longest
    measured = curve.points[:end]
    if is_crowded:
        styles.bars(x[:end], measured, style["color"], ax)
    else:
        low, high = [point.low for point in measured], [point.high for point in measured]
        ax.fill_between(x[:end], low, high, linewidth=0, gid="interval", **styles.weighed(style["color"], styles.BANDS))
        for edge in (low, high):
            line: Style = {"linestyle": style["linestyle"], "linewidth": 0.6}
            ax.plot(x[:end], edge, **line, **styles.weighed(style["color"], styles.LINES))
    shares = [point.pass_at_1 for point in curve.points]
    label = _name(curve.arm)
    ax.plot(x[:end], shares[:end], **style, linewidth=1.8, markersize=7, zorder=4, label=label, gid="pass_at_1")
    if end < len(x):
        ring: Style = {"marker": "o", "markersize": 13, "markerfacecolor": "none", "markevery": [0], "gid": "ended"}
        ax.plot(x[end - 1 :], shares[end - 1 :], ":", color=style["color"], linewidth=1.4, zorder=5, **ring)


def _name(arm: Arm) -> str:
    return f"{arm.label} ({UPPER_BOUND}, not pass@1)" if arm.is_upper_bound else arm.label


def _names(arm_curves: Sequence[Curve], shifts: Sequence[float], ax: Axes) -> None:
    """Write names beside the ends of the curves, apart from each other, each with a line to its curve."""
    (low, high), right = ax.get_ylim(), ax.get_xlim()[1]
    ends = [curve.points[-1].pass_at_1 for curve in arm_curves]
    heights = styles.spread(ends, (high - low) * 0.062, max(low, 0.0), min(high, 1.0))
    for place, (curve, end, height) in enumerate(zip(arm_curves, ends, heights, strict=True)):
        style, x = look(place), curve.points[-1].attempt + shifts[place]
        ax.plot((x, right), (end, height), color=style["color"], linewidth=0.6, alpha=0.6, clip_on=False, zorder=3)
        ax.plot(right, height, **styles.marker_only(style), markersize=6, clip_on=False, zorder=5)
        text = f"  {100 * end:.1f}  {_name(curve.arm)}"
        ax.annotate(text, (right, height), (4, 0), textcoords="offset points", va="center", gid="name", **styles.SMALL)


def _unlike(arms: Sequence[Arm]) -> str:
    """Sentence on arms whose first attempts are not those of the first arm; "" for none."""
    first = [{case: attempts[0].trajectory.solution for case, attempts in arm.attempts.items()} for arm in arms]
    odd = [
        arm.label
        for arm, own in zip(arms[1:], first[1:], strict=True)
        if any(own[case] != solution for case, solution in first[0].items() if case in own)
    ]
    return f"The first attempts of {', '.join(odd)} are not those of {arms[0].label}." if odd else ""
