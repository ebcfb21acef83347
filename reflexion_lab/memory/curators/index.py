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
    and any number of threads agree: items that were added are indexed further, the oldest ones that left are forgotten,
    edited ones are replaced where the retriever can; for any other change, the index is made anew. `retriever`: empty,
    for this index alone.
    """

    def __init__(self, retriever: Retriever) -> None:
        self._documents: Documents[str] = Documents(retriever)
        self._items: Sequence[Item] = ()
        self._by_id: dict[str, Item] = {}
        self._searches = 0
        """Those at work, any number at once, since a search may call a model; documents change when none is."""
        self._changing = threading.Condition()

    def nearest(
        self, items: Sequence[Item], text: str, k: int, min_score: float = 0.0, *, is_item: bool = False
    ) -> list[Item]:
        """At most `k` of `items` with scores of `min_score` (in [0, 1]) or above, best first, the newer on a tie."""
        whole = items.whole if isinstance(items, View) else items
        hidden = len(whole) - len(items)
        with self._changing:
            self._changing.wait_for(lambda: not self._searches or self._holds(whole))
            self._update(whole)
            by_id = self._by_id
            self._searches += 1
        try:
            scores = self._documents.rank(text, k + hidden if k > 0 else 0, is_item)
        finally:
            with self._changing:
                self._searches -= 1
                self._changing.notify_all()
        near = {name: by_id[name] for name, score in scores.items() if score >= min_score}
        note_search(self._documents.retriever, text, scores, near)
        shown = {item.item_id for item in items} if hidden else ()
        return [item for item in near.values() if not hidden or item.item_id in shown][: max(k, 0)]

    def _holds(self, items: Sequence[Item]) -> bool:
        """Whether the documents are those of `items`."""
        return items is self._items or _texts(items) == [*self._documents.texts.items()]

    def _update(self, items: Sequence[Item]) -> None:
        if items is self._items:
            return
        self._items = []  # until all are indexed, those of no caller
        by_id = {item.item_id: item for item in items}
        texts = _texts(items)
        known, gone = [*self._documents.texts.items()], 0
        if texts and texts[0] in known:  # those before it were the oldest
            gone = known.index(texts[0])
        pairs = [*zip(texts, known[gone:], strict=False)]
        is_kept = len(pairs) == len(known) - gone and all(new[0] == old[0] for new, old in pairs)
        if not is_kept or not all(self._documents.edit(*new) for new, old in pairs if new != old):
            gone = len(known)
        if gone:
            self._documents.remove([name for name, _ in known[:gone]])
        self._documents.put(dict(texts))
        self._items, self._by_id = items, by_id


def _texts(items: Sequence[Item]) -> list[tuple[str, str]]:
    """Ids and the texts to compare; of items with one id, the last."""
    return [*{item.item_id: item.key or item.text for item in items}.items()]
