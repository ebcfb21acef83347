"""BM25 retrieval."""

from __future__ import annotations

from collections import Counter

from reflexion_lab.io.arrays import np
from reflexion_lab.limits import NotNegative, Positive, Share, validated
from reflexion_lab.memory.retrieval.corpus import DIGITS, Postings, best
from reflexion_lab.protocols import Hit


class BM25(Postings):
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

    def rank(self, query: str, k: int) -> list[Hit]:
        words = Counter(self._words(query))
        holders, ends, lengths, first = self._holders(words)
        if k < 1 or not len(holders):
            return []
        begins = np.ones(len(holders) + 1, bool)  # of a document in the postings of a word
        begins[1:-1] = holders[1:] != holders[:-1]
        begins[ends] = True
        starts = np.flatnonzero(begins)
        holding, tf = holders[starts[:-1]], np.diff(starts)
        df = np.diff(np.searchsorted(starts, ends), prepend=0)
        idf = np.array([*words.values()]) * np.log(1 + (len(lengths) - df + 0.5) / (df + 0.5))
        saturation = self._k1 * (1 - self._b + self._b * lengths / lengths.mean())
        scores = np.bincount(holding, np.repeat(idf, df) * tf / (tf + saturation[holding]), len(lengths))
        top = scores.max()  # rounded as shares of it: a word of all documents gives sums of 1e-6, and less
        return [Hit(hit.number, hit.score * float(top / idf.sum())) for hit in best(scores / top, k, first, DIGITS)]
