"""Stop rules: small, composable, each with a name for the reason that it gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise

from reflexion_lab.limits import Above0, Count, Positive, PositiveShare, validated
from reflexion_lab.protocols import Stop
from reflexion_lab.records import DIGITS, Attempt, Usage


class FirstOf:
    """The first of several rules that has a reason."""

    def __init__(self, *rules: Stop) -> None:
        self.rules = rules

    def reached(self, attempt: Attempt, history: Sequence[Attempt]) -> str | None:
        return next((reason for rule in self.rules if (reason := rule.reached(attempt, history))), None)


class Passed:
    """The evaluator says passed; or, below a threshold of 1, enough tests did: that reason has a name of its own.

    The threshold counts tests alone, whatever else the reward is made of.
    """

    @validated
    def __init__(self, threshold: PositiveShare = 1.0) -> None:
        self.threshold = threshold

    def reached(self, attempt: Attempt, history: Sequence[Attempt]) -> str | None:
        if attempt.evaluation.passed:
            return "passed"
        return "threshold" if attempt.evaluation.pass_rate >= self.threshold else None


class NoFeedback:
    """There was nothing to learn from: the task shows no tests, or the harness itself broke."""

    def reached(self, attempt: Attempt, history: Sequence[Attempt]) -> str | None:
        return {"no_tests": "no_feedback", "harness_error": "harness_error"}.get(attempt.evaluation.outcome)


class MaxAttempts:
    """So many attempts; and up to `extra_attempts` more, one for each that beat every attempt before it: a loop that
    gets somewhere may go on.
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
    """The task's own work took too long: model and evaluation seconds, as recorded.

    Waiting in a queue does not count, and a cached reply counts what it took when it was first drawn: a replayed run
    stops where the first one did.
    """

    @validated
    def __init__(self, seconds: Above0 = 300.0) -> None:
        self.seconds = seconds

    def reached(self, attempt: Attempt, history: Sequence[Attempt]) -> str | None:
        return "timeout" if sum(past.seconds for past in (*history, attempt)) >= self.seconds else None


class Cancelled:
    """Somebody asked for the end, such as `threading.Event().is_set`: for loops driven by hand. A run that is
    interrupted ends without a result and is resumed.
    """

    def __init__(self, is_asked: Callable[[], bool]) -> None:
        self.is_asked = is_asked

    def reached(self, attempt: Attempt, history: Sequence[Attempt]) -> str | None:
        return "cancelled" if self.is_asked() else None


class Plateau:
    """So many attempts in a row that were no better than the best before them."""

    @validated
    def __init__(self, attempts: Positive = 2) -> None:
        self.attempts = attempts

    def reached(self, attempt: Attempt, history: Sequence[Attempt]) -> str | None:
        best = best_so_far(attempt, history)
        return "plateau" if len(best) > self.attempts and best[-1] <= best[-1 - self.attempts] else None


class DiminishingReturns:
    """The last `attempts` raised the best reward by less than `gain` in the mean, though it had risen before.

    Where nothing has been gained yet there is nothing to diminish: that is a plateau.
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
    """What one task's loop may spend, all roles together; the attempt that goes beyond is the last. None: no limit.

    A cached reply counts what it took when it was first drawn, so that a replayed run stops where the first one did.
    """

    @validated
    def __init__(
        self, calls: Positive | None = None, tokens: Positive | None = None, cost: Above0 | None = None
    ) -> None:
        self.limits = {"calls": calls, "tokens": tokens, "cost": cost}

    def reached(self, attempt: Attempt, history: Sequence[Attempt]) -> str | None:
        spent = sum((usage for past in (*history, attempt) for usage in past.usage.values()), Usage())
        reached = any(limit is not None and getattr(spent, name) >= limit for name, limit in self.limits.items())
        return "budget" if reached else None


def best_so_far(attempt: Attempt, history: Sequence[Attempt]) -> list[tuple[bool, float, float]]:
    """The best rank up to each attempt, oldest first."""
    return list(accumulate((past.evaluation.rank for past in (*history, attempt)), max))
