"""Records in memory: the store that ends with the process, and compressed records by key."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Iterator, MutableMapping, Sequence
from typing import Any, TypeVar

import msgspec

from reflexion_lab.limits import Above0, validated
from reflexion_lab.protocols import S, Stored
from reflexion_lab.records import Episode, Record, Search
from reflexion_lab.storage.kinds import KIND_OF, KINDS, is_old, matching, prepared

K = TypeVar("K")
R = TypeVar("R", bound=Record)


class Packed(MutableMapping[K, R]):
    """Records of one `kind` by key, compressed, in order of arrival. The first one is the dictionary of the others, so
    that a record takes what is new in it. Not thread-safe, except for iterators of `snapshot`.
    """

    def __init__(self, kind: type[R]) -> None:
        self._decode = msgspec.json.Decoder(kind).decode
        self._first = b""
        self._packed: dict[K, bytes | R] = {}

    def __setitem__(self, key: K, record: R) -> None:
        try:
            body = msgspec.json.encode(record)
        except UnicodeEncodeError:  # half of a character, as in a log by hand
            self._packed[key] = record
            return
        self._first = self._first or body
        packer = zlib.compressobj(zdict=self._first)
        self._packed[key] = packer.compress(body) + packer.flush()

    def __getitem__(self, key: K) -> R:
        return self._unpacked(self._packed[key])

    def __delitem__(self, key: K) -> None:
        del self._packed[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._packed)

    def __len__(self) -> int:
        return len(self._packed)

    def snapshot(self) -> Iterator[R]:
        """The records at the time of the call, without those stored later."""
        return map(self._unpacked, list(self._packed.values()))

    def _unpacked(self, packed: bytes | R) -> R:
        if not isinstance(packed, bytes):
            return packed
        return self._decode(zlib.decompressobj(zdict=self._first).decompress(packed))


class InMemory:
    """Records as they would come back from the other stores.

    `retention_days`: above 0. Every store takes it, so that a preset can set it; nothing here outlives the process.
    """

    is_durable = False

    @validated
    def __init__(self, retention_days: Above0 | None = None) -> None:
        self._lock = threading.Lock()
        self._records: dict[str, Packed[str, Any]] = {}
        self.clear()

    def append(self, records: Sequence[Stored]) -> None:
        """Raises DataError, as `kinds.prepared`."""
        lines = prepared(records)
        with self._lock:
            for line in lines:
                self._records[line.kind.name][line.id] = line.record

    def read(self, kind: type[S]) -> Iterator[S]:
        with self._lock:
            records: Iterator[S] = self._records[KIND_OF[kind].name].snapshot()
        yield from records

    def search(self, search: Search) -> list[Episode]:
        return matching(search, self.read(Episode))

    def prune(self, before: float) -> int:
        removed = 0
        with self._lock:
            for records in self._records.values():
                old = [key for key, record in records.items() if is_old(record, before)]
                for key in old:
                    del records[key]
                removed += len(old)
        return removed

    def clear(self) -> None:
        with self._lock:
            self._records = {kind.name: Packed(kind.record) for kind in KINDS}

    def close(self) -> None:
        """Nothing to do; records can still be read."""
