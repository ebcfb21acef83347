"""A curator with several calls a round and every kind of operation, which follow from what it reads."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import ClassVar

from reflexion_lab import records
from reflexion_lab.protocols import Model

KNOWN = '"actionItems"'
"""The simulated model replies to prompts with this word."""


class ScriptedCurator:
    """A call per loop, and one for the whole round. `raises`: the kind of call that raises."""

    raises: ClassVar[str] = ""

    def __init__(self, model: Model) -> None:
        self.model = model

    def select(self, items: Sequence[records.Item], task: records.Task) -> records.Selection:
        own = records.Item(item_id=f"for-{task.task_id}", text=f"written for {task.entry_point}")
        return records.Selection(items=(*items[-3:], own), usage=self._call(f"select {task.task_id}").usage)

    def due(self, finished: Sequence[records.Finished]) -> list[records.Batch]:
        loops = [records.Batch(finished=(each,), kind="loop") for each in finished]
        return [*loops, records.Batch(finished=tuple(finished), kind="all")]

    def curate(self, items: Sequence[records.Item], batch: records.Batch) -> records.Curation:
        if batch.kind == self.raises:
            raise RuntimeError("the curator is broken")
        tasks = [each.task.task_id for each in batch.finished]
        seen = " ".join([*tasks, *(item.item_id for item in items), *(str(each.passed) for each in batch.finished)])
        number = hashlib.sha256(seen.encode()).digest()[0]
        completion = self._call(f"curate {number} {seen}")
        operations = self._loop(batch.finished[0], number) if batch.kind == "loop" else self._all(items, number)
        return records.Curation(operations=tuple(operations), usage=completion.usage, replies=(completion.text,))

    def _loop(self, finished: records.Finished, number: int) -> list[records.Operation]:
        task, vote = finished.task.task_id, 1 if finished.passed else -1
        known = tuple(item.item_id for item in finished.shown if not item.item_id.startswith("for-"))
        return [
            records.Operation(
                kind="add", text=f"Rule {number} of {task}.", votes={"score": 1 + number % 3}, sources=(task,)
            ),
            records.Operation(kind="vote", item_ids=known, votes={"score": vote}),
            records.Operation(kind="remove", item_ids=("no",)),
        ]

    def _all(self, items: Sequence[records.Item], number: int) -> list[records.Operation]:
        """Of three items or more, the oldest is removed, and the next two are linked or, of four or more, merged."""
        if len(items) < 3:
            return []
        first, second, third, *_ = (item.item_id for item in items)
        return [
            records.Operation(kind="remove", item_ids=(first,)),
            records.Operation(kind="edit", item_ids=(second,), text=f"Edited by {number}."),
            records.Operation(
                kind="merge" if len(items) > 3 else "link", item_ids=(second, third), text=f"By {number}."
            ),
        ]

    def _call(self, text: str) -> records.Completion:
        return self.model.complete(
            [records.Message(role="user", content=f"{KNOWN}: {text}")], sampling=records.Sampling()
        )
