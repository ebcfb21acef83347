"""Items of memory and the operations that change them: pure functions, so that memory can be rebuilt from its log."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from typing import Literal

import msgspec
from msgspec.structs import replace

from reflexion_lab.errors import DataError
from reflexion_lab.limits import Count
from reflexion_lab.records import Item, Operation, Record, Refusal, Task, Update, base_id
from reflexion_lab.text.shorten import estimated

ORDER = ("vote", "remove", "edit", "merge", "link", "add")
"""Order of application within a call; equal kinds keep the order of the reply. In ExpeL, REMOVE is a vote."""
EXCEEDS = "the text alone exceeds the limit"
"""Reason of a refusal."""
Bank = Literal[True] | tuple[str, ...]
SCORE = "score"
"""The count at which an item is removed when it falls to 0."""


class ItemLimits(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits on memory across tasks."""

    max_items: Count = 0
    """Maximum number of items; 0: any."""
    max_tokens: Count = 4000
    """Maximum estimated tokens of the texts that a prompt shows; 0: any. A method that shows all of its items keeps as
    many; a bank, from which a method retrieves, keeps all. Beyond a limit, the items of the lowest `utility` are
    removed, the oldest first. A text that alone exceeds it is refused, but for a bank."""
    duplicates: Literal["keep", "equal", "contained"] = "equal"
    """New items that are refused: none; of equal words (case, white space and final punctuation aside) in the same
    section; or whose text also contains that of an item of the section."""


