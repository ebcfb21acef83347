"""Controls of memory across tasks: nothing, finished loops as they are, other words, and solutions."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence

from msgspec.structs import replace

from reflexion_lab.limits import Positive, validated
from reflexion_lab.memory.curators.index import Index
from reflexion_lab.memory.curators.items import Bank
from reflexion_lab.memory.curators.trajectories import case, described
from reflexion_lab.protocols import Curator, Retriever
from reflexion_lab.records import Batch, Curation, Finished, Item, Selection, Task, base_id
from reflexion_lab.text.filler import filler_of


class NoItems:
    """Keeps nothing."""

    keeps_items = False

    def select(self, items: Sequence[Item], task: Task) -> Selection:
        return Selection()

    def due(self, finished: Sequence[Finished]) -> Sequence[Batch]:
        return ()

    def curate(self, items: Sequence[Item], batch: Batch) -> Curation:
        return Curation()


class RawTrajectories:
    """The nearest finished loops as they are, without a model.

    `retriever`: empty, for this curator alone. `k`: loops in the prompt. `passed_only`: keep only loops that passed
    their feedback. `max_chars`: length of each.
    """

    shows_any_items = True
    bank: Bank = True

    @validated
    def __init__(
        self, retriever: Retriever, *, k: Positive = 3, passed_only: bool = True, max_chars: Positive = 1500
    ) -> None:
        self.index = Index(retriever)
        self.k = k
        self.passed_only = passed_only
        self.max_chars = max_chars

    def select(self, items: Sequence[Item], task: Task) -> Selection:
        return Selection(items=tuple(self.index.nearest(items, task.prompt, self.k)))

    def due(self, finished: Sequence[Finished]) -> Sequence[Batch]:
        return [Batch(finished=(each,)) for each in finished if each.passed or not self.passed_only]

    def curate(self, items: Sequence[Item], batch: Batch) -> Curation:
        (each,) = batch.finished
        return Curation(operations=(case(each, described(each, self.max_chars)),))


class FullHistory(RawTrajectories):
    """All finished loops, newest first, as far as the limits of memory and the model's context allow.

    Both drop the oldest: a prompt keeps the first items that fit.
    """

    bank = ()

    def __init__(self, *, passed_only: bool = False, max_chars: Positive = 1500) -> None:
        self.passed_only = passed_only
        self.max_chars = max_chars

    def select(self, items: Sequence[Item], task: Task) -> Selection:
        return Selection(items=tuple(reversed(items)))


class _Control:
    """A curator that changes what `first` shows; what it keeps is that of `first`."""

    def __init__(self, first: Curator, seed: int = 0) -> None:
        self.first = first
        self.seed = seed
        self.bank = getattr(first, "bank", ())

    def _first(self, items: Sequence[Item], task: Task) -> Selection:
        """The selection of `first`, which also keeps what it wrote for this task."""
        selection, known = self.first.select(items, task), {item.item_id for item in items}
        return replace(selection, written=tuple(item for item in selection.items if item.item_id not in known))

    def due(self, finished: Sequence[Finished]) -> Sequence[Batch]:
        return self.first.due(finished)

    def curate(self, items: Sequence[Item], batch: Batch) -> Curation:
        return self.first.curate(items, batch)


class Shuffled(_Control):
    """Random items in place of those that `first` selects, as many, of the same sections, which it does not select.

    Tests whether the selection matters. A curator that always shows all of its items leaves none to draw.
    """

    def select(self, items: Sequence[Item], task: Task) -> Selection:
        selection = self._first(items, task)
        chosen, sections = ({getattr(item, name) for item in selection.items} for name in ("item_id", "section"))
        others = [item for item in items if item.item_id not in chosen and item.section in sections]
        drawn = random.Random(f"{self.seed}:{task.loop_id}").sample(others, min(len(chosen), len(others)))
        return replace(selection, items=tuple(drawn))


class Filler(_Control):
    """Random nouns of as many tokens in place of each item that `first` selects: tests whether the words matter."""

    def select(self, items: Sequence[Item], task: Task) -> Selection:
        selection = self._first(items, task)
        texts = (_filler(item.text, f"{self.seed}:{item.item_id}") for item in selection.items)
        filled = (replace(item, text=text) for item, text in zip(selection.items, texts, strict=True))
        return replace(selection, items=tuple(filled))


@functools.lru_cache(4096)  # the same items are shown to many tasks
def _filler(text: str, seed: str) -> str:
    return filler_of(text, random.Random(seed))


class Gold:
    """Upper bound: the canonical solutions of finished tasks, those of the task's own cluster first.

    `tasks`: with their canonical solutions. `retriever`: empty, for this curator alone. `k`: solutions in the prompt.
    """

    reads_solutions = bank = True

    @validated
    def __init__(self, tasks: Sequence[Task], retriever: Retriever, k: Positive = 3) -> None:
        self.tasks = {task.task_id: task for task in tasks}
        self._clusters: dict[str, set[str]] = {}
        for task in tasks:
            self._clusters.setdefault(task.cluster_id, set()).add(task.task_id)
        self.index = Index(retriever)
        self.k = k

    def select(self, items: Sequence[Item], task: Task) -> Selection:
        own = self.tasks.get(base_id(task.task_id))
        related = self._clusters[own.cluster_id] if own else set[str]()
        same = [item for item in items if base_id(item.sources[0]) in related][-self.k :]
        near = [item for item in self.index.nearest(items, task.prompt, self.k) if item not in same]
        return Selection(items=tuple((*same, *near)[: self.k]))

    def due(self, finished: Sequence[Finished]) -> Sequence[Batch]:
        return [Batch(finished=(each,)) for each in finished]

    def curate(self, items: Sequence[Item], batch: Batch) -> Curation:
        (each,) = batch.finished
        task = self.tasks[each.task.task_id]
        text = f"Task:\n{task.prompt.strip()}\n\nSolution:\n{task.canonical_program.strip()}"
        return Curation(operations=(replace(case(each, text), outcome=None),))
