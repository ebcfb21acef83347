"""Attempts until success, with censored loops."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from statistics import NormalDist

from reflexion_lab.analysis.stats.intervals import LEVEL, TOLERANCE, Estimate, clustered, effective
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Record


class Step(Record, frozen=True, kw_only=True):
    """One attempt of a survival curve."""

    attempt: int
    at_risk: int
    """Cases neither solved nor censored before this attempt."""
    solved: int
    censored: int
    """Cases unsolved at this attempt and not observed further."""
    unsolved: Estimate
    """Share of cases not solved by this attempt, in [0, 1]."""


class Survival(Record, frozen=True, kw_only=True):
    """Survival curve of unsolved cases."""

    n: int
    clusters: int
    """Clusters of tasks."""
    steps: tuple[Step, ...]
    """By attempt, from 1 to the longest."""
    median: int | None
    """First attempt by which at least half of the cases are solved; None if there is none."""
    mean_attempts: Estimate
    """Restricted mean: attempts until success, or until the longest attempt."""


def kaplan_meier(
    attempts: Sequence[int], solved: Sequence[bool], clusters: Sequence[Hashable] | None = None
) -> Survival:
    """Product-limit estimate (Kaplan and Meier 1958, JASA 53:457-481) in whole attempts.

    Intervals are Greenwood's on the log(-log) scale (Kalbfleisch and Prentice 2002, section 1.4) with the variance
    multiplied by the maximum design effect of clusters (`intervals.effective`). At shares of 0 and 1, where that scale
    has no width, they are Wilson intervals with the effective sample size.

    Censoring must not depend on the outcome: a loop that would keep a wrong answer is unsolved up to the longest
    attempt.

    Parameters
    ----------
    attempts : Sequence[int]
        Of each case, the attempt that solved it, or the last one observed; 1 or more.
    solved : Sequence[bool]
        False: the case is censored.
    clusters : Sequence[Hashable] | None, optional
        Of each case, its cluster; by default each case is a cluster.

    Raises
    ------
    ConfigError
        No case, different lengths, or an attempt below 1.

    Examples
    --------
    >>> survival = kaplan_meier([1, 1, 2, 3, 3], [True, True, True, True, False])
    >>> survival.median, [step.unsolved.value for step in survival.steps]
    (2, [0.6, 0.4, 0.2])
    """
    names = tuple(clusters) if clusters is not None else tuple(range(len(attempts)))
    if not attempts or not len(attempts) == len(solved) == len(names):
        raise ConfigError(
            "attempts, solved, clusters",
            f"{len(attempts)}, {len(solved)} and {len(names)}",
            "the same number of each, at least one",
        )
    if min(attempts) < 1:
        raise ConfigError("attempts", min(attempts), "1 or more")
    ends = Counter(zip(attempts, map(bool, solved), strict=True))
    sizes = list(Counter(names).values())
    steps, spread = _steps(ends, max(attempts), sizes)
    return Survival(
        n=len(attempts),
        clusters=len(sizes),
        steps=tuple(steps),
        median=next((step.attempt for step in steps if step.unsolved.value <= 0.5 + TOLERANCE), None),
        mean_attempts=_restricted_mean(steps, spread),
    )


def _steps(ends: Counter[tuple[int, bool]], longest: int, sizes: Sequence[int]) -> tuple[list[Step], list[float]]:
    """The steps, and the term of each in Greenwood's sum, inflated for clusters."""
    at_risk, share, spread = sum(sizes), 1.0, [0.0] * longest
    inflation = at_risk / effective(sizes)
    steps = []
    for attempt in range(1, longest + 1):
        events, lost = ends[attempt, True], ends[attempt, False]
        share *= 1 - events / at_risk
        if events < at_risk:
            spread[attempt - 1] = inflation * events / (at_risk * (at_risk - events))
        low, high = _log_log(share, sum(spread)) if 0 < share < 1 else clustered(share, sizes)
        unsolved = Estimate(value=share, low=low, high=high)
        steps.append(Step(attempt=attempt, at_risk=at_risk, solved=events, censored=lost, unsolved=unsolved))
        at_risk -= events + lost
    return steps, spread


def _log_log(share: float, spread: float) -> tuple[float, float]:
    z = NormalDist().inv_cdf((1 + LEVEL) / 2)
    away = z * math.sqrt(spread) / abs(math.log(share))
    return share ** math.exp(away), share ** math.exp(-away)


def _restricted_mean(steps: Sequence[Step], spread: Sequence[float]) -> Estimate:
    """Area under the curve up to the last attempt, variance as in Klein and Moeschberger 2003, equation 4.5.3."""
    unsolved = [1.0, *(step.unsolved.value for step in steps)][: len(steps)]  # before each attempt
    areas = [math.fsum(unsolved[step.attempt :]) for step in steps]  # after each attempt
    mean, variance = math.fsum(unsolved), math.fsum(a**2 * term for a, term in zip(areas, spread, strict=True))
    if not variance:  # nothing was solved before the last attempt, or everything at the first
        before = [step.unsolved for step in steps[:-1]]
        low, high = 1 + math.fsum(share.low for share in before), 1 + math.fsum(share.high for share in before)
        return Estimate(value=mean, low=low, high=high)
    half = NormalDist().inv_cdf((1 + LEVEL) / 2) * math.sqrt(variance)
    return Estimate(value=mean, low=max(1.0, mean - half), high=min(float(len(steps)), mean + half))
