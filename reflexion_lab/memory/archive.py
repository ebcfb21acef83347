"""Memory across tasks and runs, and the rounds of tasks between which it changes.

It changes between rounds of tasks only: every task of a round sees it as it stood when the round began, and at the end
the round's episodes enter in task order. What is recalled then depends on the seed and the round size, never on the
number of workers or on timing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby, pairwise

from msgspec.structs import replace

from reflexion_lab.errors import StoreError
from reflexion_lab.limits import Count, Positive, Share, check_fields, validated
from reflexion_lab.memory.episodic import EpisodeBuffer, episode_of, session_after, session_id
from reflexion_lab.memory.insights import Insights, insight_of, with_insight
from reflexion_lab.memory.mistakes import Mistakes, mistakes_of
from reflexion_lab.memory.recall import DEFAULT, adapted, lessons_within
from reflexion_lab.memory.texts import Match, failure_query, query
from reflexion_lab.memory.wisdom import USAGE, Extraction, WisdomBook, recount, with_fields_of
from reflexion_lab.protocols import Outcome, Retriever, Store
from reflexion_lab.records import (
    UNKNOWN,
    Attempt,
    Beginning,
    Episode,
    Mistake,
    Recollection,
    Record,
    Session,
    Task,
    Wisdom,
)

WIDER = 4
"""Factor by which a search grows whose nearest episodes had too few of the wanted outcome."""


class Shown(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many of the nearest lessons of other loops the actor reads; 0 shows none."""

    wisdom: Count = 0
    mistakes: Count = 0
    insights: Count = 0
    """The newest, of other loops and of its own."""
    min_score: Share = 0.0
    """Smallest retriever score of wisdom and mistakes that are shown."""
    max_tokens: Count = 600
    """Token budget of all lessons together; what does not fit is left out."""


class Learnt(Record, frozen=True, kw_only=True):
    """Episodes, mistakes and session of one task's loop."""

    episodes: tuple[Episode, ...]
    mistakes: tuple[Mistake, ...]
    session: Session


