"""Outcomes of cases as the clusters that intervals are made of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from reflexion_lab.analysis.arms import Case

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray


def by_task(outcomes: Iterable[tuple[Case, bool]]) -> NDArray[float64]:
    """A row a task, sorted: 0 and 1, shape (tasks, most outcomes that a task has); not a number where one has fewer.

    It is what `statistics.bootstrap.interval` takes.
    """
    import numpy as np

    rows: dict[str, list[bool]] = {}
    for case, outcome in outcomes:
        rows.setdefault(case.task_id, []).append(outcome)
    outcomes_by_task = np.full((len(rows), max(map(len, rows.values()), default=0)), np.nan)
    for place, task_id in enumerate(sorted(rows)):
        outcomes_by_task[place, : len(rows[task_id])] = rows[task_id]
    return outcomes_by_task
