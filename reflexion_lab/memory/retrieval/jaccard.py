"""Jaccard retrieval, the baseline."""

from __future__ import annotations

from reflexion_lab.io.arrays import np
from reflexion_lab.limits import Positive, validated
from reflexion_lab.memory.retrieval.corpus import Postings, best
from reflexion_lab.protocols import Hit


class Jaccard(Postings):
    """Jaccard similarity |q ∩ d| / |q ∪ d| of the word sets of query and document (Jaccard 1912), exact. Thread-safe.

    `min_length`: minimum word length in characters, 1 or more; the `helix` preset has 3.
    """

    is_similarity = True
    """Whether equal texts score 1, and others less; here also texts with the same words, stop words aside."""

    @validated
    def __init__(self, min_length: Positive = 1) -> None:
        super().__init__(min_length)

    def _words(self, text: str) -> set[str]:
        return set(super()._words(text))

    def rank(self, query: str, k: int) -> list[Hit]:
        words = self._words(query)
        if k < 1 or not words:
            return []
        holders, _, sizes, first = self._holders(words)
        common = np.bincount(holders, minlength=len(sizes))
        return best(common / (len(words) + sizes - common), k, first)
