"""Confidence intervals and tests for shares of solved tasks, and bootstrap draws of tasks."""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Iterable, Iterator, Sequence
from statistics import NormalDist

from reflexion_lab.errors import ConfigError
from reflexion_lab.io.arrays import ArrayLike, Floats, np
from reflexion_lab.records import Record

LEVEL = 0.95
"""Confidence level of all intervals."""
EQUIVALENCE = 0.9
"""Confidence level of the interval that lies within the margin where two one-sided tests at 5 % show equivalence."""
TOLERANCE = 1e-9
"""Shares and amounts that differ by less are equal: sums of decimals differ in the last digit."""
PAIRED = "adjusted t over tasks"
"""Name of `over_tasks` and `of_clusters` in tables."""
WILSON = "Wilson"
PSEUDO_PAIRS = 1.3
"""Discordant pairs of tasks that `over_tasks` adds. All designs of `experiments/coverage` then have a coverage of 93 %
or more; with 1 pair, as in Agresti and Min, it falls to 92 %.
"""
PSEUDO_CLUSTERS = 1.6
"""Clusters, one half passed and the other failed, that `of_clusters` adds. All designs of `experiments/coverage` then
have a coverage of 93 % or more; with 1.3 it falls to 90 %, with 2 intervals are wider and it falls to 92 %.
"""
DIGITS = 12
"""Digits to round an interval to: the order of tasks changes the last digits of a sum."""
RESAMPLES = 2000
"""Bootstrap samples. Between seeds, the ends of an interval differ by less than 5 % of its width."""
HELD = 4_000_000
"""Maximum size of a table of draws in memory (32 MB)."""


class Rate(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A share k / n with its 95 % interval: `bootstrap.rate`."""

    k: int
    n: int
    share: float
    """In [0, 1]. For n = 0 it is 0.0, with interval [0, 1]."""
    low: float
    high: float
    units: str = ""
    """Units of the interval, such as `138 clusters` or `30 tasks`; "" if every case stands alone."""

    @property
    def value(self) -> float:
        """`share`, as of an `Estimate`."""
        return self.share

    @property
    def method(self) -> str:
        """Method of the interval."""
        return f"over {self.units}" if self.units else WILSON

    @classmethod
    def of(cls, k: int, n: int) -> Rate:
        low, high = wilson(k, n)
        return cls(k=k, n=n, share=k / n if n else 0.0, low=low, high=high)

    @classmethod
    def over(cls, outcomes: Iterable[bool | None]) -> Rate:
        """The share of true outcomes among true and false ones; None is unknown and not counted."""
        known = [outcome for outcome in outcomes if outcome is not None]
        return cls.of(sum(known), len(known))


def methods(rates: Iterable[Rate]) -> str:
    """Methods of the intervals of shares, such as `Wilson and adjusted t over clusters`."""
    units = dict.fromkeys(rate.units.rpartition(" ")[2].removesuffix("s") for rate in rates if rate.n)
    return " and ".join(PAIRED.replace("task", unit) if unit else WILSON for unit in units) or "no case"


class Estimate(Record, frozen=True, kw_only=True):
    """A value with its 95 % interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, value: float, low: float, high: float) -> Estimate:
        """With the interval extended to contain the value."""
        return cls(value=value, low=min(low, value), high=max(high, value))


