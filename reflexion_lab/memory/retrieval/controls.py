"""Control retrievers, which ignore the texts: random documents, and the newest."""

from __future__ import annotations

import random
from collections.abc import Sequence

from reflexion_lab.protocols import Hit


class _Control:
    def __init__(self) -> None:
        self._first = self._end = 0

    def add(self, documents: Sequence[str]) -> None:
        self._end += len(documents)

    def forget(self, before: int) -> None:
        self._first = max(self._first, min(before, self._end))

    def _hits(self, numbers: Sequence[int]) -> list[Hit]:
        """Scores 1 - rank / documents, ranks from 0: above 0 and evenly spaced."""
        count = self._end - self._first
        return [Hit(number, 1 - rank / count) for rank, number in enumerate(numbers)]


class Random(_Control):
    """A uniform random sample without replacement, fixed by the seed, the query and the document numbers. Samples are
    nested: a larger k contains every smaller one. Scores encode the rank only.
    """

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.seed = seed

    def rank(self, query: str, k: int) -> list[Hit]:
        count = self._end - self._first
        # Encoded, since a query may contain a lone surrogate.
        generator = random.Random(f"{self.seed}:{query}".encode(errors="surrogatepass"))
        # The first k steps of a Fisher-Yates shuffle; only swapped positions are stored.
        swapped: dict[int, int] = {}
        sample = []
        for place in range(min(k, count)):
            other = generator.randrange(place, count)
            sample.append(self._first + swapped.get(other, other))
            swapped[other] = swapped.get(place, place)
        return self._hits(sample)


class Recency(_Control):
    """The newest documents, newest first. Scores encode the rank only."""

    def rank(self, query: str, k: int) -> list[Hit]:
        newest = range(self._end - 1, self._first - 1, -1)
        return self._hits(newest[: max(k, 0)])
