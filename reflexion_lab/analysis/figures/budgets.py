"""pass@1 against spending, with the convex hull."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.comparison.budgets import Spot, accuracy_by_spending, is_known
from reflexion_lab.analysis.figures import style as styles
from reflexion_lab.analysis.figures.drawing import FEW, Drawing, facts, figure, share_methods
from reflexion_lab.analysis.figures.style import INK, Axes, Style, frame, look
from reflexion_lab.analysis.stats.matching import hull
from reflexion_lab.io.arrays import np

COLUMNS = ("unit", "arm", "feedback_source", "attempt", "mean_a_case", "share", "low", "high", "on_hull")
LABELS = {
    "completion_tokens": "mean completion tokens per case",
    "tokens": "mean tokens per case",
    "calls": "mean model calls per case",
    "cost": "mean cost per case",
}


def budget(by_arm: Mapping[Arm, Sequence[Spot]], unit: str, ax: Axes) -> Axes:
    """Draw every arm's cuts from attempt 1 to its last, on a logarithmic scale of spending, and the convex hull.

    The scale is linear where some spending is 0: a first attempt by a local model costs nothing. `by_arm` has the spots
    of an arm in the order of attempts, none where its spending is unknown; `unit` is one of `LABELS`.
    """
    for place, (arm, spots) in enumerate(by_arm.items()):
        if not spots:
            continue
        style, last = look(place), spots[-1]
        small: Style = {"linewidth": 1.1, "alpha": 0.7, "markersize": 3, "zorder": 3}
        x, y = [spot.spend for spot in spots], [spot.pass_at_1.value for spot in spots]
        ax.plot(x, y, color=style["color"], linestyle=style["linestyle"], marker=style["marker"], **small)
        styles.bars([last.spend], [last.pass_at_1], style["color"], ax)
        size = 8 + 5 * sum(_overlaps(last, other) for other in list(by_arm.values())[place + 1 :])
        name = styles.named(arm)
        ax.plot(last.spend, y[-1], **style, markersize=size, zorder=5, label=name, gid="final")
    _hull(by_arm, ax)
    every = [spot.pass_at_1 for spots in by_arm.values() for spot in spots]
    styles.share_axis(ax, [end for share in every for end in (share.low, share.high)], "share of tasks solved")
    ax.set(xlabel=LABELS[unit])
    if all(spot.spend > 0 for spots in by_arm.values() for spot in spots):
        ax.set_xscale("log")
        _ticks(ax)
    styles.mark_bounds(ax, by_arm)
    return frame(ax, "both")


MISSING = "no run with known spending in this unit", "at least one, or another unit="


@figure(20, FEW, alone={"unit": "tokens"}, missing=MISSING)
def drawing(arms: Sequence[Arm], unit: str | None = None) -> Drawing | None:
    """A panel for each unit of `LABELS`, or for `unit`, with an arm of known spending; None without any.

    Arms of unknown spending are left out, and named in the caption.
    """
    spots = {
        name: {arm: accuracy_by_spending(arm, name) if is_known(arm, name) else [] for arm in arms}
        for name in ([unit] if unit else LABELS)
    }
    spots = {unit: by_arm for unit, by_arm in spots.items() if any(by_arm.values())}
    if not spots:
        return None
    rows = [
        (unit, arm.label, arm.feedback_source, spot.attempt, spot.spend, *_ends(spot), (arm, spot) in _hull_of(by_arm))
        for unit, by_arm in spots.items()
        for arm, own in by_arm.items()
        for spot in own
    ]
    text = f"{facts(arms)} 95 % intervals of whole loops: {share_methods(arms)}. Dashed: convex hull."
    text += _missing(spots)
    panels = [functools.partial(budget, by_arm, unit) for unit, by_arm in spots.items()]
    size, title = (5.2, 3.6 + 0.1 * len(arms)), "pass@1 against spending"
    return Drawing("budget", title, panels, COLUMNS, rows, text, size, has_legend=True)


def _overlaps(last: Spot, other: Sequence[Spot]) -> bool:
    """Whether the last mark of an arm that is drawn later covers this one, which is then drawn larger."""
    far = 0.01
    return bool(other) and (
        abs(other[-1].spend - last.spend) < far * last.spend
        and abs(other[-1].pass_at_1.value - last.pass_at_1.value) < far
    )


def _missing(spots: Mapping[str, Mapping[Arm, Sequence[Spot]]]) -> str:
    without = {unit: [arm.label for arm, own in by_arm.items() if not own] for unit, by_arm in spots.items()}
    return "".join(
        f" Unknown {unit.replace('_', ' ')}, not drawn: {', '.join(names)}." for unit, names in without.items() if names
    )


def _ends(spot: Spot) -> tuple[float, float, float]:
    return spot.pass_at_1.value, spot.pass_at_1.low, spot.pass_at_1.high


def _hull_of(by_arm: Mapping[Arm, Sequence[Spot]]) -> list[tuple[Arm, Spot]]:
    """Cheapest first."""
    known = [(arm, spot) for arm, spots in by_arm.items() if not arm.is_upper_bound for spot in spots]
    return [known[place] for place in hull([(spot.spend, spot.pass_at_1.value) for _, spot in known])]


def _hull(by_arm: Mapping[Arm, Sequence[Spot]], ax: Axes) -> None:
    """Straight in spending, hence bent on a logarithmic scale."""
    spots = [spot for _, spot in _hull_of(by_arm)]
    if len(spots) > 1:
        x, y = [spot.spend for spot in spots], [spot.pass_at_1.value for spot in spots]
        between = np.geomspace(x[0], x[-1], 200) if x[0] > 0 else np.linspace(x[0], x[-1], 200)
        style: Style = {"color": INK, "linewidth": 1.6, "linestyle": (0, (5, 3)), "zorder": 2}
        ax.plot(between, np.interp(between, x, y), **style, gid="hull", label="convex hull")


def _ticks(ax: Axes) -> None:
    """Plain numbers, more of them where the range is less than a power of ten."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    ax.margins(x=0.12)
    low, high = ax.get_xlim()
    subs = (1, 2, 5) if high / low > 8 else (1, 1.5, 2, 3, 4, 5, 7)
    ax.xaxis.set_major_locator(LogLocator(subs=subs) if high / low > 3 else MaxNLocator(6))
    ax.xaxis.set_major_formatter(lambda x, _: f"{x:,g}" if x < 1e6 else f"{x:,.0f}")
    ax.xaxis.set_minor_locator(NullLocator())
