"""Items by the text that retrieval compares."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from reflexion_lab.protocols import Retriever
from reflexion_lab.records import Item

WIDER = 4
"""Growth factor of a search that met too many items of an earlier state."""


class Index:
    """The items that a curator has seen, each indexed once. Thread-safe.

    Parameters
    ----------
    retriever : Retriever
        Empty, for this index alone.
    """

    def __init__(self, retriever: Retriever) -> None:
        self._retriever = retriever
        self._ids: list[str] = []
        """Item ids by document number; an item whose text changed has several numbers."""
        self._texts: dict[str, tuple[str, int]] = {}
        """Compared text and document number of each item."""
        self._items: Sequence[Item] = ()
        self._by_id: dict[str, Item] = {}
        self._lock = threading.Lock()

    def nearest(self, items: Sequence[Item], text: str, k: int, min_score: float = 0.0) -> list[Item]:
        """At most `k` of `items` with scores of `min_score` (in [0, 1]) or above, best first, the newer on a tie."""
        with self._lock:
            self._update(items)
            n = k
            while True:
                hits = self._retriever.rank(text, n)
                near = [self._current(hit.number) for hit in hits if hit.score >= min_score]
                current = [item for item in near if item is not None][:k]
                if len(current) >= k or len(hits) < n or not hits or hits[-1].score < min_score:
                    return current
                n *= WIDER

    def _update(self, items: Sequence[Item]) -> None:
        """Index new items and changed texts."""
        if items is self._items:
            return
        self._items, self._by_id = items, {item.item_id: item for item in items}
        known = self._texts
        new = [item for item in items if known.get(item.item_id, ("", 0))[0] != (item.key or item.text)]
        if new:
            self._retriever.add([item.key or item.text for item in new])
            for number, item in enumerate(new, len(self._ids)):
                known[item.item_id] = item.key or item.text, number
                self._ids.append(item.item_id)

    def _current(self, number: int) -> Item | None:
        """The item of a document; None for one of an earlier state."""
        name = self._ids[number]
        return self._by_id.get(name) if self._texts[name][1] == number else None
