"""Stop rules, each with a name for its reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise

from reflexion_lab.limits import Above0, Count, Positive, PositiveShare, validated
from reflexion_lab.protocols import Stop
from reflexion_lab.records import DIGITS, Attempt, Usage


class FirstOf:
    """The reason of the first of several rules that has one."""

    def __init__(self, *rules: Stop) -> None:
        self.rules = rules

    def reached(self, attempt: Attempt, history: Sequence[Attempt]) -> str | None:
        return next((reason for rule in self.rules if (reason := rule.reached(attempt, history))), None)


class Passed:
    """The attempt passed; or, with a `threshold` in (0, 1) of the pass rate, enough of its tests did (`threshold`).

    The pass rate counts tests alone, not the other parts of a reward.
    """

    @validated
    def __init__(self, threshold: PositiveShare = 1.0) -> None:
        self.threshold = threshold

    def reached(self, attempt: Attempt, history: Sequence[Attempt]) -> str | None:
        if attempt.evaluation.passed:
            return "passed"
        return "threshold" if attempt.evaluation.pass_rate >= self.threshold else None


class NoFeedback:
    """No feedback: the task shows no tests, or the harness failed."""

    def reached(self, attempt: Attempt, history: Sequence[Attempt]) -> str | None:
        return {"no_tests": "no_feedback", "harness_error": "harness_error"}.get(attempt.evaluation.outcome)


class MaxAttempts:
    """After `max_attempts` (1 or more), and up to `extra_attempts` (0 or more) further ones, one for each attempt that
    was better than all before it.
    """

    @validated
    def __init__(self, max_attempts: Positive = 3, extra_attempts: Count = 0) -> None:
        self.max_attempts = max_attempts
        self.extra_attempts = extra_attempts

    def reached(self, attempt: Attempt, history: Sequence[Attempt]) -> str | None:
        best = best_so_far(attempt, history)
        earned = sum(after > before for before, after in pairwise(best))
        return "max_attempts" if attempt.number >= self.max_attempts + min(earned, self.extra_attempts) else None


class TimeOut:
    """The task took `seconds` (above 0) or more of model and evaluation time.

    Queues do not count, and a cached reply counts as when it was first drawn: a replayed run stops where the first did.
    """

    @validated
    def __init__(self, seconds: Above0 = 300.0) -> None:
        self.seconds = seconds

    def reached(self, attempt: Attempt, history: Sequence[Attempt]) -> str | None:
        return "timeout" if sum(past.seconds for past in (*history, attempt)) >= self.seconds else None


class Cancelled:
    """`is_asked` returned true, such as `threading.Event().is_set`: for loops driven by hand. An interrupted run ends
    without a result and is resumed.
    """

    def __init__(self, is_asked: Callable[[], bool]) -> None:
        self.is_asked = is_asked

    def reached(self, attempt: Attempt, history: Sequence[Attempt]) -> str | None:
        return "cancelled" if self.is_asked() else None


class Plateau:
    """`attempts` (1 or more) in a row that were no better than the best before them."""

    @validated
    def __init__(self, attempts: Positive = 2) -> None:
        self.attempts = attempts

    def reached(self, attempt: Attempt, history: Sequence[Attempt]) -> str | None:
        best = best_so_far(attempt, history)
        return "plateau" if len(best) > self.attempts and best[-1] <= best[-1 - self.attempts] else None


class DiminishingReturns:
    """The last `attempts` raised the best reward by less than `gain`, in (0, 1], on average; before, it had risen.

    A loop that has gained nothing yet is a plateau.
    """

    @validated
    def __init__(self, gain: PositiveShare = 0.1, attempts: Positive = 2) -> None:
        self.gain = gain
        self.attempts = attempts

    def reached(self, attempt: Attempt, history: Sequence[Attempt]) -> str | None:
        best = list(accumulate((past.evaluation.reward for past in (*history, attempt)), max))
        if len(best) <= self.attempts or best[-1] <= best[0]:
            return None
        mean = round((best[-1] - best[-1 - self.attempts]) / self.attempts, DIGITS)
        return "diminishing_returns" if mean < self.gain else None


class Budget:
    """Calls, tokens or cost of one task's loop, all roles together, reached their limit; None: no limit.

    A cached reply counts as when it was first drawn: a replayed run stops where the first did.
    """

    @validated
    def __init__(self, calls: Above0 | None = None, tokens: Above0 | None = None, cost: Above0 | None = None) -> None:
        self.limits = {"calls": calls, "tokens": tokens, "cost": cost}

    def reached(self, attempt: Attempt, history: Sequence[Attempt]) -> str | None:
        spent = sum((usage for past in (*history, attempt) for usage in past.usage.values()), Usage())
        reached = any(limit is not None and getattr(spent, name) >= limit for name, limit in self.limits.items())
        return "budget" if reached else None


def best_so_far(attempt: Attempt, history: Sequence[Attempt]) -> list[tuple[bool, float, float]]:
    """The best rank up to each attempt, oldest first."""
    return list(accumulate((past.evaluation.rank for past in (*history, attempt)), max))
