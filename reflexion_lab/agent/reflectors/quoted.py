"""Positive control for reflections: the canonical solution. An upper bound of what a retry can gain from words."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import dedent

from reflexion_lab.agent.reflectors.evidence import reflection_on
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Attempt, Episode, Reflection, Task

CAUSE = "My program does not compute what the task asks for."
CHANGE = "The {} must be exactly this:"


class Quoted:
    """Quotes the canonical solution after a failure. No model call.

    The share of retries that then pass is the *uptake* of model and retry prompt: an upper bound of the effect of any
    reflection with both. No figure of such a run is a pass@1, and no other run may read its reflections. Raises
    ConfigError: a task has no canonical solution. `tasks`: with canonical solutions, which the loop's copies lack.
    """

    reads_solutions = True

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = solved("quoted", tasks)

    def reflect(self, task: Task, attempt: Attempt, episodes: Sequence[Episode]) -> Reflection:
        known = self._tasks[task.task_id]
        kind = "program" if known.canonical_program == known.canonical_solution else "body of the function"
        code = dedent(known.canonical_solution.strip("\n")).rstrip()
        texts = {"root_cause": CAUSE, "what_to_change": CHANGE.format(kind), "quoted_code": code}
        return reflection_on(attempt, "control:quoted", confidence=1.0, **texts)


def solved(reflector: str, tasks: Sequence[Task]) -> dict[str, Task]:
    """`tasks` by id. Raises ConfigError: one has no canonical solution, which `reflector` needs."""
    if missing := [task.task_id for task in tasks if not task.canonical_solution.strip()]:
        got = f"{reflector}, and {len(missing)} of {len(tasks)} tasks have no canonical solution: {missing[0]}"
        raise ConfigError("reflector", got, "tasks that have one")
    return {task.task_id: task for task in tasks}
