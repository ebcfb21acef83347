"""Documents as lists of words, with an index that is rebuilt when it is asked for after a change; and the best scores.

Memory changes between rounds of tasks only, so that a rebuild serves all queries of a round.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from reflexion_lab.protocols import Hit
from reflexion_lab.text.replies.tokens import tokens

if TYPE_CHECKING:
    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[Any]"
Index = TypeVar("Index")
BLOCK = 256
"""Scores that share a maximum while the k-th best is looked for."""


class Corpus(Generic[Index]):
    """Documents that come, in order, and go, the oldest first. Thread-safe.

    Parameters
    ----------
    build
        Makes the index of the living documents, of which at least one holds a word.
    min_length
        Characters of the shortest word that counts, 1 or more.

    Raises
    ------
    ConfigError
        `min_length` is below 1.
    """

    def __init__(self, build: Callable[[list[list[str]]], Index], min_length: int) -> None:
        self._build = build
        self._min_length = min_length
        self._documents: list[list[str]] = []
        self._first = 0
        """The number of the oldest living document."""
        self._index: Index | None = None
        self._lock = threading.Lock()

    def words(self, text: str) -> list[str]:
        return tokens(text, self._min_length)

    def add(self, documents: Sequence[str]) -> None:
        with self._lock:
            self._documents += map(self.words, documents)
            self._index = None

    def forget(self, before: int) -> None:
        with self._lock:
            if (gone := min(before - self._first, len(self._documents))) > 0:
                del self._documents[:gone]
                self._first += gone
                self._index = None

    def indexed(self) -> tuple[int, Index | None]:
        """The number of the first living document, and their index; None where none of them holds a word."""
        with self._lock:
            if self._index is None and any(self._documents):
                self._index = self._build(self._documents)
            return self._first, self._index


def best(scores: Array, k: int, first: int, digits: int | None = None) -> list[Hit]:
    """The `k` best scores above 0, equal ones from the last to the first.

    Parameters
    ----------
    first
        The number of the document that `scores[0]` belongs to.
    digits
        Decimals that scores are rounded to before they are compared; None leaves them as they are.
    """
    import numpy as np

    maxima = np.maximum.reduceat(scores, np.arange(0, len(scores), BLOCK)) if len(scores) else scores
    # k blocks have a score of at least `bound`: lower scores are not among the k best.
    bound = np.partition(maxima, -k)[-k] if k <= len(maxima) else 0.0
    bound -= 0.0 if digits is None else 10.0**-digits
    places = np.flatnonzero((scores > 0) & (scores >= bound))[::-1]
    candidates = scores[places] if digits is None else np.round(scores[places], digits)
    order = np.argsort(-candidates, kind="stable")[:k]
    pairs = zip(places[order].tolist(), np.minimum(candidates[order], 1.0).tolist(), strict=True)
    return [Hit(first + place, score) for place, score in pairs if score > 0]
