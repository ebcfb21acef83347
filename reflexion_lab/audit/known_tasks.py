"""The task that a row was made for, with the tests that judged it."""

from __future__ import annotations

import functools
import re

from msgspec.structs import replace

from reflexion_lab.audit.rows import Row
from reflexion_lab.records import Task


def task_of(row: Row, task_id: str) -> Task:
    """The row's own prompt, test and entry point; where it lacks one, HumanEval's by that id.

    Raises
    ------
    ValueError
        There is neither.
    """
    own = [name for name in ("prompt", "test", "entry_point") if isinstance(row.fields.get(name), str)]
    if len(own) == 3:
        entry_point, test = row.text("entry_point"), row.text("test")
        if not entry_point.isidentifier():
            raise row.wrong("entry_point", repr(entry_point)[:60], "the name of a function")
        checks = _checks(test, entry_point)
        return Task(task_id=task_id, prompt=row.text("prompt"), entry_point=entry_point, hidden_tests=checks)
    known = human_eval_tasks().get(task_id)
    if known is None:
        expected = "a HumanEval task, or `prompt`, `test` and `entry_point` in the row"
        raise row.wrong("task_id", repr(task_id)[:60], expected)
    if "test" not in own:
        return known
    return replace(known, hidden_tests=_checks(row.text("test"), known.entry_point))


@functools.cache
def human_eval_tasks() -> dict[str, Task]:
    from reflexion_lab.tasks.benchmarks.humaneval import humaneval

    return {task.task_id: task for task in humaneval()}


@functools.cache
def _checks(test: str, entry_point: str) -> tuple[str, ...]:
    """The test, split into its asserts; whole where it cannot be split.

    So also where its `check` has the name of a function under test: it then calls itself, and no program can pass.
    """
    from reflexion_lab.tasks.benchmarks.humaneval import hidden_checks

    try:
        checks = hidden_checks(test)
    except (LookupError, SyntaxError, StopIteration, ValueError, RecursionError, MemoryError):
        checks = ()
    calls_itself = entry_point == "check" or any(re.search(r"\bcheck\(", check) for check in checks)
    if not test.strip() or (checks and not calls_itself):
        return checks
    defined, called = (re.search(rf"^{word}check\(", test, re.MULTILINE) for word in ("def ", ""))
    return (f"{test}\ncheck({entry_point})" if defined and not called else test,)
