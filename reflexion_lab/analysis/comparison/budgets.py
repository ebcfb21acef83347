"""Spending of cases in calls, tokens or money, and the comparison of arms at equal spending.

The spending at an attempt includes written tests, all roles of earlier attempts, their reflections, and the attempt
itself, but not its own reflection, which comes later. Cached calls count like others.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from statistics import fmean
from typing import NamedTuple

from reflexion_lab.analysis.arms import Arm, Case
from reflexion_lab.analysis.stats.bootstrap import rate, ratio
from reflexion_lab.analysis.stats.clusters import Clusters, merged, places
from reflexion_lab.analysis.stats.intervals import TOLERANCE, Estimate, Rate
from reflexion_lab.analysis.stats.matching import Equal, Path, equal
from reflexion_lab.errors import ConfigError, DataError
from reflexion_lab.loop.selection import submitted_at
from reflexion_lab.records import Attempt, Usage

UNITS = ("completion_tokens", "tokens", "calls", "cost")
"""Units of spending: `tokens` of prompt and completion, `cost` in the currency of the price list."""
ATTEMPTS = "attempts"
"""The budget of loops that are cut at the same attempt; it is counted, not spent."""
UNPRICED = "unknown"
"""Entry of the manifest for a model without a known price."""

Spent = Mapping[Case, Sequence[float]]
Caps = dict[Case, float]


def check_unit(unit: str) -> None:
    """Raises ConfigError for a unit not in `UNITS`."""
    if unit not in UNITS:
        raise ConfigError("unit", repr(unit), f"one of {', '.join(UNITS)}")


def spent(arm: Arm, unit: str) -> dict[Case, list[float]]:
    """By case, the cumulative spending at attempt 1, 2, ... of its loop. Raises ConfigError: an unknown unit."""
    check_unit(unit)
    before = {
        Case(log.manifest.seed, task_id): _amount(usage, unit)
        for log in arm.logs
        for task_id, usage in log.overhead.items()
    }
    return {case: _running_total(attempts, unit, before.get(case, 0.0)) for case, attempts in arm.attempts.items()}


def is_known(arm: Arm, unit: str) -> bool:
    """Whether the runs recorded their spending; unrecorded usage is zero, which does not mean free.

    Calls and tokens are known if every first attempt has some, and tokens only if every reply has some; refused prompts
    take none, nor does initial code. Completion tokens are known with tokens. Money is known if
    any was paid, every role has a price, and every reply has tokens. Local models are free and cannot be compared by
    cost. Raises ConfigError: an unknown unit.
    """
    unit = "tokens" if unit == "completion_tokens" else unit  # a reply may be empty
    by_case = spent(arm, unit)
    usages = [usage for attempts in arm.attempts.values() for attempt in attempts for usage in attempt.usage.values()]
    overhead = (usage for log in arm.logs for usage in log.overhead.values())
    if unit != "calls" and any(usage.uncounted for usage in (*usages, *overhead)):
        return False
    if unit == "cost":
        prices = {price for log in arm.logs for price in log.manifest.prices.values()}
        return any(case_amounts[-1] for case_amounts in by_case.values()) and UNPRICED not in prices
    return all(
        amounts[0]
        or any(usage.refused for usage in arm.attempts[case][0].usage.values())
        or (arm.attempts[case][0].trajectory.strategy == "given" and (amounts[-1] or len(amounts) == 1))
        or (not arm.attempts[case][0].trajectory.strategy and amounts[-1])  # a file of cases has no strategies
        for case, amounts in by_case.items()
    )


def currencies(arm: Arm) -> tuple[str, ...]:
    """Sorted currencies of the price lists in its manifests."""
    return tuple(sorted({name for log in arm.logs for name in log.currencies}))


def reflecting(attempt: Attempt, unit: str) -> float:
    """Spending on the attempt's own reflection."""
    return _amount(attempt.reflection.usage, unit) if attempt.reflection else 0.0


def _amount(usage: Usage, unit: str) -> float:
    return float(getattr(usage, unit))


