"""Memento (Zhou et al., arXiv 2508.16153; Agent-on-the-Fly/Memento@42fbbca): a bank of cases, successes and failures.

Paper and released code: a case (question, plan, outcome) is appended after each task, by the verdict of a model that
knows the true answer; the 8 cases of the most similar questions are in the prompt, positive ones before negative ones.
A second variant trains the retriever on the outcomes. Cases are neither changed nor removed.

The code reads the bank at the start of a pass, so that no task reads cases of its own pass (`round_size` of a pass).

Here: the case is task, submitted program and verdict of the feedback, if it has one; the retriever is not trained.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import attrgetter

from reflexion_lab.limits import Positive, validated
from reflexion_lab.loop.selection import submitted_at
from reflexion_lab.memory.curators.index import Index
from reflexion_lab.memory.curators.items import ItemLimits
from reflexion_lab.memory.curators.trajectories import case
from reflexion_lab.memory.recall import fitting
from reflexion_lab.protocols import Retriever
from reflexion_lab.records import Batch, Curation, Finished, Item, Selection, Task
from reflexion_lab.text.prompts.render import without_prompt
from reflexion_lab.text.shorten import bounded

SECTIONS = {True: "Positive examples", False: "Negative examples"}
"""By outcome, in the order of the prompt."""


class Memento:
    """The cases of the most similar tasks, without a model.

    `retriever`: empty, for this curator alone. `k`: cases in the prompt. `max_chars`: length of each, half of it for
    the task. `limits`: of the tokens in a prompt, which the nearest cases get.
    """

    bank = True

    @validated
    def __init__(
        self, retriever: Retriever, *, k: Positive = 8, max_chars: Positive = 1500, limits: ItemLimits | None = None
    ) -> None:
        self.index = Index(retriever)
        self.k = k
        self.max_chars = max_chars
        self.max_tokens = (limits.max_tokens if limits else 0) or math.inf

    def select(self, items: Sequence[Item], task: Task) -> Selection:
        nearest, _ = fitting(self.index.nearest(items, task.prompt, self.k), attrgetter("text"), self.max_tokens)
        return Selection(items=tuple(item for name in SECTIONS.values() for item in nearest if item.section == name))

    def due(self, finished: Sequence[Finished]) -> Sequence[Batch]:
        return [Batch(finished=(each,)) for each in finished if each.passed is not None]

    def curate(self, items: Sequence[Item], batch: Batch) -> Curation:
        (each,) = batch.finished
        return Curation(operations=(case(each, self._case(each), SECTIONS[bool(each.passed)]),))

    def _case(self, finished: Finished) -> str:
        solution = submitted_at(finished.attempts).trajectory.solution
        program = without_prompt(solution, finished.task).rstrip().lstrip("\n") or "(no program)"
        question, answer = (bounded(text, self.max_chars // 2) for text in (finished.task.prompt.strip(), program))
        return f"Question:\n{question}\nSolution:\n{answer}"
