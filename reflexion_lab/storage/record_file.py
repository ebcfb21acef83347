"""One file of records: the last line of an id wins, in the place of its first."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from reflexion_lab.protocols import Stored
from reflexion_lab.storage.kinds import Kind, collector_paused, is_old
from reflexion_lab.storage.locked_file import faults, locked, replace, snapshot, sync, write
from reflexion_lab.storage.record_lines import blocks, header, header_number, lines, other_version


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
