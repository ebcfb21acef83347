"""TF-IDF retrieval: the cosine between weighted word counts, by scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reflexion_lab.limits import Positive, validated
from reflexion_lab.memory.retrieval.corpus import Corpus, best
from reflexion_lab.protocols import Hit

DIGITS = 12
"""Decimals within which cosines tie; beyond them they depend on the order of their sums."""


class TfIdf:
    """Scores the cosine of tf · idf vectors, tf the plain count and idf = ln((1 + N) / (1 + df)) + 1. Thread-safe.

    They are those of scikit-learn's `TfidfVectorizer` fitted on the living documents: words of the query that none of
    them holds do not count.

    Parameters
    ----------
    min_length
        Characters of the shortest word that counts, 1 or more.
    """

    @validated
    def __init__(self, min_length: Positive = 1) -> None:
        self._corpus = Corpus(_fitted, min_length)

    def add(self, documents: Sequence[str]) -> None:
        self._corpus.add(documents)

    def forget(self, before: int) -> None:
        self._corpus.forget(before)

    def rank(self, query: str, k: int) -> list[Hit]:
        first, index = self._corpus.indexed()
        if index is None or k < 1:
            return []
        vectorizer, vectors = index
        cosines = vectors @ vectorizer.transform([self._corpus.words(query)]).T
        return best(cosines.toarray().ravel(), k, first, DIGITS)


def _fitted(documents: list[list[str]]) -> tuple[Any, Any]:
    """The vectorizer, and the documents' unit vectors as its sparse matrix."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(analyzer=list)
    return vectorizer, vectorizer.fit_transform(documents)
