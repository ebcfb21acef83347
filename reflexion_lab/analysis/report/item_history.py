"""Memory across tasks in the page of a run: its size over the rounds, its items with their readers, its changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, groupby
from math import ceil
from typing import NamedTuple, TypeVar

from reflexion_lab.analysis.learning.curation import collapses
from reflexion_lab.analysis.report import pieces
from reflexion_lab.analysis.report.history import Line, counted, lines, program
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.summary import summary
from reflexion_lab.memory.curators.history import Change, Readers, Round, readers, rounds, without_copies
from reflexion_lab.records import Item, Refusal, Usage
from reflexion_lab.text.shorten import cut

T = TypeVar("T")
BARS = 80
"""Maximum number of bars of a chart; in longer runs a bar is several rounds."""
ROOM = 300_000
"""Characters of the items, and of the changes, that a page shows: the newest."""
OVERHEAD = 600
"""Characters of an entry's HTML beside its text."""
MARKS = {"added": "+", "removed": "−", "edited": "~", "counted": "="}
"""Kinds of changes, with their marks."""


class Bar(NamedTuple):
    """One or more rounds of a chart."""

    name: str
    items: int
    """At its end."""
    tokens: int
    collapsed: bool


class Entry(NamedTuple):
    """An item, prepared for the template."""

    item: Item
    counts: str
    readers: Readers


class Difference(NamedTuple):
    """A change, prepared for the template."""

    kind: str
    item: Item
    lines: list[Line]
    remark: str
    reason: str


class RoundChanges(NamedTuple):
    """The changes of a round, prepared for the template."""

    round: Round
    kinds: str
    """Their numbers by kind."""
    changes: list[Change]
    """As many as there is room for."""
    total: int
    reasons: dict[str, str]
    """Of the operations, by item; the last."""
    refused: list[Refusal]

    @property
    def size(self) -> int:
        return OVERHEAD + sum(_size(change.item) for change in self.changes)

    @property
    def differences(self) -> Iterator[Difference]:
        for change in self.changes:
            yield _difference(change, self.reasons.get(change.item.item_id, ""))


def memory_section(log: Log, link: Callable[[str], str] | None = None) -> str:
    """The section as HTML; "" for a run whose memory never had an item or a call of a curator.

    `link` gives the address of a task; None: no links. Raises DataError: as of `Timeline`.
    """
    start = log.beginning.items if log.beginning else ()
    if not log.updates and not start:
        return ""
    read, items = readers(log.attempts), log.timeline.items
    every, collapsed = rounds(log.updates), collapses(log.updates, start)
    entries = [Entry(item, counted(item), read.get(item.item_id, Readers(0, 0, 0))) for item in _first(items, _size)]
    changed = _first([*_changes(every, log)][::-1], lambda each: each.size)
    render = pieces.macro("memory", "section")
    return render(
        _sizes(len(items), every),
        _totals(log),
        collapsed,
        list(_bars(every, {collapse.round for collapse in collapsed})),
        entries,
        len(items),
        sum(item.item_id in read for item in items),
        changed,
        len(every),
        {task_id: link(task_id) for task_id in log.attempts} if link else {},
    )


def _sizes(n_items: int, every: Sequence[Round]) -> str:
    tokens = f", {every[-1].tokens:,} tokens after {len(every):,} rounds" if every else ""
    return f"{n_items:,} item{'s' * (n_items != 1)}{tokens}"


def _totals(log: Log) -> str:
    """The curator's calls and their cost, with those for the selection of items."""
    usage = summary(log).usage.get("curator", Usage())
    unreadable = sum(update.unreadable for update in log.updates)
    refused = sum(len(update.refused) for update in log.updates)
    return (
        f"curator: {len(log.updates):,} updates, {usage.calls:,} model calls, {usage.tokens:,} tokens; "
        f"{unreadable:,} unreadable replies, {refused:,} operations refused"
    )


def _first(entries: Sequence[T], size: Callable[[T], int]) -> list[T]:
    """As many entries as `ROOM` holds, and at least one."""
    ends = accumulate(map(size, entries))
    return [entry for place, (entry, end) in enumerate(zip(entries, ends, strict=True)) if not place or end <= ROOM]


def _size(item: Item) -> int:
    return OVERHEAD + min(len(item.text), pieces.LONGEST)


def _bars(every: Sequence[Round], collapsed: set[int]) -> Iterator[Bar]:
    width = max(1, ceil(len(every) / BARS))
    for start in range(0, len(every), width):
        part = every[start : start + width]
        first, last = part[0].number, part[-1]
        name = f"round {first}" if first == last.number else f"rounds {first} to {last.number}"
        yield Bar(name, last.items, last.tokens, any(each.number in collapsed for each in part))


def _changes(every: Sequence[Round], log: Log) -> Iterator[RoundChanges]:
    calls = [list(own) for _, own in groupby(log.updates, key=lambda update: update.round)]
    for each, (_, whole), own in zip(every, log.timeline.steps, calls, strict=True):
        differing, copies = without_copies(whole)
        kinds = Counter[str](change.kind for change in differing)
        named = [f"{mark} {kinds[kind]:,} {kind}" for kind, mark in MARKS.items() if kinds[kind]]
        named += [f"{copies:,} written again"] if copies else []
        operations = [operation for update in own for operation in update.operations]
        yield RoundChanges(
            each,
            ", ".join(named) or "no change",
            _first(differing, lambda change: _size(change.item)),
            len(differing),
            {name: operation.reason for operation in operations for name in operation.item_ids},
            [refusal for update in own for refusal in update.refused],
        )


def _difference(change: Change, reason: str) -> Difference:
    before, after = (cut(item.text, pieces.LONGEST) if item else "" for item in (change.before, change.after))
    if change.kind == "edited":
        changed, remark = program(after, before, "the version before")
    elif change.kind == "counted":
        changed, remark = [], _counts(change)
    else:
        kind, mark = ("in", "+ ") if change.kind == "added" else ("out", "− ")
        changed, remark = [Line(kind, mark, ((line, False),)) for line in lines(after or before)], ""
    return Difference(change.kind, change.item, changed, remark, reason)


def _counts(change: Change) -> str:
    """The counts that differ: `used 1 → 2`; else the fields that do."""
    before, after = change.before, change.after
    assert before
    assert after
    names = [name for name in after.counts if after.counts[name] != before.counts.get(name, 0)]
    fields = [name for name in ("key", "outcome", "links", "sources") if getattr(before, name) != getattr(after, name)]
    return ", ".join([f"{name} {before.counts.get(name, 0)} → {after.counts[name]}" for name in names] + fields)
