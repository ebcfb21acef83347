"""How long tasks stay unsolved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.figures.drawing import FEW, Drawing, facts, figure
from reflexion_lab.analysis.figures.style import (
    Style,
    bars,
    frame,
    line_only,
    look,
    mark_bounds,
    marker_only,
    named,
    share_axis,
)
from reflexion_lab.analysis.stats.survival import Survival, kaplan_meier

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CUT_OFF = ("timeout", "budget", "cancelled", "harness_error")
"""Stop reasons that censor a loop. A loop that ended by its own rule keeps its answer for good and is not censored."""
COLUMNS = ("arm", "feedback_source", "attempt", "at_risk", "solved", "censored", "unsolved", "low", "high")


def survival(arm: Arm) -> Survival:
    """Attempts until the submission first passes the hidden tests.

    Loops that were cut off are censored there, other unsolved loops at the arm's last attempt.
    """
    verdicts = [arm.verdicts(t) for t in range(1, arm.longest + 1)]
    ends: list[tuple[int, bool]] = []
    for case, attempts in arm.judged.items():
        solved = next((t for t, verdict_by_case in enumerate(verdicts, 1) if verdict_by_case[case]), 0)
        last = len(attempts) if attempts[-1].stop_reason in CUT_OFF else arm.longest
        ends.append((solved or last, bool(solved)))
    clusters = [arm.clusters.get(case.task_id, case.task_id) for case in arm.judged]
    return kaplan_meier([t for t, _ in ends], [solved for _, solved in ends], clusters)


def unsolved(curves: Mapping[Arm, Survival], ax: Axes) -> Axes:
    """Draw a step curve per arm with its interval at each attempt; a tick where loops are censored."""
    from matplotlib.ticker import MaxNLocator

    last = max(curve.steps[-1].attempt for curve in curves.values())
    width = 0.5 / len(curves)
    for place, (arm, curve) in enumerate(curves.items()):
        style, shift = look(place), (place - (len(curves) - 1) / 2) * width
        x, y = [step.attempt for step in curve.steps], [step.unsolved.value for step in curve.steps]
        ax.step([*x, x[-1] + 0.45], [*y, y[-1]], where="post", **line_only(style), linewidth=1.5, gid="unsolved")
        at = [attempt + 0.2 + shift for attempt in x]
        bars(at, [step.unsolved for step in curve.steps], style["color"], ax)
        ax.plot(at, y, **marker_only(style), markersize=6, zorder=4, label=named(arm.label, arm.is_upper_bound))
        for step in curve.steps:
            if step.censored:
                tick: Style = {"color": style["color"], "markersize": 11, "markeredgewidth": 1.6, "gid": "censored"}
                ax.plot(step.attempt + 0.45, step.unsolved.value, "|", **tick)
    drawn = [step.unsolved for curve in curves.values() for step in curve.steps]
    share_axis(ax, [end for rate in drawn for end in (rate.low, rate.high)], "share of tasks not solved yet")
    ax.set(xlim=(0.5, last + 0.6), xlabel="attempt")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    mark_bounds(ax, [arm.label for arm in curves if arm.is_upper_bound])
    return frame(ax, "y")


@figure(90, FEW)
def drawing(arms: Sequence[Arm]) -> Drawing | None:
    """None where no arm ever makes a second attempt."""
    if all(arm.longest == 1 for arm in arms):
        return None
    curves = {arm: survival(arm) for arm in arms}
    rows = [
        (arm.label, arm.feedback_source, step.attempt, step.at_risk, step.solved, step.censored, step.unsolved.value,
         step.unsolved.low, step.unsolved.high)
        for arm, curve in curves.items()
        for step in curve.steps
    ]  # fmt: skip
    text = f"{facts(list(curves))} Kaplan-Meier, 95 % intervals: Greenwood's. Ticks: censored loops."
    method = (
        "Kaplan-Meier estimate of the tasks without a submission up to this attempt that passes the hidden tests. "
        "Intervals: Greenwood's on log(-log), discounted for clusters. Censored: loops that ended by "
        f"{', '.join(CUT_OFF)}, or at the last attempt. Censoring at a cap is informative: "
        "such loops tend to be on harder tasks, so the curve may be too low. A loop that stopped on a wrong program by "
        "another rule, such as a plateau, stays unsolved."
    )
    panels, size = [lambda ax: unsolved(curves, ax)], (7.6, 4.2)
    return Drawing("survival", "Unsolved tasks", panels, COLUMNS, rows, text, size, has_legend=True, method=method)
