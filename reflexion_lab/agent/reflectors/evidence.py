"""Evidence of a failure: its class, its failing checks in words, and a reflection that rests on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reflexion_lab.agent.reflectors.classes import classify
from reflexion_lab.records import WITHHELD, Attempt, Check, Evaluation, Reflection
from reflexion_lab.text import shorten
from reflexion_lab.text.shorten import line

OUTCOMES = {
    "fail": "it did not hold",
    "error": "it raised an error",
    "timeout": "time ran out",
    "memory": "memory ran out",
    "early_exit": "the program ended before its checks did",
}
"""What is said of a check that has neither an exception nor a message."""


def described(
    check: Check, where: str, outcomes: Mapping[str, str] = OUTCOMES, chars: int = 300, mark: str = "…"
) -> str:
    """One line: the check's source, its exception and message (cut at `chars`), and `where`."""
    # `assert` says it already: the type is news only when it is another exception.
    error = "" if check.error_type == "AssertionError" and check.message else check.error_type
    cause = ": ".join(filter(None, (error, line(check.message, chars, mark))))
    return f"`{line(check.name, 200, mark)}` -> {cause or outcomes.get(check.outcome, check.outcome)}{where}"


_BY_OUTCOME = {
    "timeout": "timeout",
    "memory": "memory",
    "extraction_failed": "syntax",
    "early_exit": "unknown",
    **dict.fromkeys(WITHHELD, "unknown"),
}

_OUTCOMES = OUTCOMES | {
    "no_tests": "there was no check to run",
    "extraction_failed": "no program could be found in my reply, which must hold one whole function",
    "refusal": "I refused to answer, and gave no program",
    "content_filter": "my reply was cut out by a filter, and no program was left",
    "context_overflow": "the prompt was too long for me, and no program was written",
    "wrong_model": "another model answered, whose reply does not count",
}


def reflection_on(attempt: Attempt, source: str, **fields: Any) -> Reflection:
    """A reflection with these fields: by default the category is that of the evidence, and any other is empty."""
    default: dict[str, Any] = {
        "root_cause": "",
        "what_went_wrong": "",
        "what_to_change": "",
        "confidence": 0.0,
        "confidence_source": "none",
        "category": classify_evaluation(attempt.evaluation)[0],
    }
    return Reflection(
        reflection_id=f"{attempt.task_id}#{attempt.number}",
        about_attempt=attempt.number,
        source=source,
        **default | fields,
    )


def classify_evaluation(evaluation: Evaluation) -> tuple[str, Check | None]:
    """The failure's class, one of `CLASSES`, and the check that shows it (None when no check failed)."""
    check = next(iter(evaluation.failures), None)
    if evaluation.outcome in _BY_OUTCOME:
        alike = (failed for failed in evaluation.failures if failed.outcome == evaluation.outcome)
        return _BY_OUTCOME[evaluation.outcome], next(alike, check)
    if check is None:
        return "unknown", None
    if check.outcome in _BY_OUTCOME:
        return _BY_OUTCOME[check.outcome], check
    # A comparison that failed quotes values; words inside them are data.
    if check.outcome == "fail" and not check.error_type:
        return "assertion", check
    return classify(check.error_type, check.message), check


def describe(attempt: Attempt, check: Check | None) -> str:
    """One line: the check, its failure and where; without a check, how the evaluation ended."""
    if check is None:
        outcome = attempt.evaluation.outcome
        return shorten.line(_OUTCOMES.get(outcome, f"the checks ended in {outcome}"), 200)
    return described(check, _where(attempt.trajectory.solution, check.line), _OUTCOMES)


def _where(solution: str, line: int) -> str:
    lines = solution.splitlines()
    if not 1 <= line <= len(lines):
        return f" (line {line})" if line else ""
    return f" (line {line}: {shorten.line(lines[line - 1], 120)})"
