"""Stop rules: small, composable, each with a name for the reason that it gives."""

from __future__ import annotations

from collections.abc import Sequence

from reflexion_lab.protocols import Stop
from reflexion_lab.records import Attempt


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

    def __init__(self, threshold: float = 1.0) -> None:
        if not 0 < threshold <= 1:
            raise ValueError(f"loop.confidence_threshold: {threshold} found; expected a share in (0, 1]")
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
    def __init__(self, max_attempts: int = 3) -> None:
        if max_attempts < 1:
            raise ValueError(f"loop.max_attempts: {max_attempts} found; expected 1 or more")
        self.max_attempts = max_attempts

    def reached(self, attempt: Attempt, history: Sequence[Attempt]) -> str | None:
        return "max_attempts" if attempt.number >= self.max_attempts else None


class TimeOut:
    """The task's own work took too long: model and evaluation seconds, as recorded.

    Waiting in a queue does not count, and a cached reply counts what it took when it was first drawn: a replayed run
    stops where the first one did.
    """

    def __init__(self, seconds: float = 300.0) -> None:
        if seconds <= 0:
            raise ValueError(f"loop.timeout: {seconds} found; expected seconds above 0")
        self.seconds = seconds

    def reached(self, attempt: Attempt, history: Sequence[Attempt]) -> str | None:
        spent = sum(
            past.evaluation.seconds + sum(usage.seconds for usage in past.usage.values())
            for past in (*history, attempt)
        )
        return "timeout" if spent >= self.seconds else None
