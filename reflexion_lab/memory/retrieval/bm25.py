"""BM25 retrieval with bm25s."""

from __future__ import annotations

import math
from collections import Counter
from itertools import chain
from typing import Any, NamedTuple

from reflexion_lab.limits import NotNegative, Positive, Share, validated
from reflexion_lab.memory.retrieval.corpus import Corpus, best
from reflexion_lab.protocols import Hit


class _Index(NamedTuple):
    bm25: Any
    documents: int
    frequencies: Counter[str]
    """Document frequencies by word."""

    def idf(self, word: str) -> float:
        """Also defined for a word in no document."""
        frequency = self.frequencies[word]
        return math.log(1 + (self.documents - frequency + 0.5) / (frequency + 0.5))


class BM25(Corpus[_Index]):
    """BM25 score divided by its upper bound, the sum of the query words' idf, unknown words included. Thread-safe.

    The score is that of `bm25s.BM25(method="lucene")` over the remaining documents, summed over the query words,
    repeats included (Kamphuis et al. 2020, "Lucene (accurate)", after Robertson et al. 1994): ln(1 + (N - df + 0.5) /
    (df + 0.5)) · tf / (tf + k1 · (1 - b + b · length / mean length)). A document of mean length with each query word
    once scores 1 / (1 + k1), 0.4 by default; the limit 1 is never reached. `k1`: term-frequency saturation, 0 or more;
    at 0, repeats do not count. `b`: length normalisation, in [0, 1]. `min_length`: minimum word length in characters.
    """

    @validated
    def __init__(self, k1: NotNegative = 1.5, b: Share = 0.75, min_length: Positive = 1) -> None:
        super().__init__(min_length)
        self._k1, self._b = k1, b

    def _build(self, documents: list[list[str]]) -> _Index:
        import bm25s

        bm25 = bm25s.BM25(method="lucene", k1=self._k1, b=self._b)
        bm25.index(documents, show_progress=False)
        return _Index(bm25, len(documents), Counter(chain.from_iterable(map(set, documents))))

    def _rank(self, index: _Index, words: list[str], k: int, first: int) -> list[Hit]:
        known = [word for word in words if word in index.frequencies]
        if not known:
            return []
        scores = index.bm25.get_scores(known).astype(float)
        return best(scores / sum(map(index.idf, words)), k, first)
