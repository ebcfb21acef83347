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
        self._numbers: dict[tuple[str, str], int] = {}
        """Document numbers by item id and compared text; a text that changes gets a new number."""
        self._ids: list[tuple[str, str]] = []
        self._items: Sequence[Item] = ()
        self._current: dict[tuple[str, str], Item] = {}
        self._lock = threading.Lock()

    def nearest(self, items: Sequence[Item], text: str, k: int, min_score: float = 0.0) -> list[Item]:
        """At most `k` of `items` with scores of `min_score` (in [0, 1]) or above, best first, the newer on a tie."""
        with self._lock:
            self._update(items)
            n = k
            while True:
                hits = self._retriever.rank(text, n)
                near = [self._current.get(self._ids[hit.number]) for hit in hits if hit.score >= min_score]
                current = [item for item in near if item is not None][:k]
                if len(current) >= k or len(hits) < n or not hits or hits[-1].score < min_score:
                    return current
                n *= WIDER

    def _update(self, items: Sequence[Item]) -> None:
        """Index new items and changed texts."""
        if items is self._items:
            return
        self._items = items
        self._current = {(item.item_id, item.key or item.text): item for item in items}
        new = [key for key in self._current if key not in self._numbers]
        if new:
            self._numbers |= {key: len(self._ids) + place for place, key in enumerate(new)}
            self._ids += new
            self._retriever.add([text for _, text in new])
