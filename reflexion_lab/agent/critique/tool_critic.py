"""A verdict of tools as a critique: tests that were run, a type checker, a linter. No model is asked."""

from __future__ import annotations

from collections.abc import Iterator

from reflexion_lab.limits import PositiveShare, validated
from reflexion_lab.protocols import Evaluator
from reflexion_lab.records import UNKNOWN, Check, Critique, Evaluation, Task, Trajectory
from reflexion_lab.text import failures

SHOWN = 3
"""Failing checks that are spelled out; the rest is counted."""
SOURCES = {"unit_tests": "tests", "type_check": "types"}
"""How a critique names who speaks; other verification types keep their names."""
OUTCOMES = {**failures.OUTCOMES, "fail": "it does not hold", "error": "error"}
UNJUDGED = {"no_tests": "the task shows no test", "harness_error": "the tool did not run"}


class ToolCritic:
    """Judges a draft as `evaluator` does: severity 1 - reward, score reward, a failing check an issue.

    `weight` in (0, 1] is what its findings count: severity and confidence are multiplied by it. A linter's remark is
    less than a test that fails.
    """

    @validated
    def __init__(self, evaluator: Evaluator, weight: PositiveShare = 1.0) -> None:
        self.evaluator = evaluator
        self.weight = weight

    def critique(self, task: Task, program: str) -> Critique:
        """A draft of which nothing could be found out has severity 1 and confidence 0, whatever the weight: no loop
        ends because nobody looked. Raises HarnessError alone.
        """
        evaluation = self.evaluator.evaluate(task, Trajectory(solution=program, strategy="draft"))
        source = SOURCES.get(evaluation.verification_type, evaluation.verification_type)
        if evaluation.outcome in UNKNOWN:
            why = evaluation.issues or (UNJUDGED[evaluation.outcome],)
            issues = tuple(f"Nothing was found out: {reason}" for reason in why)
            return Critique(severity=1.0, issues=issues, confidence=0.0, source=source, seconds=evaluation.seconds)
        return Critique(
            severity=self.weight * (1 - evaluation.reward),
            issues=tuple(issues_of(evaluation)),
            suggestions=evaluation.suggestions,
            score=evaluation.reward,
            confidence=self.weight * evaluation.confidence,
            rank=evaluation.rank if any(check.kind == "test" for check in evaluation.checks) else None,
            source=source,
            seconds=evaluation.seconds,
        )


def issues_of(evaluation: Evaluation) -> Iterator[str]:
    """The failing checks in words, one each; where none fails, what else the evaluator has to say."""
    failing = evaluation.failures
    yield from map(_described, failing[:SHOWN])
    if len(failing) > SHOWN:
        yield f"{len(failing) - SHOWN} more checks fail"
    if not failing:
        yield from evaluation.issues


def _described(check: Check) -> str:
    where = f" (line {check.line} of the program)" if check.line else ""
    return failures.described(check, where, OUTCOMES, chars=250, mark="")
