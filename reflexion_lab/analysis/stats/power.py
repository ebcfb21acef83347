"""The differences that a paired comparison can detect: before it runs, and beside its result.

Before: `detected` and `detectable` simulate the verdict of a comparison, its interval and p value. Beside:
`minimum_detectable` is exact for independent cases, within about two points of the simulated verdict for others.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from reflexion_lab.analysis.stats.bootstrap import linearised
from reflexion_lab.analysis.stats.intervals import Rate, agreement, over_tasks
from reflexion_lab.analysis.stats.permutation import sign_flip
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Record

if TYPE_CHECKING:
    from numpy import float64, int64
    from numpy.typing import ArrayLike, NDArray

ALPHA = 0.05
POWER = 0.8
TOLERANCE = 1e-6
"""Differences nearer to each other than this are one."""
STUDIES = 1000
"""Simulated ones; a power of 80 % is then known to 2.5 points either way."""
STEP = 0.002
"""How closely the detectable difference is looked for."""


MOST_CASES = 1_000_000
"""Tasks times seeds: each simulated study holds them all."""


class Design(Record, frozen=True, kw_only=True):
    """A comparison of two arms on the same tasks, as it is planned."""

    tasks: int
    seeds: int
    """Number of seeds per task."""
    discordance: float
    """The share of cases that only one arm solves, in (0, 1]; from a pilot, or from earlier runs."""
    agreement: float = 0.5
    """The share of tasks whose seeds share one draw, in [0, 1]: the intraclass correlation, 1 at temperature 0.
    Seeds that draw apart often end alike, too.
    """
    difference: float = 0.0
    """The true one, at most `discordance`."""
    clusters: int = 0
    """Templates, families or repositories that the tasks are spread over evenly, at most `tasks`; 0: as many."""
    cluster_agreement: float = 0.5
    """Share of clusters whose tasks share one draw, in [0, 1]: the intraclass correlation of the tasks of a cluster.
    The seeds of a task agree at least as much. Without effect if every task stands alone."""
    comparisons: int = 1
    """Arms compared with the baseline, 1 or more: p must be below 0.05 / comparisons, Holm's strictest step."""

    def __post_init__(self) -> None:
        for name in ("tasks", "seeds", "comparisons"):
            if getattr(self, name) < 1:
                raise ConfigError(name, getattr(self, name), "1 or more")
        if self.tasks * self.seeds > MOST_CASES:
            raise ConfigError("tasks", f"{self.tasks} x {self.seeds} seeds", f"{MOST_CASES:,} cases at most")
        if not 0 <= self.clusters <= self.tasks:
            raise ConfigError("clusters", self.clusters, f"0 to {self.tasks}, the tasks")
        for name, least in (("discordance", TOLERANCE), ("agreement", 0.0), ("cluster_agreement", 0.0)):
            if not least <= getattr(self, name) <= 1:
                raise ConfigError(name, getattr(self, name), "a share, above 0 to 1" if least else "a share, 0 to 1")
        if not 0 <= self.difference <= self.discordance + TOLERANCE:
            raise ConfigError("difference", self.difference, f"one in [0, {self.discordance}], the discordance")


def detected(design: Design, studies: int = STUDIES, seed: int = 0) -> Rate:
    """The share of simulated studies that detect the difference, on its right side.

    A study detects it if the interval (`intervals.over_tasks`) leaves 0 out and p (`permutation.sign_flip`) is below
    0.05 / comparisons: the verdict of `compare`. Each case is won with chance (discordance + difference) / 2 and lost
    with chance (discordance - difference) / 2. One seed draws common random numbers for all differences.

    Raises ConfigError: `studies` below 1.

    Parameters
    ----------
    design : Design
    studies : int, default 1000
        Simulated studies, 1 or more.
    seed : int, default 0
    """
    if studies < 1:
        raise ConfigError("studies", studies, "1 or more")
    level = ALPHA / design.comparisons
    return Rate.of(sum(_is_detected(cases, level) for cases in _studies(design, studies, seed)), studies)


def _is_detected(cases: NDArray[float64], level: float) -> bool:
    """Whether differences of shape (clusters, cases), each -1, 0 or 1, show that the mean is above 0."""
    import numpy as np

    low, _ = over_tasks(linearised(cases)[1], agreement(cases))
    return low > 0 and sign_flip(np.maximum(-cases, 0), np.maximum(cases, 0)) < level


