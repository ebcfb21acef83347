"""TF-IDF retrieval with scikit-learn."""

from __future__ import annotations

from typing import Any

from reflexion_lab.limits import Positive, validated
from reflexion_lab.memory.retrieval.corpus import Corpus, best
from reflexion_lab.protocols import Hit

DIGITS = 12
"""Decimals of a score; later ones depend on the order of summation."""


class TfIdf(Corpus[tuple[Any, Any]]):
    """Cosine of TF-IDF vectors with raw term counts and idf = ln((1 + N) / (1 + df)) + 1, as scikit-learn's
    `TfidfVectorizer` fitted on the remaining documents. Unknown query words are ignored. Thread-safe.

    `min_length`: minimum word length in characters.
    """

    @validated
    def __init__(self, min_length: Positive = 1) -> None:
        super().__init__(min_length)

    def _build(self, documents: list[list[str]]) -> tuple[Any, Any]:
        """The vectorizer and the sparse matrix of unit vectors."""
        from sklearn.feature_extraction.text import TfidfVectorizer

        vectorizer = TfidfVectorizer(analyzer=list)
        return vectorizer, vectorizer.fit_transform(documents)

    def _rank(self, index: tuple[Any, Any], words: list[str], k: int, first: int) -> list[Hit]:
        vectorizer, vectors = index
        cosines = vectors @ vectorizer.transform([words]).T
        return best(cosines.toarray().ravel(), k, first, DIGITS)
