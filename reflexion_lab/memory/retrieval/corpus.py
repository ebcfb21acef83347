"""Base class of lexical retrievers with a rebuilt index, and selection of the best scores.

Shared memory changes only between rounds of tasks, so one rebuild serves all queries of a round.
"""

from __future__ import annotations

import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from reflexion_lab.protocols import Hit
from reflexion_lab.text.replies.tokens import tokens

if TYPE_CHECKING:
    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[Any]"
Index = TypeVar("Index")
BLOCK = 256
"""Scores per block; the block maxima bound the k-th best score."""


class Corpus(ABC, Generic[Index]):
    """Documents as lists of words, indexed by the first query after a change. Thread-safe."""

    def __init__(self, min_length: int) -> None:
        self._min_length = min_length
        self._documents: list[list[str]] = []
        self._first = 0
        """Number of the oldest remaining document."""
        self._index: Index | None = None
        self._lock = threading.Lock()

    def add(self, documents: Sequence[str]) -> None:
        with self._lock:
            # interned: documents share their words
            self._documents += ([*map(sys.intern, tokens(document, self._min_length))] for document in documents)
            self._index = None

    def forget(self, before: int) -> None:
        with self._lock:
            if (gone := min(before - self._first, len(self._documents))) > 0:
                del self._documents[:gone]
                self._first += gone
                self._index = None

    def rank(self, query: str, k: int) -> list[Hit]:
        with self._lock:
            if self._index is None and any(self._documents):
                self._index = self._build(self._documents)
            first, index = self._first, self._index
        return [] if index is None or k < 1 else self._rank(index, tokens(query, self._min_length), k, first)

    @abstractmethod
    def _build(self, documents: list[list[str]]) -> Index:
        """Index of the remaining documents, at least one of which has a word."""

    @abstractmethod
    def _rank(self, index: Index, words: list[str], k: int, first: int) -> list[Hit]:
        """The `k` best documents; `first` is the number of the oldest one in `index`."""


def best(scores: Array, k: int, first: int, digits: int | None = None) -> list[Hit]:
    """The `k` best positive scores, the newer document first on a tie.

    `first`: document number of `scores[0]`. `digits`: decimals to which scores are rounded; None: not rounded.
    """
    import numpy as np

    maxima = np.maximum.reduceat(scores, np.arange(0, len(scores), BLOCK)) if len(scores) else scores
    # k block maxima reach `bound`, so no lower score is among the k best.
    bound = np.partition(maxima, -k)[-k] if k <= len(maxima) else 0.0
    bound -= 0.0 if digits is None else 10.0**-digits
    places = np.flatnonzero((scores > 0) & (scores >= bound))[::-1]
    candidates = scores[places] if digits is None else np.round(scores[places], digits)
    order = np.argsort(-candidates, kind="stable")[:k]
    pairs = zip(places[order].tolist(), np.minimum(candidates[order], 1.0).tolist(), strict=True)
    return [Hit(first + place, score) for place, score in pairs if score > 0]
