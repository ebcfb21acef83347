"""Control for reflections: reflections on another task. Do they help because they are about this task?"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from reflexion_lab.agent.reflectors.evidence import classify_evaluation
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Attempt, Episode, Reflection, Task, Usage, base_id

EXPECTED = "run the reflexion arm first (reflector=llm) and name its run folder"


class PriorReflection(NamedTuple):
    task_id: str
    number: int
    reflection: Reflection

    @property
    def texts(self) -> tuple[str, str, str]:
        return self.reflection.root_cause, self.reflection.what_went_wrong, self.reflection.what_to_change


class ShuffledWords:
    """Draws a reflection on another task from `pool`, with unchanged texts. No model call.

    It is drawn at random, by `seed`, task and attempt, from those on attempts of the same number if possible; no text
    is drawn twice for a task while there are others. The confidence is the author's; the category is that of the
    evidence. `pool`: reflections of earlier runs. `folders`: theirs, for error messages. `seed`: of the draws.
    """

    def __init__(self, pool: Sequence[PriorReflection], folders: Sequence[str] = (), seed: int = 0) -> None:
        self.folders = tuple(folders)
        self.seed = seed
        self._pool = sorted(pool, key=lambda prior: (prior.task_id, prior.number))
        self._drawn: set[tuple[str, tuple[str, str, str]]] = set()

    def reflect(self, task: Task, attempt: Attempt, episodes: Sequence[Episode]) -> Reflection:
        """Raises ConfigError if the pool has no reflection on another task."""
        others = [prior for prior in self._pool if base_id(prior.task_id) != task.task_id]
        benchmark = task.task_id.partition("/")[0]
        foreign = [prior for prior in others if prior.task_id.partition("/")[0] == benchmark] or others
        if not foreign:
            raise ConfigError(
                "reflector.pool",
                f"no reflection on a task other than {task.task_id} (attempt {attempt.number}) in "
                f"{', '.join(self.folders)}",
                "at least one",
                f"{EXPECTED}, with more tasks",
            )
        unused = [prior for prior in foreign if (task.loop_id, prior.texts) not in self._drawn] or foreign
        same_number = [prior for prior in unused if prior.number == attempt.number]
        drawn = random.Random(f"{self.seed}:{task.loop_id}:{attempt.number}").choice(same_number or unused)
        self._drawn.add((task.loop_id, drawn.texts))
        return replace(
            drawn.reflection,
            reflection_id=f"{attempt.task_id}#{attempt.number}",
            about_attempt=attempt.number,
            source="control:shuffled",
            category=classify_evaluation(attempt.evaluation)[0],
            flags=(),
            problem="",
            usage=Usage(),
        )
