"""Control retrievers: chance, and the newest documents. Neither reads a document."""

from __future__ import annotations

import random
from collections.abc import Sequence

from reflexion_lab.protocols import Hit


class _Living:
    """Numbers of the living documents."""

    def __init__(self) -> None:
        self.first = self.end = 0

    def add(self, documents: Sequence[str]) -> None:
        self.end += len(documents)

    def forget(self, before: int) -> None:
        self.first = max(self.first, min(before, self.end))

    def hits(self, numbers: Sequence[int]) -> list[Hit]:
        """Scores 1 - place / documents, places from 0: they fall evenly, and none is 0."""
        count = self.end - self.first
        return [Hit(number, 1 - place / count) for place, number in enumerate(numbers)]


class Random:
    """Draws documents without replacement, each as likely as any other; one query draws the same ones again, and
    fewer of them are the first of more. The draws depend on the seed, the query and the living documents alone.

    A hit's score says its place among all documents and nothing else. Any query will do, an empty one too.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self._living = _Living()
        self.add = self._living.add
        self.forget = self._living.forget

    def rank(self, query: str, k: int) -> list[Hit]:
        first, count = self._living.first, self._living.end - self._living.first
        # As bytes, since a query may hold half a character.
        chance = random.Random(f"{self.seed}:{query}".encode(errors="surrogatepass"))
        # The beginning of a Fisher-Yates shuffle; only what has moved is written down.
        moved: dict[int, int] = {}
        drawn = []
        for place in range(min(k, count)):
            other = chance.randrange(place, count)
            drawn.append(first + moved.get(other, other))
            moved[other] = moved.get(place, place)
        return self._living.hits(drawn)


class Recency:
    """The newest documents, newest first, whatever the query says. A hit's score says its place and nothing else."""

    def __init__(self) -> None:
        self._living = _Living()
        self.add = self._living.add
        self.forget = self._living.forget

    def rank(self, query: str, k: int) -> list[Hit]:
        newest = range(self._living.end - 1, self._living.first - 1, -1)
        return self._living.hits(newest[: max(k, 0)])
