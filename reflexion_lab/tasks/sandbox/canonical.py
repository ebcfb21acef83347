"""What tasks need: their canonical solutions, executed against all their tests before anything is judged by these."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from msgspec.structs import replace

from reflexion_lab.protocols import Sandbox
from reflexion_lab.records import Execution, Task


def measured(tasks: Iterable[Task], executor: Sandbox, workers: int) -> tuple[tuple[Task, ...], list[str]]:
    """`tasks` with their `cpu_seconds`, and the ids of those whose canonical solution fails a test of theirs.

    Tasks without canonical solution or tests stay as they are. A failing one means that the task, or this machine, is
    not what its authors had: a program that fails it may be right.

    Raises
    ------
    HarnessError
        The sandbox is broken.
    """

    def execute(task: Task) -> Execution | None:
        tests = (*task.visible_tests, *task.hidden_tests)
        if not (task.canonical_solution.strip() and tests):
            return None
        return executor.run(task.canonical_program, task.entry_point, tests, task.setup)

    whole = tuple(tasks)
    with ThreadPoolExecutor(workers) as pool:
        executions = list(pool.map(execute, whole))
    failing = [
        task.task_id
        for task, execution in zip(whole, executions, strict=True)
        if execution and any(check.outcome != "pass" for check in execution.checks)
    ]
    timed = (
        replace(task, cpu_seconds=execution.cpu_seconds) if execution else task
        for task, execution in zip(whole, executions, strict=True)
    )
    return tuple(timed), failing
