"""A loop without progress: the actor is advised to try another approach, then the loop is stopped."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Annotated

from msgspec import Meta

from reflexion_lab.limits import validated
from reflexion_lab.records import Attempt


class Stuck:
    """The same program, or the same failures, `after` times in a row; one attempt earlier `advice` says so.

    Programs are compared without blank lines and trailing spaces, failures with their values: another wrong answer is
    another failure.

    Parameters
    ----------
    after : int or None
        2 or more; with 2 the loop ends without advice. None: never.
    """

    @validated
    def __init__(self, after: Annotated[int, Meta(ge=2)] | None = 3) -> None:
        self.after = after

    def reached(self, attempt: Attempt, history: Sequence[Attempt]) -> str | None:
        return "stuck" if self.after and _repeats((*history, attempt))[0] >= self.after else None

    def advice(self, history: Sequence[Attempt]) -> str:
        """The repetition in words, for the next attempt's prompt; "" without one."""
        times, repetition = _repeats(history)
        if not self.after or times < max(self.after - 1, 2):
            return ""
        return f"The last {times} attempts {repetition}."


def _repeats(history: Sequence[Attempt]) -> tuple[int, str]:
    """The number of last attempts that are alike, and their likeness in words."""
    same_program, same_failure = (_run(list(map(look, history))) for look in (_program, _failure))
    if same_program >= same_failure:
        return same_program, "were the same program"
    return same_failure, "failed in the very same way"


def _run(looks: Sequence[Hashable]) -> int:
    return next((n for n, look in enumerate(reversed(looks)) if look != looks[-1]), len(looks))


def _program(attempt: Attempt) -> Hashable:
    """A reply without a program equals no other: a refusal and a truncated reply have nothing in common."""
    lines = tuple(line.rstrip() for line in attempt.trajectory.solution.splitlines() if line.strip())
    return lines or (attempt.number,)


def _failure(attempt: Attempt) -> Hashable:
    """Equal to no other attempt's where no check failed."""
    failed = tuple(
        (check.name, check.outcome, check.error_type, check.message) for check in attempt.evaluation.failures
    )
    return failed or (attempt.number,)