class Archive:
    """Episodes, wisdom, mistakes and insights that all loops of a run share; what a store keeps of earlier runs.

    Parameters
    ----------
    store
        Where they are kept. One that fails costs nothing but its own copy: the run folder has every attempt.
    retriever
        Makes an empty retriever; episodes, wisdom and mistakes have one each.
    shown
        How many lessons the actor reads.
    match
        Which text of an episode is compared with the task: one of `texts.MATCHES`.
    same_task
        Whether what earlier runs did on the very same task is recalled; pass@1 then means another thing.
    max_episodes
        How many are held; the oldest leave first.
    retire_after, retire_below
        Wisdom read by so many attempts, of which a smaller share passed, is shown no more.

    Raises
    ------
    ConfigError
        A value is impossible.
    """

    @validated
    def __init__(
        self,
        store: Store,
        retriever: Callable[[], Retriever],
        *,
        shown: Shown | None = None,
        match: Match = "task_error",
        same_task: bool = False,
        max_episodes: int = 1000,
        retire_after: Positive = 5,
        retire_below: Share = 0.2,
    ) -> None:
        self.store = store
        self.shown = shown or Shown()
        check_fields(self.shown)
        self.match = match
        self.same_task = same_task
        self.omega = DEFAULT
        self.outcomes: dict[str, tuple[int, int]] = {}
        self.buffer = EpisodeBuffer(max_episodes, retriever(), match)
        self.book = WisdomBook(retriever(), retire_after, retire_below)
        self.mistakes = Mistakes(retriever=retriever(), threshold=self.shown.min_score)
        self.insights = Insights()
        self._extraction = Extraction()
        self._taken, self._has_learnt = 0, False

    def begin(self, beginning: Beginning | None = None, run_id: str = "") -> Beginning:
        """Read what the store held at `beginning`, or holds now; returns what that was. Raises StoreError.

        What the run `run_id` itself has stored is left out: its rounds bring it.
        """
        episodes, mistakes = list(self.store.read(Episode)), list(self.store.read(Mistake))
        wisdom = beginning.wisdom if beginning else tuple(self.store.read(Wisdom))
        if beginning:
            ids = [episode.episode_id for episode in episodes]
            episodes = episodes[: _end(ids, beginning.episodes, beginning.newest_episode)]
            ids = [entry.mistake_id for entry in mistakes]
            mistakes = mistakes[: _end(ids, beginning.mistakes, beginning.newest_mistake)]
        if beginning and run_id:
            episodes = [episode for episode in episodes if not episode.session_id.startswith(f"{run_id}/")]
            mistakes = [entry for entry in mistakes if not entry.mistake_id.startswith(f"mistake-{run_id}/")]
        if beginning and (len(episodes), len(mistakes)) != (beginning.episodes, beginning.mistakes):
            _warn(
                f"the store has lost some of what it held when the run began ({beginning.episodes:,} episodes and "
                f"{beginning.mistakes:,} mistakes then, {len(episodes):,} and {len(mistakes):,} of them now); "
                "the rest of the run recalls what is left"
            )
        for entry in wisdom:
            self.book.upsert(replace(entry, use_count=0, success_rate=0.0))
        self.mistakes.extend(mistakes)
        self._take(episodes)
        for entry in wisdom:
            self.book.remember_usage(entry)
        return beginning or Beginning(
            episodes=len(episodes),
            newest_episode=episodes[-1].episode_id if episodes else "",
            mistakes=len(mistakes),
            newest_mistake=mistakes[-1].mistake_id if mistakes else "",
            wisdom=wisdom,
        )

    def absorb(self, learnt: Sequence[Learnt]) -> None:
        """Take in what a round of tasks has learnt, in task order, and hand it to the store; the same again changes
        nothing in the store.
        """
        episodes = [episode for task in learnt for episode in task.episodes]
        mistakes = [mistake for task in learnt for mistake in task.mistakes]
        changed, self._has_learnt = self._take(episodes), True
        mistakes = self.mistakes.extend(mistakes)
        try:
            self.store.append([*episodes, *mistakes, *(task.session for task in learnt), *changed])
        except (StoreError, ValueError, OSError) as problem:
            _warn(f"{problem}; the run goes on, and `reflexion-lab memory import` takes its folder in later")

    def close(self) -> None:
        """Count the wisdom again if other runs wrote too, and close the store; what that could not keep is told."""
        try:
            if self._has_learnt:
                recount(self.store, known=self._taken)
            self.store.close()
        except (StoreError, OSError) as problem:
            _warn(f"{problem}; the run stands, and `reflexion-lab memory import` takes its folder in later")

    def similar(
        self, task: Task, own: Sequence[Episode], k: int, min_score: float, outcome: Outcome = "any"
    ) -> list[Episode]:
        text, excess = query(task, own, self.match), 0 if self.same_task else len(self.buffer.by_task(task.task_id))
        passed = {"any": (True, False), "passed": (True,), "failed": (False,)}[outcome]
        n = k + excess if k > 0 else 0
        while True:
            nearest = self.buffer.relevant(text, n, min_score)
            others = (episode for episode in nearest if self.same_task or episode.task_id != task.task_id)
            chosen = [episode for episode in others if episode.passed in passed][:k]
            if len(chosen) >= k or len(nearest) < n:
                return chosen
            n *= WIDER

    def past(self, task: Task) -> list[Episode]:
        """What earlier runs and rounds did on this very task, oldest first; [] unless `same_task`."""
        return self.buffer.by_task(task.task_id) if self.same_task else []

    def lessons(self, task: Task, own: Sequence[Episode]) -> Recollection:
        text, limits = failure_query(task, own), self.shown
        except_task = "" if self.same_task else task.task_id
        insights = self.insights.newest(except_task) if limits.insights else ()
        for episode in own:
            insights = with_insight(insights, insight_of(episode.reflection) if episode.reflection else "")
        wisdom = self.book.relevant(
            text, limits.wisdom, limits.min_score, view=lambda entry: self._without(entry, except_task)
        )
        mistakes = self.mistakes.retrieve_similar(task.prompt, limits.mistakes, except_task=except_task)
        lessons = Recollection(
            wisdom=tuple(wisdom),
            mistakes=tuple(mistakes),
            insights=insights[len(insights) - min(limits.insights, len(insights)) :],
        )
        return lessons_within(lessons, limits.max_tokens)

    def _without(self, entry: Wisdom, task_id: str) -> Wisdom | None:
        """`entry` in the words of the other tasks; None where they alone would not have given it."""
        if not task_id or task_id not in entry.tasks:
            return entry
        others = self._extraction.without(entry.wisdom_id, task_id)
        return others and with_fields_of(entry, others, USAGE)

    def _take(self, episodes: Iterable[Episode]) -> list[Wisdom]:
        """Index `episodes`, oldest first; return the wisdom that they changed. Uses of wisdom are counted from the
        episodes whose actors read it, so that nothing counts twice, however often a round is taken in.
        """
        episodes = self.buffer.extend(episodes)
        self._taken += len(episodes)
        changed = {entry.wisdom_id: entry for entry in self._extraction.add(episodes)}
        for entry in changed.values():
            self.book.upsert(entry)
        for episode in episodes:
            if episode.reflection:
                self.insights.add(episode.task_id, insight_of(episode.reflection))
            is_known = episode.metadata.get("outcome") not in UNKNOWN
            for wisdom_id in episode.metadata.get("wisdom", "").split():
                if is_known and wisdom_id in self.book:
                    changed[wisdom_id] = self.book.record_usage(wisdom_id, episode.passed, episode.timestamp)
        for _, loop in groupby(episodes, key=lambda episode: episode.session_id):
            attempts = list(loop)
            self.omega = adapted(self.omega, attempts)
            self._count(attempts)
        return [self.book[wisdom_id] for wisdom_id in changed]

    def _count(self, loop: Sequence[Episode]) -> None:
        """Count the outcome of each reflected failure of a loop; an unknown verdict is no failure."""
        for failure, retry in pairwise(loop):
            if failure.reflection and not failure.passed and retry.metadata.get("outcome") not in UNKNOWN:
                fixed, n = self.outcomes.get(failure.category, (0, 0))
                self.outcomes[failure.category] = (fixed + retry.passed, n + 1)