def wilson(k: float, n: float, level: float = LEVEL) -> tuple[float, float]:
    """Score interval of the share k / n without continuity correction (Wilson 1927, JASA 22:209-212).

    Raises ConfigError: not 0 <= k <= n, or `level` not in (0, 1). Returns low, high in [0, 1]; (0, 1) for n = 0.

    Examples
    --------
    >>> low, high = wilson(6, 8)
    >>> round(low, 3), round(high, 3)
    (0.409, 0.929)
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
    # ends that are exactly 0 or 1 would suffer from rounding
    return (centre - half) / scale if k else 0.0, (centre + half) / scale if k < n else 1.0


def mcnemar(b: int, c: int) -> float:
    """Exact two-sided p-value of McNemar's test (McNemar 1947, Psychometrika 12:153-157).

    Raises ConfigError: a negative count. `b`, `c`: discordant pairs: solved only by the first side, only by the second.
    Without any, p is 1.

    Examples
    --------
    >>> mcnemar(1, 8)
    0.0390625
    """
    if b < 0 or c < 0:
        raise ConfigError("discordant pairs", f"{b} and {c}", "counts of 0 or more")
    pairs = b + c
    tail = sum(math.comb(pairs, i) for i in range(min(b, c) + 1))
    return min(1.0, tail / (1 << pairs) * 2)


def paired_difference(n11: int, n10: int, n01: int, n00: int) -> tuple[float, float]:
    """`over_tasks` of a paired table: share(second) - share(first) = (n01 - n10) / n.

    `n11`, `n10`, `n01`, `n00`: tasks solved by both, only by the first, only by the second, by neither.
    """
    return over_tasks([0.0] * (n11 + n00) + [-1.0] * n10 + [1.0] * n01)


def over_tasks(differences: ArrayLike, scale: float = 1.0, level: float = LEVEL) -> tuple[float, float]:
    """Interval of a mean difference over tasks: Student's t with `PSEUDO_PAIRS` discordant pairs of tasks.

    A pair is half a task at `scale` and half a task at -`scale` (Agresti and Min 2005, Statistics in Medicine
    24:729-740, with tasks as cases). A plain t interval has no width where no task differs, and a coverage of 17 to 94
    % where few do. For C tasks the variance uses C + `PSEUDO_PAIRS` clusters, the quantile C - 1 degrees of freedom.
    Simulated coverage and width: docs/method.md. `differences`: shape (tasks,): mean difference of each task over its
    seeds, in [-1, 1]. `scale`: standard deviation of the mean of a discordant task, in (0, 1]; see `agreement`.
    `level`: confidence level, in (0, 1). Returns low, high in [-1, 1]; (-1, 1) for fewer than two tasks.

    Examples
    --------
    >>> low, high = over_tasks([0, 0, 1, 0, -1, 1, 0, 1])
    >>> round(low, 2), round(high, 2)
    (-0.38, 0.81)
    """
    means = np.asarray(differences, float)
    tasks = len(means)
    if tasks < 2:
        return -1.0, 1.0
    centre, error = map(float, adjusted(means, scale))
    half = t_quantile(tasks - 1, level) * error
    low, high = max(-1.0, centre - half), min(1.0, centre + half)
    return round(float(low), DIGITS), round(float(high), DIGITS)


def t_quantile(freedom: float, level: float = LEVEL) -> float:
    """Two-sided quantile of Student's t; that of 1 degree of freedom for fewer."""
    from scipy.special import stdtrit

    return float(stdtrit(max(1.0, freedom), (1 + level) / 2))


def score_limit(difference: float, pairs: int) -> float:
    """Least margin, in [0, 1], that a one-sided score test at 5 % places above the difference.

    A true difference of m makes at least a share m of the pairs discordant, so that the variance of the estimate is at
    least m (1 - m) / pairs there (a bound of the restricted variance of Tango 1998, Statistics in Medicine 17:891-908).
    Where few pairs are discordant, the interval alone accepts up to 13.3 % of true differences at the margin; with this
    limit 7.0 % (`experiments/coverage`: one seed, 30 to 164 tasks, margins of 2 to 30 points). `difference`: size of
    the estimate, in [0, 1]. `pairs`: effective number of pairs, 1 or more.
    """
    square = t_quantile(pairs - 1, EQUIVALENCE) ** 2
    middle = 2 * difference * pairs + square
    root = math.sqrt(max(0.0, middle**2 - 4 * (pairs + square) * pairs * difference**2))
    return (middle + root) / (2 * (pairs + square))


def adjusted(differences: ArrayLike, scale: ArrayLike = 1.0) -> tuple[Floats, Floats]:
    """Centre and standard error of `over_tasks`, with its parameters, over at least two tasks; shape (..., tasks)."""
    means = np.asarray(differences, float)
    clusters = means.shape[-1] + PSEUDO_PAIRS
    centre = np.asarray(means.sum(axis=-1) / clusters)
    squares = ((means - centre[..., None]) ** 2).sum(axis=-1) + PSEUDO_PAIRS * (np.square(scale) + centre**2)
    return centre, np.sqrt(squares / (clusters - 1) / clusters)


def agreement(differences: ArrayLike) -> float:
    """Scale of a task's mean over K seeds relative to one case: sqrt((1 + (K - 1) r) / K), in (0, 1].

    r is the intraclass correlation of seeds within a task (one-way analysis of variance). If seeds never differ within
    a task, r is 1, and K seeds count as one. `differences`: shape (tasks, seeds); NaN for a missing case.
    """
    cases = np.asarray(differences, float)
    return float(agreements(cases[np.isfinite(cases).any(axis=1)]))


