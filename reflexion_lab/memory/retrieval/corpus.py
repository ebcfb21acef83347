"""Base class of retrievers with an inverted index, and selection of the best scores."""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from functools import partial

from reflexion_lab.io.arrays import Array, np
from reflexion_lab.protocols import Hit
from reflexion_lab.text.replies.tokens import tokens

BLOCK = 256
"""Scores per block; the block maxima bound the k-th best score."""
DIGITS = 12
"""Decimals of a score that is a sum; later ones depend on the order of summation."""
numbers = partial(array, "i")


class Postings:
    """Documents by word, in an inverted index that is appended to. Thread-safe.

    Weights that depend on the whole corpus are for `rank` to compute, so that a new document changes no older entry.
    """

    def __init__(self, min_length: int) -> None:
        self._min_length = min_length
        # Incremental: with 1,000 documents, a new one and a query take 0.2 to 0.4 ms; rebuilding an index 20 to 40 ms.
        self._postings: defaultdict[str, array[int]] = defaultdict(numbers)
        """By word, the ascending numbers of the documents that contain it, each as often as the word in `_words`."""
        self._sizes = numbers()
        """Number of words of each document, from number `_dropped` on."""
        self._first = self._dropped = 0
        """Numbers of the oldest remaining document and of the oldest one in the postings."""
        self._lock = threading.Lock()

    def _words(self, text: str) -> Collection[str]:
        """The words of a document that count."""
        return tokens(text, self._min_length)

    def add(self, documents: Sequence[str]) -> None:
        with self._lock:
            for document in documents:
                words = self._words(document)
                number = self._dropped + len(self._sizes)
                for word in words:
                    self._postings[word].append(number)
                self._sizes.append(len(words))

    def replace(self, number: int, old: str, new: str) -> None:
        """Give the document of this number, whose text is `old`, the text `new`."""
        with self._lock:
            for word in self._words(old):
                row = self._postings[word]
                del row[bisect_left(row, number)]
            words = self._words(new)
            for word in words:
                insort(self._postings[word], number)
            self._sizes[number - self._dropped] = len(words)

    def forget(self, before: int) -> None:
        with self._lock:
            self._first = max(self._first, min(before, self._dropped + len(self._sizes)))
            # Postings are rebuilt when a third of their documents is forgotten: amortised, two copies per document.
            if 3 * (self._first - self._dropped) > len(self._sizes):
                alive = ((word, [n for n in row if n >= self._first]) for word, row in self._postings.items())
                self._postings = defaultdict(numbers, {word: numbers(row) for word, row in alive if row})
                del self._sizes[: self._first - self._dropped]
                self._dropped = self._first

    def _holders(self, words: Iterable[str]) -> tuple[Array, Array, Array, int]:
        """The postings of each word, one after another, and where each ends; the documents' sizes; the number of the
        oldest remaining document, from which the others are counted.
        """
        holders, ends = numbers(), numbers()
        with self._lock:
            first = self._first
            for word in words:
                row = self._postings.get(word, ends[:0])
                holders += row[bisect_left(row, first) :]
                ends.append(len(holders))
            sizes = np.array(self._sizes[first - self._dropped :], float)
        return np.asarray(holders) - first, np.asarray(ends), sizes, first


def best(scores: Array, k: int, first: int, digits: int | None = None) -> list[Hit]:
    """The `k` best positive scores, the newer document first on a tie.

    `first`: document number of `scores[0]`. `digits`: decimals to which scores are rounded; None: not rounded.
    """
    maxima = np.maximum.reduceat(scores, np.arange(0, len(scores), BLOCK)) if len(scores) else scores
    # k block maxima reach `bound`, so no lower score is among the k best.
    bound = np.partition(maxima, -k)[-k] if k <= len(maxima) else 0.0
    bound -= 0.0 if digits is None else 10.0**-digits
    places = np.flatnonzero((scores > 0) & (scores >= bound))[::-1]
    candidates = scores[places] if digits is None else np.round(scores[places], digits)
    order = np.argsort(-candidates, kind="stable")[:k]
    pairs = zip(places[order].tolist(), np.minimum(candidates[order], 1.0).tolist(), strict=True)
    return [Hit(first + place, score) for place, score in pairs if score > 0]
