"""The bounded buffer of episodes, first in, first out."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator

from reflexion_lab.errors import ConfigError
from reflexion_lab.limits import validated
from reflexion_lab.memory.retrieval.texts import Match, document
from reflexion_lab.memory.retrieval.trace import note_search
from reflexion_lab.protocols import Retriever
from reflexion_lab.records import Episode
from reflexion_lab.storage.kinds import identified

DEFAULT_EPISODES = 1000


class EpisodeBuffer:
    """A bounded FIFO buffer of episodes. Thread-safe; returned lists are copies.

    Storing takes constant time, also at capacity; a look-up takes time proportional to its result. `max_episodes`:
    capacity; the oldest episode is evicted. 0 or less: 1000. `retriever`: for `relevant`; empty, for this buffer alone.
    `match`: retrieval document of an episode, one of `texts.MATCHES`.
    """

    @validated
    def __init__(
        self, max_episodes: int = DEFAULT_EPISODES, retriever: Retriever | None = None, match: Match = "task"
    ) -> None:
        self.capacity = max_episodes if max_episodes > 0 else DEFAULT_EPISODES
        self._retriever = retriever
        self._match = match
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        """Held while the retriever indexes, which may call a model: readers wait for `_lock` alone."""
        self._episodes: dict[int, Episode] = {}
        """By the retriever's document numbers, up to `total - 1`."""
        self.total = 0
        self._look_ups: dict[tuple[str, str], deque[Episode]] = {}
        """By field and value."""

    def store(self, episode: Episode) -> Episode:
        """Store an episode; returns it with an id and a timestamp. Raises DataError without an `agent_id`."""
        return self.extend([episode])[0]

    def extend(self, episodes: Iterable[Episode]) -> list[Episode]:
        """As `store`, for several episodes, oldest first; all or none are stored."""
        if not (stored := [identified(episode) for episode in episodes]):
            return []
        with self._writing:
            if self._retriever is not None:
                self._retriever.add([document(episode, self._match) for episode in stored])
            with self._lock:
                for episode in stored:
                    self._put(episode)
            if self._retriever is not None:
                self._retriever.forget(self.total - len(self._episodes))
        return stored

    def _put(self, episode: Episode) -> None:
        if len(self._episodes) == self.capacity:
            for key in _keys(self._episodes.pop(self.total - self.capacity)):
                self._look_ups[key].popleft()
                if not self._look_ups[key]:
                    del self._look_ups[key]
        for key in _keys(episode):
            self._look_ups.setdefault(key, deque()).append(episode)
        self._episodes[self.total] = episode
        self.total += 1

    def by_task(self, task_id: str) -> list[Episode]:
        """The task's episodes, oldest first."""
        return self._by("task", task_id)

    def by_agent(self, agent_id: str) -> list[Episode]:
        """The agent's episodes, oldest first; in a run, the agent is the arm."""
        return self._by("agent", agent_id)

    def by_session(self, session_id: str) -> list[Episode]:
        """The episodes of one loop, oldest first."""
        return self._by("session", session_id)

    def _by(self, kind: str, name: str) -> list[Episode]:
        with self._lock:
            return [*self._look_ups.get((kind, name), ())]

    def relevant(self, text: str, k: int, min_score: float = 0.0) -> list[Episode]:
        """The `k` nearest episodes, best, then newest first, from `min_score` on. Raises ConfigError: no retriever."""
        if self._retriever is None:
            raise ConfigError("EpisodeBuffer: no retriever for relevant episodes; pass one")
        scores = dict(self._retriever.rank(text, k))
        with self._lock:
            near = {n: self._episodes[n] for n, score in scores.items() if score >= min_score and n in self._episodes}
        note_search(self._retriever, text, scores, near)
        return [*near.values()]

    def __len__(self) -> int:
        return len(self._episodes)

    def __iter__(self) -> Iterator[Episode]:
        """A snapshot, oldest first."""
        with self._lock:
            return iter([*self._episodes.values()])


def _keys(episode: Episode) -> tuple[tuple[str, str], ...]:
    return ("task", episode.task_id), ("agent", episode.agent_id), ("session", episode.session_id)
