"""Documents by key, over a retriever, which numbers what it is given."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from itertools import count, islice
from typing import Generic, TypeVar

from reflexion_lab.protocols import Retriever

Key = TypeVar("Key", bound=Hashable)


class Documents(Generic[Key]):
    """Texts that a retriever finds by their keys.

    Those that were replaced or removed are found no more, but count in the retriever's statistics until it forgets
    them, with all older ones. `retriever`: empty, for these documents alone.
    """

    def __init__(self, retriever: Retriever) -> None:
        self.retriever = retriever
        self.texts: dict[Key, str] = {}
        """In the order of adding, as `numbers`."""
        self.numbers: dict[Key, int] = {}
        self._keys: dict[int, Key] = {}
        self._first = self._end = 0
        """Numbers of the first that the retriever has not forgotten, and of the next."""

    def put(self, texts: Mapping[Key, str]) -> None:
        """Index those that are new or have another text."""
        if new := {key: text for key, text in texts.items() if self.texts.get(key) != text}:
            self.retriever.add([*new.values()])
            self._drop(new.keys() & self.texts.keys())
            self.texts |= new
            self.numbers |= dict(zip(new, count(self._end)))
            self._keys |= dict(zip(count(self._end), new))
            self._end += len(new)

    def edit(self, key: Key, text: str) -> bool:
        """Replace a text in its place; False where the retriever cannot."""
        is_own = type(self.retriever).__module__.startswith("reflexion_lab.")  # others may index in a way of their own
        replace = getattr(self.retriever, "replace", None) if is_own else None
        if replace:
            try:
                replace(self.numbers[key], self.texts[key], text)
            except BaseException:
                self.remove([*self.texts])  # the index is broken
                raise
            self.texts[key] = text
        return bool(replace)

    def remove(self, keys: Iterable[Key]) -> None:
        self._drop(keys)
        self._first = next(iter(self._keys), self._end)
        self.retriever.forget(self._first)

    def _drop(self, keys: Iterable[Key]) -> None:
        for key in keys:
            del self.texts[key], self._keys[self.numbers.pop(key)]

    def rank(self, query: str, k: int, is_document: bool = False) -> dict[Key, float]:
        """Scores of at most `k` documents nearest to a query, or to a document: best first, the newer on a tie."""
        gone = self._end - self._first - len(self._keys)
        rank = getattr(self.retriever, "rank_document", None) if is_document else None
        hits = (rank or self.retriever.rank)(query, k + gone) if k > 0 else []
        return dict(islice(((self._keys[number], score) for number, score in hits if number in self._keys), k))
