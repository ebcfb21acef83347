"""The episode buffer: the newest episodes up to a bound, found by agent, session, task and category."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from reflexion_lab.memory.index import Index
from reflexion_lab.memory.saved import DEFAULT_EPISODES, Saved, read_lines, read_object, whole
from reflexion_lab.memory.texts import document
from reflexion_lab.protocols import Hit, Retriever
from reflexion_lab.records import Episode, Search
from reflexion_lab.search import found

KEYS = ("agent", "session", "task", "category")
"""What episodes are looked up by."""


class EpisodeBuffer:
    """A bounded first-in-first-out buffer of episodes. Thread-safe; callers get lists of their own.

    Storing costs O(1) also at capacity, however the episodes share agents, sessions, tasks and categories. A look-up
    costs what it returns.

    Args:
        max_episodes: at capacity the oldest leaves before the new one enters; a value of 0 or less means 1000.
        retriever: finds `relevant` episodes; one that is still empty, and this buffer's alone.
        match: under which text an episode is found, one of `texts.MATCHES`.

    Raises:
        ValueError: `max_episodes` is no int.
    """

    capacity: int
    total: int
    """Episodes ever stored, evicted ones included."""

    def __init__(
        self, max_episodes: int = DEFAULT_EPISODES, retriever: Retriever | None = None, match: str = "task"
    ) -> None:
        if not isinstance(max_episodes, int) or isinstance(max_episodes, bool):
            raise ValueError(f"memory.max_episodes: {max_episodes!r} found; expected an int")
        self.capacity = max_episodes if max_episodes > 0 else DEFAULT_EPISODES
        self._retriever = NoRetriever() if retriever is None else retriever
        self._match = match
        self._lock = threading.Lock()
        # Episodes are numbered as they come, as the retriever numbers them; those of `_first` to `_next - 1` are kept.
        self._episodes: dict[int, Episode] = {}
        self.total = self._first = self._next = 0
        self._indexes = {name: Index() for name in KEYS}

    def store(self, episode: Episode) -> Episode:
        """Keep an episode and return it as it is kept: with an id and a timestamp, if it had none.

        Raises:
            ValueError: it has no `agent_id`.
        """
        kept = whole(episode)
        with self._lock:
            self._retriever.add((document(kept, self._match),))
            self._append(kept)
            self._retriever.forget(self._first)
        return kept

    def extend(self, episodes: Iterable[Episode]) -> list[Episode]:
        """Keep episodes, oldest first, as `store` does: all of them or, where one raises, none."""
        kept = [whole(episode) for episode in episodes]
        with self._lock:
            self._retriever.add([document(episode, self._match) for episode in kept])
            for episode in kept:
                self._append(episode)
            self._retriever.forget(self._first)
        return kept

    def by_agent(self, agent_id: str) -> list[Episode]:
        """In the order of storing, as in the three below; [] for an agent that is not known."""
        return self._by("agent", agent_id)

    def by_session(self, session_id: str) -> list[Episode]:
        return self._by("session", session_id)

    def by_task(self, task_id: str) -> list[Episode]:
        return self._by("task", task_id)

    def by_category(self, category: str) -> list[Episode]:
        """Those whose reflection names this failure class; "" for those without a reflection."""
        return self._by("category", category)

    def keys(self) -> dict[str, list[str]]:
        """By `KEYS`: the agents, sessions, tasks and categories of the episodes that are kept."""
        with self._lock:
            return {name: index.keys() for name, index in self._indexes.items()}

    def recent(self, n: int) -> list[Episode]:
        """The newest `n`, newest first; [] for 0 or less."""
        with self._lock:
            oldest = max(self._first, self._next - n)
            return [self._episodes[number] for number in range(self._next - 1, oldest - 1, -1)]

    def relevant(self, text: str, k: int, min_score: float = 0.0) -> list[Episode]:
        """At most `k` episodes nearest to `text`, best first, the newer first on a tie; `min_score` is inclusive.

        Raises:
            ValueError: the buffer was given no retriever.
        """
        with self._lock:
            return [self._episodes[hit.number] for hit in self._retriever.rank(text, k) if hit.score >= min_score]

    def search(self, search: Search) -> list[Episode]:
        """Newest first."""
        exact = {"agent": search.agent_id, "session": search.session_id, "task": search.task_id}
        with self._lock:
            narrowed = [self._indexes[name].numbers(key, self._first) for name, key in exact.items() if key]
            numbers = min(narrowed, key=len) if narrowed else self._episodes
            candidates = [self._episodes[number] for number in numbers]
        return found(search, candidates)

    def clear(self) -> None:
        """Forget every episode; `total` still counts them."""
        with self._lock:
            self._clear()

    def __len__(self) -> int:
        return len(self._episodes)

    def __iter__(self) -> Iterator[Episode]:
        """Oldest first, as the buffer stands at this moment."""
        return iter(self._saved().episodes or ())

    def to_json(self) -> str:
        """One object: `max_episodes`, `total` and `episodes`, oldest first."""
        return msgspec.json.encode(self._saved()).decode()

    def from_json(self, text: str | bytes) -> None:
        """Become the buffer that `to_json` wrote, its capacity too; where it holds more, the newest stay.

        Raises:
            ValueError: `text` is no such object; the buffer is as it was.
        """
        saved = read_object(text)
        self._become(saved.episodes or (), saved.max_episodes, saved.total)

    def to_jsonl(self) -> str:
        """One episode a line, oldest first."""
        return msgspec.json.Encoder().encode_lines(list(self)).decode()

    def from_jsonl(self, text: str | bytes) -> int:
        """Hold the episodes of these lines instead, the newest if there are too many.

        Returns: how many lines are no JSON, as a kill leaves them; they are skipped.

        Raises:
            ValueError: a line is JSON but no episode, or none is JSON; the buffer is as it was.
        """
        episodes, torn = read_lines(text)
        self._become(episodes, self.capacity)
        return torn

    def _saved(self) -> Saved:
        with self._lock:
            return Saved(max_episodes=self.capacity, total=self.total, episodes=[*self._episodes.values()])

    def _become(self, episodes: Sequence[Episode], max_episodes: int, total: int = 0) -> None:
        capacity = max_episodes if max_episodes > 0 else DEFAULT_EPISODES
        newest = episodes[-capacity:]
        with self._lock:
            # First what can fail: a retriever that raises leaves the buffer as it was.
            self._retriever.add([document(episode, self._match) for episode in newest])
            self._clear()
            self.capacity = capacity
            for episode in newest:
                self._append(episode)
            self.total = max(total, len(episodes))

    def _by(self, name: str, key: str) -> list[Episode]:
        with self._lock:
            return [self._episodes[number] for number in self._indexes[name].numbers(key, self._first)]

    def _append(self, episode: Episode) -> None:
        if len(self._episodes) == self.capacity:
            self._evict()
        number = self._next
        agents, sessions, tasks, categories = self._indexes.values()
        agents.add(episode.agent_id, number)
        sessions.add(episode.session_id, number)
        tasks.add(episode.task_id, number)
        categories.add(episode.category, number)
        self._episodes[number] = episode
        self._next = number + 1
        self.total += 1

    def _evict(self) -> None:
        number = self._first
        episode = self._episodes.pop(number)
        agents, sessions, tasks, categories = self._indexes.values()
        agents.drop(episode.agent_id, number)
        sessions.drop(episode.session_id, number)
        tasks.drop(episode.task_id, number)
        categories.drop(episode.category, number)
        self._first = number + 1

    def _clear(self) -> None:
        self._episodes.clear()
        self._indexes = {name: Index() for name in KEYS}
        self._first = self._next
        self._retriever.forget(self._first)


class NoRetriever:
    """Keeps no documents, and says what to do when it is asked for some."""

    def add(self, documents: Sequence[str]) -> None: ...

    def forget(self, before: int) -> None: ...

    def rank(self, query: str, k: int) -> list[Hit]:
        raise ValueError("this episode buffer has no retriever to find relevant episodes; give EpisodeBuffer one")
