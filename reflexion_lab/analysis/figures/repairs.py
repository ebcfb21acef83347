"""Which classes of failure are mended, by the next attempt and by the end of the loop."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from reflexion_lab.agent.reflectors.evidence import classify_evaluation
from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.figures.drawing import FEW, Drawing, facts, figure
from reflexion_lab.analysis.figures.style import FAINT, Style, frame, look, named, note, per_cent, watermark
from reflexion_lab.analysis.learning.transitions import RepairRates, Repairs, repairs
from reflexion_lab.records import Evaluation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Until = Literal["next", "end"]
LABELS: dict[Until, str] = {"next": "mended by the next attempt", "end": "mended by the end of the loop"}
COLUMNS = ("arm", "feedback_source", "failure_class", "until", "tasks", "k", "n", "share", "low", "high")


def repair_rates(arm_rates: Sequence[RepairRates], until: Until, ax: Axes) -> Axes:
    """Draw a band a class, the most frequent on top, with a line for each arm that had such failures.

    Parameters
    ----------
    until : Until
        `next`: the next attempt's program passes the hidden tests; `end`: what was submitted does.
    """
    y = 0.0
    middles: list[float] = []
    for name in _classes(arm_rates):
        having = [(place, rates.by_class[name]) for place, rates in enumerate(arm_rates) if name in rates.by_class]
        if middles:
            ax.axhline(y - 0.35, color=FAINT, linewidth=0.7)
        middles.append(y + (len(having) - 1) / 2)
        for height, (place, class_repairs) in enumerate(having):
            _line(class_repairs, until, arm_rates[place], look(place), y + height, ax)
        y += len(having) + 0.3
    ax.set_yticks(middles, _classes(arm_rates))
    ax.set_ylim(y - 0.65, -0.65)
    per_cent(ax.xaxis)
    ax.set(xlim=(-0.02, 1.02), xlabel=f"share of failures {LABELS[until]}")
    if above := [rates.arm for rates in arm_rates if rates.is_upper_bound]:
        watermark(ax, above)
    return frame(ax, "x")


@figure(70, FEW)
def drawing(arms: Sequence[Arm], seed: int = 0, until: Sequence[Until] = ("next", "end")) -> Drawing | None:
    """A panel for each of `until`; None where no loop went on from a failure."""
    every = {arm: repairs(arm, failure_class, seed) for arm in arms}
    by_arm = {arm: rates for arm, rates in every.items() if rates.by_class}
    if not by_arm:
        return None
    rows = [
        (rates.arm, rates.feedback_source, name, way, class_repairs.tasks, it.k, it.n, it.share.value, it.share.low,
         it.share.high)
        for rates in by_arm.values()
        for name, class_repairs in rates.by_class.items()
        for way in until
        for it in [getattr(class_repairs, way)]
    ]  # fmt: skip
    rejected, unknown = (
        sum(getattr(class_repairs, field) for class_repairs in by_arm.values()) for field in ("rejected", "unknown")
    )
    text = (
        "Of the programs that fail their feedback tests and the hidden ones, and whose loop went on, the share after "
        "which the hidden tests pass: the next attempt's program, or what was submitted in the end. Class: by fixed "
        f"rules, of the first failing feedback check. k of n beside each line. {facts(list(by_arm))} 95 % intervals: "
        "bootstrap over tasks, or score intervals where few tasks speak."
        + f" Left out: {rejected} right programs that the feedback rejected." * bool(rejected)
        + f" Without a verdict: {unknown}." * bool(unknown)
    )
    lines = sum(len(rates.by_class) for rates in by_arm.values()) + 0.3 * len(_classes(list(by_arm.values())))
    panels = [functools.partial(repair_rates, list(by_arm.values()), way) for way in until]
    size = 5.4, 1.1 + 0.24 * lines
    return Drawing("repairs", "Failures mended, by class", panels, COLUMNS, rows, text, size, has_legend=True)


def failure_class(evaluation: Evaluation) -> str:
    """One of the ten classes, or `unknown`: what the rules say of the evidence, whoever reflected on it."""
    return classify_evaluation(evaluation)[0]


def _classes(arm_rates: Sequence[RepairRates]) -> list[str]:
    """The most frequent over all arms first."""
    counts = Counter[str]()
    for rates in arm_rates:
        counts.update({name: class_repairs.next.n for name, class_repairs in rates.by_class.items()})
    return sorted(counts, key=lambda name: (-counts[name], name))


def _line(class_repairs: Repairs, until: Until, rates: RepairRates, style: Style, y: float, ax: Axes) -> None:
    mended = getattr(class_repairs, until)
    note(ax, y, f"{mended.k} of {mended.n}", gap=6)
    ax.hlines(y, mended.share.low, mended.share.high, color=style["color"], linewidth=2.2, alpha=0.5)
    dot: Style = {**style, "linestyle": ""}
    ax.plot(
        mended.share.value, y, **dot, markersize=7, zorder=4, label=named(rates.arm, rates.is_upper_bound), gid="repair"
    )
