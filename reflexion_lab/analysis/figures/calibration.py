"""Confidence of reflections against the share of next attempts that passed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.figures.drawing import FEW, Drawing, facts, figure
from reflexion_lab.analysis.figures.style import COLOURS, FAINT, INK, SMALL, Axes, Style, bars, frame
from reflexion_lab.analysis.learning.calibration import Calibration, Forecast, calibration
from reflexion_lab.analysis.learning.reflections import forecasts
from reflexion_lab.analysis.report import cells
from reflexion_lab.analysis.stats.intervals import methods
from reflexion_lab.errors import ConfigError

BARS, FLOOR = 0.2, -0.32
"""Bars of n in a reliability diagram: height of the highest, and their base line below the shares."""
COLUMNS = ("arm", "feedback_source", "source", "from_confidence", "to_confidence", "confidence", "k", "n", "share",
           "low", "high", "brier")  # fmt: skip


def reliability(calibrated: Calibration, ax: Axes, label: str = "") -> Axes:
    """Draw the share of passes after reflections of each confidence, with intervals, and bars of n below.

    On the diagonal, confidence is calibrated; below it, too high.
    """
    confidences = [group.confidence for group in calibrated.bins]
    highest = max(group.came_true.n for group in calibrated.bins)
    for group in calibrated.bins:
        height, middle = BARS * group.came_true.n / highest, (group.low + group.high) / 2
        width = max(0.9 * (group.high - group.low), 0.02)
        ax.bar(middle, height, width, bottom=FLOOR, color=FAINT, gid="n", zorder=1)
        look = {"textcoords": "offset points", "ha": "center", **SMALL}
        ax.annotate(str(group.came_true.n), (middle, FLOOR + height), (0, 2), **look)
    ax.plot((0, 1), (0, 1), color=INK, linewidth=0.9, linestyle=(0, (4, 3)), zorder=2, gid="diagonal")
    bars(confidences, [group.came_true for group in calibrated.bins], COLOURS[0], ax)
    dots: Style = {"marker": "o", "markersize": 7, "markeredgecolor": "white", "linewidth": 1.2}
    shares = [group.came_true.share for group in calibrated.bins]
    ax.plot(confidences, shares, color=COLOURS[0], gid="shares", zorder=4, **dots)
    score = f"Brier {cells.estimate(calibrated.brier, digits=3, scale=1)}"
    ax.set_title(f"{label}\n{score}".strip(), loc="left", fontsize=9, color=INK)
    ax.set(xlim=(-0.02, 1.02), ylim=(FLOOR, 1.02), yticks=(0, 0.25, 0.5, 0.75, 1), xlabel="confidence")
    ax.set_ylabel("share of next attempts that passed", loc="top")
    return frame(ax, "both")


MISSING = "no reflection with a confidence that the next attempt read", "reflector=llm or rules"


@figure(80, FEW, is_single=True, missing=MISSING)
def drawing(arms: Sequence[Arm], source: str | None = None) -> Drawing | None:
    """A panel for each arm with reflections of known confidence that the next attempt read; None without any.

    `source` of the confidence (`analysis.learning.reflections.forecasts`) is by default the most frequent of an arm.
    Raises ConfigError: there is no such source.
    """
    figures: dict[Arm, tuple[str, Calibration]] = {}
    for arm in arms:
        by_source: dict[str, list[Forecast]] = {}
        for log in arm.logs:
            for name, own in forecasts(log).items():
                by_source.setdefault(name, []).extend(own)
        if by_source:
            selected = source or max(by_source, key=lambda name: len(by_source[name]))
            if selected not in by_source:
                raise ConfigError("source", repr(selected), f"one of {', '.join(by_source)}")
            figures[arm] = selected, calibration(by_source[selected])
    if not figures:
        return None
    rows = [
        (arm.label, arm.feedback_source, name, part.low, part.high, part.confidence, part.came_true.k, part.came_true.n,
         part.came_true.share, part.came_true.low, part.came_true.high, calibrated.brier.value)
        for arm, (name, calibrated) in figures.items()
        for part in calibrated.bins
    ]  # fmt: skip
    intervals = methods(part.came_true for _, calibrated in figures.values() for part in calibrated.bins)
    text = f"{facts(list(figures))} 95 % intervals: {intervals}. Bars: number of reflections; dashed: calibrated."
    panels = [partial(reliability, each, label=f"{arm.label}, {name}") for arm, (name, each) in figures.items()]
    size, title = (4.8, 4.2), "Confidence of reflections"
    return Drawing("calibration", title, panels, COLUMNS, rows, text, size)
