"""Unit tests. Every test is a check with its own outcome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reflexion_lab.protocols import Sandbox
from reflexion_lab.records import WITHHELD, Check, Evaluation, Task, Trajectory
from reflexion_lab.tasks.evaluators.answers import NAME
from reflexion_lab.tasks.evaluators.executed import executed
from reflexion_lab.text.lines import by_text_of, output_by_text, where


class UnitTests:
    """Evaluator that runs the task's visible tests."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox

    def evaluate(self, task: Task, trajectory: Trajectory) -> Evaluation:
        why = trajectory.finish_reason, trajectory.ended * (trajectory.strategy == "play")
        return run_tests(self.sandbox, task, trajectory.solution, task.visible_tests, *why)


def run_tests(
    sandbox: Sandbox, task: Task, program: str, tests: Sequence[str], finish_reason: str = "stop", ended: str = ""
) -> Evaluation:
    """Verdict of `tests` on `program`. Without tests or a program, the outcome names the reason and is never a pass.

    Raises HarnessError: the sandbox is broken. `task`: supplies entry point, setup and the CPU time of the canonical
    solution. `finish_reason`: that of the model's reply; it becomes the outcome if the model withheld the program.
    `ended`: why the actor's turns ended.
    """
    if not tests:
        return Evaluation(passed=False, outcome="no_tests", reward=0.0)
    if not program.strip() and (task.kind != "actions" or finish_reason in WITHHELD):  # to take no action may be right
        outcome, why = without_program(task, finish_reason, ended)
        checks = tuple(
            Check(name=NAME if task.kind == "answer" else test, outcome=outcome, message=why) for test in tests
        )
        return evaluation_by(checks, feedback(checks))
    execution = executed(task, program, tests, sandbox)
    text = feedback(execution.checks, execution.output, program)
    return evaluation_by(execution.checks, text, output=execution.output, seconds=execution.seconds)


def without_program(task: Task, finish_reason: str, ended: str = "") -> tuple[str, str]:
    """Outcome of an attempt without a program, and a message."""
    what = f"code for {task.entry_point}" if task.entry_point else task.kind
    if finish_reason in WITHHELD:
        return finish_reason, f"no {what} was given: the reply ended in {finish_reason}"
    if ended in UNANSWERED:
        return "extraction_failed", f"no {what} was given: {UNANSWERED[ended]}"
    cut = ", which broke off at max_tokens" * (finish_reason == "length")
    return "extraction_failed", f"no {what} was found in the reply{cut}"


UNANSWERED = {"max_steps": "all turns were taken", "repeated": "the same action gave the same observation three times"}
"""How plays end without an answer."""


def evaluation_by(checks: tuple[Check, ...], text: str, **more: Any) -> Evaluation:
    """Passed only if every check passed; otherwise the outcome of the first check that did not; `more` fields."""
    failing = [check.outcome for check in checks if check.outcome != "pass"]
    share = (len(checks) - len(failing)) / len(checks)
    outcome = failing[0] if failing else "pass"
    return Evaluation(passed=not failing, outcome=outcome, reward=share, checks=checks, feedback=text, **more)


SHOWN = 3
"""Failing checks in the feedback; the others are only counted."""


def feedback(checks: Sequence[Check], printed: str = "", program: str = "", max_chars: int = 900) -> str:
    """Failing checks of `program`, one per line, in at most `max_chars` characters; "" if every check passed."""
    failing = [check for check in checks if check.outcome != "pass"]
    if not failing:
        return ""
    if failing[0].name == NAME:
        return f"{failing[0].message[:1].upper()}{failing[0].message[1:]}."
    lines = [f"{len(checks) - len(failing)} of {len(checks)} tests passed. Failing:"]
    lines += [f"- {check.name[:200]}  # {describe(check, program)}" for check in failing[:SHOWN]]
    if len(failing) > SHOWN:
        lines.append(f"- and {len(failing) - SHOWN} more")
    if printed.strip():
        lines.append(f"The program printed: {output_by_text(printed.strip(), program)[:200]}")
    return "\n".join(lines)[:max_chars]


def describe(check: Check, program: str) -> str:
    """Message of a failing check, with its exception and the text of its line of the program, if any."""
    if check.outcome == "fail":
        return check.message or "the assertion is false"
    message = by_text_of(check.error_type, check.message, program)
    return f"{check.error_type or check.outcome}: {message}".rstrip(": ")[:250] + where(program, check.line)
