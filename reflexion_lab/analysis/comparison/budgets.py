"""What a case has spent at each of its attempts, in calls, tokens or money, and arms at equal spending.

Spending at an attempt counts the tests that the model wrote for the case, all roles of the attempts before with their
reflections, and the attempt itself without its own reflection, which comes later. Cached replies count what they took
when they were first drawn.
"""

from __future__ import annotations

import math
import random
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from statistics import fmean
from typing import NamedTuple

from reflexion_lab.analysis.arms import Arm, Case
from reflexion_lab.analysis.stats.bootstrap import ratio
from reflexion_lab.analysis.stats.intervals import Estimate
from reflexion_lab.analysis.stats.matching import Equal, Path, equal
from reflexion_lab.errors import ConfigError, DataError
from reflexion_lab.loop.selection import submitted_at
from reflexion_lab.records import Attempt, Usage

UNITS = ("calls", "tokens", "cost")
"""`cost` is money, in the currency of the price list."""
_CURRENCY = re.compile(r"[^\s/]+/\S+ (\S+) per million")
UNPRICED = "unknown"
"""The manifest's word for a model of which nobody knows the price."""


def spent(arm: Arm, unit: str) -> dict[Case, list[float]]:
    """By case, what it has spent when attempt 1, 2, ... of its loop is submitted.

    Raises
    ------
    ConfigError
        An unknown unit.
    """
    _check(unit)
    before = {
        Case(log.manifest.seed, task_id): _amount(written.usage, unit)
        for log in arm.logs
        for task_id, written in log.written.items()
    }
    return {case: _running_total(attempts, unit, before.get(case, 0.0)) for case, attempts in arm.attempts.items()}


def is_known(arm: Arm, unit: str) -> bool:
    """Whether the runs say what was spent. Where nobody recorded it, usages are zero, and that does not mean free.

    Calls and tokens are known where every first attempt has some, and tokens where every call has some that brought a
    reply, too: a prompt that was refused takes none. Money is known where any was paid, and every role has a price;
    what runs here costs nothing, and is not compared by it.

    Raises
    ------
    ConfigError
        An unknown unit.
    """
    by_case = spent(arm, unit)
    if unit == "cost":
        prices = {price for log in arm.logs for price in log.manifest.prices.values()}
        return any(case_amounts[-1] for case_amounts in by_case.values()) and UNPRICED not in prices
    usages = [usage for attempts in arm.attempts.values() for attempt in attempts for usage in attempt.usage.values()]
    answered = (usage for usage in usages if usage.calls > usage.refused)
    first = all(
        amounts[0] or any(usage.refused for usage in arm.attempts[case][0].usage.values())
        for case, amounts in by_case.items()
    )
    return first and all(_amount(usage, unit) for usage in answered)


def currencies(arm: Arm) -> tuple[str, ...]:
    """In which its runs paid, as their manifests say; sorted."""
    matches = (_CURRENCY.match(price) for log in arm.logs for price in log.manifest.prices.values())
    return tuple(sorted({match[1] for match in matches if match}))


def reflecting(attempt: Attempt, unit: str) -> float:
    """Of the attempt's own reflection."""
    return _amount(attempt.reflection.usage, unit) if attempt.reflection else 0.0


def _check(unit: str) -> None:
    if unit not in UNITS:
        raise ConfigError("unit", repr(unit), f"one of {', '.join(UNITS)}")


def _amount(usage: Usage, unit: str) -> float:
    return float(getattr(usage, unit))


def _running_total(attempts: Sequence[Attempt], unit: str, before: float) -> list[float]:
    """Before each attempt, the reflection on the one before it."""
    calls = [(attempt.trajectory.usage, *attempt.trajectory.others.values()) for attempt in attempts]
    acting = [sum(_amount(usage, unit) for usage in usages) for usages in calls]
    earlier = [before, *(reflecting(attempt, unit) for attempt in attempts[:-1])]
    return list(accumulate(a + b for a, b in zip(acting, earlier, strict=True)))


