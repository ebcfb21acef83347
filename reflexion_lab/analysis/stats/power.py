"""The differences that a paired comparison can detect: before it runs, and beside its result.

Before: `detected`, `detectable` and `equivalent` simulate the verdict of a comparison. Beside, `minimum`:
with few clusters simulated, too; with more `minimum_detectable`, which is exact for independent cases, and within about
two points of the simulated verdict for others.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator

from msgspec.structs import replace

from reflexion_lab.analysis.stats.bootstrap import AT_ONCE
from reflexion_lab.analysis.stats.intervals import EQUIVALENCE, Rate, adjusted, agreement, agreements, t_quantile
from reflexion_lab.analysis.stats.permutation import sign_flip
from reflexion_lab.errors import ConfigError
from reflexion_lab.io.arrays import Array, ArrayLike, Booleans, Floats, Integers, np
from reflexion_lab.records import Record

ALPHA = 0.05
POWER = 0.8
TOLERANCE = 1e-6
"""Differences nearer to each other than this are one."""
STUDIES = 1000
"""Simulated ones; a power of 80 % is then known to 2.5 points either way."""
STEP = 0.002
"""How closely the detectable difference is looked for."""
FEW = 12
"""Clusters below which `minimum` simulates: the quantile of the interval is wider there than the exact test knows."""

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
    with chance (discordance - difference) / 2. One seed draws common random numbers for all differences. Raises
    ConfigError: `studies` below 1.
    """
    if studies < 1:
        raise ConfigError("studies", studies, "1 or more")
    level = ALPHA / design.comparisons
    return Rate.of(sum(int(_are_detected(cases, level).sum()) for cases in _studies(design, studies, seed)), studies)


def _are_detected(cases: Floats, level: float) -> Booleans:
    """By study, whether differences of shape (studies, clusters, cases), each -1, 0 or 1, have a mean above 0."""
    sums, counts, centres, errors = _estimated(cases)
    if len(counts) < 2:
        return np.zeros(len(cases), bool)
    are_above = centres > t_quantile(len(counts) - 1) * errors
    if len(counts) < FEW:  # all flips at once: the sum of one side of them is the p-value of `sign_flip`
        signs = 1.0 - 2 * (np.arange(2 ** (len(counts) - 1))[:, None] >> np.arange(len(counts)) & 1)
        sizes = np.abs(sums[are_above] @ signs.T)
        p_values = (sizes >= sizes[:, :1]).mean(axis=-1)
    else:
        p_values = np.array([sign_flip(np.maximum(-each, 0), np.maximum(each, 0)) for each in cases[are_above]])
    are_above[are_above] = p_values < level
    return are_above


def _estimated(cases: Floats) -> tuple[Array, ...]:
    """Sums of shape (studies, clusters), cases of each cluster, and centre and error of each study."""
    sums, counts = np.nansum(cases, axis=-1), np.isfinite(cases[0]).sum(axis=-1)
    means = sums.sum(axis=-1, keepdims=True) / counts.sum()
    return sums, counts, *adjusted(means + (sums - means * counts) / counts.mean(), agreements(cases))


def equivalent(design: Design, margin: float, studies: int = STUDIES, seed: int = 0) -> Rate:
    """The share of simulated studies that place the difference of the design within `margin`, in (0, 1].

    Its test is that of `compare` (`Difference.largest`): the 90 % interval and the limit of `intervals.score_limit` lie
    inside. A design whose true difference is 0 should do so four times in five; else the margin means little.
    """
    _check(margin, "margin")
    inside = (int(_are_equivalent(cases, margin).sum()) for cases in _studies(design, studies, seed))
    return Rate.of(sum(inside), studies)


def _are_equivalent(cases: Floats, margin: float) -> Booleans:
    from scipy.special import stdtrit

    _, counts, centres, errors = _estimated(cases)
    pairs = np.maximum(2, np.round(len(counts) / agreements(cases) ** 2))
    score = margin - stdtrit(pairs - 1, (1 + EQUIVALENCE) / 2) * np.sqrt(margin * (1 - margin) / pairs)
    half = t_quantile(len(counts) - 1, EQUIVALENCE) * errors
    are_inside: Booleans = (np.abs(centres) + half < margin) & (np.abs(centres) < score)
    return are_inside


def tasks_within(margin: float, discordance: float, power: float = POWER) -> int:
    """Tasks, to 2 %, at one seed of which a true difference of 0 is shown to lie within `margin` with this chance."""

    def is_enough(tasks: float) -> bool:
        return equivalent(Design(tasks=round(tasks), seeds=1, discordance=discordance), margin).share >= power

    enough = next(2**n for n in range(4, 20) if is_enough(2**n))
    return round(_least(is_enough, enough / 2, enough, max(1, enough / 100)))


def _least(is_enough: Callable[[float], bool], low: float, high: float, step: float) -> float:
    """The least value above `low` that is enough, to `step`; `high` is."""
    while high - low > step:
        middle = (low + high) / 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


@functools.lru_cache(maxsize=256)
def detectable(
    design: Design, power: float = POWER, studies: int = STUDIES, seed: int = 0, largest: float = 0.0
) -> float | None:
    """Smallest true difference that the design detects with probability `power`, to `STEP`.

    None where even one as large as the discordance, or as `largest`, is detected less often; the discordance is at
    least the difference. Raises ConfigError: as `detected`, or a power outside (0, 1).
    """
    _check(power, "power")

    def is_enough(difference: float) -> bool:
        discordance = max(design.discordance, difference)
        return detected(replace(design, discordance=discordance, difference=difference), studies, seed).share >= power

    high = max(design.discordance, largest)
    return _least(is_enough, 0.0, high, STEP) if is_enough(high) else None


