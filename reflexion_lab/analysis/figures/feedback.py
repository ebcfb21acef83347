"""Error rates of the feedback tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.figures.drawing import Drawing, facts, figure
from reflexion_lab.analysis.figures.style import COLOURS, Style, beside, dot, folded, note, per_cent, rows
from reflexion_lab.analysis.stats.estimators import Confusion, feedback_confusion

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RATES: dict[str, tuple[str, Style]] = {
    "false_positive_rate": ("wrong programs that pass them (FP)", {"color": COLOURS[1], "marker": "s"}),
    "false_negative_rate": ("right programs that fail them (FN)", {"color": COLOURS[0], "marker": "o"}),
}
COLUMNS = ("arm", "feedback_source", "rate", "k", "n", "share", "low", "high", "unknown")


def feedback_errors(confusions: Mapping[Arm, Confusion], ax: Axes) -> Axes:
    """Draw two lines per arm, the first arm on top: false positives and false negatives, with counts."""
    highest = 0.2
    for place, confusion in enumerate(confusions.values()):
        for number, (field, (name, style)) in enumerate(RATES.items()):
            rate, y = getattr(confusion, field), place + (number - 0.5) * 0.36
            note(ax, y, f"{rate.k} of {rate.n}")
            if rate.n:
                dot(rate.share, rate, y, ax, **style, label=name, gid=field)
                highest = max(highest, rate.high)
    ax.set(xlim=(-0.02, highest + 0.02), xlabel="share of programs")
    per_cent(ax.xaxis)
    return rows([folded(arm.label) for arm in confusions], ax, is_ruled=True)


@figure(50)
def drawing(arms: Sequence[Arm]) -> Drawing | None:
    """Arms with feedback apart from the hidden verdicts; None without any."""
    judged = {arm: feedback_confusion(arm.graded) for arm in arms if not arm.is_upper_bound}
    confusions = {
        arm: confusion
        for arm, confusion in judged.items()
        if confusion.false_positive_rate.n or confusion.false_negative_rate.n
    }
    if not confusions:
        return None
    table = [
        (arm.label, arm.feedback_source, field, rate.k, rate.n, rate.share, rate.low, rate.high, confusion.unknown)
        for arm, confusion in confusions.items()
        for field in RATES
        for rate in [getattr(confusion, field)]
    ]
    text = f"{facts(list(confusions))} Wilson 95 % intervals, too narrow: attempts at one task are not independent."
    method = "Feedback verdicts on the programs of all attempts against the hidden ones."
    size = 6.4 + beside([arm.label for arm in confusions]), 1.1 + 0.55 * len(confusions)
    title = "Errors of the feedback tests"
    panels = [lambda ax: feedback_errors(confusions, ax)]
    return Drawing("feedback", title, panels, COLUMNS, table, text, size, has_legend=True, method=method)
