"""TF-IDF retrieval: the cosine between weighted word counts, as scikit-learn's TfidfVectorizer weighs them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from reflexion_lab.limits import Positive, validated
from reflexion_lab.memory.retrieval.counts import Counts, View
from reflexion_lab.memory.retrieval.segments import Array
from reflexion_lab.protocols import Hit

DIGITS = 12
"""Decimals within which cosines tie; beyond them they depend on the order of their sums."""
AT_ONCE = 2**16
"""Documents whose counts are squared, in float64, at one time."""


class TfIdf:
    """Scores the cosine of tf · idf vectors, tf the plain count and idf = ln((1 + N) / (1 + df)) + 1. Thread-safe.

    The scores are those of scikit-learn's `TfidfVectorizer(analyzer=tokens)` fitted on the living documents: words of
    the query that none of them holds do not count.

    Args:
        min_length: characters of the shortest word that counts.
    """

    @validated
    def __init__(self, min_length: Positive = 1) -> None:
        self._counts = Counts(_weights, min_length)

    def add(self, documents: Sequence[str]) -> None:
        self._counts.add(documents)

    def forget(self, before: int) -> None:
        self._counts.forget(before)

    def rank(self, query: str, k: int) -> list[Hit]:
        import numpy as np

        view, (idf, norms) = self._counts.settled()
        words = {word: count for word, count in Counter(self._counts.words(query)).items() if view.frequency(word)}
        if k < 1 or not words:
            return []
        dots, square = np.zeros(len(norms)), 0.0
        for word, count in words.items():
            weight = idf[view.vocabulary[word]]
            square += (count * weight) ** 2
            for rows, counts in view.postings(word):
                np.add.at(dots, rows, counts * (count * weight**2))
        return view.best(dots / (norms * math.sqrt(square)), k, DIGITS)


def _weights(view: View) -> tuple[Array, Array]:
    """The idf of every word and the norm of every living document, 1 for one without words."""
    import numpy as np
    from scipy import sparse

    idf = np.log((1 + len(view.lengths)) / (1 + view.frequencies)) + 1
    squares = [np.zeros(0)]
    for part in view.segments:
        for start in range(0, len(part.lengths), AT_ONCE):
            rows = part.rows[start : start + AT_ONCE]
            counts = sparse.csr_array((np.square(rows.data, dtype=float), rows.indices, rows.indptr), rows.shape)
            squares.append(counts @ np.square(idf[: rows.shape[1]]))
    norms = np.sqrt(np.concatenate(squares)[view.dead :])
    return idf, np.where(norms > 0, norms, 1.0)
