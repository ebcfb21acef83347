"""Controls of memory across tasks: nothing, and finished loops as they are."""

from __future__ import annotations

from collections.abc import Sequence

from reflexion_lab.limits import Positive, validated
from reflexion_lab.memory.curators.index import Index
from reflexion_lab.memory.curators.trajectories import described
from reflexion_lab.protocols import Retriever
from reflexion_lab.records import Batch, Curation, Finished, Item, Operation, Selection, Task


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

    Parameters
    ----------
    retriever : Retriever
        Empty, for this curator alone.
    k : int
        Loops in the prompt.
    passed_only : bool
        Keep only loops that passed their feedback.
    max_chars : int
        Length of each.
    """

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
        text = described(each, self.max_chars)
        case = Operation(kind="add", text=text, key=each.task.prompt, outcome=each.passed, sources=(each.task.task_id,))
        return Curation(operations=(case,))
