"""Share of attempts that passed, by the number of items of other loops that they read."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.figures.drawing import FEW, Drawing, facts, figure
from reflexion_lab.analysis.figures.style import SMALL, Axes, bars, frame, look, mark_bounds, named, share_axis
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.stats import bootstrap
from reflexion_lab.analysis.stats.intervals import Rate, methods
from reflexion_lab.records import Attempt

MOST = 5
"""Items from which attempts are drawn together."""
NAMES = {False: "first attempts", True: "later attempts"}
COLUMNS = ("attempts", "arm", "feedback_source", "items", "k", "n", "share", "low", "high")
Passed = Mapping[int, Rate]
"""By number of items, the share of attempts that passed."""


def by_items(by_arm: Mapping[Arm, Passed], title: str, ax: Axes) -> Axes:
    """Draw a curve per arm: the share that passed by the number of items read, with intervals and n."""
    for place, (arm, groups) in enumerate(by_arm.items()):
        style, shift = look(place), (place - (len(by_arm) - 1) / 2) * 0.5 / len(by_arm)
        x, shares = [items + shift for items in groups], [*groups.values()]
        bars(x, shares, style["color"], ax)
        values = [rate.share for rate in shares]
        label = named(arm)
        ax.plot(x, values, **style, linewidth=1.5, markersize=7, zorder=4, label=label, gid="passed")
        for at, rate in zip(x, shares, strict=True):
            ax.annotate(str(rate.n), (at, rate.share), (5, 5), textcoords="offset points", **SMALL)
    every = [rate for groups in by_arm.values() for rate in groups.values()]
    share_axis(ax, [end for rate in every for end in (rate.low, rate.high)], "share of attempts that passed")
    counts = sorted({items for groups in by_arm.values() for items in groups})
    ax.set_xticks(counts, [f"{items} or more" if items == MOST else str(items) for items in counts])
    ax.set(xlabel="items of other loops read", xlim=(counts[0] - 0.5, counts[-1] + 0.5))
    ax.set_title(title, loc="left", fontsize=9)
    mark_bounds(ax, by_arm)
    return frame(ax, "y")


MISSING = "no attempt that read an item of another loop", "runs with recall=similar or a shared memory"


@figure(85, FEW, alone={"later": False}, missing=MISSING)
def drawing(arms: Sequence[Arm], later: bool | None = None) -> Drawing | None:
    """A panel for first attempts and one for later ones; None where no attempt read an item of another loop."""
    parts = {
        is_later: {arm: _groups(arm, is_later) for arm in arms}
        for is_later in ((False, True) if later is None else (later,))
    }
    parts = {is_later: {arm: own for arm, own in part.items() if any(own)} for is_later, part in parts.items()}
    parts = {is_later: part for is_later, part in parts.items() if part}
    if not parts:
        return None
    rows = [
        (NAMES[is_later], arm.label, arm.feedback_source, items, of.k, of.n, of.share, of.low, of.high)
        for is_later, part in parts.items()
        for arm, groups in part.items()
        for items, of in groups.items()
    ]
    every = [rate for part in parts.values() for groups in part.values() for rate in groups.values()]
    drawn = list(dict.fromkeys(arm for part in parts.values() for arm in part))
    text = f"{facts(drawn)} 95 % intervals: {methods(every)}. Beside each: number of attempts."
    panels = [functools.partial(by_items, part, NAMES[is_later]) for is_later, part in parts.items()]
    return Drawing("retrieval", "Passed, by items read", panels, COLUMNS, rows, text, (5.4, 3.6), has_legend=True)


def items_of_others(log: Log, attempt: Attempt) -> int:
    """Number of items of other loops that the actor read; the Ω window belongs to its own loop."""
    episodes = [name for name in attempt.recalled if not log.is_own(name, attempt.task_id)]
    recalled = (*episodes, *attempt.recalled_wisdom, *attempt.recalled_mistakes, *attempt.recalled_items)
    return len(set(recalled))


def _groups(arm: Arm, is_later: bool) -> Passed:
    outcomes: dict[int, list[tuple[str, bool]]] = {}
    for log in arm.logs:
        for attempt in log.every:
            grade = log.grades.get((attempt.task_id, attempt.number))
            if (attempt.number > 1) is is_later and grade and grade.has_verdict:
                items = min(MOST, items_of_others(log, attempt))
                outcomes.setdefault(items, []).append((attempt.task_id, grade.passed))
    return {items: bootstrap.rate(passed, arm.clusters) for items, passed in sorted(outcomes.items())}
