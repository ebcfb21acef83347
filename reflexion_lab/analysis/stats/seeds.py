"""Intervals for other tasks and other seeds: a two-way layout with random tasks and random seeds.

An interval over tasks holds at the seeds of the runs. What a seed does to an arm on all tasks alike is a variance of
its own, which more tasks do not reduce.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from reflexion_lab.analysis.stats.bootstrap import linearised
from reflexion_lab.analysis.stats.clusters import Clusters, places
from reflexion_lab.analysis.stats.intervals import LEVEL, adjusted, agreement, t_quantile
from reflexion_lab.errors import ConfigError
from reflexion_lab.io.arrays import ArrayLike, Floats, np

SEEDS = 3
"""Fewest seeds. With two that shift an arm by 6 points, simulated coverage falls to 88 %, at a width of 60 points."""


def by_seed(differences: Iterable[tuple[Any, int, float]], clusters: Clusters) -> Floats:
    """Contribution of each cluster at each seed to the mean over cases, shape (clusters, seeds); NaN without a case.

    Without clusters: the difference of each task at each seed. `differences`: task, seed and difference of each case.
    """
    cases = list(differences)
    rows, columns = places((task for task, _, _ in cases), clusters), sorted({seed for _, seed, _ in cases})
    sums, counts = np.zeros((2, max(rows.values(), default=-1) + 1, len(columns)))
    for task, seed, difference in cases:
        place = rows[task], columns.index(seed)
        sums[place] += difference
        counts[place] += 1
    value, present = sums.sum() / counts.sum(), counts > 0
    return np.where(present, value + (sums - value * counts) / counts[present].mean(), np.nan)


def widened(
    interval: tuple[float, float], differences: ArrayLike, level: float = LEVEL, seeds_of: ArrayLike | None = None
) -> tuple[float, float]:
    """The interval of a mean difference over tasks, widened so that it holds for other seeds, too.

    Its variance is that of `intervals.over_tasks` plus that of seeds, max(0, MS(seeds) - MS(residual)) / (tasks *
    seeds), from the mean squares of a two-way analysis of variance without replication. Student's t has Satterthwaite's
    degrees of freedom (1946, Biometrics Bulletin 2:110-114): that of seeds counts with seeds - 1. Owen's pigeonhole
    variance (2007, Annals of Applied Statistics 1:386-411) does not subtract the residual; it is wider at 10 seeds, and
    its coverage is lower at 3 (to 90 %). Simulated coverage: docs/method.md. Raises ConfigError: fewer than `SEEDS`
    seeds, or fewer than two tasks at all of them. Returns low, high in [-1, 1], about the same centre. `interval`: low,
    high of the interval over tasks at `level`. `differences`: shape (tasks, seeds), values in [-1, 1]. Tasks that lack
    a seed do not count. `seeds_of`: `by_seed`, where a row of `differences` holds all cases of a cluster and its
    columns are no seeds.
    """
    every = np.asarray(differences, float)
    cases = every if seeds_of is None else np.asarray(seeds_of, float)
    cases = cases[np.isfinite(cases).all(axis=1)]
    tasks, seeds = cases.shape
    if seeds < SEEDS:
        raise ConfigError("seeds", seeds, f"{SEEDS} or more")
    if tasks < 2:
        raise ConfigError("tasks", f"{tasks} at all seeds", "the same tasks at every seed")
    by_seed = cases.mean(axis=0)
    rest = cases - cases.mean(axis=1, keepdims=True) - by_seed + cases.mean()
    of_seeds = by_seed.var(ddof=1) / seeds
    of_rest = (rest**2).sum() / ((tasks - 1) * (seeds - 1)) / (tasks * seeds)
    of_tasks = adjusted(linearised(every)[1], agreement(every))[1] ** 2
    variance = of_tasks + max(0.0, of_seeds - of_rest)
    parts = ((of_tasks, tasks - 1), (of_seeds, seeds - 1), (of_rest, (tasks - 1) * (seeds - 1)))
    freedom = variance**2 / sum(part**2 / df for part, df in parts)
    ratio = t_quantile(freedom, level) / t_quantile(tasks - 1, level) * math.sqrt(variance / of_tasks)
    ratio = max(1.0, ratio)
    centre, half = (interval[0] + interval[1]) / 2, (interval[1] - interval[0]) / 2
    return max(-1.0, centre - ratio * half), min(1.0, centre + ratio * half)
