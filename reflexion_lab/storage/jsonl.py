"""The JSON-lines store: a folder with one readable file per kind of record.

Processes append to a file and may rewrite it. A writer holds an exclusive `flock` on the folder; a reader sees whole
writes only. Locks are taken on new descriptors, so they also separate threads, and they end with their process.
"""

from __future__ import annotations

import fcntl
import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import msgspec

from reflexion_lab.errors import StoreError
from reflexion_lab.io import files
from reflexion_lab.io.files import FULL
from reflexion_lab.protocols import S, Stored
from reflexion_lab.records import SCHEMA_VERSION, Episode, Record, Search, id_of
from reflexion_lab.storage.kinds import KIND_OF, KINDS, collector_paused, failure, is_old, matching, prepared


@contextmanager
def _held(folder: Path, operation: int) -> Iterator[None]:
    """A lock on a folder, which no rewrite replaces."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, operation)
        yield
    finally:
        # Closing is not enough: a process forked meanwhile has a copy of the descriptor.
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


@contextmanager
def locked(path: Path) -> Iterator[tuple[int, int]]:
    """A file, created if missing, for its only writer; yields its descriptor and size."""
    with _held(path.parent, fcntl.LOCK_EX):
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            yield descriptor, os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)


@contextmanager
def snapshot(path: Path) -> Iterator[tuple[int, int]]:
    """Descriptor and size of a file between two writes; later appends are beyond that size. Size 0: missing file."""
    with _held(path.parent, fcntl.LOCK_SH):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            descriptor = -1
        size = os.fstat(descriptor).st_size if descriptor >= 0 else 0
    try:
        yield descriptor, size
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def replace(path: Path, parts: Iterable[bytes]) -> None:
    """Replace a locked file atomically and durably."""
    files.replace(path, parts, path.with_name(f".{path.name}{files.DRAFT}"))
    sync(path.parent)


def sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def faults(path: Path, verb: str) -> Iterator[None]:
    """Convert an OSError to a StoreError: `path` cannot be `verb`."""
    try:
        yield
    except OSError as error:
        is_full = error.errno in FULL
        advice = "free some space and try again" if is_full else "check its permissions, or name another place"
        raise failure(path, verb, error.strerror, advice) from error


class Jsonl:
    """Records in the folder `path`, made if missing: a file per kind (`kinds.KINDS`), a header, then a line per record.

    After `append`, records survive a killed process; after `close`, also a crash of the machine. An append is atomic
    per kind on a full disk; a kill may keep its first records only. A new version of a record is appended; `prune`
    removes the older ones. The file system must support `flock`. Raises StoreError: the folder cannot be used, or a
    file is of another version.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).absolute()
        with faults(self.path, "used as a folder of records"):
            self.path.mkdir(parents=True, exist_ok=True)
        self._files = {name: RecordFile(self.path / f"{name}.jsonl", record) for name, record in KINDS.items()}
        self._appended: set[str] = set()
        for file in self._files.values():
            file.check()

    def append(self, records: Sequence[Stored]) -> None:
        """Also raises DataError, as `kinds.prepared`."""
        texts: dict[str, list[bytes]] = {}
        for line in prepared(records):
            texts.setdefault(line.kind, []).append(line.body + b"\n")
        for name, text in texts.items():
            self._files[name].append(b"".join(text))
            self._appended.add(name)

    def read(self, kind: type[S]) -> Iterator[S]:
        return cast(Iterator[S], self._files[KIND_OF[kind]].read())

    def search(self, search: Search) -> list[Episode]:
        return matching(search, self.read(Episode))

    def prune(self, before: float) -> int:
        return sum(file.prune(before) for file in self._files.values())

    def clear(self) -> None:
        for file in self._files.values():
            file.clear()

    def close(self) -> None:
        """Flush all appended records to the disk."""
        for name in sorted(self._appended):
            self._files[name].sync()


