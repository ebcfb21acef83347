"""A simulated model whose retries depend on the truth of the words that it reads, by a known curve."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from experiments.oracle_words.words import true_differences
from reflexion_lab.agent.models.simulated import SimulatedModel
from reflexion_lab.limits import Share, validated
from reflexion_lab.records import Task

WORDS = re.compile(r"^(?:Root cause|What to change|Action): |^\[self-reflection on it\]$", re.MULTILINE)
"""Beginning of the words of a reflection in prompts of chats."""
SHOWN = 100
"""Characters by which a change is recognized: prompts cut long ones."""


class Student(SimulatedModel):
    """`SimulatedModel` with another `repair` after true words and after any other words on the last wrong program.

    Words are true if the prompt holds the first change that `reflector=oracle` names for that program, or the canonical
    solution itself.
    """

    @validated
    def __init__(
        self, tasks: Sequence[Task], *, repair_true: Share = 0.6, repair_wrong: Share = 0.1, **skill: Any
    ) -> None:
        super().__init__(tasks, **skill)
        self.repair_true, self.repair_wrong = repair_true, repair_wrong
        self.fingerprint += f":{repair_true}:{repair_wrong}"

    def chance_of_repair(self, task: Task, program: str, after: str) -> float:
        change = true_differences(program, task)[0].change
        body = _lines(task.canonical_solution)  # whole lines: wrong words may quote one of the draft's
        if " ".join(change.split())[:SHOWN] in " ".join(after.split()) or body in _lines(after):
            return self.repair_true
        return self.repair_wrong if WORDS.search(after) else self.repair


def _lines(text: str) -> str:
    """Lines of `text` without indentation, each between two line ends."""
    return "".join(f"\n{line.strip()}\n" for line in text.strip().splitlines())
