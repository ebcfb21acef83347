"""Bootstrap intervals of shares of cases. A case is one task at one seed; the cases of a task are one cluster.

Tasks are resampled with all of their seeds (Efron 1979, Annals of Statistics 7:1-26; clusters: Davison and Hinkley
1997, Bootstrap Methods and their Application, section 3.8); the interval is a percentile interval. With fewer than
`MIN_TASKS` tasks on one side, percentile intervals are too narrow or have no width, and a Wilson interval replaces
them. Where tasks share a cluster, a row of an array holds all cases of the cluster (`clusters.by_cluster`), and
clusters take the place of tasks. Differences use `intervals.over_tasks` without resampling.

P-values do not come from the draws, which are centred on the data and not on the null hypothesis, but from
`permutation.sign_flip`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from reflexion_lab.analysis.stats.clusters import ALONE, Clusters, are_shared, by_cluster
from reflexion_lab.analysis.stats.intervals import LEVEL, TOLERANCE, Estimate, Rate, agreement, clustered, over_tasks
from reflexion_lab.errors import ConfigError

if TYPE_CHECKING:
    from numpy import float64, int64
    from numpy.random import Generator
    from numpy.typing import ArrayLike, NDArray

DRAWS = 10_000
MIN_TASKS = 10
"""Minimum number of tasks on each side for a percentile interval."""


def interval(outcomes: ArrayLike, seed: int = 0, draws: int = DRAWS) -> Estimate:
    """Share of cases that passed, in [0, 1].

    The interval generalises to other tasks at the same seeds. It is a Wilson interval with the effective sample size
    (`intervals.clustered`) if fewer than `MIN_TASKS` tasks ever passed, fewer ever failed, or all passed equally often.
    Simulated coverage with 10 to 164 tasks is 93 to 99 %; percentiles alone fall to 87 % at 164 tasks of which 98 %
    pass. Raises ConfigError: no case, another shape, or a value outside [0, 1].

    Parameters
    ----------
    outcomes : ArrayLike
        Shape (tasks, seeds), values in [0, 1]; NaN for a missing case.
    """
    sums, counts = _totals(_checked(outcomes, "outcomes"))
    value = float(sums.sum() / counts.sum())
    if _few(sums, counts):
        return Estimate.of(value, *clustered(value, [int(count) for count in counts]))
    return Estimate.of(value, *ends(_ratios(sums, counts, seed, draws)))


def rate(outcomes: Mapping[Any, bool | None], clusters: Clusters = ALONE) -> Rate:
    """Share of true outcomes among true and false ones; None is unknown and not counted.

    The interval is Wilson's if every task stands alone, else that of `interval` over clusters.

    Parameters
    ----------
    outcomes : Mapping[Any, bool | None]
        By task.
    clusters : Clusters, optional
        Cluster by task.
    """
    known = {task: outcome for task, outcome in outcomes.items() if outcome is not None}
    share = Rate.over(known.values())
    if not are_shared(known, clusters):
        return share
    outcomes_by_cluster = by_cluster(known.items(), clusters)
    estimate = interval(outcomes_by_cluster)
    return replace(share, low=estimate.low, high=estimate.high, clusters=len(outcomes_by_cluster))


def difference(first: ArrayLike, second: ArrayLike, level: float = LEVEL) -> Estimate:
    """share(second) - share(first) over the cases of both, in [-1, 1].

    The interval is `intervals.over_tasks`. A task with fewer seeds has less weight. Raises ConfigError: no case in
    both, different shapes, or a value outside [0, 1].

    Parameters
    ----------
    first, second : ArrayLike
        Same shape (tasks, seeds), same tasks and seeds, values in [0, 1]; NaN for a missing case.
    level : float, default 0.95
        Confidence level, in (0, 1).
    """
    differences = paired_differences(first, second)
    value, linear = linearised(differences)
    return Estimate.of(value, *over_tasks(linear, agreement(differences), level))


def paired_differences(first: ArrayLike, second: ArrayLike) -> NDArray[float64]:
    """Differences second - first, checked as in `difference`."""
    first_values, second_values = _checked(first, "first"), _checked(second, "second")
    if first_values.shape != second_values.shape:
        raise ConfigError(
            "second", f"shape {second_values.shape}", f"that of first, {first_values.shape}: same tasks, same seeds"
        )
    return second_values - first_values


def linearised(differences: ArrayLike) -> tuple[float, NDArray[float64]]:
    """Mean over cases, and the linearised contribution of each task that has a case: its mean over seeds, if all tasks
    have the same number of seeds.

    Raises ConfigError: no case.

    Parameters
    ----------
    differences : ArrayLike
        Shape (tasks, seeds); NaN for a missing case.
    """
    import numpy as np

    sums, counts = _totals(np.asarray(differences, float), "first and second")
    value = float(sums.sum() / counts.sum())
    return value, value + (sums - value * counts) / counts.mean()


def ratio(numerators: ArrayLike, denominators: ArrayLike, seed: int = 0, draws: int = DRAWS) -> Estimate | None:
    """sum(numerators) / sum(denominators), for example tokens per solved case.

    Raises ConfigError: different shapes, or negative values.

    Parameters
    ----------
    numerators, denominators : ArrayLike
        Shape (tasks,), at least 0: sums of each task over its seeds.

    Returns
    -------
    Estimate | None
        None if all denominators are 0. The upper end is infinite if more than 2.5 % of the draws have denominator 0.
    """
    import numpy as np

    above, below = np.asarray(numerators, float), np.asarray(denominators, float)
    if above.ndim != 1 or above.shape != below.shape or not (above >= 0).all() or not (below >= 0).all():
        raise ConfigError("numerators and denominators: expected one number of 0 or more each for every task")
    if not below.sum():
        return None
    return Estimate.of(float(above.sum() / below.sum()), *ends(_ratios(above, below, seed, draws)))


def bands(
    curves: ArrayLike, seed: int = 0, draws: int = DRAWS, clusters: Sequence[int] | None = None
) -> list[Estimate]:
    """Share of cases that passed at each attempt, with an interval over tasks and seeds.

    Tasks and seeds are resampled independently (pigeonhole bootstrap: Owen 2007, Annals of Applied Statistics
    1:386-411). Each interval is pointwise: it covers its attempt, not the whole curve. With one seed only tasks are
    resampled, and the interval does not generalise to other seeds. With S seeds the variance of effects that a seed has
    on all tasks is too small by (S - 1) / S, and the variance of effects of seeds on single tasks is up to 3 times too
    large. Simulated coverage with 60 tasks, two thirds solved: 98 % with three seeds without an effect, 94 % with three
    seeds that shift all tasks (standard deviation 5 points), 92 % with one such seed, 95 % with ten.

    Wilson intervals replace percentiles as in `interval`. Raises ConfigError: as `interval`.

    Parameters
    ----------
    curves : ArrayLike
        Shape (attempts, tasks, seeds), values in [0, 1]; NaN for a missing case.
    clusters : Sequence[int] | None, optional
        Index of the cluster of each task, from 0 without gaps (`clusters.places`); clusters are then resampled.
    """
    import numpy as np

    cases = np.asarray(curves, float)
    if cases.ndim != 3:
        raise ConfigError("curves", f"shape {cases.shape}", "(attempts, tasks, seeds)")
    groups = np.arange(cases.shape[1]) if clusters is None else np.asarray(clusters)
    in_rows = [_rows(attempt, groups) for attempt in cases]
    points = [interval(attempt, seed, draws=1) for attempt in in_rows]
    estimates = []
    for attempt, point, shares in zip(in_rows, points, _two_way(cases, groups, seed, draws).T, strict=True):
        sums, counts = _totals(attempt)
        estimates.append(point if _few(sums, counts) else Estimate.of(point.value, *ends(shares)))
    return estimates


def _rows(cases: NDArray[float64], groups: NDArray[int64]) -> NDArray[float64]:
    """Cases of tasks as cases of clusters: a row per cluster, padded with NaN."""
    pairs = zip(groups.tolist(), cases, strict=True)
    return by_cluster(((group, outcome) for group, outcomes in pairs for outcome in outcomes), ALONE)


def _checked(outcomes: ArrayLike, name: str) -> NDArray[float64]:
    import numpy as np

    values = np.asarray(outcomes, float)
    if values.ndim != 2:
        raise ConfigError(name, f"shape {values.shape}", "(tasks, seeds)")
    if ((values < 0) | (values > 1)).any():
        raise ConfigError(name, "a value outside [0, 1]", "shares of cases, or 0 and 1")
    return values


def _totals(cases: NDArray[float64], name: str = "outcomes") -> tuple[NDArray[float64], NDArray[float64]]:
    """Sum and number of cases of each task that has any."""
    import numpy as np

    counts = np.isfinite(cases).sum(axis=1)
    if not counts.any():
        raise ConfigError(name, "no case", "at least one")
    return np.nansum(cases, axis=1)[counts > 0], counts[counts > 0].astype(float)


def are_varied(differences: ArrayLike) -> bool:
    """Whether at least `MIN_TASKS` tasks differ, by different amounts. `differences` has shape (tasks,)."""
    import numpy as np

    values = np.asarray(differences, float)
    return bool((np.abs(values) > TOLERANCE).sum() >= MIN_TASKS and np.ptp(values) > TOLERANCE)


def _few(sums: NDArray[float64], counts: NDArray[float64]) -> bool:
    """Whether fewer than `MIN_TASKS` tasks ever passed or ever failed, or all passed equally often."""
    import numpy as np

    return bool(min((sums > 0).sum(), (sums < counts).sum()) < MIN_TASKS or np.ptp(sums / counts) <= TOLERANCE)


def _ratios(above: NDArray[float64], below: NDArray[float64], seed: int, draws: int) -> NDArray[float64]:
    """Ratio of the sums in every draw; infinite or NaN for denominator 0."""
    import numpy as np

    sums = resampled_sums(np.column_stack([above, below]), generator(seed, "tasks"), draws)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(sums[:, 0] / sums[:, 1])


def _two_way(cases: NDArray[float64], groups: NDArray[int64], seed: int, draws: int) -> NDArray[float64]:
    """Shares in every draw of clusters and of seeds, shape (draws, attempts)."""
    import numpy as np

    attempts, _, seeds = cases.shape
    weights = generator(seed, "seeds").multinomial(seeds, [1 / seeds] * seeds, size=draws)
    passed_and_present = np.stack([np.nan_to_num(cases), np.isfinite(cases)])
    rows = np.zeros((groups.max() + 1, passed_and_present.size // len(groups)))
    np.add.at(rows, groups, passed_and_present.transpose(2, 0, 1, 3).reshape(len(groups), -1))
    sums = resampled_sums(rows, generator(seed, "tasks"), draws).reshape(draws, 2, attempts, seeds)
    passed, present = np.einsum("dkas,ds->kda", sums, weights)
    with np.errstate(invalid="ignore"):
        return np.asarray(passed / present)


AT_ONCE = 2_000_000
"""Maximum number of weights in memory."""
FEW_KINDS = 20
"""Mean number of equal rows above which numpy's multinomial is faster than drawing single rows."""
NARROW = 64
"""Maximum number of columns for which equal rows are merged; wider rows are rarely equal, and slow to compare."""


