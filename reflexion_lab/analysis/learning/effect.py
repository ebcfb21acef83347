"""Did those that read reflections pass more often than the base? A difference of two shares whose cases share tasks.

Who read differs from who did not in more than the reading: harder tasks are retried more often. Within one run this
describes and explains nothing; what reflections are worth is said by arms on the same tasks, with and without them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from reflexion_lab.analysis.stats.intervals import LEVEL, Estimate, apart, clustered, resampled
from reflexion_lab.errors import ConfigError

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

FEWEST = 10
"""Tasks on each side that the bootstrap needs: with 30 tasks, 6 of them on one side, its 95 % hold 77."""

Verdicts = Mapping[tuple[str, int], bool]
"""By task and number of the attempt, whether it passed."""


def effect(after: Verdicts, base: Verdicts, seed: int = 0) -> Estimate | None:
    """share(after) - share(base), in [-1, 1].

    The interval is the bootstrap over tasks (percentiles of 2,000 draws; both shares from the same drawn tasks). Where
    a side, `after` or the rest of the base, has fewer than `FEWEST` tasks, or never varied, there is too little to draw
    from, and Newcombe's interval for separate shares takes its place, each with as many cases as its clusters are worth
    at least (`intervals.effective`).

    Parameters
    ----------
    after : Verdicts
        Part of `base`, or none of it.

    Returns
    -------
    Estimate | None
        None where there is nothing to compare: no case after, or no other case in the base.

    Raises
    ------
    ConfigError
        Some of `after` is in `base` and some is not.
    """
    rest = {case: passed for case, passed in base.items() if case not in after}
    inside = len(base) - len(rest)
    if inside not in (0, len(after)):
        raise ConfigError("base", f"{inside} of {len(after)} cases", "all or none")
    if not after or not rest:
        return None
    value = _share(after) - _share(base)
    if min(len(_tasks(after)), len(_tasks(rest))) < FEWEST or len({*after.values()}) < 2 or len({*rest.values()}) < 2:
        low, high = (end * len(rest) / len(base) for end in apart(_wilson(after), _wilson(rest)))
    else:
        low, high = _bootstrap(after, base, seed)
    return Estimate(value=value, low=min(low, value), high=max(high, value))


def _share(verdicts: Verdicts) -> float:
    return sum(verdicts.values()) / len(verdicts)


def _tasks(verdicts: Verdicts) -> dict[str, list[bool]]:
    by_task: dict[str, list[bool]] = {}
    for (task_id, _), passed in verdicts.items():
        by_task.setdefault(task_id, []).append(passed)
    return by_task


def _wilson(verdicts: Verdicts) -> tuple[float, float, float]:
    share = _share(verdicts)
    return share, *clustered(share, [len(outcomes) for outcomes in _tasks(verdicts).values()])


def _bootstrap(after: Verdicts, base: Verdicts, seed: int) -> tuple[float, float]:
    import numpy as np

    tasks = sorted({task_id for task_id, _ in (*after, *base)})
    columns = [column for verdicts in (after, base) for column in _columns(verdicts, tasks)]
    passed, cases, base_passed, base_cases = resampled(columns, f"{seed}:effect")
    with np.errstate(invalid="ignore"):  # not a number where a draw has no case
        differences = passed / cases - base_passed / base_cases
    low, high = np.nanquantile(differences, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _columns(verdicts: Verdicts, tasks: Collection[str]) -> list[NDArray[float64]]:
    """By task, how many passed, of how many."""
    import numpy as np

    by_task = _tasks(verdicts)
    return [np.array([float(of(by_task.get(task_id, []))) for task_id in tasks]) for of in (sum, len)]
