"""The searches behind a recollection, for the record of its attempt."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from reflexion_lab.protocols import Retriever
from reflexion_lab.records import Record, Retrieved, id_of
from reflexion_lab.text.shorten import line

Ranking = tuple[Retriever, str, Mapping[Any, float], Mapping[Any, Record]]
"""Retriever, query, and by key the scores of the nearest, best first, and the records of those to be recalled."""
SEARCHES: ContextVar[list[Ranking] | None] = ContextVar("searches", default=None)
"""The searches of the recollection at work, which sets it."""
TEXTS = ("improvement", "test_results", "advice", "pattern", "mistake", "text", "code")
"""Fields of records with their lesson, the shortest useful one first."""


def note_search(retriever: Retriever, query: str, scores: Mapping[Any, float], records: Mapping[Any, Record]) -> None:
    """Add a search to those of the recollection at work, if there is one."""
    if (searches := SEARCHES.get()) is not None:
        searches.append((retriever, query, scores, records))


def retrieved(searches: Sequence[Ranking], ids: Collection[str]) -> tuple[Retrieved, ...]:
    """Rank and score of each item of these `ids` in the last of the `searches` that found it."""
    items = {}
    for retriever, query, scores, records in searches:
        for rank, (key, score) in enumerate(scores.items(), 1):
            record = records.get(key)
            if record and (name := id_of(record)) in ids:
                text = line(next(filter(None, (getattr(record, field, "") for field in TEXTS)), ""), 200)
                by = type(retriever).__name__
                items[name] = Retrieved(name, rank=rank, score=round(score, 6), retriever=by, query=query, text=text)
    return tuple(items.values())
