"""The control that tells another task's words: are they of use because they are about this one?"""

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
        said = self.reflection
        return said.root_cause, said.what_went_wrong, said.what_to_change


class ShuffledWords:
    """Draws a reflection on another task from `pool`, its words unchanged. Costs nothing.

    Words are drawn at random, by `seed`, task and attempt, from those on attempts of the same number, or, where there
    are none, of any; no words twice on one task while there are others. Confidence stays that of its author; the
    category is that of the evidence at hand.

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
        self._pool = sorted(pool, key=lambda told: (told.task_id, told.number))
        self._drawn: set[tuple[str, tuple[str, str, str]]] = set()

    def reflect(self, task: Task, attempt: Attempt, episodes: Sequence[Episode]) -> Reflection:
        """Raises ConfigError when the pool holds no words on another task."""
        every = [told for told in self._pool if told.task_id != task.task_id]
        foreign = [told for told in every if _alike(told.task_id, task.task_id)] or every
        if not foreign:
            raise ConfigError(
                "reflector.pool",
                f"no words on another task than {task.task_id} (attempt {attempt.number}) in {', '.join(self.folders)}",
                "one at least",
                f"{EXPECTED}, with more tasks",
            )
        others = [told for told in foreign if (task.task_id, told.words) not in self._drawn] or foreign
        alike = [told for told in others if told.number == attempt.number]
        drawn = random.Random(f"{self.seed}:{task.task_id}:{attempt.number}").choice(alike or others)
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


def _alike(one: str, other: str) -> bool:
    """Whether two tasks are of one benchmark, as far as their names tell."""
    return one.partition("/")[0] == other.partition("/")[0]
