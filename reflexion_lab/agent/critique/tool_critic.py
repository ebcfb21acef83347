"""Critiques by tools: tests, a type checker, a linter. No model call."""

from __future__ import annotations

from collections.abc import Iterator

from reflexion_lab.agent.reflectors import evidence
from reflexion_lab.limits import PositiveShare, validated
from reflexion_lab.protocols import Evaluator
from reflexion_lab.records import Critique, Evaluation, Task, Trajectory

SHOWN = 3
"""Number of failing checks that are described; the others are counted."""
SOURCES = {"unit_tests": "tests", "type_check": "types"}
"""`Critique.source` by verification type, if different."""
OUTCOMES = {**evidence.OUTCOMES, "fail": "it does not hold", "error": "error"}
UNJUDGED = {"no_tests": "the task shows no test", "harness_error": "the tool did not run"}


class ToolCritic:
    """Evaluation of a draft as a critique: severity = 1 - reward, score = reward, one issue per failing check.

    `weight`: factor of severity and confidence in (0, 1], to count a linter's warning less than a failing test.
    """

    @validated
    def __init__(self, evaluator: Evaluator, weight: PositiveShare = 1.0) -> None:
        self.evaluator = evaluator
        self.weight = weight

    def critique(self, task: Task, program: str) -> Critique:
        """Raises HarnessError. Without a verdict the severity is 1 and the confidence 0, so that the loop continues."""
        evaluation = self.evaluator.evaluate(task, Trajectory(solution=program, strategy="draft"))
        source = SOURCES.get(evaluation.verification_type, evaluation.verification_type)
        if not evaluation.has_verdict:
            reasons = evaluation.issues or (UNJUDGED[evaluation.outcome],)
            issues = tuple(f"Nothing was found out: {reason}" for reason in reasons)
            return Critique(severity=1.0, issues=issues, confidence=0.0, source=source, seconds=evaluation.seconds)
        return Critique(
            severity=self.weight * (1 - evaluation.reward),
            issues=tuple(issues_of(evaluation, program)),
            suggestions=evaluation.suggestions,
            score=evaluation.reward,
            confidence=self.weight * evaluation.confidence,
            rank=evaluation.rank if any(check.kind == "test" for check in evaluation.checks) else None,
            source=source,
            seconds=evaluation.seconds,
        )


def issues_of(evaluation: Evaluation, program: str) -> Iterator[str]:
    """Descriptions of the failing checks; if none fails, the evaluator's other issues."""
    failing = evaluation.failures
    for check in failing[:SHOWN]:
        yield evidence.check_line(check, program, OUTCOMES, chars=250, mark="")
    if len(failing) > SHOWN:
        yield f"{len(failing) - SHOWN} more checks fail"
    if not failing:
        yield from evaluation.issues
