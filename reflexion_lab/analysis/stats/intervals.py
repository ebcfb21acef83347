"""Intervals and tests for counts of solved tasks. Tasks are the unit; n is their number."""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Iterator, Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING

from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Record

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import ArrayLike, NDArray

LEVEL = 0.95
"""Confidence level of every interval that the lab prints."""
PAIRED = "adjusted t over tasks"
"""What tables call the interval of a paired difference (`over_tasks`)."""
ADDED = 1.3
"""Discordant pairs of tasks added to a paired difference: all designs of `bench/coverage.py` are then covered in 93 %
or more; with 1, as Agresti and Min have it, it falls to 92 %.
"""
DIGITS = 12
"""Of an interval by sums, which differ in their last digits by the order of tasks."""
RESAMPLES = 2000
"""Bootstrap samples; the ends of an interval then move by less than a twentieth of its width between seeds."""
HELD = 4_000_000
"""Numbers of a table of draws that are held at once, 32 MB."""


class Rate(Record, frozen=True, kw_only=True):
    """A share with its numerator, its denominator and its Wilson 95 % interval."""

    k: int
    n: int
    share: float
    """k / n, in [0, 1]; 0.0 where n is 0, and then the interval is all of [0, 1]."""
    low: float
    high: float

    @classmethod
    def of(cls, k: int, n: int) -> Rate:
        low, high = wilson(k, n)
        return cls(k=k, n=n, share=k / n if n else 0.0, low=low, high=high)


class Estimate(Record, frozen=True, kw_only=True):
    """A figure, or a difference of two, with its 95 % interval."""

    value: float
    low: float
    high: float


