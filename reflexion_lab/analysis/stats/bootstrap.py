"""Shares of cases and their differences with intervals, and bootstrap draws for what has no such interval.

A case is one task at one seed; the cases of a task are one cluster. Where tasks share a cluster, a row of an array
holds all cases of the cluster (`clusters.by_cluster`), and clusters take the place of tasks. Shares use
`intervals.of_clusters` and differences `intervals.over_tasks`, without resampling. Ratios and differences at equal
spending resample tasks with all of their seeds (Efron 1979, Annals of Statistics 7:1-26; clusters: Davison and Hinkley
1997, Bootstrap Methods and their Application, section 3.8); their intervals are percentiles.

P-values come from `permutation.sign_flip`, not from the draws, which are centred on the data, not on the null.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from reflexion_lab.analysis.stats.clusters import ALONE, Clusters, by_cluster, count, units
from reflexion_lab.analysis.stats.intervals import LEVEL, TOLERANCE, Estimate, Rate, agreement, of_clusters, over_tasks
from reflexion_lab.errors import ConfigError
from reflexion_lab.io.arrays import ArrayLike, Floats, Integers, np

DRAWS = 10_000
MIN_TASKS = 10
"""Minimum number of tasks that differ for a percentile interval."""


def interval(outcomes: ArrayLike) -> Estimate:
    """Share of cases that passed, in [0, 1], with `intervals.of_clusters` for other tasks at the same seeds.

    Raises ConfigError: no case, another shape, or a value outside [0, 1]. `outcomes`: shape (tasks, seeds), values in
    [0, 1]; NaN for a missing case.
    """
    cases = _checked(outcomes, "outcomes")
    sums, counts = _totals(cases)
    return Estimate.of(float(sums.sum() / counts.sum()), *of_clusters(sums, counts, agreement(cases)))


def rate(outcomes: Iterable[tuple[Any, bool | None]], clusters: Clusters = ALONE) -> Rate:
    """Share of true outcomes among true and false ones, with `interval` over clusters of tasks; None is not counted.

    `outcomes`: task and outcome of each case; all cases of a task are one cluster. `clusters`: cluster by task.
    """
    known = [(task, outcome) for task, outcome in outcomes if outcome is not None]
    tasks = [task for task, _ in known]
    share, n = Rate.over(outcome for _, outcome in known), count(tasks, clusters)
    if n == len(known):
        return share
    estimate = interval(by_cluster(known, clusters))
    names = units(tasks, clusters)
    return replace(share, low=estimate.low, high=estimate.high, units=f"{n} {names if n > 1 else names[:-1]}")


def difference(first: ArrayLike, second: ArrayLike, level: float = LEVEL) -> Estimate:
    """share(second) - share(first) over the cases of both, in [-1, 1].

    The interval is `intervals.over_tasks`. A task with fewer seeds has less weight. Raises ConfigError: no case in
    both, different shapes, or a value outside [0, 1]. `first`, `second`: same shape (tasks, seeds), same tasks and
    seeds, values in [0, 1]; NaN for a missing case. `level`: confidence level, in (0, 1).
    """
    differences = paired_differences(first, second)
    value, linear = linearised(differences)
    return Estimate.of(value, *over_tasks(linear, agreement(differences), level))


def paired_differences(first: ArrayLike, second: ArrayLike) -> Floats:
    """Differences second - first, checked as in `difference`."""
    first_values, second_values = _checked(first, "first"), _checked(second, "second")
    if first_values.shape != second_values.shape:
        raise ConfigError(
            "second", f"shape {second_values.shape}", f"that of first, {first_values.shape}: same tasks, same seeds"
        )
    return second_values - first_values


def linearised(differences: ArrayLike) -> tuple[float, Floats]:
    """Mean over cases, and the linearised contribution of each task that has a case: its mean over seeds, if all tasks
    have the same number of seeds.

    Raises ConfigError: no case. `differences`: shape (tasks, seeds); NaN for a missing case.
    """
    sums, counts = _totals(np.asarray(differences, float), "first and second")
    value = float(sums.sum() / counts.sum())
    return value, value + (sums - value * counts) / counts.mean()


def ratio(numerators: ArrayLike, denominators: ArrayLike, seed: int = 0, draws: int = DRAWS) -> Estimate | None:
    """sum(numerators) / sum(denominators), for example tokens per solved case.

    Raises ConfigError: different shapes, or negative values. `numerators`, `denominators`: shape (tasks,), at least 0:
    sums of each task over its seeds. Returns None if all denominators are 0. The upper end is infinite if more than 2.5
    % of the draws have denominator 0.
    """
    above, below = np.asarray(numerators, float), np.asarray(denominators, float)
    if above.ndim != 1 or above.shape != below.shape or not (above >= 0).all() or not (below >= 0).all():
        raise ConfigError("numerators and denominators: expected one number of 0 or more each for every task")
    if not below.sum():
        return None
    sums = resampled_sums(np.column_stack([above, below]), generator(seed, "tasks"), draws)
    with np.errstate(divide="ignore", invalid="ignore"):  # infinite or NaN for denominator 0
        ratios = np.asarray(sums[:, 0] / sums[:, 1])
    return Estimate.of(float(above.sum() / below.sum()), *ends(ratios))


def _checked(outcomes: ArrayLike, name: str) -> Floats:
    values = np.asarray(outcomes, float)
    if values.ndim != 2:
        raise ConfigError(name, f"shape {values.shape}", "(tasks, seeds)")
    if ((values < 0) | (values > 1)).any():
        raise ConfigError(name, "a value outside [0, 1]", "shares of cases, or 0 and 1")
    return values


def _totals(cases: Floats, name: str = "outcomes") -> tuple[Floats, Floats]:
    """Sum and number of cases of each task that has any."""
    counts = np.isfinite(cases).sum(axis=1)
    if not counts.any():
        raise ConfigError(name, "no case", "at least one")
    return np.nansum(cases, axis=1)[counts > 0], counts[counts > 0].astype(float)


def are_varied(differences: ArrayLike) -> bool:
    """Whether at least `MIN_TASKS` tasks differ, by different amounts. `differences` has shape (tasks,)."""
    values = np.asarray(differences, float)
    return bool((np.abs(values) > TOLERANCE).sum() >= MIN_TASKS and np.ptp(values) > TOLERANCE)


AT_ONCE = 2_000_000
"""Maximum number of weights in memory."""
FEW_KINDS = 20
"""Mean number of equal rows above which numpy's multinomial is faster than drawing single rows."""
NARROW = 64
"""Maximum number of columns for which equal rows are merged; wider rows are rarely equal, and slow to compare."""


