"""How often feedback tests are wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.figures.drawing import Drawing, facts, figure
from reflexion_lab.analysis.figures.style import COLOURS, FAINT, Style, beside, folded, frame, note, per_cent
from reflexion_lab.analysis.suite_quality import Confusion, feedback_confusion

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RATES: dict[str, tuple[str, Style]] = {
    "false_positive_rate": ("wrong programs that pass them (FP)", {"color": COLOURS[1], "marker": "s"}),
    "false_negative_rate": ("right programs that fail them (FN)", {"color": COLOURS[0], "marker": "o"}),
}
COLUMNS = ("arm", "feedback_source", "rate", "k", "n", "share", "low", "high", "unknown")


def feedback_errors(found: Mapping[Arm, Confusion], ax: Axes) -> Axes:
    """Draw two lines an arm, the first arm on top: false positives and false negatives, with counts."""
    for place, one in enumerate(found.values()):
        for number, (field, (name, style)) in enumerate(RATES.items()):
            rate, y = getattr(one, field), place + (number - 0.5) * 0.36
            note(ax, y, f"{rate.k} of {rate.n}")
            if rate.n:
                ax.hlines(y, rate.low, rate.high, color=style["color"], linewidth=2.2, alpha=0.5)
                ax.plot(
                    rate.share, y, **style, markersize=7, markeredgecolor="white", linestyle="", label=name, gid=field
                )
    ax.set_yticks(range(len(found)), [folded(arm.label) for arm in found])
    ax.set_ylim(len(found) - 0.5, -0.5)
    ax.set_xlim(
        -0.02,
        max(0.2, *(getattr(one, field).high for one in found.values() for field in RATES if getattr(one, field).n))
        + 0.02,
    )
    ax.hlines([place + 0.5 for place in range(len(found) - 1)], -0.02, 1, color=FAINT, linewidth=0.7)
    ax.set_xlabel("share of programs")
    per_cent(ax.xaxis)
    return frame(ax, "x")


@figure(50)
def drawing(arms: Sequence[Arm]) -> Drawing | None:
    """Of the arms that had feedback of their own: an oracle's is the hidden verdict itself. None where no arm had."""
    judged = {
        arm: feedback_confusion(
            (one, arm.grades[case][one.number]) for case, made in arm.attempts.items() for one in made
        )
        for arm in arms
        if not arm.is_upper_bound
    }
    found = {arm: one for arm, one in judged.items() if one.false_positive_rate.n or one.false_negative_rate.n}
    if not found:
        return None
    rows = [
        (arm.label, arm.feedback_source, field, rate.k, rate.n, rate.share, rate.low, rate.high, one.unknown)
        for arm, one in found.items()
        for field in RATES
        for rate in [getattr(one, field)]
    ]
    text = (
        f"Feedback verdicts on the programs of all attempts against the hidden ones. {facts(list(found))} Wilson 95 % "
        "intervals, which take programs as independent: attempts at one task are not, so they are too narrow."
    )
    size = 6.4 + beside([arm.label for arm in found]), 1.1 + 0.55 * len(found)
    title = "Errors of the feedback tests"
    return Drawing(
        "feedback", title, [lambda ax: feedback_errors(found, ax)], COLUMNS, rows, text, size, has_legend=True
    )
