"""How often each word stands in each document: the one index under Jaccard, TF-IDF and BM25.

It is a row of segments, as in a log-structured merge tree (O'Neil et al. 1996): new documents become a small segment,
and a segment that is not longer than all that follows it is merged with that. So a posting is copied O(log n) times in
all, and adding a document does not touch the index of a million. Nothing is ever stored documents × vocabulary;
measured at a million documents of 50 words, one takes 0.75 KB (`bench/retrieval.py --large 1000000`).
"""

from __future__ import annotations

import threading
from array import array
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from reflexion_lab.memory.retrieval.segments import (
    Array,
    Postings,
    Segment,
    best,
    counted,
    renumbered,
    segment,
    stacked,
)
from reflexion_lab.protocols import Hit
from reflexion_lab.text.replies.tokens import tokens

Derived = TypeVar("Derived")

BUFFERED = 2**22
"""Words that wait for the next query at most; more become a segment at once, which bounds memory."""
SMALL = 1024
"""Documents of a segment that is merged whatever follows it: a query pays for every segment."""


class View(NamedTuple):
    """The index at one moment; never changed. Row i is the i-th of the living documents, in the order of adding."""

    vocabulary: dict[str, int]
    frequencies: Array
    """Living documents that hold each word."""
    segments: tuple[Segment, ...]
    dead: int
    """Documents at the beginning of the segments that are forgotten."""
    first: int
    """The number of the document of row 0."""
    lengths: Array
    """Words of each document, repeats included; int32."""
    sizes: Array
    """Different words of each document; int32."""

    def frequency(self, word: str) -> int:
        """Documents that hold `word`."""
        place = self.vocabulary.get(word, len(self.frequencies))
        return int(self.frequencies[place]) if place < len(self.frequencies) else 0

    def postings(self, word: str) -> list[Postings]:
        """Which documents hold `word`, and how often (float32), a segment each."""
        import numpy as np

        place, parts = self.vocabulary.get(word, len(self.frequencies)), []
        for part in self.segments:
            if place < len(part.starts) - 1:
                start, end = part.starts[place : place + 2].tolist()
                start += int(np.searchsorted(part.places[start:end], self.dead)) if self.dead else 0
                places = part.places[start:end]
                parts.append((places - np.int32(self.dead) if self.dead else places, part.counts[start:end]))
        return parts

    def best(self, scores: Array, k: int, digits: int | None = None) -> list[Hit]:
        """The `k` best of the documents with scores above 0, from new to old where they are equal in `digits`."""
        return best(scores, k, self.first, digits)


def _numbers() -> defaultdict[str, int]:
    """Gives every new word the next number."""
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    return numbers


class Counts(Generic[Derived]):
    """The words of documents that come, in order, and go, the oldest first. Thread-safe.

    Args:
        derive: what a scoring keeps of a view; asked at the first query after a change.
        min_length: characters of the shortest word that counts.
    """

    def __init__(self, derive: Callable[[View], Derived], min_length: int) -> None:
        import numpy as np

        self._derive = derive
        self._min_length = min_length
        self._vocabulary = _numbers()
        self._words, self._lengths = array("i"), array("i")
        self._frequencies = np.zeros(0, np.int64)
        self._segments: list[Segment] = []
        self._first = self._forgotten = self._dead = 0
        self._settled: tuple[View, Derived] | None = None
        self._lock = threading.Lock()

    def words(self, text: str) -> list[str]:
        return tokens(text, self._min_length)

    def add(self, documents: Sequence[str]) -> None:
        with self._lock:
            for document in documents:
                words = self.words(document)
                self._words.extend(map(self._vocabulary.__getitem__, words))
                self._lengths.append(len(words))
                if len(self._words) >= BUFFERED:
                    self._index()
            self._settled = None

    def forget(self, before: int) -> None:
        with self._lock:
            known = self._first + sum(len(part.lengths) for part in self._segments) + len(self._lengths)
            if self._forgotten < min(before, known):
                self._forgotten = min(before, known)
                self._settled = None

    def settled(self) -> tuple[View, Derived]:
        """The index after all that came and went, and what was derived from it."""
        with self._lock:
            if self._settled is None:
                self._index()
                view = self._view()
                self._settled = view, self._derive(view)
            return self._settled

    def _view(self) -> View:
        import numpy as np

        none = np.zeros(0, np.int32)
        lengths = np.concatenate([none, *(part.lengths for part in self._segments)])[self._dead :]
        sizes = np.concatenate([none, *(np.diff(part.rows.indptr) for part in self._segments)])[self._dead :]
        segments = tuple(self._segments)
        return View(self._vocabulary, self._frequencies, segments, self._dead, self._forgotten, lengths, sizes)

    def _index(self) -> None:
        """Take in what waits, take out what was forgotten."""
        if self._lengths:
            self._take_in()
        dead = self._forgotten - self._first
        if dead > self._dead:
            self._take_out(self._dead, dead)
            self._dead = dead
            # Dead documents are dropped when they are every third: for each, two living ones are copied.
            if 3 * dead >= sum(len(part.lengths) for part in self._segments):
                self._compact()

    def _take_in(self) -> None:
        """Make a segment of what waits, merged with those before it that are not longer than what follows them."""
        import numpy as np

        known = len(self._vocabulary)
        lengths = np.array(self._lengths, np.int32)
        rows = counted(np.array(self._words, np.int32), lengths, known)
        self._words, self._lengths = array("i"), array("i")
        new = np.bincount(rows.indices, minlength=known)
        new[: len(self._frequencies)] += self._frequencies
        self._frequencies = new
        parts, taken = [(rows, lengths)], len(lengths)
        while self._segments and len(self._segments[-1].lengths) <= max(taken, SMALL):
            last = self._segments.pop()
            parts.insert(0, (last.rows, last.lengths))
            taken += len(last.lengths)
        first = sum(len(part.lengths) for part in self._segments)
        merged = stacked([part for part, _ in parts], known)
        self._segments.append(segment(merged, np.concatenate([part for _, part in parts]), first))

    def _take_out(self, start: int, end: int) -> None:
        """Documents from `start` to `end` do not count in the frequencies any more."""
        import numpy as np

        first = 0
        for part in self._segments:
            low, high = (part.rows.indptr[min(max(place - first, 0), len(part.lengths))] for place in (start, end))
            if low < high:
                gone = np.bincount(part.rows.indices[low:high], minlength=len(self._frequencies))
                self._frequencies = self._frequencies - gone
            first += len(part.lengths)

    def _compact(self) -> None:
        """Drop the dead documents, and the words that no document is left to hold."""
        import numpy as np

        rows = stacked([part.rows for part in self._segments], len(self._frequencies))[self._dead :]
        lengths = np.concatenate([part.lengths for part in self._segments])[self._dead :]
        kept = self._frequencies > 0
        numbers = np.cumsum(kept, dtype=np.int32) - np.int32(1)
        old, self._vocabulary = self._vocabulary, _numbers()
        self._vocabulary.update((word, int(numbers[place])) for word, place in old.items() if kept[place])
        old.default_factory = None  # which refers to `old`: it would stay until the garbage collector came by
        self._frequencies = self._frequencies[kept]
        self._segments = [segment(renumbered(rows, numbers, len(self._vocabulary)), lengths, 0)] if len(lengths) else []
        self._first, self._dead = self._forgotten, 0