def generator(seed: int, name: str) -> np.random.Generator:
    return np.random.default_rng(random.Random(f"{seed}:{name}").getrandbits(64))


def resampled_sums(rows: Floats, rng: np.random.Generator, draws: int) -> Floats:
    """Column sums of `len(rows)` rows drawn with replacement; shape (draws, columns).

    Equal rows are merged into one kind with a count: the same distribution, and faster for many tasks.
    """
    kinds, counts = rows, np.ones(len(rows), int)
    if rows.shape[1] <= NARROW:
        kinds, counts = np.unique(rows, axis=0, return_counts=True)
    return np.concatenate([weighted_sums(_weights(counts, rng, size), kinds) for size in batches(draws, len(rows))])


def weighted_sums(weights: Floats, rows: Floats) -> Floats:
    """`weights @ rows` in one thread: BLAS threads slow small products down on a busy machine."""
    return np.asarray(np.einsum("dr,cr->dc", weights, np.ascontiguousarray(rows.T)))


def _weights(counts: Integers, rng: np.random.Generator, draws: int) -> Floats:
    """Number of drawn rows of each kind, shape (draws, kinds)."""
    kinds, rows = len(counts), int(counts.sum())
    if kinds * FEW_KINDS < rows:
        return rng.multinomial(rows, counts / rows, size=draws).astype(float)
    kind_of = np.repeat(np.arange(kinds), counts)
    chosen = kind_of[rng.integers(0, rows, size=(draws, rows))] + kinds * np.arange(draws)[:, None]
    return np.bincount(chosen.ravel(), minlength=draws * kinds).reshape(draws, kinds).astype(float)


def batches(draws: int, width: int) -> list[int]:
    """Batch sizes that add up to `draws`; a batch has at most `AT_ONCE` numbers, `width` per draw."""
    limit = max(1, AT_ONCE // width)
    return [min(limit, draws - start) for start in range(0, draws, limit)]


def ends(estimates: Floats, level: float = LEVEL) -> tuple[float, float]:
    """Percentile interval at `level`, rounded outwards to drawn values; NaNs are ignored."""
    order = np.sort(estimates[~np.isnan(estimates)])
    low, high = ((len(order) - 1) * (1 - level) / 2, (len(order) - 1) * (1 + level) / 2)
    return float(order[math.floor(low)]), float(order[math.ceil(high)])
