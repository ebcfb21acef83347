"""The lab's own wisdom as a curator: root causes that recur in reflections, with advice and use.

As `lessons.wisdom`, but each change is an operation: an entry is shown from its second failure on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from reflexion_lab.limits import Count, Positive, Share, validated
from reflexion_lab.memory.curators.index import Index
from reflexion_lab.memory.lessons.wisdom import normalised
from reflexion_lab.protocols import Retriever
from reflexion_lab.records import Attempt, Batch, Curation, Finished, Item, Operation, Reflection, Selection, Task
from reflexion_lab.text.shorten import line

RECURRENT = 2
"""Failures from which a cause is shown."""
CHARS = 300
"""Length of a cause, and of its advice."""


class Wisdom:
    """Root causes of reflections by their normalised words; no model.

    `retriever`: empty, for this curator alone. `k`: entries in the prompt. `min_score`: minimum retriever score, in [0,
    1]. `retire_after`, `retire_below`: entries that so many loops read are hidden if a smaller share of them passed.
    """

    reads_reflections = bank = True

    @validated
    def __init__(
        self,
        retriever: Retriever,
        k: Count = 3,
        min_score: Share = 0.0,
        retire_after: Positive = 5,
        retire_below: Share = 0.2,
    ) -> None:
        self.index = Index(retriever)
        self.k = k
        self.min_score = min_score
        self.retire_after = retire_after
        self.retire_below = retire_below

    def select(self, items: Sequence[Item], task: Task) -> Selection:
        near = self.index.nearest(items, task.prompt, len(items), self.min_score) if self.k else []
        return Selection(items=tuple([item for item in near if self.is_shown(item)][: self.k]))

    def is_shown(self, item: Item) -> bool:
        used, passed = item.counts.get("used", 0), item.counts.get("passed", 0)
        is_retired = used >= self.retire_after and passed < self.retire_below * used
        return item.counts.get("failures", 0) >= RECURRENT and not is_retired

    def due(self, finished: Sequence[Finished]) -> Sequence[Batch]:
        return [Batch(finished=(loop,)) for loop in finished if loop.shown or any(map(_failure, loop.attempts))]

    def curate(self, items: Sequence[Item], batch: Batch) -> Curation:
        (loop,) = batch.finished
        known = {item.item_id: item for item in items}
        operations = [*_uses(loop, known), *_causes(loop, known)]
        return Curation(operations=tuple(operations))


def _uses(loop: Finished, known: dict[str, Item]) -> Iterator[Operation]:
    """A vote for each entry that the loop read, unless its verdict is unknown."""
    read = tuple(item.item_id for item in loop.shown if item.item_id in known)
    if read and loop.passed is not None:
        yield Operation(kind="vote", item_ids=read, votes={"used": 1, "passed": int(loop.passed)}, reason="use")


def _causes(loop: Finished, known: dict[str, Item]) -> Iterator[Operation]:
    """The causes of the loop's failures: new ones, and further failures of known ones."""
    source = (loop.task.loop_id,)
    by_cause: dict[str, list[Reflection]] = {}
    for reflection in filter(None, map(_failure, loop.attempts)):
        if cause := normalised(reflection.root_cause):
            by_cause.setdefault(f"cause-{hashlib.sha256(cause.encode()).hexdigest()[:8]}", []).append(reflection)
    for item_id, reflections in by_cause.items():
        votes = {"failures": len(reflections)}
        if item_id in known:
            yield Operation(kind="edit", item_ids=(item_id,), votes=votes, sources=source, reason="again")
        else:
            best = max(reflections, key=lambda reflection: reflection.confidence)
            yield _entry(item_id, best, votes, loop.task)


def _failure(attempt: Attempt) -> Reflection | None:
    """The reflection on a failed attempt."""
    evaluation = attempt.evaluation
    return attempt.reflection if evaluation.has_verdict and not evaluation.passed else None


def _entry(item_id: str, reflection: Reflection, votes: dict[str, int], task: Task) -> Operation:
    cause, advice = (line(text, CHARS) for text in (reflection.root_cause, reflection.what_to_change))
    return Operation(
        kind="add",
        item_ids=(item_id,),
        text=f"{cause} What to change: {advice}" if advice else cause,
        key=f"{cause}\n{task.prompt}",
        section="Causes of failure that have come back",
        votes=votes,
        sources=(task.loop_id,),
    )