def wilson(k: int, n: int, level: float = LEVEL) -> tuple[float, float]:
    """The score interval for a share of `k` in `n` (Wilson 1927, JASA 22:209-212), no continuity correction.

    Returns
    -------
    tuple[float, float]
        Low, high in [0, 1]; (0, 1) where n is 0, since nothing is known.

    Raises
    ------
    ConfigError
        Not 0 <= k <= n, or a level outside (0, 1).
    """
    if not 0 <= k <= n:
        raise ConfigError("k", f"{k} of n = {n}", "0 <= k <= n")
    if not 0 < level < 1:
        raise ConfigError("level", level, "a number in (0, 1), such as 0.95")
    if n == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + level) / 2)
    share = k / n
    centre = share + z * z / (2 * n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    # rounding would leave the ends that are 0 and 1 by algebra a hair beside them
    return (centre - half) / scale if k else 0.0, (centre + half) / scale if k < n else 1.0


def mcnemar(b: int, c: int) -> float:
    """Two-sided p of McNemar's test (McNemar 1947, Psychometrika 12:153-157), exact: binomial with share 1/2.

    `b` and `c` count the discordant pairs: solved by one side alone, and by the other alone. 1.0 without any.

    Raises
    ------
    ConfigError
        A negative count.
    """
    if b < 0 or c < 0:
        raise ConfigError("discordant pairs", f"{b} and {c}", "counts of 0 or more")
    pairs = b + c
    tail = sum(math.comb(pairs, i) for i in range(min(b, c) + 1))
    return min(1.0, tail / (1 << pairs) * 2)


def paired_difference(n11: int, n10: int, n01: int, n00: int) -> tuple[float, float]:
    """`over_tasks` from the counts of a paired table: of share(second) - share(first), (n01 - n10) / n.

    Parameters
    ----------
    n11 : int
        Solved by both. n10: by the first alone. n01: by the second alone. n00: by neither.

    Returns
    -------
    tuple[float, float]
        Low, high in [-1, 1]; (-1, 1) where there is no task.
    """
    return over_tasks([0.0] * (n11 + n00) + [-1.0] * n10 + [1.0] * n01)


def over_tasks(differences: ArrayLike, scale: float = 1.0) -> tuple[float, float]:
    """Interval of the mean of tasks' differences: Student's t with `ADDED` discordant pairs of tasks.

    A pair, half a task at `scale` and half at -`scale`, is Agresti's and Min's (2005, Statistics in Medicine
    24:729-740), with tasks for cases: a plain t over tasks has no width where no task differs, and covers 17 to 94 %
    where few do. With C tasks the variance is that of C + `ADDED` clusters, the quantile that of C - 1 degrees of
    freedom. Simulated coverage and width: docs/method.md.

    Parameters
    ----------
    differences : ArrayLike
        Shape (tasks,), each a task's mean over its seeds, in [-1, 1].
    scale : float, default 1.0
        What the mean of a task without any effect can reach, in (0, 1]; see `agreement`.

    Returns
    -------
    tuple[float, float]
        Low, high in [-1, 1]; (-1, 1) for fewer than two tasks.
    """
    import numpy as np
    from scipy.special import stdtrit

    means = np.asarray(differences, float)
    tasks = len(means)
    if tasks < 2:
        return -1.0, 1.0
    clusters = tasks + ADDED
    centre = means.sum() / clusters
    squares = ((means - centre) ** 2).sum() + ADDED * (scale**2 + centre**2)
    half = stdtrit(tasks - 1, (1 + LEVEL) / 2) * math.sqrt(squares / (clusters - 1) / clusters)
    low, high = max(-1.0, centre - half), min(1.0, centre + half)
    return round(float(low), DIGITS), round(float(high), DIGITS)


def agreement(differences: ArrayLike) -> float:
    """What K seeds leave of a discordant case in its task's mean: sqrt((1 + (K - 1) r) / K), in (0, 1].

    r is the intraclass correlation of a task's seeds, by analysis of variance: 1 where seeds never differ within a
    task, so that K of them are worth one.

    Parameters
    ----------
    differences : ArrayLike
        Shape (tasks, seeds), not a number where a case is absent.
    """
    import numpy as np

    cases = np.asarray(differences, float)
    counts = np.isfinite(cases).sum(axis=1)
    cases, counts = cases[counts > 0], counts[counts > 0]
    seeds = counts.mean()
    repeated = counts > 1
    if not repeated.any() or len(cases) < 2:
        return 1.0
    within = np.nanvar(cases[repeated], axis=1, ddof=1).mean()
    between = max(0.0, float(np.nanmean(cases, axis=1).var(ddof=1) - within / seeds))
    correlation = between / (between + within) if between + within > 0 else 1.0
    return float(np.sqrt((1 + (seeds - 1) * correlation) / seeds))


def effective(sizes: Sequence[int]) -> int:
    """Independent cases that clusters of these sizes are worth at least: (sum of sizes)² / (sum of squared sizes).

    Kish 1965 (Survey Sampling) for the worst case, in which all cases of a task have one answer; never too narrow.
    The number of cases where every task has one.

    Raises
    ------
    ConfigError
        There is no case.
    """
    if not sum(sizes):
        raise ConfigError("clusters", "no case in any", "at least one")
    return max(1, sum(sizes) ** 2 // sum(size**2 for size in sizes))


def clustered(share: float, sizes: Sequence[int]) -> tuple[float, float]:
    """Wilson's interval for a share of cases in clusters of these sizes, discounted to `effective` ones.

    Raises
    ------
    ConfigError
        There is no case.
    """
    n = effective(sizes)
    low, high = wilson(round(share * n), n)
    return min(low, share), max(high, share)  # Wilson's k is a whole number: the share itself may lie a little beside


def unpaired_difference(first: tuple[float, float, float], second: tuple[float, float, float]) -> tuple[float, float]:
    """Interval for the difference, first - second, of two shares of separate cases.

    Newcombe's hybrid score interval (Newcombe 1998, Statistics in Medicine 17:873-890, method 10): like the intervals
    that it is made of, it keeps its width where nobody or everybody passed.

    Parameters
    ----------
    first, second : tuple[float, float, float]
        Each a share with the ends of its Wilson interval.
    """
    (share1, low1, high1), (share2, low2, high2) = first, second
    down, up = math.hypot(share1 - low1, high2 - share2), math.hypot(high1 - share1, share2 - low2)
    return share1 - share2 - down, share1 - share2 + up


@functools.lru_cache(maxsize=8)
def resamples(n: int, name: str) -> NDArray[float64]:
    """How often each of `n` clusters was drawn, shape (RESAMPLES, n): the same for all figures of one `name`."""
    import numpy as np

    return np.vstack(list(_draws(n, name, RESAMPLES)))


def resampled(columns: Sequence[NDArray[float64]], name: str) -> list[NDArray[float64]]:
    """The sum of each column over the clusters of every draw of `resamples`, shape (RESAMPLES,) each; of many clusters
    the draws are made a few at a time.

    Parameters
    ----------
    columns : Sequence[NDArray[float64]]
        Each of shape (n,), a value a cluster.
    """
    import numpy as np

    n = len(columns[0])
    if RESAMPLES * n <= HELD:
        often = resamples(n, name)
        return [often @ column for column in columns]
    sums = [[often @ column for column in columns] for often in _draws(n, name, max(1, HELD // n))]
    return [np.concatenate(parts) for parts in zip(*sums, strict=True)]


def _draws(n: int, name: str, rows: int) -> Iterator[NDArray[float64]]:
    import numpy as np

    drawn = np.random.default_rng(random.Random(name).getrandbits(64))
    for first in range(0, RESAMPLES, rows):
        yield drawn.multinomial(n, [1 / n] * n, size=min(rows, RESAMPLES - first)).astype(np.float64)
