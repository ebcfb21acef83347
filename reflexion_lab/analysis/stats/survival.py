"""Attempts until success, where some never came to it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from statistics import NormalDist

from reflexion_lab.analysis.stats.intervals import LEVEL, Estimate, clustered, effective
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Record

CLOSE = 1e-9
"""Shares nearer to each other than this are one."""


class Step(Record, frozen=True, kw_only=True):
    """What one attempt did to those that were still unsolved."""

    attempt: int
    at_risk: int
    """Cases that were neither solved before it nor lost sight of."""
    solved: int
    censored: int
    """Lost sight of after it, unsolved."""
    unsolved: Estimate
    """Share of cases not solved by the end of this attempt, in [0, 1]."""


class Survival(Record, frozen=True, kw_only=True):
    """How long cases stay unsolved."""

    n: int
    clusters: int
    """Tasks that the cases belong to."""
    steps: tuple[Step, ...]
    """One for each attempt from 1 to the longest."""
    median: int | None
    """The first attempt by which half of the cases or more are solved; None where it is never reached."""
    mean_attempts: Estimate
    """Attempts used on average where loops end at success, or at the longest attempt seen (the restricted mean)."""


def kaplan_meier(attempts: Sequence[int], solved: Sequence[bool], tasks: Sequence[Hashable] | None = None) -> Survival:
    """The product-limit estimate (Kaplan and Meier 1958, JASA 53:457-481) in whole attempts.

    Intervals are Greenwood's on the scale of log(-log) (Kalbfleisch and Prentice 2002, section 1.4), its variance
    multiplied by what cases of one task take away at most (`intervals.effective`). That scale has no width at shares of
    1 and 0; Wilson's, discounted in the same way, stands there.

    A case must not be censored because it looks hopeless: where a loop would keep a wrong answer for good, the case is
    unsolved up to the longest attempt.

    Parameters
    ----------
    attempts : Sequence[int]
        Of each case, the number of the attempt that solved it, or of the last one seen; 1 or more.
    solved : Sequence[bool]
        Whether it did; False is censored.
    tasks : Sequence[Hashable] | None, optional
        Of each case, its cluster; without, each case is its own.

    Raises
    ------
    ConfigError
        No case, lengths that differ, or an attempt below 1.
    """
    names = tuple(tasks) if tasks is not None else tuple(range(len(attempts)))
    if not attempts or not len(attempts) == len(solved) == len(names):
        raise ConfigError(
            "attempts, solved, tasks",
            f"{len(attempts)}, {len(solved)} and {len(names)}",
            "as many of each, one at least",
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
        median=next((step.attempt for step in steps if step.unsolved.value <= 0.5 + CLOSE), None),
        mean_attempts=_restricted_mean(steps, spread),
    )


def _steps(ends: Counter[tuple[int, bool]], longest: int, sizes: Sequence[int]) -> tuple[list[Step], list[float]]:
    """The steps, and of each its term in Greenwood's sum, inflated for clusters."""
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
    left = [1.0, *(step.unsolved.value for step in steps)][: len(steps)]  # unsolved before each attempt
    areas = [math.fsum(left[step.attempt :]) for step in steps]  # what follows each attempt
    mean, variance = math.fsum(left), math.fsum(a**2 * term for a, term in zip(areas, spread, strict=True))
    if not variance:  # nothing was solved before the last attempt, or everything at the first: no width
        before = [step.unsolved for step in steps[:-1]]
        low, high = 1 + math.fsum(share.low for share in before), 1 + math.fsum(share.high for share in before)
        return Estimate(value=mean, low=low, high=high)
    half = NormalDist().inv_cdf((1 + LEVEL) / 2) * math.sqrt(variance)
    return Estimate(value=mean, low=max(1.0, mean - half), high=min(float(len(steps)), mean + half))
