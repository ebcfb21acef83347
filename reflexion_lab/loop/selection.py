"""The attempt that a loop submits, and its hidden verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from reflexion_lab.errors import ConfigError, DataError
from reflexion_lab.records import Attempt, Check, Episode, Grade, Record, Reflection


class Solution(Record, frozen=True, kw_only=True):
    """The result of a loop."""

    output: str
    """The program, or other text, that is submitted; `passed`, `tests` and `confidence` are of its attempt."""
    passed: bool
    tests: tuple[Check, ...]
    confidence: float
    """Share of its tests that passed, in [0, 1]."""
    attempts: tuple[Attempt, ...]
    reflections: tuple[Reflection, ...]
    episodes: tuple[Episode, ...]
    """The task's, in memory; () for memory without a `buffer`."""
    seconds: float
    """Wall time."""
    stop_reason: str
    session: str
    """Id of the loop, which its episodes have; "" without episodes."""

    def __repr__(self) -> str:
        verb, n = "passed" if self.passed else "failed", len(self.attempts)
        return f"Solution({verb} after {n} attempt{'s' * (n != 1)}, {self.stop_reason}, {self.seconds:.1f} s)"


def submitted_at(attempts: Sequence[Attempt], t: int | None = None) -> Attempt:
    """The submitted attempt of a loop cut at attempt `t`; without `t`, of the whole loop.

    The first attempt that passed its feedback checks, else the attempt of the highest `Evaluation.rank` (pass rate,
    then reward), the earlier on a tie. Where nothing told them apart, neither a check nor a reward, the last with a
    program: the model corrected itself.
    Raises ConfigError: no attempt up to `t`.
    """
    candidates = sorted((a for a in attempts if t is None or a.number <= t), key=lambda attempt: attempt.number)
    if not candidates:
        raise ConfigError("t", f"{t}, before which there is no attempt", "1 or more")
    unjudged = [a for a in candidates if a.evaluation.outcome == "no_tests" and a.trajectory.solution.strip()]
    if unjudged and not any(a.evaluation.checks or a.evaluation.reward for a in candidates):
        return unjudged[-1]
    return next((a for a in candidates if a.evaluation.passed), None) or best_of(candidates)


def best_of(attempts: Iterable[Attempt]) -> Attempt:
    """The attempt of the highest `Evaluation.rank`, the earlier on a tie."""
    return max(attempts, key=lambda attempt: (attempt.evaluation.rank, -attempt.number))


def verdicts_at(
    attempts: Mapping[str, Sequence[Attempt]], grades: Mapping[tuple[str, int], Grade], t: int | None = None
) -> dict[str, bool]:
    """Hidden verdicts on `submitted_at`, by task, without the tasks of `without_verdict`.

    Raises DataError: a submitted attempt has no grade yet.
    """
    left_out = without_verdict(chain(*attempts.values()), grades.values())
    return {
        task_id: is_solved(grades, submitted_at(history, t))
        for task_id, history in attempts.items()
        if task_id not in left_out
    }


def without_verdict(attempts: Iterable[Attempt], grades: Iterable[Grade]) -> set[str]:
    """Tasks that are `unscored`, or have no hidden tests.

    Rates exclude them. One such attempt excludes its task, so that n is the same at every t.
    """
    grades = tuple(grades)
    return unscored(attempts, grades) | {grade.task_id for grade in grades if not grade.has_verdict}


def unscored(attempts: Iterable[Attempt], grades: Iterable[Grade]) -> set[str]:
    """Tasks of which the sandbox or the server spoilt an attempt, or the sandbox a hidden verdict."""
    spoilt = {attempt.task_id for attempt in attempts if attempt.evaluation.outcome in ("harness_error", "wrong_model")}
    return spoilt | {grade.task_id for grade in grades if grade.outcome == "harness_error"}


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
