"""Opening the store at a place; export and import of all its records as one file.

An export `*.json` is one object with a list per kind. Any other name is JSON lines, each kind after its header: the
concatenated files of a JSONL store are an export. Reflections alone are also read and written as lines of OpenAgents.
"""

from __future__ import annotations

import os
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

import msgspec

from reflexion_lab.errors import ConfigError, StoreError
from reflexion_lab.io.files import UNREADABLE
from reflexion_lab.io.secrets import without_logins
from reflexion_lab.limits import Above0, validated
from reflexion_lab.protocols import Store, Stored
from reflexion_lab.records import SCHEMA_VERSION, Episode, Item, Mistake, Record, Session, Wisdom
from reflexion_lab.storage import openagents
from reflexion_lab.storage.in_memory import InMemory
from reflexion_lab.storage.jsonl import Header, Jsonl, check_schema, faults, header, header_text, replace
from reflexion_lab.storage.kinds import KINDS, Kind, prepared

VARIABLE = "REFLEXION_LAB_DATABASE"
"""Environment variable with the URL for storage=postgres."""
DAY = 24 * 60 * 60
PLACES = 'a folder, a file *.sqlite or *.db, sqlite:///path, postgresql://user:password@host/database, or "" for none'


@validated
def opened(place: str | Path, retention_days: Above0 | None = None) -> Store:
    """The store at `place`: a folder of JSON lines, a SQLite file, PostgreSQL, or, for "", memory.

    Raises ConfigError: `place` is none of these; StoreError: the store cannot be opened. `retention_days`: maximum age
    in days of episodes, mistakes and sessions; older ones are removed now. None: no limit.
    """
    text, path = str(place), Path(place)
    store: Store
    if not text:
        store = InMemory()
    elif "://" in text or path.suffix in (".sqlite", ".db"):
        from reflexion_lab.storage.sql import Sql

        store = Sql(text)
    elif path.is_file() or path.suffix in (".json", ".jsonl"):
        hint = "`reflexion-lab memory import` reads the records of a file"
        raise ConfigError("store.place", f"{place}, a file", PLACES, hint)
    elif any(chain(path.glob("[0-9]*.json"), path.glob("*/[0-9]*.json"))) and not any(path.glob("*.jsonl")):
        raise ConfigError("store.place", f"{place}, a folder of reflection files", PLACES)
    else:
        store = Jsonl(path)
    if retention_days is not None and (removed := store.prune(time.time() - retention_days * DAY)):
        warnings.warn(
            f"store.retention_days: {removed:,} episodes, mistakes and sessions older than {retention_days:g} days "
            "were removed; if this machine's clock is ahead, restore the store from a backup",
            RuntimeWarning,
            stacklevel=2,
        )
    return store


def with_login(url: str) -> str:
    """A manifest's URL, which has no log-in, with the log-in of the environment's URL if both name the same place."""
    known = os.environ.get(VARIABLE, "")
    return known if known and without_logins(known) == url else url


BATCH = 1000


class _Archive(Record, frozen=True, kw_only=True):
    schema: int
    episodes: tuple[Episode, ...] = ()
    wisdom: tuple[Wisdom, ...] = ()
    mistakes: tuple[Mistake, ...] = ()
    sessions: tuple[Session, ...] = ()
    items: tuple[Item, ...] = ()


def dump(store: Store, path: Path, layout: str = "") -> dict[str, int]:
    """Export all records of `store` to `path`, atomically; returns the counts by kind. Raises StoreError.

    `layout`: `openagents` exports only reflections, as OpenAgents' lines.
    """
    if layout == "openagents":
        lines = [openagents.line_of(each, each.reflection) for each in store.read(Episode) if each.reflection]
        with faults(path, "written"):
            replace(path, lines)
        return {"reflections": len(lines)}
    counts: Counter[str] = Counter({kind.name: 0 for kind in KINDS})
    with faults(path, "written"):
        replace(path, (_json if path.suffix == ".json" else _jsonl)(store, counts))
    return dict(counts)


def load(store: Store, path: Path) -> dict[str, int]:
    """Import all records of `path` into `store`; returns counts by kind. Known ids are replaced, so it can be repeated.

    Raises StoreError: `path` is not a regular file, or holds an invalid record; nothing was appended.
    """
    if path.exists() and not path.is_file():  # a pipe cannot be read twice
        raise StoreError(f"{path}: a folder, pipe or device", expected="a regular file", hint="nothing was imported")
    counts: Counter[str] = Counter({kind.name: 0 for kind in KINDS})
    with faults(path, "imported"):
        for where, kind, record in _records(path):
            counts[kind.name] += 1
            try:
                prepared([record])
            except ValueError as problem:
                raise StoreError(f"{where}: {problem}; nothing was imported") from None
        records = (record for _, _, record in _records(path))
        while batch := list(islice(records, BATCH)):
            store.append(batch)
    return dict(counts)


def _jsonl(store: Store, counts: Counter[str]) -> Iterator[bytes]:
    for kind in KINDS:
        yield header(kind.name)
        for body in _bodies(store, kind, counts):
            yield body + b"\n"


def _json(store: Store, counts: Counter[str]) -> Iterator[bytes]:
    yield f'{{"schema": {SCHEMA_VERSION}'.encode()
    for kind in KINDS:
        yield f',\n"{kind.name}": ['.encode()
        for number, body in enumerate(_bodies(store, kind, counts)):
            yield (b",\n" if number else b"\n") + body
        yield b"]"
    yield b"}\n"


def _bodies(store: Store, kind: Kind, counts: Counter[str]) -> Iterator[bytes]:
    for record in store.read(kind.record):
        counts[kind.name] += 1
        yield msgspec.json.encode(record, order="deterministic")


def _records(path: Path) -> Iterator[tuple[str, Kind, Stored]]:
    return _of_json(path) if path.suffix == ".json" else _of_jsonl(path)


def _of_json(path: Path) -> Iterator[tuple[str, Kind, Stored]]:
    try:
        archive = msgspec.json.decode(path.read_bytes(), type=_Archive)
    except UNREADABLE as problem:
        raise StoreError(
            f"{path}: {problem}", expected="an export of this version", hint="nothing was imported"
        ) from None
    check_schema(str(path), archive.schema)
    for kind in KINDS:
        for number, record in enumerate(getattr(archive, kind.name)):
            yield f"{path}, {kind.name}[{number}]", kind, record


def _of_jsonl(path: Path) -> Iterator[tuple[str, Kind, Stored]]:
    kinds = {kind.name: kind for kind in KINDS}
    kind = decoder = None
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            where = f"{path}, line {number}"
            if head := _header(line):
                check_schema(where, head.schema)
                kind = kinds.get(head.kind)
                decoder = msgspec.json.Decoder(kind.record) if kind else None
            elif decoder is None and openagents.KEY in line:
                kind, decoder = KINDS[0], msgspec.json.Decoder(openagents.Line)
            if kind is None or decoder is None:
                expected = ", ".join(header_text(name) for name in kinds)
                raise StoreError(where, "no header", f"one of {expected}", "nothing was imported")
            if head or not line.strip():
                continue
            try:
                record = decoder.decode(line)
                yield where, kind, record.episode if isinstance(record, openagents.Line) else record
            except UNREADABLE as problem:
                raise StoreError(
                    f"{where}: {problem}", expected=f"one of {kind.name}", hint="nothing was imported"
                ) from None


def _header(line: bytes) -> Header | None:
    try:
        return msgspec.json.decode(line, type=Header, strict=True)
    except UNREADABLE:
        return None
