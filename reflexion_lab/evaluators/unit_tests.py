"""The unit-test evaluator: every test is a check with an outcome of its own."""

from __future__ import annotations

from collections.abc import Sequence

from reflexion_lab.evaluators.feedback import feedback
from reflexion_lab.protocols import Executor
from reflexion_lab.records import Check, Evaluation, Task, Trajectory


class UnitTests:
    """Runs the tests that the task shows."""

    def __init__(self, sandbox: Executor) -> None:
        self.sandbox = sandbox

    def evaluate(self, task: Task, trajectory: Trajectory) -> Evaluation:
        return run_tests(self.sandbox, task, trajectory.solution, task.visible_tests)


def run_tests(sandbox: Executor, task: Task, program: str, tests: Sequence[str]) -> Evaluation:
    """The verdict of `tests` on `program`. No tests, or no program, is an outcome of its own and never a pass.

    Raises:
        HarnessError: the sandbox is broken.
    """
    if not tests:
        return Evaluation(passed=False, outcome="no_tests", reward=0.0)
    if not program.strip():
        why = f"no code for {task.entry_point} was found in the reply"
        checks = tuple(Check(name=test, outcome="extraction_failed", message=why) for test in tests)
        return _verdict(checks, feedback(checks))
    execution = sandbox.run(program, task.entry_point, tests, task.setup, task.cpu_seconds)
    text = feedback(execution.checks, execution.output)
    return _verdict(execution.checks, text, execution.output, execution.seconds)


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