def detectable(design: Design, power: float = POWER, studies: int = STUDIES, seed: int = 0) -> float | None:
    """Smallest true difference that the design detects with probability `power`, to `STEP`.

    None where even a difference as large as the discordance is detected less often. Raises ConfigError: as `detected`,
    or a power outside (0, 1).
    """
    _check(power, "power")

    def is_enough(difference: float) -> bool:
        return detected(replace(design, difference=difference), studies, seed).share >= power

    low, high = 0.0, design.discordance
    if not is_enough(high):
        return None
    while high - low > STEP:
        middle = (low + high) / 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def _studies(design: Design, studies: int, seed: int) -> Iterator[NDArray[float64]]:
    """The cases' differences of each simulated study, shape (clusters, cases), padded with NaN."""
    import numpy as np

    rng, shape, clusters = np.random.default_rng(seed), (design.tasks, design.seeds), design.clusters or design.tasks
    of_cluster = design.cluster_agreement if clusters < design.tasks else 0.0
    of_task = max(0.0, (design.agreement - of_cluster) / (1 - of_cluster)) if of_cluster < 1 else 0.0
    win, lose = ((design.discordance + sign * design.difference) / 2 for sign in (1, -1))
    largest = -(-design.tasks // clusters)
    for _ in range(studies):
        own, common, alike = rng.random(shape), rng.random((design.tasks, 1)), rng.random((design.tasks, 1))
        padded = np.full((largest * clusters, design.seeds), np.nan)
        padded[: design.tasks] = np.where(alike < of_task, common, own)
        luck = padded.reshape(largest, clusters, design.seeds)
        if of_cluster:
            common, alike = rng.random((clusters, 1)), rng.random((clusters, 1))
            luck = np.where((alike < of_cluster) & np.isfinite(luck), common, luck)
        cases = np.where(np.isnan(luck), np.nan, (luck < win).astype(float) - (luck > 1 - lose))
        yield cases.transpose(1, 0, 2).reshape(clusters, -1)


def needed(discordant: int, alpha: float = ALPHA) -> tuple[int, int] | None:
    """The least one-sided split, (wins, losses), of so many discordant pairs that exact McNemar calls significant.

    None where even all against none is not: of 5 pairs or fewer, at the level of 0.05. Raises ConfigError: a negative
    count, or a level outside (0, 1).

    Examples
    --------
    >>> needed(10)
    (9, 1)
    """
    _check(alpha, "alpha")
    if discordant < 0:
        raise ConfigError("discordant", discordant, "0 or more")
    losses = int(_most_losses(discordant, alpha)[discordant])
    return (discordant - losses, losses) if losses >= 0 else None


def minimum_detectable(n: int, discordant: float, power: float = POWER, alpha: float = ALPHA) -> float | None:
    """The least true difference of two paired shares that exact McNemar detects with chance `power`, in (0, 1].

    Unconditional and exact (Duffy 1984, Statistics in Medicine 3:371-382): the number D of discordant pairs is
    binomial(n, discordant); of D pairs the better side wins binomial(D, (1 + difference / discordant) / 2); the power
    is the chance that this splits D as `needed` says, or further, to the right side. Solved for the difference by
    bisection. A difference above `discordant` makes as many pairs discordant as it needs, and the better side wins all
    of them: a design of few discordant pairs has a minimum, too. Raises ConfigError: n below 1; a share, power or level
    out of range.

    Parameters
    ----------
    n : int
        Independent pairs. With several seeds a task or tasks a cluster, their effective number, `effective_pairs`.
    discordant : float
        The share of pairs on which the sides differ, in [0, 1]; from a probe, or from earlier runs.

    Returns
    -------
    float | None
        None where no difference can be detected: the pairs are too few even if one side wins them all.

    Examples
    --------
    >>> round(minimum_detectable(n=100, discordant=0.2), 3)
    0.128
    """
    _check(power, "power")
    _check(alpha, "alpha")
    if n < 1:
        raise ConfigError("n", n, "1 task or more")
    if not 0 <= discordant <= 1:
        raise ConfigError("discordant", discordant, "a share in [0, 1]")
    low, high = 0.0, 1.0
    if power_of(n, high, high, alpha) < power:
        return None
    while high - low > TOLERANCE:
        middle = (low + high) / 2
        is_enough = power_of(n, max(discordant, middle), middle, alpha) >= power
        low, high = (low, middle) if is_enough else (middle, high)
    return high


def effective_pairs(differences: ArrayLike) -> int:
    """Number of independent pairs that a design is worth: its tasks over the squared `intervals.agreement` of seeds.

    K seeds of a task count as K / (1 + (K - 1) r) pairs, where r is their intraclass correlation (Kish 1965, Survey
    Sampling).

    Parameters
    ----------
    differences : ArrayLike
        Shape (tasks, seeds); NaN for a missing case, at least one case.
    """
    import numpy as np

    tasks = int(np.isfinite(np.asarray(differences, float)).any(axis=1).sum())
    return round(tasks / agreement(differences) ** 2)


def power_of(n: int, discordant: float, difference: float, alpha: float = ALPHA) -> float:
    """The chance that exact McNemar finds a true `difference`, to its right side; see `minimum_detectable`.

    Raises ConfigError: a difference beyond the discordant share.
    """
    import numpy as np
    from scipy.special import bdtr, gammaln, xlog1py, xlogy

    if not 0 <= difference <= discordant:
        raise ConfigError("difference", difference, f"one in [0, {discordant}], the discordant share")
    pairs = np.arange(n + 1)
    logs = gammaln(n + 1) - gammaln(pairs + 1) - gammaln(n - pairs + 1)
    chances = np.exp(logs + xlogy(pairs, discordant) + xlog1py(n - pairs, -discordant))
    losses = _most_losses(n, alpha)
    is_significant = losses >= 0
    wins = bdtr(losses[is_significant].astype(float), pairs[is_significant], (1 - difference / discordant) / 2)
    return float((chances[is_significant] * wins).sum())


@functools.lru_cache(maxsize=8)
def _most_losses(most: int, alpha: float) -> NDArray[int64]:
    """For 0 to `most` discordant pairs, the most losses with which the rest is still significant; -1 for none."""
    import numpy as np
    from scipy.special import bdtr

    most_losses, losses = [], -1
    for pairs in range(most + 1):
        # one more pair never takes a loss away, and never allows two more; p as in `intervals.mcnemar`, in floats
        if 2 * (losses + 1) < pairs and 2 * bdtr(losses + 1, pairs, 0.5) <= alpha * (1 + TOLERANCE**2):
            losses += 1
        most_losses.append(losses)
    return np.array(most_losses)


def _check(value: float, name: str) -> None:
    if not 0 < value < 1:
        raise ConfigError(name, value, "a number in (0, 1)")
