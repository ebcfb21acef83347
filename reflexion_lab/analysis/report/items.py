"""What a task's record says of memory across tasks: the items that its actor read, and what the curator made of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from reflexion_lab.analysis.report import cells
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.memory.curators.history import Timeline
from reflexion_lab.records import Attempt, Item, Update

NAMED = 3
"""Sources that are named; others are counted."""


class ItemSources:
    """The items of a run, as each of its loops could read them.

    Parameters
    ----------
    timeline : Timeline, optional
    rounds : mapping of str to int, optional
        Round by task.
    updates : iterable of Update
    """

    def __init__(
        self, timeline: Timeline | None = None, rounds: Mapping[str, int] | None = None, updates: Iterable[Update] = ()
    ) -> None:
        self.timeline = timeline or Timeline((), ())
        self.rounds = rounds or {}
        self._calls: dict[str, list[Update]] = {}
        for update in updates:
            for task_id in update.task_ids:
                self._calls.setdefault(task_id, []).append(update)

    @classmethod
    def of(cls, log: Log) -> ItemSources:
        """Raises DataError: as of `Timeline`."""
        return cls(log.timeline, log.rounds, log.updates)

    def calls(self, task_id: str) -> Sequence[Update]:
        """The calls of the curator to which the task's loop led."""
        return self._calls.get(task_id, ())

    def words(self, item_id: str, attempt: Attempt) -> tuple[str, list[tuple[str, str]]]:
        """Sources of an item that the attempt read, and its contents as they were, with what became of them."""
        written = next((item for item in attempt.written_items if item.item_id == item_id), None)
        number = self.rounds.get(attempt.task_id, 0)
        item = written or self.timeline.before(item_id, number)
        if item is None:
            return "", []
        since = "written for this task alone" if written else self._since(item, number)
        words = {"section": item.section, "text": item.text, "counts": counted(item), "since": since}
        return cells.listed(item.sources, NAMED), [(label, text) for label, text in words.items() if text]

    def _since(self, item: Item, number: int) -> str:
        last, now = self.timeline.last(item.item_id)
        if last < number:
            return ""
        if now is None:
            return f"removed in round {last}"
        return f"changed up to round {last}: {now.text if now.text != item.text else counted(now)}".rstrip(": ")


def counted(item: Item) -> str:
    """`helpful 2, harmful 0`."""
    return ", ".join(f"{name} {n}" for name, n in item.counts.items())
