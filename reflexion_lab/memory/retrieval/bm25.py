"""BM25 retrieval, by bm25s."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

from reflexion_lab.limits import NotNegative, Positive, Share, validated
from reflexion_lab.memory.retrieval.corpus import Array, Corpus, best
from reflexion_lab.protocols import Hit


class BM25:
    """Scores of `bm25s.BM25(method="lucene")`, indexed over the living documents. Thread-safe.

    The score of a word in a document (Kamphuis et al. 2020, "Lucene (accurate)", after Robertson et al. 1994) is
    ln(1 + (N - df + 0.5) / (df + 0.5)) · tf / (tf + k1 · (1 - b + b · length / mean length)); those of the query's
    words are added up, repeats included.

    A hit's score is that sum divided by its bound, the Σ of the first factor over the query's words, unknown ones
    included: the share of what the query says that the document answers. A document of mean length that holds
    every word once scores 1 / (1 + k1), 0.4 by default; 1 is never quite reached.

    Parameters
    ----------
    k1
        How slowly repeats of a word saturate, 0 or more; 0 counts each word once.
    b
        How much long documents are held back, in [0, 1].
    min_length
        Characters of the shortest word that counts, 1 or more.

    Raises
    ------
    ConfigError
        An argument is out of range.
    """

    @validated
    def __init__(self, k1: NotNegative = 1.5, b: Share = 0.75, min_length: Positive = 1) -> None:
        self._corpus = Corpus(lambda documents: _indexed(documents, k1, b), min_length)

    def add(self, documents: Sequence[str]) -> None:
        self._corpus.add(documents)

    def forget(self, before: int) -> None:
        self._corpus.forget(before)

    def rank(self, query: str, k: int) -> list[Hit]:
        first, index = self._corpus.indexed()
        words = self._corpus.words(query)
        if k < 1 or index is None or not any(word in index.frequencies for word in words):
            return []
        return best(index.scores(words).astype(float) / sum(map(index.idf, words)), k, first)


class _Index(NamedTuple):
    bm25: Any
    documents: int
    frequencies: Counter[str]
    """Documents that hold a word."""

    def idf(self, word: str) -> float:
        """The first factor; of a word that no document holds as well."""
        frequency = self.frequencies[word]
        return math.log(1 + (self.documents - frequency + 0.5) / (frequency + 0.5))

    def scores(self, words: Sequence[str]) -> Array:
        """The undivided scores, float32, shape (documents,)."""
        scores: Array = self.bm25.get_scores([word for word in words if word in self.frequencies])
        return scores


def _indexed(documents: list[list[str]], k1: float, b: float) -> _Index:
    import bm25s

    bm25 = bm25s.BM25(method="lucene", k1=k1, b=b)
    bm25.index(documents, show_progress=False)
    return _Index(bm25, len(documents), Counter(chain.from_iterable(map(set, documents))))
