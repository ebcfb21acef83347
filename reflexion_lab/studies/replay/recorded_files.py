"""Recorded calls and vectors as JSON lines, and back into the files that a run reads."""

from __future__ import annotations

import hashlib
import sqlite3
import zlib
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import msgspec

from reflexion_lab.io.files import UNREADABLE
from reflexion_lab.memory.embedders import cached
from reflexion_lab.records import Record
from reflexion_lab.storage import call_store
from reflexion_lab.storage.sqlite_file import connect, connect_readonly
from reflexion_lab.storage.table import Layout
from reflexion_lab.studies.replay.bundle import BundleError


class Call(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One call of a model: the reply to a request, as the call cache has both."""

    key: str
    fingerprint: str
    request: str
    completion: str

    @property
    def row(self) -> tuple[object, ...]:
        """Raises BundleError: the key is not that of the request."""
        if hashlib.sha256(self.request.encode()).hexdigest() != self.key:
            raise BundleError(f"call {self.key}: its request has another digest; the bundle was changed")
        return self.key, self.fingerprint, self.request, self.completion, ""


class Vector(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One embedding."""

    fingerprint: str
    digest: bytes
    vector: bytes

    @property
    def row(self) -> tuple[object, ...]:
        return self.fingerprint, self.digest, self.vector, zlib.crc32(self.vector)


class Kind(NamedTuple):
    """What one kind of file holds."""

    layout: Layout
    record: type[Call] | type[Vector]
    select: str
    insert: str


CALLS = Kind(
    call_store.LAYOUT,
    Call,
    "SELECT key, fingerprint, request, completion FROM calls ORDER BY key",
    "INSERT INTO calls VALUES (?, ?, ?, ?, ?)",
)
VECTORS = Kind(
    cached.LAYOUT,
    Vector,
    "SELECT fingerprint, digest, vector FROM embeddings ORDER BY fingerprint, digest",
    "INSERT INTO embeddings VALUES (?, ?, ?, ?)",
)


def copied(url: str, fingerprints: Sequence[str], path: Path) -> Path:
    """The file at `path` with the calls of these models from PostgreSQL's call cache at `url`. Raises ModelError."""
    calls = call_store.CallStore(url, readonly=True)
    with closing(calls), closing(connect(path, CALLS.layout)) as connection:
        connection.execute("BEGIN")
        connection.executemany(CALLS.insert, map(msgspec.structs.astuple, calls.calls(fingerprints)))
        connection.execute("COMMIT")
    return path


def as_lines(path: Path, kind: Kind) -> bytes:
    """Every row of the file at `path`, sorted, one a line; b"" where there is no file.

    Raises
    ------
    BundleError
        It is another file, or damaged.
    """
    if not path.is_file():
        return b""
    fields = kind.record.__struct_fields__
    try:
        with closing(connect_readonly(path, kind.layout)) as connection:
            rows = connection.execute(kind.select)
            records = (kind.record(**dict(zip(fields, row, strict=True))) for row in rows)
            return b"".join(msgspec.json.encode(record) + b"\n" for record in records)
    except sqlite3.Error as problem:
        raise BundleError(
            path, f"a file that is damaged or another ({problem})", "one that a run has written"
        ) from None


def as_file(lines: bytes, kind: Kind, path: Path) -> Path:
    """The file at `path` with these rows.

    Raises
    ------
    BundleError
        A line is no such record.
    """
    try:
        rows = [msgspec.json.decode(line, type=kind.record).row for line in lines.splitlines()]
        with closing(connect(path, kind.layout)) as connection:
            connection.execute("BEGIN")
            connection.executemany(kind.insert, rows)
            connection.execute("COMMIT")
    except (*UNREADABLE, sqlite3.Error) as problem:
        raise BundleError(f"{path.stem}.jsonl: {problem}; the bundle was changed") from None
    return path
