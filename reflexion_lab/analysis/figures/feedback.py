"""How often feedback tests are wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.estimators import Confusion, feedback_confusion
from reflexion_lab.analysis.figures.drawing import Drawing, facts, figure
from reflexion_lab.analysis.figures.style import COLOURS, FAINT, Style, beside, folded, frame, note, per_cent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RATES: dict[str, tuple[str, Style]] = {
    "false_positive_rate": ("wrong programs that pass them (FP)", {"color": COLOURS[1], "marker": "s"}),
    "false_negative_rate": ("right programs that fail them (FN)", {"color": COLOURS[0], "marker": "o"}),
}
COLUMNS = ("arm", "feedback_source", "rate", "k", "n", "share", "low", "high", "unknown")


def feedback_errors(confusions: Mapping[Arm, Confusion], ax: Axes) -> Axes:
    """Draw two lines an arm, the first arm on top: false positives and false negatives, with counts."""
    for place, confusion in enumerate(confusions.values()):
        for number, (field, (name, style)) in enumerate(RATES.items()):
            rate, y = getattr(confusion, field), place + (number - 0.5) * 0.36
            note(ax, y, f"{rate.k} of {rate.n}")
            if rate.n:
                ax.hlines(y, rate.low, rate.high, color=style["color"], linewidth=2.2, alpha=0.5)
                ax.plot(
                    rate.share, y, **style, markersize=7, markeredgecolor="white", linestyle="", label=name, gid=field
                )
    ax.set_yticks(range(len(confusions)), [folded(arm.label) for arm in confusions])
    ax.set_ylim(len(confusions) - 0.5, -0.5)
    ax.set_xlim(
        -0.02,
        max(
            0.2,
            *(
                getattr(confusion, field).high
                for confusion in confusions.values()
                for field in RATES
                if getattr(confusion, field).n
            ),
        )
        + 0.02,
    )
    ax.hlines([place + 0.5 for place in range(len(confusions) - 1)], -0.02, 1, color=FAINT, linewidth=0.7)
    ax.set_xlabel("share of programs")
    per_cent(ax.xaxis)
    return frame(ax, "x")


@figure(50)
def drawing(arms: Sequence[Arm]) -> Drawing | None:
    """Of the arms that had feedback of their own: an oracle's is the hidden verdict itself. None where no arm had."""
    judged = {
        arm: feedback_confusion(
            (attempt, arm.grades[case][attempt.number])
            for case, attempts in arm.attempts.items()
            for attempt in attempts
        )
        for arm in arms
        if not arm.is_upper_bound
    }
    confusions = {
        arm: confusion
        for arm, confusion in judged.items()
        if confusion.false_positive_rate.n or confusion.false_negative_rate.n
    }
    if not confusions:
        return None
    rows = [
        (arm.label, arm.feedback_source, field, rate.k, rate.n, rate.share, rate.low, rate.high, confusion.unknown)
        for arm, confusion in confusions.items()
        for field in RATES
        for rate in [getattr(confusion, field)]
    ]
    text = (
        f"Feedback verdicts on the programs of all attempts against the hidden ones. {facts(list(confusions))} Wilson "
        "95 % intervals, which take programs as independent: attempts at one task are not, so they are too narrow."
    )
    size = 6.4 + beside([arm.label for arm in confusions]), 1.1 + 0.55 * len(confusions)
    title = "Errors of the feedback tests"
    return Drawing(
        "feedback", title, [lambda ax: feedback_errors(confusions, ax)], COLUMNS, rows, text, size, has_legend=True
    )
