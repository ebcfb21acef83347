"""The positive control for reflections: the words are the solution. What can a retry do with them at most?"""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import dedent

from reflexion_lab.agent.reflectors.evidence import reflection_on
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Attempt, Episode, Reflection, Task

CAUSE = "My program does not compute what the task asks for."
CHANGE = "The body of the function must be exactly this:"


class Quoted:
    """Quotes the canonical solution after a failure. No call.

    The share of retries that then pass is the *uptake* of model and retry prompt: an upper bound for what any words can
    do with both. No figure of such a run is a pass@1, and no other run may read its words.

    Parameters
    ----------
    tasks
        The benchmark's, with their canonical solutions: the loop's own copies lack them.
    """

    reads_solutions = True

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._solutions = {task.task_id: task.canonical_solution for task in tasks}

    def reflect(self, task: Task, attempt: Attempt, episodes: Sequence[Episode]) -> Reflection:
        """Raises ConfigError where the task has no canonical solution."""
        body = dedent(self._solutions.get(task.task_id, "").strip("\n")).rstrip()
        if not body:
            raise ConfigError(
                "reflector", f"quoted, and {task.task_id} has no canonical solution", "tasks that have one"
            )
        texts = {"root_cause": CAUSE, "what_to_change": CHANGE, "quoted_code": body}
        return reflection_on(attempt, "control:quoted", confidence=1.0, **texts)
