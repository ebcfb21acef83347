"""Wisdom counted again from all episodes of a store, whichever runs wrote them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec.structs import replace

from reflexion_lab.memory.extraction import extract
from reflexion_lab.memory.wisdom import HISTORY, with_fields_of
from reflexion_lab.protocols import Store
from reflexion_lab.records import UNKNOWN, Episode, Wisdom


class Recount(NamedTuple):
    episodes: int
    wisdom: int
    new: int
    """Wisdom that the store did not hold."""
    changed: int


def recount(store: Store, known: int = -1) -> Recount:
    """Write the wisdom of all episodes to `store`; a second recount changes nothing. Raises StoreError.

    Concurrent runs know their own episodes only, and overwrite each other's entries. Each counts again at its end, and
    once more where episodes were added meanwhile, so that the last writer has counted all.

    Parameters
    ----------
    known
        Episodes that the caller has counted already; nothing is written where there are no others.
    """
    uses, extracted = _counted(store)
    if uses.episodes == known:
        return Recount(uses.episodes, len(extracted), 0, 0)
    first = {entry.wisdom_id: entry for entry in store.read(Wisdom)}
    while True:
        before = {entry.wisdom_id: entry for entry in store.read(Wisdom)}
        stored = (with_fields_of(before.get(entry.wisdom_id, entry), entry, HISTORY) for entry in extracted)
        wisdom = [uses.put_on(entry) for entry in stored]
        if changed := [entry for entry in wisdom if entry != before.get(entry.wisdom_id)]:
            store.append(changed)
        episodes = uses.episodes
        if not changed or _n_episodes(store) == episodes:
            new = sum(entry.wisdom_id not in first for entry in wisdom)
            different = sum(entry != first.get(entry.wisdom_id) for entry in wisdom)
            return Recount(episodes, len(wisdom), new, different - new)
        uses, extracted = _counted(store)


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

    def put_on(self, wisdom: Wisdom) -> Wisdom:
        """The entry with its uses counted in the episodes; a higher stored count is kept, since episodes are pruned."""
        name, count = wisdom.wisdom_id, self.count[wisdom.wisdom_id]
        if count <= wisdom.use_count:
            return wisdom
        return replace(wisdom, use_count=count, success_rate=self.passed[name] / count, last_used_at=self.latest[name])


def _counted(store: Store) -> tuple[_Uses, list[Wisdom]]:
    uses = _Uses()
    return uses, extract(uses.watched(store.read(Episode)))


def _n_episodes(store: Store) -> int:
    return sum(1 for _ in store.read(Episode))
