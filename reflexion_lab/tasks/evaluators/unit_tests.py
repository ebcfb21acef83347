"""The unit-test evaluator: every test is a check with an outcome of its own."""

from __future__ import annotations

from collections.abc import Sequence

from reflexion_lab.protocols import Sandbox
from reflexion_lab.records import WITHHELD, Check, Evaluation, Task, Trajectory
from reflexion_lab.tasks.evaluators.feedback import feedback


class UnitTests:
    """Runs the tests that the task shows."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox

    def evaluate(self, task: Task, trajectory: Trajectory) -> Evaluation:
        return run_tests(self.sandbox, task, trajectory.solution, task.visible_tests, trajectory.finish_reason)


def run_tests(
    sandbox: Sandbox, task: Task, program: str, tests: Sequence[str], finish_reason: str = "stop"
) -> Evaluation:
    """The verdict of `tests` on `program`. No tests, or no program, is an outcome of its own and never a pass; where
    the model withheld the program, `finish_reason` names it.

    Raises
    ------
    HarnessError
        The sandbox is broken.
    """
    if not tests:
        return Evaluation(passed=False, outcome="no_tests", reward=0.0)
    if not program.strip():
        outcome, why = without_program(task, finish_reason)
        checks = tuple(Check(name=test, outcome=outcome, message=why) for test in tests)
        return _verdict(checks, feedback(checks))
    execution = sandbox.run(program, task.entry_point, tests, task.setup, task.cpu_seconds)
    text = feedback(execution.checks, execution.output)
    return _verdict(execution.checks, text, execution.output, execution.seconds)


def without_program(task: Task, finish_reason: str) -> tuple[str, str]:
    """The outcome of an attempt that ended without a program, and why, in words."""
    if finish_reason in WITHHELD:
        return finish_reason, f"no code for {task.entry_point} was given: the reply ended in {finish_reason}"
    return "extraction_failed", f"no code for {task.entry_point} was found in the reply"


def _verdict(checks: tuple[Check, ...], text: str, output: str = "", seconds: float = 0.0) -> Evaluation:
    """Passed only if every check was shown to pass; else the outcome of the first that was not."""
    failing = [check.outcome for check in checks if check.outcome != "pass"]
    return Evaluation(
        passed=not failing,
        outcome=failing[0] if failing else "pass",
        reward=(len(checks) - len(failing)) / len(checks),
        checks=checks,
        feedback=text,
        output=output,
        seconds=seconds,
    )
