"""Retrieval by sentence embeddings: the documents whose vectors point the same way as the query's."""

from __future__ import annotations

from collections.abc import Sequence

from reflexion_lab.limits import Count, validated
from reflexion_lab.memory.retrieval.vectors import ApproximateVectors
from reflexion_lab.protocols import Embedder, Hit


class EmbeddingRetriever:
    """Scores by the cosine of two texts' vectors; a negative cosine, which says no more than 0, counts as 0.

    Several threads may rank at once, but not while one adds or forgets.

    Parameters
    ----------
    embedder
        Best one that remembers what it embedded.
    approximate_beyond
        More documents than this are searched approximately; 0 for never. An exact search of 65,536 vectors of
        384 dimensions takes 5 ms on 2 cores.

    Raises
    ------
    ConfigError
        `approximate_beyond` is negative.
    """

    @validated
    def __init__(self, embedder: Embedder, approximate_beyond: Count = 65_536) -> None:
        self._embedder = embedder
        self._vectors = ApproximateVectors(approximate_beyond)

    def add(self, documents: Sequence[str]) -> None:
        if documents:
            self._vectors.add(self._embedder.embed(documents))

    def forget(self, before: int) -> None:
        self._vectors.forget(before)

    def rank(self, query: str, k: int) -> list[Hit]:
        return self._vectors.rank(self._embedder.embed([query])[0], k) if k > 0 and len(self._vectors) else []
