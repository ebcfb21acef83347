"""A p value for paired shares whose cases share tasks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from reflexion_lab.analysis.stats.bootstrap import DRAWS, interval
from reflexion_lab.analysis.stats.intervals import Estimate
from reflexion_lab.errors import ConfigError

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import ArrayLike, NDArray


def sign_flip(first: ArrayLike, second: ArrayLike) -> float:
    """Two-sided p of "the sides could change places at any task": exact, by all flips of the tasks' signs.

    Fisher's randomisation test for pairs (Fisher 1935, The Design of Experiments, section 21), the task as the pair: a
    task's cases flip together, however many seeds it has. With one seed it is McNemar's exact test
    (`intervals.mcnemar`). 1.0 where no task differs.

    Parameters
    ----------
    first, second : ArrayLike
        One shape (tasks, seeds), 0 or 1, not a number where a case is absent; rows and columns of the
        same tasks and seeds.

    Raises
    ------
    ConfigError
        Shapes that differ, or values other than 0 and 1.
    """
    import numpy as np

    first_outcomes, second_outcomes = np.asarray(first, float), np.asarray(second, float)
    if first_outcomes.ndim != 2 or first_outcomes.shape != second_outcomes.shape:
        raise ConfigError(
            "first and second", f"shapes {first_outcomes.shape} and {second_outcomes.shape}", "one, (tasks, seeds)"
        )
    if not np.isin([first_outcomes, second_outcomes], [0, 1]).__or__(np.isnan([first_outcomes, second_outcomes])).all():
        raise ConfigError("first and second", "a value other than 0 and 1", "verdicts")
    sums = np.nansum(second_outcomes - first_outcomes, axis=1).astype(int)
    sizes, often = np.unique(np.abs(sums[sums != 0]), return_counts=True)
    chances = np.ones(1)
    for size, count in zip(sizes.tolist(), often.tolist(), strict=True):
        chances = np.convolve(chances, _flips(size, count))
    centre = len(chances) // 2  # chances[centre + s] is that of a sum s
    extreme = abs(int(sums.sum()))
    if not extreme:
        return 1.0
    return min(1.0, float(2 * chances[centre + extreme :].sum()))


def _flips(size: int, count: int) -> NDArray[float64]:
    """Chances of the sums, from -size * count on, of `count` numbers that are size or -size, each with chance 1/2."""
    import numpy as np
    from scipy.special import gammaln

    ups = np.arange(count + 1)
    logs = gammaln(count + 1) - gammaln(ups + 1) - gammaln(count - ups + 1) - count * np.log(2)
    sums = np.zeros(2 * size * count + 1)
    sums[:: 2 * size] = np.exp(logs)
    return sums


def holm(p_values: Sequence[float]) -> list[float]:
    """P values adjusted for their family, in the order given: each may be held against the level of a single test.

    Holm 1979 (Scandinavian Journal of Statistics 6:65-70): the i-th smallest of m is multiplied by m - i + 1, and none
    may fall below a smaller one. The chance of any false finding in the family stays below the level, however the tests
    depend on each other.

    Raises
    ------
    ConfigError
        A value outside [0, 1].
    """
    if odd := [p for p in p_values if not 0 <= p <= 1]:
        raise ConfigError("p_values", odd[0], "numbers in [0, 1]")
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    grown = [min(1.0, (len(order) - i) * p_values[place]) for i, place in enumerate(order)]
    by_place = dict(zip(order, accumulate(grown, max), strict=True))
    return [by_place[place] for place in range(len(order))]


def pass_at_k(n: int, c: int, k: int) -> float:
    """Unbiased, of one task: 1 - C(n - c, k) / C(n, k) (Chen et al. 2021, arXiv 2107.03374, equation 1).

    The draws must be independent and alike: the attempts of a Reflexion loop are neither.

    Parameters
    ----------
    n : int
        Draws made. c: those that passed. k: at most n.

    Raises
    ------
    ConfigError
        Not 0 <= c <= n, or not 1 <= k <= n.
    """
    if not 0 <= c <= n:
        raise ConfigError("c", f"{c} of n = {n}", "0 <= c <= n")
    if not 1 <= k <= n:
        raise ConfigError("k", f"{k} of n = {n}", "1 <= k <= n", "k draws cannot be judged by fewer")
    return 1 - math.comb(n - c, k) / math.comb(n, k)


def mean_pass_at_k(samples: Sequence[tuple[int, int]], k: int, seed: int = 0, draws: int = DRAWS) -> Estimate:
    """The mean over tasks, its interval over tasks; see `bootstrap.interval`.

    Parameters
    ----------
    samples : Sequence[tuple[int, int]]
        (n, c) of each task.

    Raises
    ------
    ConfigError
        No task, or as `pass_at_k`.
    """
    return interval([[pass_at_k(n, c, k)] for n, c in samples] or [[math.nan]], seed, draws)