class Items(ItemLimits, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The values under `memory.shared.items`."""

    max_tokens: Count | None = None  # type: ignore[assignment]  # a number once the models are known
    """As of `ItemLimits`; None: a share of the models' context."""
    of: str | None = None
    """A run folder, with whose items the run begins."""
    after: Count | None = None
    """As they were after this many rounds of that run; None: at its end."""
    frozen: bool = False
    """Whether the run changes no item."""
    salt: str | None = None
    """Of the ids of new items; None: the digest of the run's config."""


def rebuilt(items: Sequence[Item], operations: Iterable[Operation]) -> tuple[Item, ...]:
    """Memory after applied operations of the log, in their order."""
    memory = ItemMemory(items)
    memory.replay(operations)
    return memory.items


def after(items: Sequence[Item], updates: Iterable[Update], rounds: int | None = None) -> tuple[Item, ...]:
    """Memory after the first `rounds` rounds of a log; None: after all. Raises DataError, as `ItemMemory.follow`."""
    memory = ItemMemory(items)
    memory.follow(update for update in updates if rounds is None or update.round < rounds)
    return memory.items


class View(tuple[Item, ...]):
    """A part of memory, which knows the `whole`: an index of that serves all parts."""

    whole: tuple[Item, ...]

    def __new__(cls, whole: tuple[Item, ...], hidden: Collection[str]) -> View:
        view = super().__new__(cls, (item for item in whole if item.item_id not in hidden))
        view.whole = whole
        return view


class ItemMemory:
    """Items under their limits. The cost of a change does not depend on the number of items, but for `contained`
    duplicates and full memories. `bank`: sections whose items no limit of tokens removes; True: all.
    """

    def __init__(self, items: Iterable[Item] = (), limits: ItemLimits | None = None, bank: Bank = ()) -> None:
        self.limits = limits or ItemLimits()
        self.bank = bank
        self.tokens = self._shown = 0
        """Estimated tokens of all texts, and of those outside the bank."""
        self._items: dict[str, Item] = {}
        self._words: Counter[tuple[str, str]] = Counter()
        """Sections and compared words of all items."""
        self._by_source: dict[str, set[str]] = {}
        """Ids of items by task, without the number of its pass."""
        self._digest = 0
        self._tuple: tuple[Item, ...] | None = None
        for item in items:
            self._put(item)

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, item_id: object) -> bool:
        return item_id in self._items

    def get(self, item_id: str) -> Item | None:
        return self._items.get(item_id)

    def of_other_tasks(self, task: Task) -> tuple[Item, ...]:
        """The items without those that come from the task, too."""
        own = self._by_source.get(task.task_id, set())
        return View(self.items, own) if own else self.items

    @property
    def items(self) -> tuple[Item, ...]:
        """Oldest first."""
        if self._tuple is None:
            self._tuple = tuple(self._items.values())
        return self._tuple

    @property
    def digest(self) -> str:
        """The sum of the items' SHA-256, 16 hex digits; it does not depend on their order."""
        return f"{self._digest:016x}"

    def apply(
        self, operations: Sequence[Operation], call: str = ""
    ) -> tuple[tuple[Operation, ...], tuple[Refusal, ...]]:
        """Apply the operations of one call, in `ORDER`; returns them as applied, and those that were refused."""
        log: list[Operation] = []
        refused: list[Refusal] = []
        for operation in sorted(operations, key=lambda operation: ORDER.index(operation.kind)):
            if problem := self._problem(operation):
                refused.append(Refusal(operation=operation, reason=problem))
                continue
            is_new = operation.kind == "add" and not operation.item_ids
            ids = (self._new_id(operation, f"{call}/{len(log)}"),) if is_new else operation.item_ids
            log.append(replace(operation, item_ids=ids))
            self._apply(log[-1])
        for removal in self._overflow():
            self._apply(removal)
            log.append(removal)
        return tuple(log), tuple(refused)

    def replay(self, operations: Iterable[Operation]) -> None:
        """Apply operations of a log, which no limit changes."""
        for operation in operations:
            self._apply(operation)

    def follow(self, updates: Iterable[Update]) -> None:
        """Apply logged updates. Raises DataError: they do not give the logged memory."""
        for update in updates:
            if (got := self.redo(update)) != update.digest:
                place = f"operations.jsonl, round {update.round}, call {update.call}"
                raise DataError(place, got, f"memory of digest {update.digest}", "restore the file from a copy")

    def redo(self, update: Update) -> str:
        """Apply a logged update; returns the digest of memory afterwards, or why it cannot be applied."""
        try:
            self.replay(update.operations)
        except (KeyError, IndexError):
            return "operations on unknown items"
        return self.digest

    def _apply(self, operation: Operation) -> None:
        """Apply a valid operation; items whose score falls to 0 are removed."""
        ids = operation.item_ids
        match operation.kind:
            case "add":
                self._put(_new(operation))
            case "edit":
                self._put(_edited(self._items[ids[0]], operation))
            case "vote":
                for name in ids:
                    self._put(replace(self._items[name], counts=_sum(self._items[name].counts, operation.votes)))
            case "link":
                self._put(replace(self._items[ids[0]], links=_united(self._items[ids[0]].links, ids[1:])))
            case "merge":
                merged = [self._items[name] for name in ids]
                for name in ids[1:]:
                    self._drop(name)
                self._put(_merged(merged, operation))
            case "remove":
                for name in ids:
                    self._drop(name)
        for name in ids:
            if name in self._items and self._items[name].counts.get(SCORE, 1) <= 0:
                self._drop(name)

    def _put(self, item: Item) -> None:
        old = self._items.get(item.item_id)
        if old:
            self._count(old, -1)
        self._items[item.item_id] = item
        self._count(item, 1)
        for source in set(item.sources).difference(old.sources if old else ()):
            self._by_source.setdefault(base_id(source), set()).add(item.item_id)

    def _drop(self, name: str) -> None:
        item = self._items.pop(name)
        self._count(item, -1)
        for source in item.sources:
            self._by_source[base_id(source)].discard(name)

    def _count(self, item: Item, sign: int) -> None:
        self._tuple = None
        size = estimated(item.text)
        self.tokens += sign * size
        self._shown += 0 if self.is_banked(item) else sign * size
        self._words[item.section, _words(item.text)] += sign
        contents = {name: value for name, value in msgspec.to_builtins(item).items() if name != "owner"}
        sha256 = hashlib.sha256(msgspec.json.encode(contents, order="sorted"))
        self._digest = (self._digest + sign * int.from_bytes(sha256.digest()[:8])) % 2**64

    def is_banked(self, item: Item | Operation) -> bool:
        """Whether the item, or one that the operation adds or changes, belongs to the bank."""
        return self.bank is True or item.section in self.bank

    def _problem(self, operation: Operation) -> str:
        """Why an operation is refused; "" for a valid one."""
        ids = operation.item_ids
        if 0 < self.limits.max_tokens < estimated(operation.text) and not self.is_banked(operation):
            return EXCEEDS
        if operation.kind == "add":
            is_taken = len(ids) > 1 or not self._items.keys().isdisjoint(ids)
            return "the id of a new item is taken" if is_taken else self._duplicate(operation)
        if unknown := [name for name in ids if name not in self._items]:
            return f"no item {unknown[0]}"
        if len(set(ids)) < len(ids):
            return "an item is named twice"
        return "too few items" if len(ids) < (2 if operation.kind in ("link", "merge") else 1) else ""

    def _duplicate(self, operation: Operation) -> str:
        text = _words(operation.text)
        if not text:
            return "an empty text"
        if self.limits.duplicates == "keep":
            return ""
        if self._words[operation.section, text] > 0:
            return "a duplicate"
        if self.limits.duplicates == "contained" and any(
            n > 0 and section == operation.section and known in text for (section, known), n in self._words.items()
        ):
            return "it contains the text of an item"
        return ""

    def _overflow(self) -> list[Operation]:
        """Removals of the least useful items, the oldest first, until the limits hold."""
        n, size, removals = len(self._items), self._shown, list[Operation]()
        most, largest = self.limits.max_items or n, self.limits.max_tokens or size
        if n <= most and size <= largest:
            return []
        for item in sorted(self._items.values(), key=utility):
            if n <= most and self.is_banked(item):
                continue
            n, size = n - 1, size - (0 if self.is_banked(item) else estimated(item.text))
            removals.append(Operation(kind="remove", item_ids=(item.item_id,), reason="limit"))
            if n <= most and size <= largest:
                break
        return removals

    def _new_id(self, operation: Operation, place: str) -> str:
        """Depends on the call and the contents: equal runs agree, runs with different salts do not collide."""
        contents = msgspec.json.encode(operation, order="sorted")
        name = f"item-{hashlib.sha256(place.encode() + contents).hexdigest()[:16]}"
        return name if name not in self._items else self._new_id(operation, place + "'")


