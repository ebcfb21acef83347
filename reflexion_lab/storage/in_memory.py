"""The store in memory, which ends with the process."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import msgspec

from reflexion_lab.limits import Above0, validated
from reflexion_lab.protocols import S, Stored
from reflexion_lab.records import Episode, Search
from reflexion_lab.storage.kinds import KIND_OF, KINDS, is_old, matching, prepared


class InMemory:
    """Records as JSON, as in the other stores, so that no caller shares a record object with it.

    Parameters
    ----------
    retention_days : float, optional
        Above 0. Every store takes it, so that a preset can set it; nothing here outlives the process.
    """

    is_durable = False

    @validated
    def __init__(self, retention_days: Above0 | None = None) -> None:
        self._lock = threading.Lock()
        self._bodies: dict[str, dict[str, bytes]] = {kind.name: {} for kind in KINDS}

    def append(self, records: Sequence[Stored]) -> None:
        """Raises DataError, as `kinds.prepared`."""
        lines = prepared(records)
        with self._lock:
            for line in lines:
                self._bodies[line.kind.name][line.id] = line.body

    def read(self, kind: type[S]) -> Iterator[S]:
        with self._lock:
            bodies = list(self._bodies[KIND_OF[kind].name].values())
        yield from map(msgspec.json.Decoder(kind).decode, bodies)

    def search(self, search: Search) -> list[Episode]:
        return matching(search, self.read(Episode))

    def prune(self, before: float) -> int:
        removed = 0
        with self._lock:
            for kind in KINDS:
                bodies, decode = self._bodies[kind.name], msgspec.json.Decoder(kind.record).decode
                young = {key: body for key, body in bodies.items() if not is_old(decode(body), before)}
                removed += len(bodies) - len(young)
                self._bodies[kind.name] = young
        return removed

    def clear(self) -> None:
        with self._lock:
            for bodies in self._bodies.values():
                bodies.clear()

    def close(self) -> None:
        """Nothing to do; records can still be read."""
