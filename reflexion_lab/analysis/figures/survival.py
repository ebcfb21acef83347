"""How long tasks stay unsolved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.figures.drawing import FEW, Drawing, facts, figure
from reflexion_lab.analysis.figures.style import Style, frame, look, mark_bounds, named, per_cent
from reflexion_lab.analysis.stats.survival import Survival, kaplan_meier

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CUT_OFF = ("timeout", "budget", "cancelled", "harness_error")
"""Reasons why a loop ended that say nothing of what its next attempt would have brought. A loop that ended by its own
rule would keep its answer for good."""
COLUMNS = ("arm", "feedback_source", "attempt", "at_risk", "solved", "censored", "unsolved", "low", "high")


def survival(arm: Arm) -> Survival:
    """Attempts until what would be submitted first passes the hidden tests; loops that were cut off are censored there,
    all others that never came to it at the arm's last attempt.
    """
    verdicts = [arm.verdicts(t) for t in range(1, arm.longest + 1)]
    ends: list[tuple[int, bool]] = []
    for case, attempts in arm.judged.items():
        solved = next((t for t, verdict_by_case in enumerate(verdicts, 1) if verdict_by_case[case]), 0)
        last = len(attempts) if attempts[-1].stop_reason in CUT_OFF else arm.longest
        ends.append((solved or last, bool(solved)))
    return kaplan_meier([t for t, _ in ends], [solved for _, solved in ends], [case.task_id for case in arm.judged])


def unsolved(curves: Mapping[Arm, Survival], ax: Axes) -> Axes:
    """Draw a step curve an arm with its interval at each attempt; a tick where loops were lost sight of."""
    from matplotlib.ticker import MaxNLocator

    last = max(curve.steps[-1].attempt for curve in curves.values())
    width = 0.5 / len(curves)
    for place, (arm, curve) in enumerate(curves.items()):
        style, shift = look(place), (place - (len(curves) - 1) / 2) * width
        x, y = [step.attempt for step in curve.steps], [step.unsolved.value for step in curve.steps]
        line: Style = {"color": style["color"], "linestyle": style["linestyle"], "linewidth": 1.5}
        ax.step([*x, x[-1] + 0.45], [*y, y[-1]], where="post", **line, zorder=3, gid="unsolved")
        at = [step.attempt + 0.2 + shift for step in curve.steps]
        low, high = zip(*((step.unsolved.low, step.unsolved.high) for step in curve.steps), strict=True)
        ax.vlines(at, low, high, color=style["color"], linewidth=1.3, alpha=0.45, zorder=2)
        ax.plot(at, y, **style, markersize=6, zorder=4, label=named(arm.label, arm.is_upper_bound)).pop().set_linestyle(
            ""
        )
        lost = [(step.attempt + 0.45, step.unsolved.value) for step in curve.steps if step.censored]
        if lost:
            ax.plot(
                *zip(*lost, strict=True), "|", color=style["color"], markersize=11, markeredgewidth=1.6, gid="censored"
            )
    top = max(curve.steps[0].unsolved.high for curve in curves.values())
    ax.set(
        xlim=(0.5, last + 0.6),
        ylim=(-0.02, min(1.02, top + 0.1)),
        xlabel="attempt",
        ylabel="share of tasks not solved yet",
    )
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    per_cent(ax.yaxis)
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
    text = (
        "Kaplan-Meier estimate of the tasks of which no submission up to this attempt passes the hidden tests. "
        f"{facts(list(curves))} 95 % intervals: Greenwood's on log(-log), discounted for the seeds of a task. Ticks: "
        f"loops lost sight of there (ended by {', '.join(CUT_OFF)}, or the last attempt). A loop that stopped on a "
        "wrong program stays unsolved."
    )
    size = 7.6, 4.2
    return Drawing(
        "survival", "Unsolved tasks", [lambda ax: unsolved(curves, ax)], COLUMNS, rows, text, size, has_legend=True
    )