CLOSE = 1e-9
"""Amounts nearer to each other than this are one."""

Spent = Mapping[Case, Sequence[float]]
Caps = dict[Case, float]


class Spot(NamedTuple):
    """An arm, had every loop been cut at `attempt`."""

    attempt: int
    spend: float
    """Mean of what a case has spent by then."""
    pass_at_1: Estimate
    """In an `oracle` arm an upper bound and no pass@1."""


class Matched(NamedTuple):
    """Two arms at equal mean spending, over the cases that both have."""

    unit: str
    cap: float | None
    """What every case of the costlier arm may have spent; None where both spend the same, and neither is cut."""
    cut_side: int
    """1 or 2: the arm that was cut; 0 where neither is."""
    first: dict[Case, bool]
    """Verdicts on what would have been submitted by then: for counts. What they say of chance is too little, since
    which arm was cut, and where, is chance too; `equal` has taken it into account."""
    second: dict[Case, bool]
    first_spend: float
    """Mean over cases, after the cut."""
    second_spend: float
    equal: Equal
    """share(second) - share(first) with interval and p; the share of the costlier arm is the mean over all toss-ups."""

    @property
    def is_matched(self) -> bool:
        """False where the costlier arm's first attempts alone cost more than all of the cheaper arm."""
        spends = (self.first_spend, self.second_spend)
        return not self.cut_side or spends[self.cut_side - 1] <= spends[2 - self.cut_side] + CLOSE


def at(arm: Arm, unit: str, cap: float) -> dict[Case, bool]:
    """By case, the hidden verdict on what would have been submitted by the time that it had spent `cap`.

    Attempt 1 counts whatever it costs.

    Raises
    ------
    DataError
        An unknown unit.
    """
    by_case = _spent_where_judged(arm, unit)
    return _cut(arm, by_case, dict.fromkeys(by_case, cap))


def matched(first: Arm, second: Arm, unit: str, seed: int = 0) -> Matched:
    """Both arms on the cases that both have, the costlier one cut to the mean spending of the cheaper.

    All cases of the costlier arm get one cap: the largest amount that any of them spends at which their mean does not
    exceed the cheaper arm's. Where many cases spend one and the same amount, as in calls, that falls short by a step.
    Cases in an order drawn by `seed` therefore get the next larger amount as their cap, until the next of them would
    exceed the mean.

    Parameters
    ----------
    seed : int, default 0
        Of that order, and of the bootstrap.

    Raises
    ------
    DataError
        An unknown unit; no case that both arms have; an arm of which nobody recorded what it spent.
    """
    if odd := [arm.label for arm in (first, second) if not is_known(arm, unit)]:
        raise DataError(
            f"arm {odd[0]}", f"runs of unknown {unit}", "runs that say what every call took", "match by another"
        )
    first_spent, second_spent = _spent_where_judged(first, unit), _spent_where_judged(second, unit)
    shared = sorted(case for case in first_spent if case in second_spent)
    if not shared:
        raise DataError(f"arms {first.label} and {second.label}", "no case in both", "the same tasks and seeds")
    first_spent, second_spent = ({case: amounts[case] for case in shared} for amounts in (first_spent, second_spent))
    cap, first_caps, second_caps = _matching(first_spent, second_spent, seed)
    return Matched(
        unit=unit,
        cap=cap,
        cut_side=0 if cap is None else 1 if math.inf not in first_caps.values() else 2,
        first=_cut(first, first_spent, first_caps),
        second=_cut(second, second_spent, second_caps),
        first_spend=_mean(first_spent, first_caps),
        second_spend=_mean(second_spent, second_caps),
        equal=equal(_paths(first, first_spent), _paths(second, second_spent), seed),
    )


