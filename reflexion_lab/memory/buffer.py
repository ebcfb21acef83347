"""The episode buffer: the newest episodes up to a bound, found by task and by text."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence

from reflexion_lab.errors import ConfigError
from reflexion_lab.limits import validated
from reflexion_lab.memory.texts import Match, document
from reflexion_lab.protocols import Hit, Retriever
from reflexion_lab.records import Episode
from reflexion_lab.storage.kinds import filled

DEFAULT_EPISODES = 1000


class EpisodeBuffer:
    """A bounded first-in-first-out buffer of episodes. Thread-safe; callers get lists of their own.

    Storing costs O(1) also at capacity, however the episodes share tasks. A look-up costs what it returns.

    Parameters
    ----------
    max_episodes
        At capacity the oldest leaves before the new one enters; a value of 0 or less means 1000.
    retriever
        Finds `relevant` episodes; one that is still empty, and this buffer's alone.
    match
        Under which text an episode is found, one of `texts.MATCHES`.

    Raises
    ------
    ConfigError
        `max_episodes` is no int.
    """

    capacity: int
    total: int
    """Episodes ever stored, evicted ones included."""

    @validated
    def __init__(
        self, max_episodes: int = DEFAULT_EPISODES, retriever: Retriever | None = None, match: Match = "task"
    ) -> None:
        self.capacity = max_episodes if max_episodes > 0 else DEFAULT_EPISODES
        self._retriever = NoRetriever() if retriever is None else retriever
        self._match = match
        self._lock = threading.Lock()
        # Episodes are numbered as they come, as the retriever numbers them; those of `_first` to `_next - 1` are kept.
        self._episodes: dict[int, Episode] = {}
        self.total = self._first = self._next = 0
        self._by_task: dict[str, dict[int, Episode]] = {}

    def store(self, episode: Episode) -> Episode:
        """Keep an episode and return it as it is kept: with an id and a timestamp, if it had none.

        Raises
        ------
        DataError
            It has no `agent_id`.
        """
        stored = filled(episode)
        with self._lock:
            self._retriever.add((document(stored, self._match),))
            self._append(stored)
            self._retriever.forget(self._first)
        return stored

    def extend(self, episodes: Iterable[Episode]) -> list[Episode]:
        """Keep episodes, oldest first, as `store` does: all of them or, where one raises, none."""
        stored = [filled(episode) for episode in episodes]
        with self._lock:
            self._retriever.add([document(episode, self._match) for episode in stored])
            for episode in stored:
                self._append(episode)
            self._retriever.forget(self._first)
        return stored

    def by_task(self, task_id: str) -> list[Episode]:
        """In the order of storing; [] for a task that is not known."""
        with self._lock:
            return [*self._by_task.get(task_id, {}).values()]

    def relevant(self, text: str, k: int, min_score: float = 0.0) -> list[Episode]:
        """At most `k` episodes nearest to `text`, best first, the newer first on a tie; `min_score` is inclusive.

        Raises
        ------
        ConfigError
            The buffer was given no retriever.
        """
        with self._lock:
            return [self._episodes[hit.number] for hit in self._retriever.rank(text, k) if hit.score >= min_score]

    def __len__(self) -> int:
        return len(self._episodes)

    def __iter__(self) -> Iterator[Episode]:
        """Oldest first, as the buffer stands at this moment."""
        with self._lock:
            return iter([*self._episodes.values()])

    def _append(self, episode: Episode) -> None:
        if len(self._episodes) == self.capacity:
            self._drop_oldest()
        self._by_task.setdefault(episode.task_id, {})[self._next] = episode
        self._episodes[self._next] = episode
        self._next += 1
        self.total += 1

    def _drop_oldest(self) -> None:
        task_id = self._episodes.pop(self._first).task_id
        of_task = self._by_task[task_id]
        del of_task[self._first]
        if not of_task:
            del self._by_task[task_id]
        self._first += 1


class NoRetriever:
    """Keeps no documents, and says what to do when it is asked for some."""

    def add(self, documents: Sequence[str]) -> None: ...

    def forget(self, before: int) -> None: ...

    def rank(self, query: str, k: int) -> list[Hit]:
        raise ConfigError("this episode buffer has no retriever to find relevant episodes; give EpisodeBuffer one")