def agreements(cases: Floats) -> Floats:
    """`agreement` of each study, shape (..., tasks, seeds): every task has a case, and all studies lack the same."""
    counts = np.isfinite(cases).reshape(-1, *cases.shape[-2:])[0].sum(axis=-1)
    seeds, repeated = counts.mean(), counts > 1
    if not repeated.any() or len(counts) < 2:
        return np.ones(cases.shape[:-2])
    within = np.nanvar(cases[..., repeated, :], axis=-1, ddof=1).mean(axis=-1)
    between = np.maximum(0.0, np.nanmean(cases, axis=-1).var(axis=-1, ddof=1) - within / seeds)
    total = between + within
    correlation = np.where(total > 0, between / np.where(total > 0, total, 1.0), 1.0)
    return np.asarray(np.sqrt((1 + (seeds - 1) * correlation) / seeds))


def of_clusters(sums: ArrayLike, counts: ArrayLike, scale: float = 1.0, level: float = LEVEL) -> tuple[float, float]:
    """Interval of the share sum(sums) / sum(counts) of clustered cases: Student's t with `PSEUDO_CLUSTERS`.

    As `over_tasks` for shares: a cluster that is added lies at 0.5 + `scale` / 2 or at 0.5 - `scale` / 2, so that 0 of
    n and n of n have a width. Clusters of unequal size count as (sum of sizes)^2 / (sum of squared sizes) equal ones
    (Kish 1965, Survey Sampling), also in the degrees of freedom. Where every cluster is a single case, Wilson's
    interval. Simulated coverage and width: `experiments/coverage`. `sums`, `counts`: shape (clusters,): the cases of
    each that passed, which may be a fraction, and all of them, at least 1. `scale`: as in `over_tasks`.

    Examples
    --------
    >>> low, high = of_clusters([0] * 12, [5] * 12)
    >>> round(low, 2), round(high, 2)
    (0.0, 0.2)
    """
    passed, cases = np.asarray(sums, float), np.asarray(counts, float)
    n, share = cases.sum(), passed.sum() / cases.sum()
    if cases.max() == 1:
        return wilson(float(passed.sum()), float(n), level)
    clusters = n**2 / (cases**2).sum()
    every = clusters + PSEUDO_CLUSTERS
    centre = (share * clusters + PSEUDO_CLUSTERS / 2) / every
    of_share = (((passed - share * cases) / n) ** 2).sum()  # variance of the share
    added = PSEUDO_CLUSTERS * (scale**2 / 4 + (centre - 0.5) ** 2)
    squares = of_share * clusters**2 + clusters * (share - centre) ** 2 + added
    half = t_quantile(clusters - 1, level) * math.sqrt(squares / (every - 1) / every)
    return round(float(max(0.0, centre - half)), DIGITS), round(float(min(1.0, centre + half)), DIGITS)


def unpaired_difference(first: tuple[float, float, float], second: tuple[float, float, float]) -> tuple[float, float]:
    """Interval of first - second for shares of independent cases.

    Newcombe's hybrid score interval (1998, Statistics in Medicine 17:873-890, method 10); it has a width even at shares
    of 0 and 1. `first`, `second`: a share and the ends of its interval.
    """
    (share1, low1, high1), (share2, low2, high2) = first, second
    down, up = math.hypot(share1 - low1, high2 - share2), math.hypot(high1 - share1, share2 - low2)
    return share1 - share2 - down, share1 - share2 + up


@functools.lru_cache(maxsize=8)
def resamples(n: int, name: str) -> Floats:
    """Bootstrap weights of `n` clusters, shape (RESAMPLES, n). The same `name` gives the same draws."""
    return np.vstack(list(_draws(n, name, RESAMPLES)))


def resampled(columns: Sequence[Floats], name: str) -> list[Floats]:
    """Bootstrap sums of each column, shape (RESAMPLES,), by the draws of `resamples`.

    `columns`: each of shape (n,), one value per cluster.
    """
    n = len(columns[0])
    if RESAMPLES * n <= HELD:
        weights = resamples(n, name)
        return [weights @ column for column in columns]
    # too many clusters for one table: a few draws at a time
    sums = [[weights @ column for column in columns] for weights in _draws(n, name, max(1, HELD // n))]
    return [np.concatenate(parts) for parts in zip(*sums, strict=True)]


def _draws(n: int, name: str, rows: int) -> Iterator[Floats]:
    rng = np.random.default_rng(random.Random(name).getrandbits(64))
    for first in range(0, RESAMPLES, rows):
        yield rng.multinomial(n, [1 / n] * n, size=min(rows, RESAMPLES - first)).astype(np.float64)
