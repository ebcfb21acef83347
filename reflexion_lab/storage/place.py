"""Opening the store at a place; export and import of all its records as one file.

An export `*.json` is one object with a list per kind. Any other name is JSON lines, each kind after its header: the
concatenated files of a JSONL store are an export. Reflections alone are also read and written as lines of OpenAgents.
"""

from __future__ import annotations

import os
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from reflexion_lab.errors import ConfigError, StoreError
from reflexion_lab.io.files import UNREADABLE
from reflexion_lab.io.secrets import without_logins
from reflexion_lab.limits import Above0, validated
from reflexion_lab.protocols import Store, Stored
from reflexion_lab.records import SCHEMA_VERSION, Episode
from reflexion_lab.storage import openagents
from reflexion_lab.storage.in_memory import InMemory
from reflexion_lab.storage.jsonl import Header, Jsonl, check_schema, faults, header, header_text, replace
from reflexion_lab.storage.kinds import KIND_OF, KINDS, prepared

VARIABLE = "REFLEXION_LAB_DATABASE"
"""Environment variable with the URL for storage=postgres."""
DAY = 24 * 60 * 60
PLACES = 'a folder, a file *.sqlite or *.db, sqlite:///path, postgresql://user:password@host/database, or "" for none'


@validated
def opened(place: str | Path, retention_days: Above0 | None = None) -> Store:
    """The store at `place`: a folder of JSON lines, a SQLite file, PostgreSQL, or, for "", memory.

    Raises ConfigError: `place` is none of these; StoreError: the store cannot be opened. `retention_days`: maximum age
    in days of episodes; older ones are removed now. None: no limit.
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
            f"store.retention_days: {removed:,} episodes older than {retention_days:g} days "
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
AN_EXPORT = "expected an export"


def dump(store: Store, path: Path, layout: str = "") -> dict[str, int]:
    """Export all records of `store` to `path`, atomically; returns the counts by kind. Raises StoreError.

    `layout`: `openagents` exports only reflections, as OpenAgents' lines.
    """
    if layout == "openagents":
        lines = [openagents.line_of(each, each.reflection) for each in store.read(Episode) if each.reflection]
        with faults(path, "written"):
            replace(path, lines)
        return {"reflections": len(lines)}
    counts: Counter[str] = Counter(dict.fromkeys(KINDS, 0))
    with faults(path, "written"):
        replace(path, (_json if path.suffix == ".json" else _jsonl)(store, counts))
    return dict(counts)


def load(store: Store, path: Path) -> dict[str, int]:
    """Import all records of `path` into `store`; returns counts by kind. Known ids are replaced, so it can be repeated.

    Raises StoreError: `path` is not a regular file, or holds an invalid record; nothing was appended.
    """
    if path.exists() and not path.is_file():  # a pipe cannot be read twice
        raise StoreError(f"{path}: a folder, pipe or device", expected="a regular file", hint="nothing was imported")
    with faults(path, "imported"):
        for entry in entries(path):
            if entry.problem:
                raise StoreError(f"{entry.problem}; nothing was imported")
        return append_all(store, (entry.record for entry in entries(path) if entry.record is not None))


def append_all(store: Store, records: Iterable[Stored]) -> dict[str, int]:
    """Append `records`, however many; returns counts by kind. Raises StoreError."""
    remaining, counts = iter(records), dict.fromkeys(KINDS, 0)
    while batch := list(islice(remaining, BATCH)):
        store.append(batch)
        for record in batch:
            counts[KIND_OF[type(record)]] += 1
    return counts


def _jsonl(store: Store, counts: Counter[str]) -> Iterator[bytes]:
    for kind in KINDS:
        yield header(kind)
        for body in _bodies(store, kind, counts):
            yield body + b"\n"


def _json(store: Store, counts: Counter[str]) -> Iterator[bytes]:
    yield f'{{"schema": {SCHEMA_VERSION}'.encode()
    for kind in KINDS:
        yield f',\n"{kind}": ['.encode()
        for number, body in enumerate(_bodies(store, kind, counts)):
            yield (b",\n" if number else b"\n") + body
        yield b"]"
    yield b"}\n"


def _bodies(store: Store, kind: str, counts: Counter[str]) -> Iterator[bytes]:
    for record in store.read(KINDS[kind]):
        counts[kind] += 1
        yield msgspec.json.encode(record, order="deterministic")


class Entry(NamedTuple):
    """A record of an export, or what is wrong in its place."""

    where: str
    record: Stored | None
    problem: str = ""


def entries(path: Path) -> Iterator[Entry]:
    """The records of an export, or of a file of a JSONL store, and its faults. Raises OSError."""
    return _of_json(path) if path.suffix == ".json" else _of_jsonl(path)


def _of_json(path: Path) -> Iterator[Entry]:
    try:
        whole = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        schema = whole.get("schema", 0)
        if not isinstance(schema, int):
            raise StoreError(f"{path}, schema", repr(schema), SCHEMA_VERSION)
        check_schema(str(path), schema)
    except (*UNREADABLE, StoreError) as fault:
        yield Entry(str(path), None, str(fault) if isinstance(fault, StoreError) else f"{path}: {fault}; {AN_EXPORT}")
        return
    for name in sorted(whole.keys() - {"schema", *KINDS}):
        yield Entry(str(path), None, f"{path}, {name}: an unknown section, expected {', '.join(KINDS)}")
    for kind, record in KINDS.items():
        rows = whole.get(kind, [])
        if not isinstance(rows, list):
            yield Entry(str(path), None, f"{path}, {kind}: got {type(rows).__name__}, expected a list")
            continue
        for number, row in enumerate(rows):
            yield _entry(f"{path}, {kind}[{number}]", msgspec.json.encode(row), record)


def _of_jsonl(path: Path) -> Iterator[Entry]:
    record: type[Any] | None = None
    no_header = f"got no header, expected one such as {header_text('episodes')}"
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            where, head = f"{path}, line {number}", None
            try:
                head = msgspec.json.decode(line, type=Header)
                check_schema(where, head.schema)
                record = KINDS.get(head.kind)
            except msgspec.ValidationError:
                record = openagents.Line if record is None and openagents.KEY in line else record
            except UNREADABLE as fault:
                if line.strip():
                    got = f"got no JSON ({fault})"
                    yield Entry(where, None, f"{where}: {got}, expected a record; a write was interrupted")
                continue
            except StoreError as fault:
                yield Entry(where, None, f"{fault}; nothing below it was checked")
                return
            if record is None:
                yield Entry(where, None, f"{where}: {no_header}; nothing below it was checked")
                return
            if head is None:
                yield _entry(where, line, record)
    if record is None:
        yield Entry(str(path), None, f"{path}: {no_header}, and records below it")


def _entry(where: str, line: bytes, kind: type[Any]) -> Entry:
    try:
        record: Any = msgspec.json.decode(line, type=kind)
        record = record.episode if isinstance(record, openagents.Line) else record
        prepared([record])
    except UNREADABLE as fault:
        return Entry(where, None, f"{where}: {fault}; expected one of {kind.__name__}")
    except ValueError as fault:
        return Entry(where, None, f"{where}: {fault}")
    return Entry(where, record)
