"""Executes the checks of a task on its solution, by the task's kind."""

from __future__ import annotations

from collections.abc import Sequence

from reflexion_lab.errors import HarnessError
from reflexion_lab.protocols import Environment, Sandbox
from reflexion_lab.records import Execution, Task
from reflexion_lab.tasks.environments.replay import FAILED, failure, replayed, without_verdict
from reflexion_lab.tasks.evaluators.answers import NAME, answered
from reflexion_lab.tasks.sandbox.programs import Terms

EXECUTED = ("function", "program")
"""Kinds of tasks whose solutions the sandbox executes."""


def executed(task: Task, solution: str, checks: Sequence[str], sandbox: Sandbox) -> Execution:
    """The outcome of each check of `checks` on `solution`, in order. Raises HarnessError, as of `Sandbox.run`."""
    if task.kind == "program":
        return sandbox.run_program(solution, checks, Terms.of(task), task.cpu_seconds)
    if task.kind == "answer":
        is_lost = solution.startswith(FAILED)
        return without_verdict([NAME] * len(checks), failure(solution)) if is_lost else answered(solution, checks)
    if task.kind == "actions":
        environment: Environment | None = getattr(sandbox, "environment", None)
        if environment is None:
            raise HarnessError(f"{task.task_id}: its actions need an environment, got none")
        return replayed(environment, task, solution, checks)
    packaged = {"requires": task.requires} if task.requires else {}
    return sandbox.run(solution, task.entry_point, checks, task.setup, task.cpu_seconds, **packaged)
