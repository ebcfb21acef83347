"""P-values of paired shares with tasks as clusters, their correction for a family, and pass@k."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from itertools import accumulate

from reflexion_lab.analysis.stats.bootstrap import interval
from reflexion_lab.analysis.stats.clusters import ALONE, by_cluster
from reflexion_lab.analysis.stats.intervals import Estimate
from reflexion_lab.errors import ConfigError
from reflexion_lab.io.arrays import ArrayLike, Floats, np


def sign_flip(first: ArrayLike, second: ArrayLike) -> float:
    """Exact two-sided p-value of the sign-flip test: under the null, the sides are exchangeable at every task.

    Fisher's randomisation test for pairs (Fisher 1935, The Design of Experiments, section 21) with tasks as pairs: all
    seeds of a task flip together. With one seed it equals McNemar's exact test (`intervals.mcnemar`). If no task
    differs, p is 1. Raises ConfigError: different shapes, or values other than 0 and 1. `first`, `second`: same shape
    (tasks, seeds), same tasks and seeds, 0 or 1; NaN for a missing case.

    Examples
    --------
    >>> sign_flip([[0, 0], [0, 1], [0, 0]], [[1, 1], [1, 1], [1, 0]])
    0.25
    """
    sides = np.asarray(first, float), np.asarray(second, float)
    shapes = [side.shape for side in sides]
    if len(shapes[0]) != 2 or shapes[0] != shapes[1]:
        raise ConfigError("first and second", f"shapes {shapes[0]} and {shapes[1]}", "one shape (tasks, seeds)")
    if not all((np.isin(side, [0, 1]) | np.isnan(side)).all() for side in sides):
        raise ConfigError("first and second", "a value other than 0 and 1", "verdicts")
    sums = np.nansum(sides[1] - sides[0], axis=1).astype(int)
    observed = abs(int(sums.sum()))
    if not observed:
        return 1.0
    sizes, counts = np.unique(np.abs(sums[sums != 0]), return_counts=True)
    chances = np.ones(1)
    for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
        chances = np.convolve(chances, _flips(size, count))
    centre = len(chances) // 2  # the place of sum 0
    return min(1.0, float(2 * chances[centre + observed :].sum()))


def _flips(size: int, count: int) -> Floats:
    """Distribution of the sum of `count` numbers, each `size` or `-size` at random, from -size * count up."""
    from scipy.special import gammaln

    ups = np.arange(count + 1)
    logs = gammaln(count + 1) - gammaln(ups + 1) - gammaln(count - ups + 1) - count * np.log(2)
    sums = np.zeros(2 * size * count + 1)
    sums[:: 2 * size] = np.exp(logs)
    return sums


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm-adjusted p-values of a family, in input order (Holm 1979, Scandinavian Journal of Statistics 6:65-70).

    The i-th smallest of m is multiplied by m - i + 1; adjusted values do not decrease. Controls the family-wise error
    rate for any dependence of the tests. Raises ConfigError: a value outside [0, 1].

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    if odd := [p for p in p_values if not 0 <= p <= 1]:
        raise ConfigError("p_values", odd[0], "numbers in [0, 1]")
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    multiplied = [min(1.0, (len(order) - i) * p_values[place]) for i, place in enumerate(order)]
    adjusted = dict(zip(order, accumulate(multiplied, max), strict=True))
    return [adjusted[place] for place in range(len(order))]


def pass_at_k(n: int, c: int, k: int) -> float:
    """Unbiased pass@k of one task: 1 - C(n - c, k) / C(n, k) (Chen et al. 2021, arXiv 2107.03374, equation 1).

    For independent, identically distributed samples; the attempts of a Reflexion loop are neither. Raises ConfigError:
    not 0 <= c <= n, or not 1 <= k <= n. `n`: samples. `c`: samples that passed. `k`: at most n.

    Examples
    --------
    >>> round(pass_at_k(n=10, c=3, k=5), 3)
    0.917
    """
    if not 0 <= c <= n:
        raise ConfigError("c", f"{c} of n = {n}", "0 <= c <= n")
    if not 1 <= k <= n:
        raise ConfigError("k", f"{k} of n = {n}", "1 <= k <= n", "a task has a draw per seed of the arm that ran it")
    return 1 - math.comb(n - c, k) / math.comb(n, k)


def mean_pass_at_k(samples: Sequence[tuple[int, int]], k: int, clusters: Sequence[Hashable] | None = None) -> Estimate:
    """Mean pass@k over tasks with its `bootstrap.interval`.

    Raises ConfigError: no task, or as `pass_at_k`. `samples`: (n, c) of each task. `clusters`: of each task, its
    cluster; by default each task stands alone.
    """
    names = range(len(samples)) if clusters is None else clusters
    values = [(name, pass_at_k(n, c, k)) for name, (n, c) in zip(names, samples, strict=True)]
    return interval(by_cluster(values, ALONE) if values else [[math.nan]])
