"""Several retrievers as one, by reciprocal rank fusion."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from reflexion_lab.limits import NotNegative, Positive, validated
from reflexion_lab.protocols import Hit, Retriever


class Hybrid:
    """Scores Σ 1 / (constant + place) over the retrievers that find a document, places from 1 (Cormack, Clarke and
    Büttcher 2009), divided by the most that it can be: 1 for a document that all of them place first. Thread-safe
    where they are.

    Parameters
    ----------
    retrievers
        Two or more, without documents yet.
    depth
        Hits that each is asked for, at least; what it places below does not count.
    constant
        How little the first places stand out, 0 or more; 60 in the paper.

    Raises
    ------
    ConfigError
        An argument is out of range.
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
        parts = defaultdict(list)
        for retriever in self.retrievers:
            for place, hit in enumerate(retriever.rank(query, max(self.depth, k)), 1):
                parts[hit.number].append((self.constant + 1) / (self.constant + place))
        # fsum: equal parts make equal scores, whichever retriever gave them.
        hits = [Hit(number, math.fsum(shares) / len(self.retrievers)) for number, shares in parts.items()]
        return sorted(hits, key=lambda hit: (-hit.score, -hit.number))[:k]
