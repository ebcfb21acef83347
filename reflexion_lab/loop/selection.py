"""Which attempt a loop submits, and what the hidden tests say of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from reflexion_lab.errors import ConfigError, DataError
from reflexion_lab.records import UNKNOWN, Attempt, Grade


def submitted_at(attempts: Sequence[Attempt], t: int | None = None) -> Attempt:
    """What would have been submitted had the loop been cut at attempt `t`; without `t`, what was.

    The first attempt that passed its feedback checks, else the one of the highest `Evaluation.rank` (pass rate, then
    reward), the earlier on a tie. A runner that decides what to submit and a curve that cuts loops
    short both ask here.

    Raises:
        DataError: no attempt up to `t`.
    """
    made = [attempt for attempt in attempts if t is None or attempt.number <= t]
    if not made:
        raise ConfigError("t", f"{t}, before which there is no attempt", "1 or more")
    made.sort(key=lambda attempt: attempt.number)
    return next((a for a in made if a.evaluation.passed), None) or best_of(made)


def best_of(attempts: Iterable[Attempt]) -> Attempt:
    """The one of the highest `Evaluation.rank`, the earlier on a tie."""
    return max(attempts, key=lambda attempt: (attempt.evaluation.rank, -attempt.number))


def verdicts_at(
    attempts: Mapping[str, Sequence[Attempt]], grades: Mapping[tuple[str, int], Grade], t: int | None = None
) -> dict[str, bool]:
    """By task, the hidden verdict on what `submitted_at` picks; tasks `without_verdict` are left out.

    Raises:
        DataError: an attempt that is needed has no grade yet.
    """
    left_out = without_verdict(grades.values())
    return {
        task_id: is_solved(grades, submitted_at(made, t))
        for task_id, made in attempts.items()
        if task_id not in left_out
    }


def without_verdict(grades: Iterable[Grade]) -> set[str]:
    """Tasks with an attempt on which the hidden tests say nothing: there are none, or the harness failed.

    They count in no rate. A single such attempt excludes its task, so that all cuts of the loops have the same n.
    """
    return {grade.task_id for grade in grades if grade.outcome in UNKNOWN}


def is_solved(grades: Mapping[tuple[str, int], Grade], attempt: Attempt) -> bool:
    grade = grades.get((attempt.task_id, attempt.number))
    if grade is None:
        raise DataError(
            f"task {attempt.task_id}, attempt {attempt.number}",
            "no hidden verdict",
            "one for every attempt",
            "was the run cut off before its end? Resume it",
        )
    return grade.passed
