"""What a case has spent by the time that each of its attempts is submitted: in calls, in tokens, or in money.

That is: the tests that the model wrote for it, all roles of the attempts before with their reflections, and the attempt
itself without its own reflection, which comes later. Cached replies count what they took when they were first drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from reflexion_lab.analysis.arms import Arm, Case
from reflexion_lab.records import Attempt, Usage

UNITS = ("calls", "tokens", "cost")
"""`cost` is money, in the currency of the price list."""


def spent(arm: Arm, unit: str) -> dict[Case, list[float]]:
    """By case, what it has spent when attempt 1, 2, ... of its loop is submitted.

    Raises:
        ValueError: an unknown unit.
    """
    _check(unit)
    before = {
        Case(log.manifest.seed, task_id): _amount(written.usage, unit)
        for log in arm.logs
        for task_id, written in log.written.items()
    }
    return {case: _spent(made, unit, before.get(case, 0.0)) for case, made in arm.attempts.items()}


def reflecting(attempt: Attempt, unit: str) -> float:
    """Of the attempt's own reflection."""
    return _amount(attempt.usage["reflector"], unit)


def _check(unit: str) -> None:
    if unit not in UNITS:
        raise ValueError(f"unit: {unit!r} found; expected one of {', '.join(UNITS)}")


def _amount(usage: Usage, unit: str) -> float:
    return float(getattr(usage, unit))


def _spent(made: Sequence[Attempt], unit: str, before: float) -> list[float]:
    """Before each attempt, the reflection on the one before it."""
    acting = [sum(_amount(usage, unit) for role, usage in one.usage.items() if role != "reflector") for one in made]
    earlier = [before, *(reflecting(one, unit) for one in made[:-1])]
    return list(accumulate(a + b for a, b in zip(acting, earlier, strict=True)))
