"""BM25 retrieval that scores as bm25s does, over an index that grows."""

from __future__ import annotations

import math
from collections.abc import Sequence

from reflexion_lab.limits import NotNegative, Positive, Share, validated
from reflexion_lab.memory.retrieval.counts import Counts, View
from reflexion_lab.memory.retrieval.segments import Array, Postings
from reflexion_lab.protocols import Hit


class BM25:
    """Scores as `bm25s.BM25(method="lucene")` would, indexed once over the living documents. Thread-safe.

    The score of a word in a document (Kamphuis et al. 2020, "Lucene (accurate)", after Robertson et al. 1994) is
    ln(1 + (N - df + 0.5) / (df + 0.5)) · tf / (tf + k1 · (1 - b + b · length / mean length)); those of the query's
    words are added up, repeats included. It depends on N, df and the mean length, which every new document
    changes: so a word is scored when a query first asks for it after a change, and not before.

    A hit's score is that sum divided by its bound, the Σ of the first factor over the query's words, unknown ones
    included: the share of what the query says that the document answers. A document of mean length that holds
    every word once scores 1 / (1 + k1), 0.4 by default; 1 is never quite reached.

    Args:
        k1: how slowly repeats of a word saturate, 0 or more; 0 counts each word once.
        b: how much long documents are held back, in [0, 1].
        min_length: characters of the shortest word that counts.

    Raises:
        ConfigError: an argument is out of range.
    """

    @validated
    def __init__(self, k1: NotNegative = 1.5, b: Share = 0.75, min_length: Positive = 1) -> None:
        self._counts = Counts(lambda view: _Scored(view, k1, b), min_length)

    def add(self, documents: Sequence[str]) -> None:
        self._counts.add(documents)

    def forget(self, before: int) -> None:
        self._counts.forget(before)

    def rank(self, query: str, k: int) -> list[Hit]:
        view, scored = self._counts.settled()
        words = self._counts.words(query)
        if k < 1 or not any(map(view.frequency, words)):
            return []
        return view.best(scored.scores(words).astype(float) / sum(map(scored.idf, words)), k)

    def scores(self, query: str) -> Array:
        """The undivided scores of all living documents, in the order of adding: float32, shape (documents,)."""
        return self._counts.settled()[1].scores(self._counts.words(query))


class _Scored:
    """A view's words, each scored in all documents when it is first asked for."""

    def __init__(self, view: View, k1: float, b: float) -> None:
        mean = view.lengths.mean() if view.lengths.any() else 1.0
        self._view = view
        self._held_back = k1 * ((1 - b) + b * view.lengths / mean)
        self._scored: dict[str, list[Postings]] = {}

    def idf(self, word: str) -> float:
        """The first factor; of a word that no document holds as well."""
        frequency = self._view.frequency(word)
        return math.log(1 + (len(self._view.lengths) - frequency + 0.5) / (frequency + 0.5))

    def scores(self, words: Sequence[str]) -> Array:
        import numpy as np

        scores = np.zeros(len(self._view.lengths), np.float32)
        # Word by word, repeats again, in float32: as bm25s adds them, to the same last bit.
        for word in words:
            if word not in self._scored:  # Two threads may both score a word; they agree.
                self._scored[word] = self._score(word)
            for rows, values in self._scored[word]:
                np.add.at(scores, rows, values)
        return scores

    def _score(self, word: str) -> list[Postings]:
        import numpy as np

        idf, scored = np.float32(self.idf(word)), []
        for rows, counts in self._view.postings(word):
            # In place: fresh memory for every step of the formula takes longer than the arithmetic.
            values = self._held_back[rows]
            values += counts
            np.divide(counts, values, out=values)
            values *= idf
            scored.append((rows, values.astype(np.float32)))
        return scored
