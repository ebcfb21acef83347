"""Items by the text that retrieval compares."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from reflexion_lab.memory.curators.items import View
from reflexion_lab.memory.retrieval.documents import Documents
from reflexion_lab.memory.retrieval.trace import note_search
from reflexion_lab.protocols import Retriever
from reflexion_lab.records import Item


class Index:
    """The items that a curator was last asked about. Thread-safe.

    What is nearest depends on these items alone (of a `View`, on the whole memory), so that a resumed run, a frozen one
    and any number of threads agree: items that were added are indexed further, the oldest ones that left are forgotten;
    for any other change, the index is made anew. `retriever`: empty, for this index alone.
    """

    def __init__(self, retriever: Retriever) -> None:
        self._documents: Documents[str] = Documents(retriever)
        self._items: Sequence[Item] = ()
        self._by_id: dict[str, Item] = {}
        self._lock = threading.Lock()

    def nearest(self, items: Sequence[Item], text: str, k: int, min_score: float = 0.0) -> list[Item]:
        """At most `k` of `items` with scores of `min_score` (in [0, 1]) or above, best first, the newer on a tie."""
        whole = items.whole if isinstance(items, View) else items
        hidden = len(whole) - len(items)
        with self._lock:  # to the end of the search: another task may ask about other items
            self._update(whole)
            scores = self._documents.rank(text, k + hidden if k > 0 else 0)
            near = {name: self._by_id[name] for name, score in scores.items() if score >= min_score}
        note_search(self._documents.retriever, text, scores, near)
        shown = {item.item_id for item in items} if hidden else ()
        return [item for item in near.values() if not hidden or item.item_id in shown][: max(k, 0)]

    def _update(self, items: Sequence[Item]) -> None:
        if items is self._items:
            return
        by_id = {item.item_id: item for item in items}
        texts = [(name, item.key or item.text) for name, item in by_id.items()]
        known, gone = [*self._documents.texts.items()], 0
        if texts and texts[0] in known:  # those before it were the oldest
            gone = known.index(texts[0])
        if texts[: len(known) - gone] != known[gone:]:
            gone = len(known)
        if gone:
            self._documents.remove([name for name, _ in known[:gone]])
        self._documents.put(dict(texts))
        self._items, self._by_id = items, by_id