def accuracy_by_spending(arm: Arm, unit: str, seed: int = 0) -> list[Spot]:
    """One spot for each attempt from 1 to the longest: what is spent on average, and what it buys.

    Raises
    ------
    DataError
        An unknown unit.
    """
    by_case = _spent_where_judged(arm, unit)
    return [
        Spot(
            attempt=t,
            spend=fmean(amounts[min(t, len(amounts)) - 1] for amounts in by_case.values()),
            pass_at_1=arm.share(arm.verdicts(t), seed),
        )
        for t in range(1, arm.longest + 1)
    ]


def per_solved(arm: Arm, unit: str, seed: int = 0) -> Estimate | None:
    """All that was paid for cases with a verdict, reflections after the last attempts included, over the solved cases.

    The interval is the bootstrap over tasks; its upper end is infinite where draws often solve nothing.

    Returns
    -------
    Estimate | None
        None where nothing was solved.

    Raises
    ------
    DataError
        An unknown unit.
    """
    verdicts, by_case = arm.verdicts(), _spent_where_judged(arm, unit)
    paid, solved = dict.fromkeys(arm.tasks, 0.0), dict.fromkeys(arm.tasks, 0.0)
    for case, attempts in arm.judged.items():
        paid[case.task_id] += by_case[case][-1] + reflecting(attempts[-1], unit)
        solved[case.task_id] += verdicts[case]
    return ratio(list(paid.values()), list(solved.values()), seed)


def _spent_where_judged(arm: Arm, unit: str) -> Spent:
    """`spent` of the cases that have a verdict."""
    judged = arm.judged
    return {case: amounts for case, amounts in spent(arm, unit).items() if case in judged}


def _reached(amounts: Sequence[float], cap: float) -> int:
    """Place of the last attempt that a case can afford; that of attempt 1 at least."""
    return max(0, bisect_right(amounts, cap) - 1)


def _verdict(arm: Arm, case: Case, place: int) -> bool:
    attempts = arm.attempts[case]
    return arm.grades[case][submitted_at(attempts, attempts[place].number).number].passed


def _cut(arm: Arm, by_case: Spent, caps: Caps) -> dict[Case, bool]:
    return {case: _verdict(arm, case, _reached(amounts, caps[case])) for case, amounts in by_case.items()}


def _mean(by_case: Spent, caps: Caps) -> float:
    return fmean(amounts[_reached(amounts, caps[case])] for case, amounts in by_case.items())


def _matching(first_spent: Spent, second_spent: Spent, seed: int) -> tuple[float | None, Caps, Caps]:
    """The cap of the costlier side, and those of each case on either side; no cap is an infinite one."""
    free = dict.fromkeys(first_spent, math.inf)
    first, second = _mean(first_spent, free), _mean(second_spent, free)
    if first > second:
        cap, caps = _caps(first_spent, second, seed)
        return cap, caps, free
    if second > first:
        cap, caps = _caps(second_spent, first, seed)
        return cap, free, caps
    return None, free, free


def _caps(by_case: Spent, most: float, seed: int) -> tuple[float, Caps]:
    """The cap of all, and of each case, where some get the next larger one."""

    def mean(cap: float) -> float:
        return _mean(by_case, dict.fromkeys(by_case, cap))

    amounts = sorted({amount for spent in by_case.values() for amount in spent})
    place = bisect_right(amounts, most + CLOSE, key=mean)
    caps = dict.fromkeys(by_case, amounts[max(0, place - 1)])
    left = (most - _mean(by_case, caps)) * len(by_case)
    larger = amounts[min(max(1, place), len(amounts) - 1)]
    for case in random.Random(f"{seed}:matched").sample(list(by_case), len(by_case)):
        spent = by_case[case]
        left -= spent[_reached(spent, larger)] - spent[_reached(spent, caps[case])]
        if left < -CLOSE:
            break
        caps[case] = larger
    return amounts[max(0, place - 1)], caps


def _paths(arm: Arm, by_case: Spent) -> list[Path]:
    rows = {task_id: row for row, task_id in enumerate(sorted({case.task_id for case in by_case}))}
    return [
        Path(rows[case.task_id], amounts, [_verdict(arm, case, place) for place in range(len(amounts))])
        for case, amounts in by_case.items()
    ]
