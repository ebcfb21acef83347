"""What memory holds across tasks and runs.

It changes between rounds of tasks only: every task of a round sees it as it stood when the round began, and at the end
the round's episodes enter in task order. What is recalled then depends on the seed and the round size, never on the
number of workers or on timing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby, islice

from msgspec.structs import replace

from reflexion_lab.memory.buffer import EpisodeBuffer
from reflexion_lab.memory.extraction import Extraction
from reflexion_lab.memory.insights import insight_of, with_insight
from reflexion_lab.memory.mistakes import Mistakes
from reflexion_lab.memory.omega import DEFAULT, adapted
from reflexion_lab.memory.texts import MATCHES, asked, query
from reflexion_lab.memory.wisdom import WisdomBook
from reflexion_lab.protocols import Retriever, Store, StoreError
from reflexion_lab.records import Beginning, Episode, Mistake, Recollection, Record, Session, Task, Wisdom


class Shown(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many lessons of other loops the actor reads, the nearest ones; 0 shows none."""

    wisdom: int = 0
    mistakes: int = 0
    insights: int = 0
    """The newest, of other loops and of its own."""
    min_score: float = 0.0
    """Least score of wisdom and mistakes, inclusive; scores are those of the retriever."""


class Learnt(Record, frozen=True, kw_only=True):
    """What one task's loop leaves behind."""

    episodes: tuple[Episode, ...]
    mistakes: tuple[Mistake, ...]
    session: Session


class Archive:
    """Episodes, wisdom, mistakes and insights that all loops of a run share; what a store keeps of earlier runs.

    Args:
        store: where they are kept. One that fails costs nothing but its own copy: the run folder has every attempt.
        retriever: makes an empty retriever; episodes, wisdom and mistakes have one each.
        shown: how many lessons the actor reads.
        match: which text of an episode is compared with the task: one of `texts.MATCHES`.
        same_task: whether earlier runs' episodes on the very same task are recalled; pass@1 then means another thing.
        max_episodes: how many are held; the oldest leave first.
        retire_after, retire_below: wisdom read by so many attempts, of which a smaller share passed, is shown no more.

    Raises:
        ValueError: a value is impossible.
    """

    def __init__(
        self,
        store: Store,
        retriever: Callable[[], Retriever],
        *,
        shown: Shown | None = None,
        match: str = "task_error",
        same_task: bool = False,
        max_episodes: int = 1000,
        retire_after: int = 5,
        retire_below: float = 0.2,
    ) -> None:
        if match not in MATCHES:
            raise ValueError(f"memory.shared.match: {match!r} found; expected one of {', '.join(MATCHES)}")
        self.store = store
        self.shown = shown or Shown()
        self.match = match
        self.same_task = same_task
        self.omega = DEFAULT
        self.buffer = EpisodeBuffer(max_episodes, retriever(), match)
        self.book = WisdomBook(retriever(), retire_after, retire_below)
        self.mistakes = Mistakes(retriever=retriever(), threshold=self.shown.min_score)
        self.insights: tuple[str, ...] = ()
        self._extraction = Extraction()

    def begin(self, beginning: Beginning | None = None) -> Beginning:
        """Read what the store held at `beginning`, or holds now; returns what that was. Raises StoreError."""
        episodes = list(islice(self.store.read(Episode), beginning.episodes if beginning else None))
        mistakes = list(islice(self.store.read(Mistake), beginning.mistakes if beginning else None))
        wisdom = beginning.wisdom if beginning else tuple(self.store.read(Wisdom))
        for entry in wisdom:
            self.book.upsert(replace(entry, use_count=0, success_rate=0.0))
        self.mistakes.extend(mistakes)
        self._take(episodes)
        return beginning or Beginning(episodes=len(episodes), mistakes=len(mistakes), wisdom=wisdom)

    def absorb(self, learnt: Sequence[Learnt]) -> None:
        """Take in what a round of tasks has learnt, in task order, and hand it to the store; the same again changes
        nothing in the store.
        """
        episodes = [episode for task in learnt for episode in task.episodes]
        mistakes = [mistake for task in learnt for mistake in task.mistakes]
        changed = self._take(episodes)
        mistakes = self.mistakes.extend(mistakes)
        try:
            self.store.append([*episodes, *mistakes, *(task.session for task in learnt), *changed])
        except (StoreError, ValueError) as problem:
            warnings.warn(
                f"{problem}; the run goes on, and `reflexion-lab memory import` takes its folder in later",
                RuntimeWarning,
                stacklevel=2,
            )

    def similar(self, task: Task, own: Sequence[Episode], k: int, min_score: float) -> list[Episode]:
        text, excess = query(task, own, self.match), 0 if self.same_task else len(self.buffer.by_task(task.task_id))
        found = self.buffer.relevant(text, k + excess if k > 0 else 0, min_score)
        return [episode for episode in found if self.same_task or episode.task_id != task.task_id][:k]

    def lessons(self, task: Task, own: Sequence[Episode]) -> Recollection:
        text, shown = asked(task, own), self.shown
        insights = self.insights if shown.insights else ()
        for episode in own:
            insights = with_insight(insights, insight_of(episode.reflection) if episode.reflection else "")
        except_task = "" if self.same_task else task.task_id
        wisdom = self.book.relevant(text, shown.wisdom, shown.min_score, except_task=except_task)
        mistakes = self.mistakes.retrieve_similar(task.prompt, shown.mistakes, except_task=except_task)
        return Recollection(
            wisdom=tuple(wisdom),
            mistakes=tuple(mistakes),
            insights=insights[len(insights) - min(shown.insights, len(insights)) :],
        )

    def _take(self, episodes: Iterable[Episode]) -> list[Wisdom]:
        """Index `episodes`, oldest first; the wisdom that they changed. What a wisdom was used for is counted from the
        episodes whose actors read it, so that nothing counts twice, however often a round is taken in.
        """
        episodes = self.buffer.extend(episodes)
        changed = {entry.wisdom_id: entry for entry in self._extraction.add(episodes)}
        for entry in changed.values():
            self.book.upsert(entry)
        for episode in episodes:
            if episode.reflection:
                self.insights = with_insight(self.insights, insight_of(episode.reflection))
            for wisdom_id in episode.metadata.get("wisdom", "").split():
                if wisdom_id in self.book:
                    changed[wisdom_id] = self.book.record_usage(wisdom_id, episode.passed, episode.timestamp)
        for _, loop in groupby(episodes, key=lambda episode: episode.session_id):
            self.omega = adapted(self.omega, list(loop))
        return [self.book[wisdom_id] for wisdom_id in changed]