def _studies(design: Design, studies: int, seed: int) -> Iterator[Floats]:
    """The cases' differences of simulated studies, shape (studies, clusters, cases), padded with NaN."""
    clusters, at_once = design.clusters or design.tasks, max(1, AT_ONCE // (design.tasks * design.seeds))
    of_cluster = design.cluster_agreement if clusters < design.tasks else 0.0
    of_task = max(0.0, (design.agreement - of_cluster) / (1 - of_cluster)) if of_cluster < 1 else 0.0
    win, lose = ((design.discordance + sign * design.difference) / 2 for sign in (1, -1))
    for start in range(0, studies, at_once):
        shape = min(at_once, studies - start), design.tasks, design.seeds
        luck = _luck(shape, clusters, of_task, of_cluster, seed, start)
        yield np.where(np.isnan(luck), np.nan, (luck < win).astype(float) - (luck > 1 - lose))


@functools.lru_cache(maxsize=4)
def _luck(shape: tuple[int, int, int], clusters: int, of_task: float, of_cluster: float, *seed: int) -> Floats:
    """A random number per case of (studies, tasks, seeds): one in these shares of tasks and clusters."""
    rng, (studies, tasks, seeds) = np.random.default_rng(seed), shape
    own, common, alike = rng.random(shape), rng.random((studies, tasks, 1)), rng.random((studies, tasks, 1))
    largest = -(-tasks // clusters)
    padded = np.full((studies, largest * clusters, seeds), np.nan)
    padded[:, :tasks] = np.where(alike < of_task, common, own)
    luck = padded.reshape(studies, largest, clusters, seeds)
    if of_cluster:
        common, alike = rng.random((2, studies, 1, clusters, 1))
        luck = np.where((alike < of_cluster) & np.isfinite(luck), common, luck)
    return luck.transpose(0, 2, 1, 3).reshape(studies, clusters, -1)


def fewest(comparisons: int = 1) -> int:
    """Least number of clusters that can show a difference: p of N that agree is 2^(1 - N), of 0.05 / comparisons."""
    return math.ceil(1 + math.log2(comparisons / ALPHA))


def too_few(clusters: int, tasks: int, comparisons: int = 1) -> str:
    """`5 clusters cannot show a difference: at least 6 are needed`; "" if they are enough."""
    least = fewest(comparisons)
    return (
        "" if clusters >= least else f"{counted(clusters, tasks)} cannot show a difference: at least {least} are needed"
    )


def counted(clusters: int, tasks: int) -> str:
    """`5 clusters`, or `5 tasks` that stand alone."""
    return f"{clusters} {'cluster' if clusters < tasks else 'task'}{'s' * (clusters != 1)}"


def minimum(n: int, clusters: int, effective: int, discordance: float, comparisons: int = 1) -> float | None:
    """The least true difference that n pairs in so many clusters, worth `effective` pairs, detect four times in five;
    None where they detect none so often. Fewer clusters than `FEW` are simulated, with the mean number of cases each.
    """
    if clusters >= max(FEW, fewest(comparisons)):
        return minimum_detectable(effective, discordance, alpha=ALPHA / comparisons)
    if clusters < fewest(comparisons) or not discordance:
        return None
    seeds = round(n / clusters)
    alike = min(1.0, max(0.0, (seeds * clusters / effective - 1) / (seeds - 1))) if seeds > 1 else 1.0
    design = Design(tasks=clusters, seeds=seeds, discordance=discordance, agreement=alike, comparisons=comparisons)
    return detectable(design, largest=1.0)


def minimum_detectable(n: int, discordant: float, power: float = POWER, alpha: float = ALPHA) -> float | None:
    """The least true difference of two paired shares that exact McNemar detects with chance `power`, in (0, 1].

    Unconditional and exact (Duffy 1984, Statistics in Medicine 3:371-382): the number D of discordant pairs is
    binomial(n, discordant); of D pairs the better side wins binomial(D, (1 + difference / discordant) / 2); the power
    is the chance that this split of D is significant, to the right side. Solved for the difference by
    bisection. A difference above `discordant` makes as many pairs discordant as it needs, and the better side wins all
    of them: a design of few discordant pairs has a minimum, too. None where the pairs are too few even if one side wins
    them all. Raises ConfigError: n, the independent pairs, below 1; a share, power or level out of range.

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

    def is_enough(difference: float) -> bool:
        return power_of(n, max(discordant, difference), difference, alpha) >= power

    return _least(is_enough, 0.0, 1.0, TOLERANCE) if is_enough(1.0) else None


def effective_pairs(differences: ArrayLike) -> int:
    """Number of independent pairs that a design is worth: its tasks over the squared `intervals.agreement` of seeds.

    K seeds of a task count as K / (1 + (K - 1) r) pairs, where r is their intraclass correlation (Kish 1965, Survey
    Sampling). Shape (tasks, seeds); NaN for a missing case.
    """
    tasks = int(np.isfinite(np.asarray(differences, float)).any(axis=1).sum())
    return round(tasks / agreement(differences) ** 2)


def power_of(n: int, discordant: float, difference: float, alpha: float = ALPHA) -> float:
    """The chance that exact McNemar finds a true `difference`, to its right side; see `minimum_detectable`.

    Raises ConfigError: a difference beyond the discordant share.
    """
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
def _most_losses(most: int, alpha: float) -> Integers:
    """For 0 to `most` discordant pairs, the most losses with which the rest is still significant; -1 for none."""
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
