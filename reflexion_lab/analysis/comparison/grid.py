"""The arms of a sweep over config keys: its default cell, and its best, which was chosen among all."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.comparison.grouping import values_of
from reflexion_lab.analysis.stats.bootstrap import linearised
from reflexion_lab.analysis.stats.clusters import by_cluster, merged
from reflexion_lab.analysis.stats.intervals import LEVEL, Estimate, agreement, over_tasks
from reflexion_lab.records import Record
from reflexion_lab.runner.config.build import plain
from reflexion_lab.runner.config.choices import CONF, by_choice


class Best(Record, frozen=True, kw_only=True):
    """The cell with the highest share solved, and what all cells differ from the baseline, as run."""

    arm: str
    share: float
    difference: Estimate | None
    """Of the best cell to the baseline; its interval holds for all cells together. None if that is the best."""
    cells: int
    differing: int
    """Cells whose interval leaves 0 out."""


def best_cell(arms: Sequence[Arm], base: Arm) -> Best | None:
    """None for fewer than three cells of one name. Intervals are `intervals.over_tasks` at 1 - 0.05 / m (Bonferroni)
    for m cells beside the baseline; cells that solved the same cases count once.
    """
    cells = {arm.label: arm.verdicts() for arm in arms if not arm.is_upper_bound}
    if len(cells) < 3 or len({label.partition(" ")[0] for label in cells}) > 1 or not values_of(base.label):
        return None
    known, clusters = cells[base.label], merged(*(arm.clusters for arm in arms))
    level = 1 - (1 - LEVEL) / max(1, len({tuple(sorted(each.items())) for each in cells.values()}) - 1)
    differences: dict[str, Estimate] = {}
    for label, verdicts in cells.items():
        pairs = ((case.task_id, own - known[case]) for case, own in sorted(verdicts.items()) if case in known)
        value, linear = linearised(cases := by_cluster(pairs, clusters))
        differences[label] = Estimate.of(value, *over_tasks(linear, agreement(cases), level))
    share, _, best = max((fmean(each.values()), label == base.label, label) for label, each in cells.items())
    own, differing = differences[best], sum(not each.low <= 0 <= each.high for each in differences.values())
    difference = own if best != base.label else None
    return Best(arm=best, share=share, difference=difference, cells=len(cells), differing=differing)


def default_cell(labels: Sequence[str]) -> str | None:
    """The label whose swept keys have the default values of the lab; None without one, or if fewer than 2 vary."""
    cells = {label: values_of(label) for label in labels}
    names = {label.partition(" ")[0] for label in labels}
    if len({key for cell in cells.values() for key in cell}) < 2 or len(names) > 1:
        return None
    from reflexion_lab.runner.config.compose import compose

    experiments = [f"experiment={name}" for name in names if (CONF / "experiment" / f"{name}.yaml").is_file()]
    (own,) = by_choice([(plain(compose(*experiments)), ())])
    return next((label for label, cell in cells.items() if all(str(own.get(k)) == cell[k] for k in cell)), None)
