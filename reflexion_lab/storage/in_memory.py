"""The store that ends with the process."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import cast

from reflexion_lab.limits import Above0, validated
from reflexion_lab.protocols import S, Stored
from reflexion_lab.records import Episode, Search
from reflexion_lab.storage.kinds import KIND_OF, KINDS, is_old, matching, prepared


class InMemory:
    """Records as they would come back from the other stores.

    `retention_days`: above 0. Every store takes it, so that a preset can set it; nothing here outlives the process.
    """

    is_durable = False

    @validated
    def __init__(self, retention_days: Above0 | None = None) -> None:
        self._lock = threading.Lock()
        self._records: dict[str, dict[str, Stored]] = {name: {} for name in KINDS}

    def append(self, records: Sequence[Stored]) -> None:
        """Raises DataError, as `kinds.prepared`."""
        lines = prepared(records)
        with self._lock:
            for line in lines:
                self._records[line.kind][line.id] = line.record

    def read(self, kind: type[S]) -> Iterator[S]:
        with self._lock:
            records = list(self._records[KIND_OF[kind]].values())
        yield from cast("list[S]", records)

    def search(self, search: Search) -> list[Episode]:
        return matching(search, self.read(Episode))

    def prune(self, before: float) -> int:
        with self._lock:
            episodes = self._records["episodes"]
            old = [key for key, record in episodes.items() if is_old(record, before)]
            for key in old:
                del episodes[key]
        return len(old)

    def clear(self) -> None:
        with self._lock:
            self._records = {name: {} for name in KINDS}

    def close(self) -> None:
        """Nothing to do; records can still be read."""
