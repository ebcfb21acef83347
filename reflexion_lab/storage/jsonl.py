"""The store that a person can read: a folder of JSON lines, one file a kind.

Many processes append to a file and any of them may rewrite it: one writer at a time, and readers of whole writes. Locks
are `flock`, taken on a descriptor of their own: they keep threads apart as well as processes, and end with the process
that held them.
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
from reflexion_lab.records import SCHEMA_VERSION, Episode, Record, Search
from reflexion_lab.storage.kinds import KIND_OF, KINDS, Kind, collector_paused, is_old, matching, prepared


@contextmanager
def locked(path: Path) -> Iterator[tuple[int, int]]:
    """Descriptor and size of the file, made if it is missing, with no other writer about."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # A process that rewrote the file while we waited has replaced it.
            if _stands(path, descriptor):
                yield descriptor, os.fstat(descriptor).st_size
                return
        finally:
            # Closing alone would not do: a process that was forked meanwhile has the descriptor too.
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)


def _stands(path: Path, descriptor: int) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), path.stat())
    return False


@contextmanager
def snapshot(path: Path) -> Iterator[tuple[int, int]]:
    """Descriptor and size as no writer is in the midst of a write; others may append on. Size 0 for a missing file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield -1, 0
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        size = os.fstat(descriptor).st_size
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        yield descriptor, size
    finally:
        os.close(descriptor)


def write(descriptor: int, text: bytes, size: int) -> None:
    """Append all of `text` to a file of `size` bytes, or nothing."""
    rest = memoryview(text)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except BaseException:
        os.ftruncate(descriptor, size)
        raise


def replace(path: Path, parts: Iterable[bytes]) -> None:
    """Replace `path`, of which the caller holds the lock, in one step; it is on the disk when this returns."""
    files.replace(path, parts, path.with_name(f".{path.name}{files.DRAFT}"))
    sync(path.parent)


def sync(path: Path) -> None:
    """Force a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def faults(path: Path, verb: str) -> Iterator[None]:
    """An OSError within becomes a StoreError: `path` cannot be `verb`."""
    try:
        yield
    except OSError as error:
        full = error.errno in FULL
        advice = "free some space and try again" if full else "name a place that you may use, and see what is there"
        raise StoreError(
            f"{path}: it cannot be {verb} ({error.strerror}); {advice}; what it kept before stands"
        ) from error


