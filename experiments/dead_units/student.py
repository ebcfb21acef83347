"""A simulated model whose retries depend on what the prompt shows beside the failed program, by known factors."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from reflexion_lab.agent.models.simulated import SimulatedModel, skill_digest
from reflexion_lab.limits import validated
from reflexion_lab.records import Completion, Message, Sampling, Task

FACTS = re.compile(r"^\d+ of \d+ tests passed\. Failing:$", re.MULTILINE)
WORDS = re.compile(r"^(?:Root cause|What to change): ", re.MULTILINE)
REQUEST = "Write a different, corrected function."
OWN_TURN = "(a message of the assistant)"


class Student(SimulatedModel):
    """`SimulatedModel` whose chance on a retry is a factor times that of a fresh draw.

    `mean`, `spread`: of the chances of a fresh draw over tasks, as `first` and `spread` of the model. `factors`: by
    role of the failed program, then by what stands beside it: `bare`, `facts`, `placebo` or `words` (of one's own, with
    the facts).
    """

    @validated
    def __init__(
        self,
        tasks: Sequence[Task],
        *,
        mean: float,
        spread: float,
        factors: Mapping[str, Mapping[str, float]],
        **skill: Any,
    ) -> None:
        super().__init__(tasks, **skill)
        self.factors = {role: dict(by_shape) for role, by_shape in factors.items()}
        self._first = {task.loop_id: chance_of_draw(task.task_id, mean, spread) for task in tasks}
        planted = [mean, spread, msgspec.to_builtins(self.factors)]
        self.fingerprint = f"dead_units_student:{skill_digest(planted, tasks)[:16]}"

    def complete(self, messages: Sequence[Message], *, sampling: Sampling, sample: int = 0) -> Completion:
        marked = [
            replace(message, content=f"{message.content}\n\n{OWN_TURN}") if message.role == "assistant" else message
            for message in messages
        ]
        return super().complete(marked, sampling=sampling, sample=sample)

    def chance_of_repair(self, task: Task, program: str, after: str) -> float:
        role = "assistant" if OWN_TURN in after else "user"
        return min(1.0, self._first[task.loop_id] * self.factors[role][shape(after)])


def shape(after: str) -> str:
    """What stands between the failed program and the request to correct it."""
    if FACTS.search(after):
        return "words" if WORDS.search(after) else "facts"
    between = after.partition(REQUEST)[0].replace(OWN_TURN, "")
    return "placebo" if between.strip() else "bare"


def chance_of_draw(task_id: str, mean: float, spread: float) -> float:
    """Chance of a task's fresh draw, from a beta distribution: `spread` is the share of its largest variance."""
    weight = 1 / spread - 1
    return random.Random(f"dead units:{task_id}").betavariate(mean * weight, (1 - mean) * weight)