def utility(item: Item) -> int:
    """Its score; without one, harmful votes beyond the helpful ones, as a negative number."""
    counts = item.counts
    return counts.get(SCORE, min(0, counts.get("helpful", 0) - counts.get("harmful", 0)))


def _new(operation: Operation) -> Item:
    return Item(
        item_id=operation.item_ids[0],
        text=operation.text,
        key=operation.key,
        section=operation.section,
        outcome=operation.outcome,
        counts=operation.votes,
        links=operation.links,
        sources=operation.sources,
    )


def _edited(item: Item, operation: Operation) -> Item:
    return replace(
        item,
        text=operation.text or item.text,
        key=operation.key or item.key,
        section=operation.section or item.section,
        outcome=item.outcome if operation.outcome is None else operation.outcome,
        counts=_sum(item.counts, operation.votes),
        links=_united(item.links, operation.links),
        sources=_united(item.sources, operation.sources),
    )


def _merged(items: Sequence[Item], operation: Operation) -> Item:
    first, ids = items[0], {item.item_id for item in items}
    counts = dict(sum((Counter(item.counts) for item in items), Counter[str]()))
    links = _united(*(item.links for item in items), operation.links)
    return replace(
        first,
        text=operation.text or first.text,
        key=operation.key or first.key,
        counts=_sum({name: 0 for item in items for name in item.counts} | counts, operation.votes),
        links=tuple(name for name in links if name not in ids),
        sources=_united(*(item.sources for item in items), operation.sources),
    )


def _sum(counts: dict[str, int], votes: dict[str, int]) -> dict[str, int]:
    return {**counts, **{name: counts.get(name, 0) + vote for name, vote in votes.items()}}


def _united(*names: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(chain(*names)))


def _words(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".!… ")
