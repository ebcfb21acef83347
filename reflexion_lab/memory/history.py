"""The history of items: versions by round, changes between versions, and who read what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Literal, NamedTuple

from reflexion_lab.memory.items import ItemMemory
from reflexion_lab.records import UNKNOWN, Attempt, Item, Update, Usage


class Round(NamedTuple):
    """The changes of one round."""

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


def versions(items: Sequence[Item], updates: Iterable[Update]) -> Iterator[tuple[int, tuple[Item, ...]]]:
    """Number of rounds and memory after each of them, from that of the start, (0, `items`)."""
    memory = ItemMemory(items)
    yield 0, memory.items
    for number, calls in groupby(updates, key=lambda update: update.round):
        for call in calls:
            memory.replay(call.operations)
        yield number + 1, memory.items


class Change(NamedTuple):
    """A difference between two versions of memory."""

    kind: Literal["added", "removed", "edited", "counted"]
    """`counted`: only counts, links, sources, outcome or key differ."""
    before: Item | None
    after: Item | None


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


class Readers(NamedTuple):
    """Loops that read an item."""

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
        known = [attempt.evaluation.passed for attempt in loop if attempt.evaluation.outcome not in UNKNOWN]
        place = (0 if any(known) else 1) if known else 2
        for name in {name for attempt in loop for name in attempt.recalled_items}:
            counts.setdefault(name, [0, 0, 0])[place] += 1
    return {name: Readers(*n) for name, n in counts.items()}