class RecordFile:
    """One kind's file, shared by threads and processes."""

    def __init__(self, path: Path, record: type[Any]) -> None:
        self.path = path
        self._header = header(path.stem)
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(record)

    def check(self) -> None:
        """Raises StoreError for a file that cannot be read, or is of another kind or schema."""
        with faults(self.path, "read"), snapshot(self.path) as (descriptor, size):
            self._header_number(descriptor, size)

    def append(self, text: bytes) -> None:
        """Append whole lines, all or nothing."""
        with faults(self.path, "appended to"), locked(self.path) as (descriptor, size):
            files.append(descriptor, self._prefix(descriptor, size) + text)

    def read(self) -> Iterator[Stored]:
        """The newest version of each record, in the order of the first versions."""
        with faults(self.path, "read"), snapshot(self.path) as (descriptor, size):
            versions, _ = self._read(descriptor, size, has_lines=False)
        return (record for _, record in versions.values())

    def prune(self, before: float) -> int:
        """Remove old records and replaced versions; unreadable lines stay. Returns the number of old records."""
        if not self.path.exists():
            return 0
        with faults(self.path, "pruned"), locked(self.path) as (descriptor, size):
            versions, unreadable = self._read(descriptor, size, has_lines=True)
            remaining = [line for line, record in versions.values() if not is_old(record, before)]
            text = [self._header, *(line + b"\n" for line in (*unreadable, *remaining))]
            if sum(map(len, text)) < size:
                replace(self.path, text)
        return len(versions) - len(remaining)

    def clear(self) -> None:
        """Remove all lines but the header, unreadable ones too."""
        if self.path.exists():
            with faults(self.path, "cleared"), locked(self.path):
                replace(self.path, [self._header])

    def sync(self) -> None:
        with faults(self.path, "synced"), suppress(FileNotFoundError):
            sync(self.path)

    def _read(self, descriptor: int, size: int, has_lines: bool) -> tuple[dict[str, tuple[bytes, Stored]], list[bytes]]:
        """By id, record and, if asked for, line of the newest version, in the order of the first; unreadable lines."""
        header_number = self._header_number(descriptor, size)
        versions: dict[str, tuple[bytes, Stored]] = {}
        unreadable: dict[int, bytes] = {}
        with collector_paused():
            for number, line in enumerate(lines(descriptor, size), 1):
                if not line or number == header_number:
                    continue
                if (record := self._record(line, number)) is None:
                    unreadable[number] = line
                else:
                    versions[id_of(record)] = line if has_lines else b"", record
        if unreadable:
            first, count = next(iter(unreadable)), len(unreadable)
            which = f"line {first}" if count == 1 else f"{count} lines from line {first} on"
            warnings.warn(f"{self.path}: skipped {which}, torn or damaged", stacklevel=2)
        return versions, list(unreadable.values())

    def _record(self, line: bytes, number: int) -> Stored | None:
        """None for a torn or damaged line. Raises StoreError for a line of another version."""
        try:
            return cast(Stored, self._decoder.decode(line))
        except msgspec.ValidationError as problem:
            with suppress(msgspec.DecodeError, UnicodeDecodeError):
                if isinstance(msgspec.json.decode(line), dict):
                    where, hint = f"{self.path}, line {number}", "correct or remove that line"
                    raise StoreError(f"{where}: {problem}; another version may have written it", hint=hint) from None
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass
        return None

    def _prefix(self, descriptor: int, size: int) -> bytes:
        """Bytes to write before the next record: a line break after a torn line, a missing header."""
        if size == 0:
            return self._header
        start = b"" if os.pread(descriptor, 1, size - 1) == b"\n" else b"\n"
        if os.pread(descriptor, len(self._header), 0) == self._header:
            return start
        return start if self._header_number(descriptor, size) else start + self._header

    def _header_number(self, descriptor: int, size: int) -> int:
        """Line number of the header, from 1; 0 if no line is readable, since the very first write was torn.

        Raises StoreError: the first readable line is no header, or one of another kind or schema.
        """
        expected = self.path.stem
        for number, line in enumerate(lines(descriptor, size), 1):
            where = f"{self.path}, line {number}"
            try:
                head = msgspec.json.decode(line, type=Header)
            except msgspec.ValidationError:
                hint = "`reflexion-lab memory import` reads files of records from elsewhere"
                raise StoreError(where, "no header", header_text(expected), hint) from None
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
            if head.kind != expected:
                raise StoreError(where, f"a file of {head.kind!r}", expected, "restore the file's own name")
            check_schema(where, head.schema)
            return number
        return 0


class Header(Record, frozen=True, kw_only=True):
    """The first line of a file of records."""

    kind: str
    schema: int


def header_text(kind: str) -> str:
    return msgspec.json.encode(Header(kind=kind, schema=SCHEMA_VERSION)).decode()


def header(kind: str) -> bytes:
    return f"{header_text(kind)}\n".encode()


def check_schema(where: str, schema: int) -> None:
    """Raises StoreError for another schema than this version's."""
    if schema == SCHEMA_VERSION:
        return
    advice = "use the version of reflexion_lab that wrote it" + (", or a newer one" if schema > SCHEMA_VERSION else "")
    raise StoreError(where, f"schema {schema}", f"schema {SCHEMA_VERSION}", advice)


def lines(descriptor: int, size: int) -> Iterator[bytes]:
    """The first `size` bytes as lines without line breaks."""
    if size:
        with open(descriptor, "rb", closefd=False) as file:
            file.seek(0)
            for line in file:
                yield line[:size].removesuffix(b"\n")
                size -= len(line)
                if size <= 0:
                    return
