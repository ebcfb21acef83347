"""What the kinds of lessons have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Generic, TypeVar

from reflexion_lab.protocols import Stored
from reflexion_lab.records import Episode, Task, Wisdom

L = TypeVar("L")


class Lessons(ABC, Generic[L]):
    """Lessons of one kind from many loops. They change between rounds only, while no loop reads them."""

    name: ClassVar[str]
    """Of the field of `Recollection`, and of the limit in `Shown`."""

    def begin(self, stored: Sequence[Wisdom], loops: Sequence[Sequence[Episode]]) -> None:
        """Begin with what a store holds: its wisdom, and its loops, oldest first."""
        self.learn(loops)

    @abstractmethod
    def learn(self, loops: Sequence[Sequence[Episode]]) -> list[Stored]:
        """Learn from the loops of a round, in task order; returns the records for the store that this changes."""

    @abstractmethod
    def select(self, task: Task, own: Sequence[Episode], limit: int, except_task: str) -> Sequence[L]:
        """At most `limit` lessons for the next attempt at `task`, best first. `own`: the episodes of this loop;
        `except_task`: id of a task whose other loops must not be read; "": none.
        """

    @abstractmethod
    def text(self, entry: L) -> str:
        """The longest text of a lesson in a prompt."""
