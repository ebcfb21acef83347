"""The store that ends with the process."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

from reflexion_lab.limits import Above0, validated
from reflexion_lab.protocols import S, Stored
from reflexion_lab.records import Episode, Search
from reflexion_lab.storage.kinds import KIND_OF, KINDS, is_old, matching, prepared
from reflexion_lab.storage.spilled import Spilled


class InMemory:
    """Records as they would come back from the other stores, in a temporary file without a name.

    Parameters
    ----------
    retention_days : float, optional
        Above 0. Every store takes it, so that a preset can set it; nothing here outlives the process.
    """

    is_durable = False

    @validated
    def __init__(self, retention_days: Above0 | None = None) -> None:
        self._lock = threading.Lock()
        self._records: dict[str, Spilled[str, Any]] = {}
        self.clear()

    def append(self, records: Sequence[Stored]) -> None:
        """Raises DataError, as `kinds.prepared`, and OSError, as `Spilled`."""
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
            self._records = {kind.name: Spilled(kind.record) for kind in KINDS}

    def close(self) -> None:
        """Nothing to do; records can still be read."""
