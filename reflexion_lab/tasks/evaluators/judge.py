"""Grader of hidden tests. Separate from the loop's evaluator, so that its verdicts cannot reach the loop."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from reflexion_lab.protocols import Sandbox
from reflexion_lab.records import Grade, Task
from reflexion_lab.tasks.evaluators.unit_tests import run_tests


class AskedTwice(RuntimeError):
    """A second hidden verdict on a task, requested while the run was open, would turn pass@1 into pass@2."""


class HiddenTests:
    """Grades one submission per task while the run is open, and any attempt once the run is sealed."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.sealed = False
        self._graded: set[str] = set()
        self._lock = threading.Lock()

    def grade(self, task: Task, number: int, solution: str) -> Grade:
        """The hidden verdict on attempt `number`.

        Raises AskedTwice: the run is open and this task already has a grade.
        """
        with self._lock:
            if not self.sealed and task.loop_id in self._graded:
                raise AskedTwice(f"{task.loop_id}: a second grade was asked for before the run was sealed")
            self._graded.add(task.loop_id)
            sealed = self.sealed
        evaluation = run_tests(self.sandbox, task, solution, task.hidden_tests)
        base = [check.outcome == "pass" for check in evaluation.checks[: task.base_tests]]
        has_base = task.base_tests and evaluation.has_verdict
        return Grade(
            task_id=task.loop_id,
            number=number,
            passed=evaluation.passed,
            outcome=evaluation.outcome,
            checks_passed=len(evaluation.checks) - len(evaluation.failures),
            checks_total=len(task.hidden_tests),
            sealed=sealed,
            checks_in_process=sum(check.in_process for check in evaluation.checks),
            base_passed=sum(base) == task.base_tests if has_base else None,
        )

    def resume(self, graded: Iterable[str]) -> None:
        """Mark tasks by id as graded before the run was interrupted."""
        self._graded.update(graded)

    def seal(self) -> None:
        """Mark all loops as finished; later verdicts cannot reach them."""
        self.sealed = True
