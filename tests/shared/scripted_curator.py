"""A curator with several calls a round and every kind of operation, which follow from what it reads."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import ClassVar

from reflexion_lab.protocols import Model
from reflexion_lab.records import (
    Batch,
    Completion,
    Curation,
    Finished,
    Item,
    Message,
    Operation,
    Sampling,
    Selection,
    Task,
)

KNOWN = '"actionItems"'
"""The simulated model replies to prompts with this word."""


class ScriptedCurator:
    """A call per loop, and one for the whole round. `raises`: the kind of call that raises."""

    raises: ClassVar[str] = ""

    def __init__(self, model: Model) -> None:
        self.model = model

    def select(self, items: Sequence[Item], task: Task) -> Selection:
        own = Item(item_id=f"for-{task.task_id}", text=f"written for {task.entry_point}")
        return Selection(items=(*items[-3:], own), usage=self._call(f"select {task.task_id}").usage)

    def due(self, finished: Sequence[Finished]) -> list[Batch]:
        loops = [Batch(finished=(each,), kind="loop") for each in finished]
        return [*loops, Batch(finished=tuple(finished), kind="all")]

    def curate(self, items: Sequence[Item], batch: Batch) -> Curation:
        if batch.kind == self.raises:
            raise RuntimeError("the curator is broken")
        tasks = [each.task.task_id for each in batch.finished]
        seen = " ".join([*tasks, *(item.item_id for item in items), *(str(each.passed) for each in batch.finished)])
        number = hashlib.sha256(seen.encode()).digest()[0]
        completion = self._call(f"curate {number} {seen}")
        operations = self._loop(batch.finished[0], number) if batch.kind == "loop" else self._all(items, number)
        return Curation(operations=tuple(operations), usage=completion.usage, replies=(completion.text,))

    def _loop(self, finished: Finished, number: int) -> list[Operation]:
        task, vote = finished.task.task_id, 1 if finished.passed else -1
        known = tuple(item.item_id for item in finished.shown if not item.item_id.startswith("for-"))
        return [
            Operation(kind="add", text=f"Rule {number} of {task}.", votes={"score": 1 + number % 3}, sources=(task,)),
            Operation(kind="vote", item_ids=known, votes={"score": vote}),
            Operation(kind="remove", item_ids=("no",)),
        ]

    def _all(self, items: Sequence[Item], number: int) -> list[Operation]:
        """Of three items or more, the oldest is removed, and the next two are linked or, of four or more, merged."""
        if len(items) < 3:
            return []
        first, second, third, *_ = (item.item_id for item in items)
        return [
            Operation(kind="remove", item_ids=(first,)),
            Operation(kind="edit", item_ids=(second,), text=f"Edited by {number}."),
            Operation(kind="merge" if len(items) > 3 else "link", item_ids=(second, third), text=f"By {number}."),
        ]

    def _call(self, text: str) -> Completion:
        return self.model.complete([Message(role="user", content=f"{KNOWN}: {text}")], sampling=Sampling())
