"""Stop rules. Each returns the name of its reason, or None to continue."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import accumulate, pairwise, takewhile
from typing import Annotated

from msgspec import Meta

from reflexion_lab.limits import Above0, Again, Positive, PositiveShare, Repeats, validated
from reflexion_lab.protocols import Stop
from reflexion_lab.records import DIGITS, Attempt, Category, Usage


class FirstOf:
    """The first reason of several rules."""

    def __init__(self, *rules: Stop) -> None:
        self.rules = rules

    def reached(self, attempt: Attempt, history: Sequence[Attempt]) -> str | None:
        return next((reason for rule in self.rules if (reason := rule.reached(attempt, history))), None)


class Passed:
    """The attempt passed, or its pass rate reached `threshold` in (0, 1]; the pass rate counts tests only."""

    @validated
    def __init__(self, threshold: PositiveShare = 1.0) -> None:
        self.threshold = threshold

    def reached(self, attempt: Attempt, history: Sequence[Attempt]) -> str | None:
        if attempt.evaluation.passed:
            return "passed"
        return "threshold" if attempt.evaluation.pass_rate >= self.threshold else None


class SandboxFailed:
    """The sandbox failed to judge the attempt."""

    def reached(self, attempt: Attempt, history: Sequence[Attempt]) -> str | None:
        return "harness_error" if attempt.evaluation.outcome == "harness_error" else None


class NoFeedback(SandboxFailed):
    """No feedback: the task shows no tests, or the sandbox failed."""

    def reached(self, attempt: Attempt, history: Sequence[Attempt]) -> str | None:
        return "no_feedback" if attempt.evaluation.outcome == "no_tests" else super().reached(attempt, history)


class Satisfied:
    """The model's review of its own program found it correct, or could not be read."""

    def reached(self, attempt: Attempt, history: Sequence[Attempt]) -> str | None:
        review = attempt.reflection
        if review and review.source == "failed":
            return "unreadable_review"
        return "satisfied" if review and review.category == Category.CORRECT else None


class MaxAttempts:
    """`max_attempts` (1 or more) were made, and one for each new best attempt, up to `extra_attempts` (0 or more)."""

    @validated
    def __init__(self, max_attempts: Repeats = 3, extra_attempts: Again = 0) -> None:
        self.max_attempts = max_attempts
        self.extra_attempts = extra_attempts

    def reached(self, attempt: Attempt, history: Sequence[Attempt]) -> str | None:
        best = best_so_far(attempt, history)
        earned = sum(after > before for before, after in pairwise(best))
        return "max_attempts" if attempt.number >= self.max_attempts + min(earned, self.extra_attempts) else None


class TimeOut:
    """The task took `seconds` (above 0) or more of model and evaluation time, without queues.

    A cached reply counts its original time, so that a replayed run stops where the first did.
    """

    @validated
    def __init__(self, seconds: Above0 = 300.0) -> None:
        self.seconds = seconds

    def reached(self, attempt: Attempt, history: Sequence[Attempt]) -> str | None:
        return "timeout" if sum(past.seconds for past in (*history, attempt)) >= self.seconds else None


class Cancelled:
    """`is_asked`, such as `threading.Event().is_set`, returned true. For loops driven by hand; an interrupted run ends
    without a result and is resumed.
    """

    def __init__(self, is_asked: Callable[[], bool]) -> None:
        self.is_asked = is_asked

    def reached(self, attempt: Attempt, history: Sequence[Attempt]) -> str | None:
        return "cancelled" if self.is_asked() else None


class Plateau:
    """The last `attempts` (1 or more) were no better than the best before them."""

    @validated
    def __init__(self, attempts: Positive = 2) -> None:
        self.attempts = attempts

    def reached(self, attempt: Attempt, history: Sequence[Attempt]) -> str | None:
        best = best_so_far(attempt, history)
        return "plateau" if len(best) > self.attempts and best[-1] <= best[-1 - self.attempts] else None


class DiminishingReturns:
    """The last `attempts` raised the best reward by less than `gain`, in (0, 1], on average, after it had risen before.

    A loop that has gained nothing yet is a plateau instead.
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
    """Calls, tokens or cost of one task's loop, over all roles, reached a limit; None: no limit.

    A cached reply counts its original cost, so that a replayed run stops where the first did.
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


SAME = {"answer": "gave the same answer", "actions": "took the same actions"}


class Stuck:
    """The same program, or the same failures, `after` times in a row; `advice` warns one attempt earlier.

    Programs are compared without blank lines and trailing spaces, failures including their values. `after`: 2 or more;
    at 2 the loop ends without advice. None: never.
    """

    @validated
    def __init__(self, after: Annotated[int, Meta(ge=2)] | None = 3) -> None:
        self.after = after

    def reached(self, attempt: Attempt, history: Sequence[Attempt]) -> str | None:
        return "stuck" if self.after and _repeats((*history, attempt))[0] >= self.after else None

    def advice(self, history: Sequence[Attempt], kind: str = "function") -> str:
        """The repetition in words, for the next attempt's prompt at a task of this kind; "" without one."""
        times, repetition = _repeats(history)
        repetition = repetition.replace("were the same program", SAME.get(kind, "were the same program"))
        if not self.after or times < max(self.after - 1, 2):
            return ""
        return f"The last {times} attempts {repetition}."


def _repeats(history: Sequence[Attempt]) -> tuple[int, str]:
    """The number of equal attempts at the end, and in which respect they are equal."""
    same_program, same_failure = (_run(look, history) for look in (program_of, _failure))
    if same_program >= same_failure:
        return same_program, "were the same program"
    return same_failure, "failed in the very same way"


def _run(look: Callable[[Attempt], Hashable], history: Sequence[Attempt]) -> int:
    looks = map(look, reversed(history))  # lazily: the first that differs ends the run
    last = next(looks, None)
    return sum(1 for _ in takewhile(lambda each: each == last, looks)) + bool(history)


def program_of(attempt: Attempt) -> Hashable:
    """Key of an attempt's program, without blank lines and trailing spaces; without a program it equals no other."""
    lines = tuple(line.rstrip() for line in attempt.trajectory.solution.splitlines() if line.strip())
    return lines or (attempt.number,)


def _failure(attempt: Attempt) -> Hashable:
    """Key of an attempt's failures; an attempt without failed checks equals no other."""
    failed = tuple((each.name, each.outcome, each.error_type, each.message) for each in attempt.evaluation.failures)
    return failed or (attempt.number,)