def _running_total(attempts: Sequence[Attempt], unit: str, before: float) -> list[float]:
    usages = [(a.trajectory.usage, a.selection_usage, *a.trajectory.others.values()) for a in attempts]
    acting = [sum(_amount(usage, unit) for usage in own) for own in usages]
    earlier = [before, *(reflecting(attempt, unit) for attempt in attempts[:-1])]
    return list(accumulate(a + b for a, b in zip(acting, earlier, strict=True)))


class Further(NamedTuple):
    """Further attempts of an arm: those after the first."""

    spend: float
    """Mean spending on one, with the reflection before it; of an arm without any, that on a first attempt."""
    solved: Rate
    """Share of attempts on cases not yet solved that solve them, by hidden tests."""


def further(arm: Arm, unit: str, cases: Collection[Case]) -> Further:
    """Price and success of a further attempt of `arm`, over `cases`. Raises ConfigError: an unknown unit."""
    by_case = {case: amounts for case, amounts in spent(arm, unit).items() if case in cases}
    n = sum(len(amounts) - 1 for amounts in by_case.values())
    paid = sum(amounts[-1] - amounts[0] for amounts in by_case.values())
    first = fmean(amounts[0] for amounts in by_case.values())
    verdicts = {case: [arm.grades[case][attempt.number].passed for attempt in arm.attempts[case]] for case in by_case}
    solved = (
        (case.task_id, passed[t])
        for case, passed in sorted(verdicts.items())
        for t in range(1, len(passed))
        if not any(passed[:t])
    )
    return Further(paid / n if n else first, rate(solved, arm.clusters))


class Spot(NamedTuple):
    """An arm with every loop cut at `attempt`."""

    attempt: int
    spend: float
    """Mean spending of a case."""
    pass_at_1: Rate
    """An upper bound in an `oracle` arm."""


class Matched(NamedTuple):
    """Two arms at equal mean spending, over the cases of both."""

    unit: str
    cut_side: int
    """1 or 2: the arm that was cut; 0 for neither."""
    first: dict[Case, bool]
    """Verdicts on submissions after one random cut, for counts; `equal` accounts for the randomness."""
    second: dict[Case, bool]
    first_spend: float
    """Mean over cases, after the cut."""
    second_spend: float
    equal: Equal
    """share(second) - share(first). The share of the more expensive arm is averaged over all random cuts."""

    @property
    def is_matched(self) -> bool:
        """False if the first attempts alone of the more expensive arm cost more than all of the cheaper arm."""
        spends = (self.first_spend, self.second_spend)
        return not self.cut_side or spends[self.cut_side - 1] <= spends[2 - self.cut_side] + TOLERANCE


def matched(first: Arm, second: Arm, unit: str, seed: int = 0) -> Matched:
    """Two arms on their common cases, with the more expensive one cut to the mean spending of the cheaper.

    All cases of the more expensive arm get one cap: the largest spending of any case at which their mean does not
    exceed that of the cheaper arm. Where many cases spend the same amount, such as calls, this mean is too low by a
    step. Therefore, cases in a random order get the next larger amount as their cap while the mean allows it. Raises
    ConfigError: an unknown unit; DataError: no common case, or an arm with unrecorded spending. `seed`: of that order
    and of the bootstrap.
    """
    if unknown := [arm.label for arm in (first, second) if not is_known(arm, unit)]:
        problem, expected = f"runs of unknown {unit}", "runs that say what every call took"
        raise DataError(f"arm {unknown[0]}", problem, expected, "match by another")
    first_spent, second_spent = _spent_where_judged(first, unit), _spent_where_judged(second, unit)
    shared = sorted(first_spent.keys() & second_spent.keys())
    if not shared:
        raise DataError(f"arms {first.label} and {second.label}", "no case in both", "the same tasks and seeds")
    first_spent, second_spent = ({case: amounts[case] for case in shared} for amounts in (first_spent, second_spent))
    clusters = merged(first.clusters, second.clusters)
    cut_side, first_caps, second_caps = _matching(first_spent, second_spent, seed)
    return Matched(
        unit=unit,
        cut_side=cut_side,
        first=_cut(first, first_spent, first_caps),
        second=_cut(second, second_spent, second_caps),
        first_spend=_mean(first_spent, first_caps),
        second_spend=_mean(second_spent, second_caps),
        equal=equal(_paths(first, first_spent, clusters), _paths(second, second_spent, clusters), seed),
    )


