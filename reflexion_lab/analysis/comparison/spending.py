"""What a case has spent by the time that each of its attempts is submitted: in calls, in tokens, or in money.

That is: the tests that the model wrote for it, all roles of the attempts before with their reflections, and the attempt
itself without its own reflection, which comes later. Cached replies count what they took when they were first drawn.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate

from reflexion_lab.analysis.arms import Arm, Case
from reflexion_lab.errors import ConfigError
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
    return {case: _spent(attempts, unit, before.get(case, 0.0)) for case, attempts in arm.attempts.items()}


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


def _spent(attempts: Sequence[Attempt], unit: str, before: float) -> list[float]:
    """Before each attempt, the reflection on the one before it."""
    calls = [(attempt.trajectory.usage, *attempt.trajectory.others.values()) for attempt in attempts]
    acting = [sum(_amount(usage, unit) for usage in usages) for usages in calls]
    earlier = [before, *(reflecting(attempt, unit) for attempt in attempts[:-1])]
    return list(accumulate(a + b for a, b in zip(acting, earlier, strict=True)))
