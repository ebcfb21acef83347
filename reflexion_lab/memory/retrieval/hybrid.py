"""Reciprocal rank fusion of several retrievers."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from reflexion_lab.limits import NotNegative, Positive, validated
from reflexion_lab.protocols import Hit, Retriever


class Hybrid:
    """Reciprocal rank fusion: Σ 1 / (constant + rank), ranks from 1 (Cormack, Clarke and Büttcher 2009), scaled so that
    a document ranked first by every retriever scores 1. Thread-safe if its retrievers are.

    `retrievers`: at least two, empty. `depth`: minimum number of hits requested from each; lower ranks do not count.
    `constant`: 0 or more; larger values weigh ranks more evenly. 60 in the paper.
    """

    @validated
    def __init__(
        self,
        retrievers: Annotated[Sequence[Retriever], Meta(min_length=2)],
        depth: Positive = 50,
        constant: NotNegative = 60.0,
    ) -> None:
        self.depth = depth
        self.constant = constant
        self.retrievers = list(retrievers)

    def add(self, documents: Sequence[str]) -> None:
        for retriever in self.retrievers:
            retriever.add(documents)

    def forget(self, before: int) -> None:
        for retriever in self.retrievers:
            retriever.forget(before)

    def rank(self, query: str, k: int) -> list[Hit]:
        if k < 1:
            return []
        shares = defaultdict(list)
        for retriever in self.retrievers:
            for rank, hit in enumerate(retriever.rank(query, max(self.depth, k)), 1):
                shares[hit.number].append((self.constant + 1) / (self.constant + rank))
        # fsum: the score does not depend on which retriever gave which rank.
        hits = [Hit(number, math.fsum(parts) / len(self.retrievers)) for number, parts in shares.items()]
        return sorted(hits, key=lambda hit: (-hit.score, -hit.number))[:k]
