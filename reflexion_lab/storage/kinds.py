"""The kinds of record in a store: their preparation, search rule and errors."""

from __future__ import annotations

import gc
import os
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from reflexion_lab.errors import DataError, StoreError
from reflexion_lab.protocols import Stored
from reflexion_lab.records import Episode, Item, Search, Wisdom, id_of

LONGEST_ID = 500
"""Maximum characters of an id; a PostgreSQL index entry holds 2,700 bytes."""
KINDS: dict[str, type[Any]] = {"episodes": Episode, "wisdom": Wisdom, "items": Item}
"""By name of the file, the table and the section of an export."""
KIND_OF = {record: name for name, record in KINDS.items()}
_DECODERS = {record: msgspec.json.Decoder(record) for record in KIND_OF}


class Line(NamedTuple):
    """A record, ready for storage."""

    kind: str
    id: str
    body: bytes
    """JSON with sorted dict keys, without a line break."""
    record: Stored


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector, which visits all records repeatedly: a million are read in a third less time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def is_old(record: Stored, before: float) -> bool:
    """Whether `Store.prune(before)` removes `record`."""
    return isinstance(record, Episode) and record.timestamp <= before


def is_removed(record: Stored) -> bool:
    """Whether `record` says that an item was removed."""
    return isinstance(record, Item) and not record.text


def prepared(records: Sequence[Stored]) -> list[Line]:
    """The lines to store, in the order of `records`; episodes are completed by `identified`.

    Raises DataError: a record could not be read back: an agent or id is missing, or a number is not finite.
    """
    lines = []
    for number, given in enumerate(records, 1):
        kind, which = KIND_OF[type(given)], f"record {number} of {len(records)}"
        record = identified(given, which) if isinstance(given, Episode) else given
        name, field = id_of(record), record.__struct_fields__[0]
        if not name or "\0" in name or len(name) > LONGEST_ID:
            allowed = f"1 to {LONGEST_ID} characters, none of them NUL"
            raise DataError(f"{which}, {field}", repr(name[:40]), allowed)
        try:
            # All stores keep the decoded value: 1 becomes 1.0, and NaN, which JSON lacks, is refused.
            body = msgspec.json.encode(record, order="deterministic")
            lines.append(Line(kind, name, body, _DECODERS[type(given)].decode(body)))
        except (UnicodeEncodeError, msgspec.MsgspecError) as problem:
            raise DataError(f"{field} {name!r}: cannot be read back ({problem}); correct that field") from None
    return lines


def failure(place: object, verb: str, reason: object, advice: str) -> StoreError:
    """The error of a store at `place` that cannot be `verb`."""
    intact = "" if verb == "opened" else "; earlier records are intact"
    return StoreError(f"{place}: cannot be {verb} ({reason}); {advice}{intact}")


def identified(episode: Episode, which: str = "an episode") -> Episode:
    """`episode` with an id (`ep-` and 32 hex digits) and a timestamp where it has none.

    Raises DataError without an `agent_id`; `which` names an episode without an id.
    """
    if not episode.agent_id:
        name = f"episode {episode.episode_id!r}" if episode.episode_id else which
        raise DataError(f"{name}, of task {episode.task_id!r}, agent_id", repr(""), "who made the attempt")
    if episode.episode_id and episode.timestamp:
        return episode
    return replace(
        episode,
        episode_id=episode.episode_id or f"ep-{os.urandom(16).hex()}",
        timestamp=episode.timestamp or time.time(),
    )


def matching(search: Search, episodes: Iterable[Episode]) -> list[Episode]:
    """The newest matching episodes, newest first, at most `search.limit`; `episodes` are oldest first."""
    newest: deque[Episode] = deque(maxlen=search.limit if search.limit > 0 else None)
    newest.extend(episode for episode in episodes if matches(search, episode))
    return list(newest)[::-1]


def matches(search: Search, episode: Episode) -> bool:
    names, enough = ("task_id", "session_id", "agent_id"), all if search.every_keyword else any
    if not (
        all(getattr(search, name) in ("", getattr(episode, name)) for name in names)
        and (not search.categories or episode.category in search.categories)
        and (search.passed is None or search.passed == episode.passed)
        and episode.confidence >= search.min_confidence
    ):
        return False
    text = searched(episode) if search.keywords else ""
    return not search.keywords or enough(keyword.casefold() in text for keyword in search.keywords)


def searched(episode: Episode) -> str:
    """The text in which keywords are searched, casefolded."""
    reflection = episode.reflection
    words = (reflection.root_cause, reflection.what_went_wrong, reflection.what_to_change) if reflection else ()
    lessons = reflection.lessons if reflection else ()
    return "\n".join((episode.task_description, episode.failure_analysis, *words, *lessons)).casefold()
