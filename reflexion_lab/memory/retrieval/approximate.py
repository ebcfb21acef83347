"""Approximate search for memories that are too large for an exact one: faiss's inverted lists.

Measured on 2 cores with 1,000,000 vectors of 384 dimensions: 2 ms a query at a recall@5 of 0.98, built in 10 s. A graph
(HNSW of usearch, 8 bits) takes 145 s on one thread, its only way to be deterministic, and finds 0.78 of the best 5 in
0.5 ms. `bench/vectors.py` measures the lists again.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from reflexion_lab.memory.retrieval.vectors import ROUNDING, Vectors
from reflexion_lab.protocols import Hit

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

LISTS = 1024
PROBED = 48
"""Lists that a query looks into."""
PER_LIST = 64
"""Minimum of training vectors per list; with fewer vectors, there are fewer lists."""
TRAINED_ON = 32
"""Vectors for each list that k-means sees."""
CANDIDATES = 50
"""Minimum of candidates that are compared exactly."""
DEEPEST = 1000
"""More hits than this are looked for exactly."""
ROUNDS = 5
"""Of k-means."""
SEED = 1234


class ApproximateVectors:
    """As `Vectors`, which answers until there are more than `beyond` vectors; then the lists propose and it decides.

    The lists are laid out once, by the first `beyond` vectors, in about 1 s. They hold 8-bit codes, a quarter of the
    vectors' own memory. Scores and their order are exact; what may be missing are documents in lists not looked into.
    The same vectors added in the same order give the same hits. Without faiss, search stays exact, with one warning.

    Parameters
    ----------
    beyond
        Vectors; 0 searches exactly for ever.
    """

    def __init__(self, beyond: int) -> None:
        self._exact = Vectors()
        self._beyond = beyond
        self._faiss: Any = None
        self._index: Any = None
        self._removed = 0
        """Documents with smaller numbers are in no list."""

    def __len__(self) -> int:
        return len(self._exact)

    def add(self, vectors: NDArray[float32]) -> None:
        """Unit vectors, shape (documents, dimensions)."""
        start = self._exact.total
        self._exact.add(vectors)
        if self._index is not None:
            self._enter(start)
        elif 0 < self._beyond < len(self._exact):
            self._build()

    def forget(self, before: int) -> None:
        """O(1): lists are swept when an eighth of what they hold is forgotten."""
        self._exact.forget(before)

    def rank(self, vector: NDArray[float32], k: int) -> list[Hit]:
        """As `Vectors.rank`."""
        if self._index is None or not 0 < k <= DEEPEST:
            return self._exact.rank(vector, k)
        hits = self._proposed(vector, k)
        return self._exact.rank(vector, k) if hits is None else hits

    def _proposed(self, vector: NDArray[float32], k: int) -> list[Hit] | None:
        """The best candidates of the lists; None where the newest of equal documents cannot be determined."""
        import numpy as np

        wanted = max(CANDIDATES, 10 * k)
        remembered = self._faiss.IDSelectorRange(self._exact.first, self._exact.total)
        settings = self._faiss.SearchParametersIVF(nprobe=PROBED, sel=remembered)
        query = np.asarray(vector, np.float32).reshape(1, -1)
        scores, numbers = (rows[0] for rows in self._index.search(query, wanted, params=settings))
        numbers = numbers[numbers >= 0]
        hits = self._exact.best(vector, numbers, k)
        if len(hits) < k:
            return None
        coarse = dict(zip(numbers.tolist(), scores.tolist(), strict=False))
        # Equal vectors have equal codes. As long as a worse code made it among the candidates, none of them is missing.
        cut_off = len(numbers) == wanted and min(coarse[hit.number] for hit in hits) <= scores[-1] + ROUNDING
        return None if cut_off else hits

    def _build(self) -> None:
        try:
            import faiss
        except ImportError:
            warnings.warn(
                f"faiss is not installed, so search stays exact beyond {self._beyond:,} vectors and slows with their "
                "number; pip install 'reflexion_lab[approximate]'",
                stacklevel=4,
            )
            self._beyond = 0
            return
        first = self._exact.first
        sample = self._exact.rows(slice(first, first + self._beyond))
        lists = max(1, min(LISTS, len(sample) // PER_LIST))
        index: Any = faiss.index_factory(sample.shape[1], f"IVF{lists},SQ8", faiss.METRIC_INNER_PRODUCT)
        index.cp.niter, index.cp.seed, index.cp.min_points_per_centroid = ROUNDS, SEED, 1
        index.train(sample[:: max(1, len(sample) // (lists * TRAINED_ON))])
        self._faiss, self._index, self._removed = faiss, index, first
        self._enter(first)

    def _enter(self, start: int) -> None:
        import numpy as np

        first, total = self._exact.first, self._exact.total
        start = max(start, first)
        if start < total:
            self._index.add_with_ids(self._exact.rows(slice(start, total)), np.arange(start, total))
        if 8 * (first - self._removed) > self._index.ntotal:
            self._index.remove_ids(self._faiss.IDSelectorRange(self._removed, first))
            self._removed = first
