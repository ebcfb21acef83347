"""TF-IDF retrieval."""

from __future__ import annotations

import threading
import traceback
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence

from reflexion_lab.io.arrays import Array, np
from reflexion_lab.limits import Positive, validated
from reflexion_lab.memory.retrieval.corpus import DIGITS, best, numbers
from reflexion_lab.protocols import Hit
from reflexion_lab.text.replies.tokens import tokens


class TfIdf:
    """Cosine of TF-IDF vectors with raw term counts and idf = ln((1 + N) / (1 + df)) + 1, as scikit-learn's
    `TfidfVectorizer` fitted on the remaining documents. Unknown query words are ignored. Thread-safe.

    `min_length`: minimum word length in characters.
    """

    @validated
    def __init__(self, min_length: Positive = 1) -> None:
        self._min_length = min_length
        # By document, not by word: each new one changes the length of every vector, hence all counts are read again.
        self._columns: dict[str, int] = {}
        """By word."""
        self._words, self._counts, self._ends = numbers(), array("d"), numbers([0])
        """A sparse matrix of counts, to which rows are appended: columns and counts of all documents from number
        `_dropped` on, and where each begins and ends.
        """
        self._frequencies = numbers()
        """Number of remaining documents with the word of each column."""
        self._first = self._dropped = 0
        """Numbers of the oldest remaining document and of the first row."""
        self._weights: tuple[Array, Array] | None = None
        """Each column's idf, 0 without a remaining document, and the length of each vector; None after a change."""
        self._lock = threading.Lock()

    def add(self, documents: Sequence[str]) -> None:
        with self._lock:
            self._weights = None
            for document in documents:
                counts = Counter(sorted(tokens(document, self._min_length)))  # sums do not depend on the order
                columns = [self._columns.setdefault(word, len(self._columns)) for word in counts]
                self._words.extend(columns)  # first: fails while an exception's traceback holds a view
                self._counts.extend(counts.values())
                self._ends.append(len(self._words))
                self._frequencies.extend([0] * (len(self._columns) - len(self._frequencies)))
                for column in columns:
                    self._frequencies[column] += 1

    def forget(self, before: int) -> None:
        with self._lock:
            old, self._first = self._first, max(self._first, min(before, self._dropped + len(self._ends) - 1))
            gone = self._first - self._dropped
            for column in self._words[self._ends[old - self._dropped] : self._ends[gone]]:
                self._frequencies[column] -= 1
            self._weights = None
            # As in `Postings`, rows go when they are a third.
            if 3 * gone > len(self._ends) - 1:
                start = self._ends[gone]
                used = {column: place for place, column in enumerate(dict.fromkeys(self._words[start:]))}
                self._columns = {word: used[column] for word, column in self._columns.items() if column in used}
                self._frequencies = numbers(self._frequencies[column] for column in used)
                self._words = numbers(map(used.__getitem__, self._words[start:]))
                del self._counts[:start]
                self._ends = numbers(end - start for end in self._ends[gone:])
                self._dropped = self._first

    def rank(self, query: str, k: int) -> list[Hit]:
        counts = Counter(tokens(query, self._min_length))
        with self._lock:
            known = {self._columns[word]: count for word, count in counts.items() if word in self._columns}
            try:
                scores, first = self._cosines(known) if known and k > 0 else None, self._first
            except BaseException as problem:  # whoever keeps it would keep the views
                traceback.clear_frames(problem.__traceback__)
                raise
        return [] if scores is None else best(scores, k, first, DIGITS)

    def _cosines(self, query: Mapping[int, int]) -> Array:
        """Of the remaining documents with a query of these counts by column. Its views of the rows must not outlive
        the lock: an array with views cannot grow.
        """
        from scipy.sparse import csr_array

        ends = np.asarray(self._ends)[self._first - self._dropped :]
        words, counts = np.asarray(self._words)[ends[0] :], np.asarray(self._counts)[ends[0] :]
        ends, shape = ends - ends[0], (len(ends) - 1, len(self._columns))
        if self._weights is None:
            frequencies = np.array(self._frequencies)
            idf = np.where(frequencies, np.log((1 + shape[0]) / (1 + frequencies)) + 1, 0.0)
            squares = csr_array((counts * counts, words, ends), shape) @ (idf * idf)
            self._weights = idf, np.sqrt(np.where(squares, squares, 1.0))
        idf, lengths = self._weights
        vector = np.zeros(shape[1])
        vector[[*query]] = [*query.values()] * idf[[*query]]
        dots = csr_array((counts, words, ends), shape) @ (vector * idf)
        return dots / (lengths * (np.linalg.norm(vector) or 1.0))
