"""Wisdom as all episodes of a store tell it, whichever runs wrote them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec.structs import replace

from reflexion_lab.memory.extraction import extract
from reflexion_lab.protocols import Store
from reflexion_lab.records import UNKNOWN, Episode, Wisdom


class Recount(NamedTuple):
    episodes: int
    wisdom: int
    new: int
    """Wisdom that the store did not hold."""
    changed: int


def recount(store: Store, known: int = -1) -> Recount:
    """Write the wisdom of all episodes to `store`; twice changes nothing. Raises StoreError.

    Runs that write at once know their own episodes, and what one writes of a cause takes the place of what another has
    written. Each counts again at its end, and once more where episodes came meanwhile, so that the last to write has
    counted all.

    Args:
        known: so many episodes has the caller counted; where there are no others, nothing is written.
    """
    uses, found = _counted(store)
    if uses.episodes == known:
        return Recount(uses.episodes, len(found), 0, 0)
    first = {one.wisdom_id: one for one in store.read(Wisdom)}
    while True:
        before = {one.wisdom_id: one for one in store.read(Wisdom)}
        wisdom = [uses.put_on(_kept(one, before.get(one.wisdom_id))) for one in found]
        if changed := [one for one in wisdom if one != before.get(one.wisdom_id)]:
            store.append(changed)
        episodes = uses.episodes
        if not changed or _n_episodes(store) == episodes:
            new = sum(one.wisdom_id not in first for one in wisdom)
            return Recount(episodes, len(wisdom), new, sum(one != first.get(one.wisdom_id) for one in wisdom) - new)
        uses, found = _counted(store)


class _Uses:
    """Which wisdom the actors of episodes read, and what came of it."""

    def __init__(self) -> None:
        self.episodes = 0
        self.count: Counter[str] = Counter()
        self.passed: Counter[str] = Counter()
        self.latest: dict[str, float] = {}

    def watched(self, episodes: Iterable[Episode]) -> Iterator[Episode]:
        for episode in episodes:
            self.episodes += 1
            is_known = episode.metadata.get("outcome") not in UNKNOWN
            for name in episode.metadata.get("wisdom", "").split() if is_known else ():
                self.count[name] += 1
                self.passed[name] += episode.passed
                self.latest[name] = max(episode.timestamp, self.latest.get(name, 0.0))
            yield episode

    def put_on(self, one: Wisdom) -> Wisdom:
        """With its uses, as far as the episodes tell; a greater count stands, since episodes are pruned."""
        name, count = one.wisdom_id, self.count[one.wisdom_id]
        if count <= one.use_count:
            return one
        return replace(one, use_count=count, success_rate=self.passed[name] / count, last_used_at=self.latest[name])


def _counted(store: Store) -> tuple[_Uses, list[Wisdom]]:
    uses = _Uses()
    return uses, extract(uses.watched(store.read(Episode)))


def _n_episodes(store: Store) -> int:
    return sum(1 for _ in store.read(Episode))


def _kept(one: Wisdom, known: Wisdom | None) -> Wisdom:
    """`one` with the usage and the time of its making that are known of it."""
    if known is None:
        return one
    usage = ("use_count", "success_rate", "last_used_at", "created_at")
    return replace(one, **{field: getattr(known, field) for field in usage})
