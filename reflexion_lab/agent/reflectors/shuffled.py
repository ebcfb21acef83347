"""A control for reflections: those on another task. Do they help because they are about this one?"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from reflexion_lab.agent.reflectors.evidence import classify_evaluation
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Attempt, Episode, Reflection, Task, Usage

EXPECTED = "run the reflexion arm first (reflector=llm) and name its run folder"


class Told(NamedTuple):
    """A reflection of an earlier run."""

    task_id: str
    number: int
    reflection: Reflection

    @property
    def words(self) -> tuple[str, str, str]:
        return self.reflection.root_cause, self.reflection.what_went_wrong, self.reflection.what_to_change


class ShuffledWords:
    """Draws a reflection on another task from `pool`, its texts unchanged. No call.

    It is drawn at random, by `seed`, task and attempt, from those on attempts of the same number, else of any; none
    twice on one task while there are others. The confidence is its author's; the category that of the evidence.

    Parameters
    ----------
    pool
        Reflections of earlier runs.
    folders
        Where they were read, for error messages.
    seed
        Of the draws.
    """

    def __init__(self, pool: Sequence[Told], folders: Sequence[str] = (), seed: int = 0) -> None:
        self.folders = tuple(folders)
        self.seed = seed
        self._pool = sorted(pool, key=lambda prior: (prior.task_id, prior.number))
        self._drawn: set[tuple[str, tuple[str, str, str]]] = set()

    def reflect(self, task: Task, attempt: Attempt, episodes: Sequence[Episode]) -> Reflection:
        """Raises ConfigError where the pool has no reflection on another task."""
        every = [prior for prior in self._pool if prior.task_id != task.task_id]
        foreign = [prior for prior in every if _same_benchmark(prior.task_id, task.task_id)] or every
        if not foreign:
            raise ConfigError(
                "reflector.pool",
                f"no words on another task than {task.task_id} (attempt {attempt.number}) in {', '.join(self.folders)}",
                "one at least",
                f"{EXPECTED}, with more tasks",
            )
        unused = [prior for prior in foreign if (task.task_id, prior.words) not in self._drawn] or foreign
        same_number = [prior for prior in unused if prior.number == attempt.number]
        drawn = random.Random(f"{self.seed}:{task.task_id}:{attempt.number}").choice(same_number or unused)
        self._drawn.add((task.task_id, drawn.words))
        return replace(
            drawn.reflection,
            reflection_id=f"{task.task_id}#{attempt.number}",
            about_attempt=attempt.number,
            source="control:shuffled",
            category=classify_evaluation(attempt.evaluation)[0],
            flags=(),
            problem="",
            usage=Usage(),
        )


def _same_benchmark(first_id: str, second_id: str) -> bool:
    """Whether two tasks are of one benchmark, by their names."""
    return first_id.partition("/")[0] == second_id.partition("/")[0]