def generator(seed: int, name: str) -> Generator:
    import numpy as np

    return np.random.default_rng(random.Random(f"{seed}:{name}").getrandbits(64))


def resampled_sums(rows: NDArray[float64], rng: Generator, draws: int) -> NDArray[float64]:
    """Column sums of `len(rows)` rows drawn with replacement; shape (draws, columns).

    Equal rows are merged into one kind with a count: the same distribution, and faster for many tasks.
    """
    import numpy as np

    kinds, counts = rows, np.ones(len(rows), int)
    if rows.shape[1] <= NARROW:
        kinds, counts = np.unique(rows, axis=0, return_counts=True)
    return np.concatenate([weighted_sums(_weights(counts, rng, size), kinds) for size in batches(draws, len(rows))])


def weighted_sums(weights: NDArray[float64], rows: NDArray[float64]) -> NDArray[float64]:
    """`weights @ rows` in one thread: BLAS threads slow small products down on a busy machine."""
    import numpy as np

    return np.asarray(np.einsum("dr,cr->dc", weights, np.ascontiguousarray(rows.T)))


def _weights(counts: NDArray[int64], rng: Generator, draws: int) -> NDArray[float64]:
    """Number of drawn rows of each kind, shape (draws, kinds)."""
    import numpy as np

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


def ends(estimates: NDArray[float64], level: float = LEVEL) -> tuple[float, float]:
    """Percentile interval at `level`, rounded outwards to drawn values; NaNs are ignored."""
    import numpy as np

    order = np.sort(estimates[~np.isnan(estimates)])
    low, high = ((len(order) - 1) * (1 - level) / 2, (len(order) - 1) * (1 + level) / 2)
    return float(order[math.floor(low)]), float(order[math.ceil(high)])