def accuracy_by_spending(arm: Arm, unit: str) -> list[Spot]:
    """Mean spending and pass@1 at each attempt, up to the longest loop. Raises ConfigError: an unknown unit."""
    by_case = _spent_where_judged(arm, unit)
    return [
        Spot(
            attempt=t,
            spend=fmean(amounts[min(t, len(amounts)) - 1] for amounts in by_case.values()),
            pass_at_1=arm.share(arm.verdicts(t)),
        )
        for t in range(1, arm.longest + 1)
    ]


def per_solved(arm: Arm, unit: str) -> Estimate | None:
    """Spending per solved case, over cases with a verdict, with reflections after the last attempt; None: none solved.

    The interval is the bootstrap over clusters of tasks (`bootstrap.ratio`). Raises ConfigError: an unknown unit.
    """
    verdicts, by_case = arm.verdicts(), _spent_where_judged(arm, unit)
    rows = places(arm.tasks, arm.clusters)
    paid, solved = dict.fromkeys(rows.values(), 0.0), dict.fromkeys(rows.values(), 0.0)
    for case, attempts in arm.judged.items():
        paid[rows[case.task_id]] += by_case[case][-1] + reflecting(attempts[-1], unit)
        solved[rows[case.task_id]] += verdicts[case]
    return ratio(list(paid.values()), list(solved.values()))


def _spent_where_judged(arm: Arm, unit: str) -> Spent:
    """`spent` of cases with a verdict."""
    judged = arm.judged
    return {case: amounts for case, amounts in spent(arm, unit).items() if case in judged}


def _reached(amounts: Sequence[float], cap: float) -> int:
    """Index of the last attempt within the cap, at least that of attempt 1."""
    return max(0, bisect_right(amounts, cap) - 1)


def _verdict(arm: Arm, case: Case, place: int) -> bool:
    attempts = arm.attempts[case]
    return arm.grades[case][submitted_at(attempts, attempts[place].number).number].passed


def _cut(arm: Arm, by_case: Spent, caps: Caps) -> dict[Case, bool]:
    return {case: _verdict(arm, case, _reached(amounts, caps[case])) for case, amounts in by_case.items()}


def _mean(by_case: Spent, caps: Caps) -> float:
    return fmean(amounts[_reached(amounts, caps[case])] for case, amounts in by_case.items())


def _matching(first_spent: Spent, second_spent: Spent, seed: int) -> tuple[int, Caps, Caps]:
    """The side that is cut, and the caps of each case on either side; an infinite cap is none."""
    free = dict.fromkeys(first_spent, math.inf)
    first, second = _mean(first_spent, free), _mean(second_spent, free)
    if first > second:
        return 1, _caps(first_spent, second, seed), free
    if second > first:
        return 2, free, _caps(second_spent, first, seed)
    return 0, free, free


def _caps(by_case: Spent, budget: float, seed: int) -> Caps:
    """By case, the common cap, or the next larger amount, so that the mean spending reaches `budget`."""

    def mean(cap: float) -> float:
        return _mean(by_case, dict.fromkeys(by_case, cap))

    amounts = sorted({amount for spent in by_case.values() for amount in spent})
    place = bisect_right(amounts, budget + TOLERANCE, key=mean)
    caps = dict.fromkeys(by_case, amounts[max(0, place - 1)])
    left = (budget - _mean(by_case, caps)) * len(by_case)
    larger = amounts[min(max(1, place), len(amounts) - 1)]
    for case in random.Random(f"{seed}:matched").sample(list(by_case), len(by_case)):
        spent = by_case[case]
        left -= spent[_reached(spent, larger)] - spent[_reached(spent, caps[case])]
        if left < -TOLERANCE:
            break
        caps[case] = larger
    return caps


def _paths(arm: Arm, by_case: Spent, clusters: Clusters) -> list[Path]:
    rows = places((case.task_id for case in by_case), clusters)
    return [
        Path(rows[case.task_id], amounts, [_verdict(arm, case, place) for place in range(len(amounts))])
        for case, amounts in by_case.items()
    ]