class Jsonl:
    """Records in the folder `path`, which is made if it is missing: episodes.jsonl, wisdom.jsonl, mistakes.jsonl and
    sessions.jsonl, each a header and then one record a line.

    `append` returns when the operating system has the records: they outlive a killed process, and a crash of the
    machine once `close` or `sync` has returned. What it appends of one kind is kept whole, or, on a full disk, not at
    all; a kill in its midst may keep the first of the records. Newer versions of a record are added behind the older
    ones, which `prune` removes. The folder belongs on a disk whose file system knows `flock`.

    Raises
    ------
    StoreError
        The folder cannot be used, or a file in it is not of this version.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        with faults(self.path, "used as a folder of records"):
            self.path.mkdir(parents=True, exist_ok=True)
        self._files = {kind.name: RecordFile(self.path / f"{kind.name}.jsonl", kind) for kind in KINDS}
        self._appended: set[str] = set()
        for file in self._files.values():
            file.check()

    @property
    def skipped(self) -> int:
        """Lines that could not be read, at the last whole reading of each file. A warning has named them."""
        return sum(len(file.skipped) for file in self._files.values())

    def append(self, records: Sequence[Stored]) -> None:
        """Raises ValueError, too, as `kinds.prepared` does."""
        texts: dict[str, list[bytes]] = {}
        for line in prepared(records):
            texts.setdefault(line.kind.name, []).append(line.body + b"\n")
        for name, text in texts.items():
            self._files[name].append(b"".join(text))
            self._appended.add(name)

    def read(self, kind: type[S]) -> Iterator[S]:
        return cast(Iterator[S], self._files[KIND_OF[kind].name].read())

    def search(self, search: Search) -> list[Episode]:
        return matching(search, self.read(Episode))

    def prune(self, before: float) -> int:
        return sum(file.prune(before) for file in self._files.values())

    def clear(self) -> None:
        for file in self._files.values():
            file.clear()

    def sync(self) -> None:
        """Force what was appended so far to the disk."""
        for name in sorted(self._appended):
            self._files[name].sync()

    def close(self) -> None:
        self.sync()


class RecordFile:
    """Shared by threads and processes: all append, and `prune` rewrites."""

    skipped: tuple[int, ...] = ()
    """Numbers of the lines, from 1, that the last whole reading could not read."""

    def __init__(self, path: Path, kind: Kind) -> None:
        self.path = path
        self._kind = kind
        self._header = header(kind)
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(kind.record)
        only_id = msgspec.defstruct("OnlyId", [("id", str, msgspec.field(name=kind.id_field))])
        self._ids: msgspec.json.Decoder[Any] = msgspec.json.Decoder(only_id)

    def check(self) -> None:
        """Raises StoreError when there is a file and it cannot be read, or is another kind's or schema's."""
        with faults(self.path, "read"), snapshot(self.path) as (descriptor, size):
            header_number(self.path, self._kind, descriptor, size)

    def append(self, text: bytes) -> None:
        """Add `text`, whole lines: all of them, or none."""
        with faults(self.path, "appended to"), locked(self.path) as (descriptor, size):
            write(descriptor, self._beginning(descriptor, size) + text, size)

    def read(self) -> Iterator[Stored]:
        """The newest version of every record, in the order of their first."""
        with faults(self.path, "read"), snapshot(self.path) as (descriptor, size):
            for _, record in self._read(descriptor, size):
                if record is not None:
                    yield record

    def prune(self, before: float) -> int:
        """Remove old records, and versions that newer ones replaced. Lines that cannot be read stay."""
        if not self.path.exists():
            return 0
        with faults(self.path, "pruned"), locked(self.path) as (descriptor, size):
            old = sum(record is not None and is_old(record, before) for _, record in self._read(descriptor, size))
            if old or self._versions(descriptor, size):
                kept = (
                    line for line, record in self._read(descriptor, size) if not (record and is_old(record, before))
                )
                replace(self.path, self._with_header(kept))
        return old

    def clear(self) -> None:
        """Remove every line but the header, also those that cannot be read."""
        if self.path.exists():
            with faults(self.path, "cleared"), locked(self.path):
                replace(self.path, iter((self._header,)))

    def sync(self) -> None:
        """Force what was appended to the disk."""
        with faults(self.path, "synced"), suppress(FileNotFoundError):
            sync(self.path)

    def _with_header(self, kept: Iterator[bytes]) -> Iterator[bytes]:
        yield self._header
        for line in kept:
            yield line + b"\n"

    def _read(self, descriptor: int, size: int) -> Iterator[tuple[bytes, Stored | None]]:
        """Pairs of line and record; None for the record of a line that cannot be read."""
        first = header_number(self.path, self._kind, descriptor, size)
        versions = self._versions(descriptor, size)
        broken = []
        for number, line, record in self._decoded(descriptor, size, first):
            if record is None:
                broken.append(number)
            elif versions and (name := getattr(record, self._kind.id_field)) in versions:
                newest, versions[name] = versions[name], None
                if newest is not None:
                    yield newest, self._decoder.decode(newest)
                continue
            yield line, record
        self._report(broken)

    def _decoded(self, descriptor: int, size: int, header: int) -> Iterator[tuple[int, bytes, Stored | None]]:
        """Number, line and record of every line but the header."""
        for first, block in blocks(descriptor, size):
            with collector_paused():
                numbered = [(number, line) for number, line in enumerate(block, first) if line and number != header]
                decoded = [(number, line, self._record(line, number)) for number, line in numbered]
            yield from decoded

    def _record(self, line: bytes, number: int) -> Stored | None:
        """None for a line that is torn or garbled. Raises StoreError for one of another version."""
        try:
            record: Stored = self._decoder.decode(line)
        except msgspec.ValidationError as problem:
            if isinstance(_json(line), dict):
                raise other_version(f"{self.path}, line {number}", problem) from None
            return None
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        return record

    def _versions(self, descriptor: int, size: int) -> dict[str, bytes | None]:
        """The last line of every id that has several."""
        seen: set[str] = set()
        last: dict[str, bytes | None] = {}
        for line in lines(descriptor, size):
            name = self._id(line)
            if name is None:
                continue
            if name in seen:
                with suppress(msgspec.DecodeError, UnicodeDecodeError):
                    self._decoder.decode(line)
                    last[name] = line
            seen.add(name)
        return last

    def _id(self, line: bytes) -> str | None:
        try:
            name: str = self._ids.decode(line).id
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        return name

    def _report(self, broken: list[int]) -> None:
        self.skipped = tuple(broken)
        if broken:
            which = (
                f"line {broken[0]} was" if not broken[1:] else f"{len(broken)} lines, from line {broken[0]} on, were"
            )
            warnings.warn(f"{self.path}: {which} torn or garbled, and left out; the rest is whole", stacklevel=2)

    def _beginning(self, descriptor: int, size: int) -> bytes:
        """The bytes to write before the next record: a line break after a torn line, a missing header."""
        if size == 0:
            return self._header
        start = b"" if os.pread(descriptor, 1, size - 1) == b"\n" else b"\n"
        if os.pread(descriptor, len(self._header), 0) == self._header:
            return start
        return start if header_number(self.path, self._kind, descriptor, size) else start + self._header


def _json(line: bytes) -> object:
    with suppress(msgspec.DecodeError, UnicodeDecodeError):
        return msgspec.json.decode(line)
    return None


BLOCK = 1 << 22
"""Bytes read at once."""


class Header(Record, frozen=True, kw_only=True):
    """The first line of a file of records."""

    kind: str
    schema: int


def header(kind: Kind) -> bytes:
    return msgspec.json.encode(Header(kind=kind.name, schema=SCHEMA_VERSION)) + b"\n"


def blocks(descriptor: int, size: int) -> Iterator[tuple[int, list[bytes]]]:
    """The lines of the first `size` bytes, without their breaks, some thousands at once behind the number of the first;
    numbers begin at 1. The last line of all may lack its break.
    """
    rest, offset, number = b"", 0, 1
    while offset < size and (block := os.pread(descriptor, min(BLOCK, size - offset), offset)):
        offset += len(block)
        whole = (rest + block).split(b"\n")
        rest = whole.pop()
        yield number, whole
        number += len(whole)
    if rest:
        yield number, [rest]


def lines(descriptor: int, size: int) -> Iterator[bytes]:
    """The same lines, one by one."""
    for _, block in blocks(descriptor, size):
        yield from block


def header_number(where: object, kind: Kind, descriptor: int, size: int) -> int:
    """The number, from 1, of the line that is the header; 0 where no line can be read at all, since the very first
    write was torn.

    Raises
    ------
    StoreError
        The first line that can be read is no header, or that of another kind or schema.
    """
    for number, line in enumerate(lines(descriptor, size), 1):
        try:
            check_header(f"{where}, line {number}", line, kind.name)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        return number
    return 0


def check_header(where: str, line: bytes, name: str) -> None:
    """Raises StoreError unless `line` is the header of a file of `name`; a decoder's error when it is torn."""
    try:
        header = msgspec.json.decode(line, type=Header)
    except msgspec.ValidationError:
        raise StoreError(
            where,
            "no header",
            header_text(name),
            "a file of records from elsewhere goes in by `reflexion-lab memory import`",
        ) from None
    if header.kind != name:
        raise StoreError(where, f"a file of {header.kind!r}", name, "give the file its own name back")
    check_schema(where, header.schema)


def check_schema(where: str, schema: int) -> None:
    if schema == SCHEMA_VERSION:
        return
    advice = "use the version of reflexion_lab that wrote it" + (", or a newer one" if schema > SCHEMA_VERSION else "")
    raise StoreError(where, f"schema {schema}", f"schema {SCHEMA_VERSION}", advice)


def header_text(name: str) -> str:
    return msgspec.json.encode(Header(kind=name, schema=SCHEMA_VERSION)).decode()


def other_version(where: str, problem: object) -> StoreError:
    return StoreError(f"{where}: {problem}; was it written by another version? Correct or remove that line")
