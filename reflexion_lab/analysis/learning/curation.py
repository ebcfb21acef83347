"""The items of a run's memory, who read them, and what they cost: from the log of its operations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.stats.bootstrap import rate
from reflexion_lab.analysis.stats.estimators import verdict
from reflexion_lab.analysis.stats.intervals import Rate
from reflexion_lab.memory.curators.history import rounds
from reflexion_lab.records import Attempt, Grade, Item, Record, Update, Usage
from reflexion_lab.text.shorten import estimated

NONE = "reflexion_lab.memory.curators.controls.NoItems"
"""The curator of runs without memory across tasks."""
COLLAPSE = 0.5
"""Memory collapses if a call leaves less than this share of its tokens: in ACE (arXiv 2510.04618) 122 of 18,282."""


class Size(Record, frozen=True, kw_only=True):
    """Memory after a round in which the curator was called."""

    round: int
    """0-based."""
    items: int
    tokens: int


class Collapse(Record, frozen=True, kw_only=True):
    """A call of the curator that lost most of memory."""

    round: int
    call: int
    before: int
    """Tokens."""
    after: int


class Read(Record, frozen=True, kw_only=True):
    """Attempts that had an item in their prompt, by their hidden verdict, and the curator's votes on it.

    Attempts differ in more than the item, which was chosen for them: the counts are no effect of it.
    """

    item_id: str
    passed: int
    failed: int
    votes: dict[str, int]
    """Sums by name, such as `helpful` and `harmful`."""


class Curated(Record, frozen=True, kw_only=True):
    """Memory across tasks of one run."""

    sizes: tuple[Size, ...]
    end: Size
    collapses: tuple[Collapse, ...]
    operations: dict[str, int]
    """Applied ones by kind; removals by the limits are `limit`."""
    refused: int
    unreadable: int
    """Replies of the curator to calls after tasks that could not be read."""
    shown: Rate
    """Items that at least one attempt had in its prompt, of all that memory ever held or that were written for one
    task. In runs with such items, others of a section that no attempt ever read are not counted: they are material."""
    reading: Rate
    """Hidden passes of the attempts that had any item in their prompt."""
    not_reading: Rate
    reads: tuple[Read, ...]
    """By item, the most often read first."""
    curation: Usage
    """Usage of the curator's calls after tasks."""
    selection: Usage
    """Usage of the curator's calls before tasks."""
    others: Usage
    """Usage of actors and all other roles."""


def has_curator(log: Log) -> bool:
    """Whether the run has memory across tasks."""
    curator: Any = log.manifest.config.get("curator") or {}
    return bool(log.updates) or curator.get("_target_", NONE) != NONE


def has_items(log: Log) -> bool:
    """Whether its items are known: a file of cases, without digests of configs, holds none."""
    return has_curator(log) and bool(log.manifest.config_digest)


def size_at_end(log: Log) -> Size:
    """Memory at the end of a run."""
    if log.updates:
        return sizes(log.updates)[-1]
    items = log.beginning.items if log.beginning else ()
    return Size(round=0, items=len(items), tokens=sum(estimated(item.text) for item in items))


def curated(log: Log) -> Curated:
    """The figures of a run; those of verdicts are empty until every attempt is graded."""
    beginning = log.beginning.items if log.beginning else ()
    passes = [(attempt, verdict(grade)) for attempt, grade in log.judged]
    selection = sum((attempt.selection_usage for attempt in log.every), Usage())
    in_attempts = [usage for attempt in log.every for role, usage in attempt.usage.items() if role != "curator"]
    return Curated(
        sizes=sizes(log.updates),
        end=size_at_end(log),
        collapses=collapses(log.updates, beginning),
        operations=operations(log.updates),
        refused=sum(len(update.refused) for update in log.updates),
        unreadable=sum(update.unreadable for update in log.updates),
        shown=shown(beginning, log.updates, log.every),
        reading=rate(((a.task_id, passed) for a, passed in passes if a.recalled_items), log.clusters),
        not_reading=rate(((a.task_id, passed) for a, passed in passes if not a.recalled_items), log.clusters),
        reads=reads(log.judged, log.updates),
        curation=sum((update.usage for update in log.updates), Usage()),
        selection=selection,
        others=sum(in_attempts + [written.usage for written in log.written.values()], Usage()),
    )


def shown(beginning: Iterable[Item], updates: Iterable[Update], attempts: Sequence[Attempt]) -> Rate:
    """`Curated.shown`. `beginning`: items before the first call."""
    adds = (operation for update in updates for operation in update.operations if operation.kind == "add")
    sections = {item.item_id: item.section for item in beginning}
    sections |= {name: operation.section for operation in adds for name in operation.item_ids}
    written = {item.item_id: item.section for attempt in attempts for item in attempt.written_items}
    sections |= written
    read = {name for attempt in attempts for name in attempt.recalled_items}
    seen = {sections[name] for name in read & sections.keys()} if written else set(sections.values())
    return Rate.over(name in read for name, section in sections.items() if section in seen or name in written)


def sizes(updates: Iterable[Update]) -> tuple[Size, ...]:
    """Memory at the end of each round with a call."""
    return tuple(Size(round=each.number, items=each.items, tokens=each.tokens) for each in rounds(updates))


def collapses(updates: Sequence[Update], beginning: Iterable[Item] = ()) -> tuple[Collapse, ...]:
    """Calls after which memory has less than `COLLAPSE` of its tokens. `beginning`: items before the first call."""
    sizes_before = [sum(estimated(item.text) for item in beginning), *(update.tokens for update in updates)]
    return tuple(
        Collapse(round=update.round, call=update.call, before=before, after=update.tokens)
        for before, update in zip(sizes_before, updates, strict=False)
        if update.tokens < COLLAPSE * before
    )


def operations(updates: Iterable[Update]) -> dict[str, int]:
    """Applied operations by kind; removals by the limits apart."""
    every = (operation for update in updates for operation in update.operations)
    return dict(Counter("limit" if operation.reason == "limit" else operation.kind for operation in every))


def reads(judged: Iterable[tuple[Attempt, Grade]], updates: Iterable[Update]) -> tuple[Read, ...]:
    """Readers and votes of each item that was read or voted on."""
    outcomes: Counter[tuple[str, bool]] = Counter()
    for attempt, grade in judged:
        if (passed := verdict(grade)) is not None:
            outcomes.update((name, passed) for name in dict.fromkeys(attempt.recalled_items))
    votes: dict[str, Counter[str]] = {}
    for operation in (operation for update in updates for operation in update.operations):
        if operation.kind == "vote":
            for name in operation.item_ids:
                votes.setdefault(name, Counter()).update(operation.votes)
    every = dict.fromkeys([*(name for name, _ in outcomes), *votes])
    rows = [
        Read(item_id=name, passed=outcomes[name, True], failed=outcomes[name, False], votes=dict(votes.get(name, {})))
        for name in every
    ]
    return tuple(sorted(rows, key=lambda row: (-row.passed - row.failed, row.item_id)))
