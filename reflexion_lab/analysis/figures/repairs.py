"""Share of failures repaired, by failure class."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from reflexion_lab.agent.reflectors.evidence import classify_evaluation
from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.figures.drawing import FEW, Drawing, facts, figure
from reflexion_lab.analysis.figures.style import FAINT, dot, frame, look, mark_bounds, named, note, per_cent
from reflexion_lab.analysis.learning.transitions import RepairRates, repairs
from reflexion_lab.records import Evaluation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Until = Literal["next", "end"]
LABELS: dict[Until, str] = {"next": "repaired by the next attempt", "end": "repaired by the end of the loop"}
COLUMNS = ("arm", "feedback_source", "failure_class", "until", "tasks", "k", "n", "share", "low", "high")


def repair_rates(arm_rates: Sequence[RepairRates], until: Until, ax: Axes) -> Axes:
    """Draw a band per class, the most frequent on top, with a line for each arm that had such failures. `next`: the
    next attempt's program passes the hidden tests; `end`: the submission does.
    """
    y = 0.0
    middles: list[float] = []
    names = _classes(arm_rates)
    for name in names:
        having = [(place, rates.by_class[name]) for place, rates in enumerate(arm_rates) if name in rates.by_class]
        if middles:
            ax.axhline(y - 0.35, color=FAINT, linewidth=0.7)
        middles.append(y + (len(having) - 1) / 2)
        for height, (place, class_repairs) in enumerate(having):
            counts, rates = getattr(class_repairs, until), arm_rates[place]
            note(ax, y + height, f"{counts.k} of {counts.n}", gap=6)
            label = named(rates.arm, rates.is_upper_bound)
            dot(counts.share.value, counts.share, y + height, ax, **look(place), label=label, gid="repair")
        y += len(having) + 0.3
    ax.set_yticks(middles, names)
    ax.set_ylim(y - 0.65, -0.65)
    per_cent(ax.xaxis)
    ax.set(xlim=(-0.02, 1.02), xlabel=f"share of failures {LABELS[until]}")
    mark_bounds(ax, [rates.arm for rates in arm_rates if rates.is_upper_bound], height=0.5)
    return frame(ax, "x")


@figure(70, FEW)
def drawing(arms: Sequence[Arm], seed: int = 0, until: Sequence[Until] = ("next", "end")) -> Drawing | None:
    """A panel for each of `until`; None where no loop continued after a failure."""
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
        f"{facts(list(by_arm))} 95 % intervals: bootstrap over tasks; k of n beside each."
        + f" Left out: {rejected} right programs that the feedback rejected." * bool(rejected)
        + f" Without a verdict: {unknown}." * bool(unknown)
    )
    method = (
        "Of the programs that fail both feedback and hidden tests, and whose loop continued, the share repaired: the "
        "next attempt's program, or the submission, passes the hidden tests. Class: by fixed rules, of the first "
        "failing feedback check. Score intervals where there are few tasks."
    )
    lines = sum(len(rates.by_class) for rates in by_arm.values()) + 0.3 * len(_classes(list(by_arm.values())))
    panels = [functools.partial(repair_rates, list(by_arm.values()), way) for way in until]
    size, title = (5.4, 1.1 + 0.24 * lines), "Failures repaired, by class"
    return Drawing("repairs", title, panels, COLUMNS, rows, text, size, has_legend=True, method=method)


def failure_class(evaluation: Evaluation) -> str:
    """The failure class by fixed rules on the evidence, whatever wrote the reflection; or `unknown`."""
    return classify_evaluation(evaluation)[0]


def _classes(arm_rates: Sequence[RepairRates]) -> list[str]:
    """The most frequent over all arms first."""
    counts = Counter[str]()
    for rates in arm_rates:
        counts.update({name: class_repairs.next.n for name, class_repairs in rates.by_class.items()})
    return sorted(counts, key=lambda name: (-counts[name], name))
