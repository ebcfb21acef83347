"""The history of items: rounds, changes between versions, and who read what."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Literal, NamedTuple

from reflexion_lab.errors import DataError
from reflexion_lab.memory.curators.items import ItemMemory
from reflexion_lab.records import Attempt, Item, Update, Usage


class Round(NamedTuple):
    number: int
    """0-based."""
    task_ids: tuple[str, ...]
    """In the order of the calls."""
    calls: int
    kinds: Counter[str]
    """Operations by kind."""
    refused: int
    unreadable: int
    usage: Usage
    items: int
    """Afterwards."""
    tokens: int
    """Afterwards."""


def rounds(updates: Iterable[Update]) -> list[Round]:
    """The rounds of a log in which the curator was called."""
    return [_round(number, list(calls)) for number, calls in groupby(updates, key=lambda update: update.round)]


def _round(number: int, calls: Sequence[Update]) -> Round:
    return Round(
        number,
        tuple(dict.fromkeys(task_id for call in calls for task_id in call.task_ids)),
        len(calls),
        Counter(operation.kind for call in calls for operation in call.operations),
        sum(len(call.refused) for call in calls),
        sum(call.unreadable for call in calls),
        sum((call.usage for call in calls), Usage()),
        calls[-1].items,
        calls[-1].tokens,
    )


class Change(NamedTuple):
    """A difference between two versions of memory."""

    kind: Literal["added", "removed", "edited", "counted"]
    """`counted`: only counts, links, sources, outcome or key differ."""
    before: Item | None
    after: Item | None

    @property
    def item(self) -> Item:
        """As it is afterwards; a removed one as it was."""
        return next(filter(None, (self.after, self.before)))


def changes(before: Sequence[Item], after: Sequence[Item]) -> list[Change]:
    """The changes from one version to another: removed and changed items in the old order, then new ones."""
    old, new = ({item.item_id: item for item in items} for items in (before, after))
    pairs = [(item, new.get(name)) for name, item in old.items()]
    changed = [_change(item, other) for item, other in pairs if item != other]
    return changed + [Change("added", None, item) for name, item in new.items() if name not in old]


def _change(before: Item, after: Item | None) -> Change:
    if after is None:
        return Change("removed", before, None)
    is_same = (before.text, before.section) == (after.text, after.section)
    return Change("counted" if is_same else "edited", before, after)


def without_copies(differing: Sequence[Change]) -> tuple[list[Change], int]:
    """The changes without items that were removed and added again with the same text and section, as by a rewrite of
    the whole memory; and the number of these items.
    """
    added, removed = (Counter(_copied(c) for c in differing if c.kind == kind) for kind in ("added", "removed"))
    copies = added & removed
    left, rest = {"added": Counter(copies), "removed": Counter(copies)}, list[Change]()
    for change in differing:
        if change.kind in left and left[change.kind][_copied(change)] > 0:
            left[change.kind][_copied(change)] -= 1
        else:
            rest.append(change)
    return rest, copies.total()


def _copied(change: Change) -> tuple[str, str]:
    return change.item.section, change.item.text


def steps(items: Sequence[Item], updates: Iterable[Update]) -> Iterator[tuple[int, list[Change]]]:
    """The changes of each round of a log. Their cost does not depend on the size of memory.

    Raises DataError: an operation names an item that memory lacks.
    """
    memory = ItemMemory(items)
    for number, calls in groupby(updates, key=lambda update: update.round):
        operations = [operation for call in calls for operation in call.operations]
        names = dict.fromkeys(name for operation in operations for name in operation.item_ids)
        before = [item for name in names if (item := memory.get(name))]
        try:
            memory.replay(operations)
        except (KeyError, IndexError) as problem:
            place, hint = f"operations.jsonl, round {number}", "restore the file from a copy"
            raise DataError(place, f"an operation on {problem}", "operations on known items", hint) from problem
        yield number, changes(before, [item for name in names if (item := memory.get(name))])


class Timeline:
    """Every version of every item of a log.

    Raises DataError: as of `steps`. `items`: at the start.
    """

    def __init__(self, items: Sequence[Item], updates: Iterable[Update]) -> None:
        self.steps = list(steps(items, updates))
        self._versions: dict[str, list[tuple[int, Item | None]]] = {item.item_id: [(-1, item)] for item in items}
        for number, differing in self.steps:
            for change in differing:
                self._versions.setdefault(change.item.item_id, []).append((number, change.after))

    @property
    def items(self) -> list[Item]:
        """At the end of the log, the newest first."""
        return [item for versions in reversed(self._versions.values()) if (item := versions[-1][1])]

    def before(self, item_id: str, number: int) -> Item | None:
        """An item as the loops of round `number` could read it; None if memory lacked it."""
        versions = self._versions.get(item_id, [])
        place = bisect_left(versions, number, key=itemgetter(0))
        return versions[place - 1][1] if place else None

    def last(self, item_id: str) -> tuple[int, Item | None]:
        """The round of an item's last change, and the item; None if it was removed."""
        return self._versions.get(item_id, [(-1, None)])[-1]


class Readers(NamedTuple):
    passed: int
    failed: int
    unknown: int

    @property
    def total(self) -> int:
        return sum(self)


def readers(attempts: Mapping[str, Sequence[Attempt]]) -> dict[str, Readers]:
    """By item, the loops that read it, by whether an attempt passed its feedback."""
    counts: dict[str, list[int]] = {}
    for loop in attempts.values():
        known = [attempt.evaluation.passed for attempt in loop if attempt.evaluation.has_verdict]
        place = (0 if any(known) else 1) if known else 2
        for name in {name for attempt in loop for name in attempt.recalled_items}:
            counts.setdefault(name, [0, 0, 0])[place] += 1
    return {name: Readers(*n) for name, n in counts.items()}