def _end(ids: Sequence[str], count: int, newest: str) -> int:
    """How many of `ids` a run began with: up to the `newest` of then, and never more than there were."""
    return min(count, ids.index(newest) + 1 if newest in ids else count)


def _warn(what: str) -> None:
    warnings.warn(what, RuntimeWarning, stacklevel=3)


class Rounds:
    """Tasks in their order, `size` at a time.

    `tell`: called with the lessons of each round.

    Raises
    ------
    ConfigError
        `size` is below 1.
    """

    @validated
    def __init__(
        self,
        archive: Archive,
        size: Positive,
        run_id: str,
        agent_id: str,
        tell: Callable[[Sequence[Learnt]], None] = lambda learnt: None,
    ) -> None:
        self.archive = archive
        self.size = size
        self.run_id = run_id
        self.agent_id = agent_id
        self.tell = tell
        self._learnt: dict[str, Learnt] = {}

    def of(self, tasks: Sequence[Task]) -> list[Sequence[Task]]:
        return [tasks[start : start + self.size] for start in range(0, len(tasks), self.size)]

    def finished(self, task: Task, attempts: Sequence[Attempt]) -> None:
        """Keep a task's lessons until its round ends. Thread-safe."""
        name = session_id(self.run_id, task.task_id)
        session = Session(session_id=name)
        for attempt in attempts:
            session = session_after(session, attempt)
        self._learnt[task.task_id] = Learnt(
            episodes=tuple(episode_of(task, attempt, name, self.agent_id) for attempt in attempts),
            mistakes=tuple(mistakes_of(task, attempts, session_id=name)),
            session=session,
        )

    def end(self, tasks: Sequence[Task]) -> None:
        """Share the round's lessons, in task order."""
        learnt = [self._learnt.pop(task.task_id) for task in tasks]
        self.archive.absorb(learnt)
        self.tell(learnt)
