"""Readers of reflections, and the difference of their success to a base rate, clustered by the clusters of tasks.

Attempts that read a reflection differ from others in more than the reading: harder tasks are retried more often. Within
one run the difference is descriptive; the effect of reflections is the difference of arms with and without them.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import NamedTuple

from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.stats.bootstrap import MIN_TASKS, rate
from reflexion_lab.analysis.stats.clusters import ALONE, Clusters, count, places
from reflexion_lab.analysis.stats.estimators import verdict
from reflexion_lab.analysis.stats.intervals import LEVEL, Estimate, resampled, unpaired_difference
from reflexion_lab.errors import ConfigError
from reflexion_lab.io.arrays import Floats, np
from reflexion_lab.loop.policy import with_parents
from reflexion_lab.records import Attempt, Reflection

Verdicts = Mapping[tuple[str, int], bool]
"""By task and number of the attempt, whether it passed."""


def effect(after: Verdicts, base: Verdicts, seed: int = 0, clusters: Clusters = ALONE) -> Estimate | None:
    """share(after) - share(base), in [-1, 1].

    The interval is a percentile bootstrap over clusters. If `after` or the rest of the base has fewer than `MIN_TASKS`
    clusters or equal verdicts, it is Newcombe's interval for independent shares from those of both (`bootstrap.rate`):
    with 6 of 30 clusters on one side, the coverage of the bootstrap is 77 %. Raises ConfigError: some of `after` is in
    `base` and some is not. `after`: all or none of its cases are in `base`. `clusters`: cluster by task. Returns None
    if `after` or the rest of the base is empty.
    """
    rest = {case: passed for case, passed in base.items() if case not in after}
    inside = len(base) - len(rest)
    if inside not in (0, len(after)):
        raise ConfigError("base", f"{inside} of {len(after)} cases", "all or none")
    if not after or not rest:
        return None
    value = fmean(after.values()) - fmean(base.values())
    sides = after, rest
    fewest = min(count((task_id for task_id, _ in side), clusters) for side in sides)
    if fewest < MIN_TASKS or len({*after.values()}) < 2 or len({*rest.values()}) < 2:
        rates = [rate(((task_id, passed) for (task_id, _), passed in side.items()), clusters) for side in sides]
        shares, others = ((each.share, each.low, each.high) for each in rates)
        low, high = (end * len(rest) / len(base) for end in unpaired_difference(shares, others))
    else:
        low, high = _bootstrap(after, base, seed, clusters)
    return Estimate.of(value, low, high)


def _bootstrap(after: Verdicts, base: Verdicts, seed: int, clusters: Clusters) -> tuple[float, float]:
    rows = places((task_id for task_id, _ in (*after, *base)), clusters)
    columns = [column for verdicts in (after, base) for column in _columns(verdicts, rows)]
    passed, cases, base_passed, base_cases = resampled(columns, f"{seed}:effect")
    with np.errstate(invalid="ignore"):  # NaN if a draw has no case
        differences = passed / cases - base_passed / base_cases
    low, high = np.nanquantile(differences, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _columns(verdicts: Verdicts, rows: Mapping[str, int]) -> list[Floats]:
    """By cluster, the number that passed, and the number of cases."""
    places_of_cases = np.array([rows[task_id] for task_id, _ in verdicts], int)
    size = max(rows.values()) + 1
    passed = np.bincount(places_of_cases, list(verdicts.values()), size)
    return [passed, np.bincount(places_of_cases, minlength=size).astype(float)]


class Written(NamedTuple):
    attempt: Attempt
    words: Reflection


class Reading(NamedTuple):
    attempt: Attempt
    before: Attempt | None
    """Previous attempt at the same task."""
    read: tuple[Written, ...]
    """Reflections of this run, in reading order."""
    reads_others: bool
    """Whether it read anything of memory but episodes of this run; such may contain reflections."""

    @property
    def passed(self) -> bool | None:
        """Feedback verdict."""
        return verdict(self.attempt.evaluation)


def readings(log: Log) -> list[Reading]:
    """Readings of every attempt of the run, in its order.

    A reflection without text was not read. Attempts record only the episodes that they read, so a session history shown
    by a recall policy is unknown.
    """
    known = {name: attempt for attempt in log.every for run_id in log.run_ids for name in _names(run_id, attempt)}
    readings = []
    for attempts in log.attempts.values():
        for before, attempt in with_parents(attempts):
            recalled = [known.get(name) for name in attempt.recalled]
            read = (
                Written(source, text)
                for source in recalled
                if source and (text := source.reflection)
                if text.root_cause or text.what_went_wrong or text.what_to_change
            )
            others = None in recalled or any(ids for kind, ids in attempt.recalled_by_kind.items() if kind != "episode")
            readings.append(Reading(attempt, before, tuple(read), others))
    return readings


def reward_change(reading: Reading) -> float | None:
    """Change of the feedback reward since the attempt that it continues; None without two verdicts."""
    if reading.passed is None or reading.before is None or verdict(reading.before.evaluation) is None:
        return None
    return reading.attempt.evaluation.reward - reading.before.evaluation.reward


def _names(run_id: str, attempt: Attempt) -> tuple[str, str]:
    """Ids of the attempt's episode: with the run id if tasks share memory, and without it."""
    return f"ep-{run_id}/{attempt.task_id}-{attempt.number}", f"ep-{attempt.task_id}-{attempt.number}"
