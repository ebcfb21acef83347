"""Items across tasks: what a curator selects from them, and the calls by which finished loops change them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

from msgspec.structs import replace

from reflexion_lab.errors import ConfigError
from reflexion_lab.memory.curators.items import Bank, ItemLimits, ItemMemory
from reflexion_lab.memory.recall import fitting
from reflexion_lab.protocols import Curator
from reflexion_lab.records import Attempt, Batch, Finished, Item, Selection, Task, Update
from reflexion_lab.text.shorten import estimated


class CuratedMemory:
    """The items of a run, read by its loops and changed at the end of its rounds.

    `same_task`: also show items that come from the task itself, of an earlier pass or run. `is_frozen`: no loop changes
    the items. `salt`: of the ids of new items; different for runs that share a store. `owner`: the method of the
    curator, whose items of a store alone it reads and changes.
    """

    def __init__(
        self,
        curator: Curator,
        limits: ItemLimits,
        same_task: bool = False,
        is_frozen: bool = False,
        salt: str = "",
        owner: str = "",
    ) -> None:
        self.curator = curator
        self.limits = limits
        self.same_task = same_task
        self.is_frozen = is_frozen
        self.salt = salt
        self.owner = owner
        self.bank: Bank = getattr(curator, "bank", ())
        self.memory = ItemMemory((), limits, self.bank)

    def begin(self, items: Iterable[Item]) -> None:
        """Begin with `items`, as far as the limits hold."""
        self.memory = ItemMemory(items, self.limits, self.bank)
        self.memory.apply(())

    def selection(self, task: Task) -> Selection:
        """The curator's selection for a loop at `task`, with the items that it wrote for this task alone."""
        items = self.memory.items if self.same_task else self.memory.of_other_tasks(task)
        selection = self.curator.select(items, task.public)
        written = tuple(item for item in selection.items if item.item_id not in self.memory)
        return replace(selection, items=self._within_budget(selection.items), written=selection.written or written)

    def _within_budget(self, items: Sequence[Item]) -> tuple[Item, ...]:
        """The `items` without those of the bank that do not fit into a prompt's tokens; the first ones go first."""
        banked = [item for item in items if self.memory.is_banked(item)]
        if not banked or not self.limits.max_tokens:
            return tuple(items)
        rest = sum(estimated(item.text) for item in items) - sum(estimated(item.text) for item in banked)
        fit, _ = fitting(banked, attrgetter("text"), self.limits.max_tokens - rest)
        left_out = {item.item_id for item in banked} - {item.item_id for item in fit}
        return tuple(item for item in items if item.item_id not in left_out)

    def finished(self, task: Task, attempts: Sequence[Attempt]) -> Finished:
        """A finished loop for the curator, with the items that it read; memory must be that of its round."""
        written = {item.item_id: item for attempt in attempts for item in attempt.written_items}
        read = dict.fromkeys(name for attempt in attempts for name in attempt.recalled_items)
        shown = (written.get(name) or self.memory.get(name) for name in read)
        return Finished(task=task.public, attempts=tuple(attempts), shown=tuple(filter(None, shown)))

    def learn(self, number: int, finished: Sequence[Finished], done: Sequence[Update] = ()) -> Iterator[Update]:
        """Make the calls of a round and apply their operations; yields an update per new call, applied.

        Raises DataError: the logged operations do not give the logged memory; ModelError: as of `Curator.curate`.
        `number`: of the round, 0-based. `finished`: all loops of the round, in task order. `done`: calls of this round
        that an interrupted run has logged; they are not made again.
        """
        self.memory.follow(done)
        calls = () if self.is_frozen else self.curator.due(finished)
        for call, batch in list(enumerate(calls))[len(done) :]:
            yield self._call(number, call, batch)

    def _call(self, number: int, call: int, batch: Batch) -> Update:
        tasks = tuple(each.task.loop_id for each in batch.finished)
        if not tasks:
            raise ConfigError("curator", "a batch without a loop", "one or more loops in every batch of `due`")
        try:
            curation = self.curator.curate(self.memory.items, batch)
        except Exception as problem:
            problem.add_note(f"while curating: round {number}, call {call}, tasks {', '.join(tasks)}")
            raise
        operations, refused = self.memory.apply(curation.operations, f"{self.salt}/{number}/{call}")
        return Update(
            round=number,
            call=call,
            task_ids=tasks,
            kind=batch.kind,
            operations=operations,
            refused=refused,
            usage=curation.usage,
            unreadable=curation.unreadable,
            replies=curation.replies,
            items=len(self.memory),
            tokens=self.memory.tokens,
            digest=self.memory.digest,
        )
