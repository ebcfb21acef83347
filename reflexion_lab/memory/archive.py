"""Memory shared across tasks and runs, updated between rounds of tasks.

All tasks of a round see the memory as of the round's start; at its end, the round's episodes are added in task order.
Recall depends on the seed and the round size, not on the number of workers or on timing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import groupby, pairwise
from typing import Any

from msgspec.structs import replace

from reflexion_lab import records
from reflexion_lab.errors import StoreError
from reflexion_lab.limits import Count, Positive, Share, check_fields, validated
from reflexion_lab.memory.buffer import EpisodeBuffer
from reflexion_lab.memory.curators.curated import CuratedMemory
from reflexion_lab.memory.episodic import episode_of, session_id
from reflexion_lab.memory.lessons.insights import Insights
from reflexion_lab.memory.lessons.lessons import Lessons
from reflexion_lab.memory.lessons.mistakes import Mistakes
from reflexion_lab.memory.lessons.wisdom import WisdomBook, recount
from reflexion_lab.memory.recall import DEFAULT, adapted, fitting
from reflexion_lab.memory.retrieval.texts import Match, query
from reflexion_lab.protocols import Outcome, Retriever, Store
from reflexion_lab.storage.kinds import is_removed

WIDER = 4
"""Growth factor of a search that found too few episodes of the wanted outcome."""


class Shown(records.Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Maximum numbers of lessons from other loops in the actor's prompt; 0: none."""

    wisdom: Count = 0
    mistakes: Count = 0
    insights: Count = 0
    """The newest, including the loop's own."""
    min_score: Share = 0.0
    """Minimum retriever score of wisdom and mistakes."""
    max_tokens: Count = 600
    """Token budget of all lessons together; those that do not fit are left out."""


class Archive:
    """Episodes, wisdom, mistakes and insights shared by all loops of a run, and by runs through a store.

    `store`: its errors are warnings: the run folder has every attempt. `retriever`: constructor of an empty retriever;
    episodes, wisdom and mistakes have one each. `shown`: limits on lessons in prompts. `match`: text of an episode that
    is compared with the task. `same_task`: also recall earlier runs' attempts at the same task, which changes the
    meaning of pass@1. `max_episodes`: capacity; the oldest episode is evicted. `max_mistakes`: the same of mistakes.
    `retire_after`, `retire_below`: wisdom is retired after this many uses if its success rate is below the threshold.
    `curated`: items of a curator; None: none. `keeps_episodes`: whether anything reads the episodes of other loops, or
    what is learnt from them; else only items change.
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
        max_mistakes: Positive = 1000,
        retire_after: Positive = 5,
        retire_below: Share = 0.2,
        curated: CuratedMemory | None = None,
        keeps_episodes: bool = True,
    ) -> None:
        self.store = store
        self.shown = shown or Shown()
        check_fields(self.shown)
        self.match = match
        self.same_task = same_task
        self.omega = DEFAULT
        self.outcomes: dict[str, tuple[int, int]] = {}
        self.buffer = EpisodeBuffer(max_episodes, retriever(), match)
        self.book = WisdomBook(retriever(), retire_after, retire_below, self.shown.min_score)
        self.insights = Insights()
        mistakes = Mistakes(retriever(), max_mistakes, self.shown.min_score)
        self.kinds: tuple[Lessons[Any], ...] = (self.book, self.insights, mistakes)
        """In the order in which they get room; mistakes are the longest."""
        self.curated = curated
        self.keeps_episodes = keeps_episodes
        self._taken, self.has_learnt = 0, False
        self.hint = "`reflexion-lab memory import` can import its folder later"
        self._times: dict[str, float] = {}  # of the episodes that a resumed run has stored, by id

    def begin(
        self, beginning: records.Beginning | None = None, run_id: str = "", items: Sequence[records.Item] | None = None
    ) -> records.Beginning:
        """Load the store's contents as of `beginning`, default now; returns that state. Raises StoreError.

        Records of the run `run_id` itself are skipped, since its rounds add them again. Items are those of
        `beginning`, of the store, or `items`, as far as the curator's limits hold.
        """
        stored = episodes = list(self.store.read(records.Episode))
        wisdom = beginning.wisdom if beginning else tuple(self.store.read(records.Wisdom))
        if items is None:
            items = beginning.items if beginning else self.owned(self.stored_items())
        if self.curated:
            self.curated.begin({item.item_id: item for item in items}.values())
        if beginning:
            places = (place for place, each in enumerate(episodes, 1) if each.episode_id == beginning.newest_episode)
            until = min(beginning.episodes, next(places, 0))  # later ones are not read, after a prune, too
            episodes = episodes[:until]
        if beginning and run_id:
            episodes = [each for each in episodes if each.run_id != run_id]
            self._times = {each.episode_id: each.timestamp for each in stored if each.run_id == run_id}
        loops = self._put(episodes)
        for kind in self.kinds:
            kind.begin(wisdom, loops)
        if beginning and len(episodes) != beginning.episodes:
            _warn(
                f"the store lost records since the run started ({beginning.episodes:,} episodes then, "
                f"{len(episodes):,} of them now); the rest of the run recalls the remaining ones"
            )
        kept = self.curated.memory.items if self.curated else ()
        if beginning:
            return replace(beginning, items=kept)
        newest = episodes[-1].episode_id if episodes else ""
        return records.Beginning(episodes=len(episodes), newest_episode=newest, wisdom=wisdom, items=kept)

    def stored_items(self) -> tuple[records.Item, ...]:
        """The items of the store, of every method, without those that were removed. Raises StoreError."""
        return tuple(item for item in self.store.read(records.Item) if not is_removed(item))

    def owned(self, items: Iterable[records.Item]) -> tuple[records.Item, ...]:
        """Of the `items` of a store those of the curator's method, as within a run."""
        owner = self.curated.owner if self.curated else ""
        return tuple(replace(item, owner="") for item in items if item.owner == owner)

    def curate(
        self,
        number: int,
        loops: Sequence[tuple[records.Task, Sequence[records.Attempt]]],
        done: Sequence[records.Update] = (),
        log: Callable[[records.Update], None] = lambda update: None,
        is_stored: bool = False,
    ) -> list[records.Update]:
        """Let the curator learn from the loops of a round, in task order; `log` receives each new update.

        `is_stored`: the store has had the changes of this round, and perhaps later ones of other runs. Returns updates
        of the whole round, those `done` before included.
        """
        if self.curated is None:
            return []
        before = {item.item_id: item for item in self.curated.memory.items}
        updates = list(done)
        for update in self.curated.learn(number, [self.curated.finished(*loop) for loop in loops], done):
            log(update)
            updates.append(update)
        items = {item.item_id: item for item in self.curated.memory.items}
        owner = self.curated.owner
        removed = [records.Item(item_id=name, text="", owner=owner) for name in before.keys() - items.keys()]
        changed = [replace(item, owner=owner) for name, item in items.items() if item is not before.get(name)]
        if (changed or removed) and not is_stored:
            self._in_store(lambda: self.store.append([*changed, *removed]), "the run continues")
        return updates

    def absorb(self, episodes: Sequence[records.Episode]) -> None:
        """Add a round's episodes, in task order, and store them. A repetition does not change the store."""
        if not episodes:
            return
        dated = [replace(each, timestamp=self._times.get(each.episode_id, each.timestamp)) for each in episodes]
        loops = self._put(dated)
        changed = [record for kind in self.kinds for record in kind.learn(loops)]
        self.has_learnt = True
        self._in_store(lambda: self.store.append([*dated, *changed]), "the run continues")

    def close(self) -> None:
        """Recount wisdom if other runs wrote to the store, and close it; errors become warnings."""
        self._in_store(self._finish, "the run is complete")

    def _finish(self) -> None:
        try:
            if self.has_learnt and sum(1 for _ in self.store.read(records.Episode)) != self._taken:
                recount(self.store)
        finally:
            self.store.close()

    def _in_store(self, work: Callable[[], None], outcome: str) -> None:
        """Do `work` with the store; an error is a warning with the `outcome`."""
        try:
            work()
        except (StoreError, ValueError, OSError) as problem:
            _warn(f"{problem}; {outcome}; {self.hint}")

    def similar(
        self, task: records.Task, own: Sequence[records.Episode], k: int, min_score: float, outcome: Outcome = "any"
    ) -> list[records.Episode]:
        text, excess = query(task, own, self.match), 0 if self.same_task else len(self.buffer.by_task(task.task_id))
        n = k + excess if k > 0 else 0
        while True:
            nearest = self.buffer.relevant(text, n, min_score)
            others = (episode for episode in nearest if self.same_task or episode.task_id != task.task_id)
            chosen = [each for each in others if outcome in ("any", each.verdict)][:k]
            if len(chosen) >= k or len(nearest) < n:
                return chosen
            n *= WIDER

    def past(self, task: records.Task) -> list[records.Episode]:
        """Episodes of earlier runs and rounds on this task, oldest first; [] unless `same_task`."""
        return self.buffer.by_task(task.task_id) if self.same_task else []

    def lessons(self, task: records.Task, own: Sequence[records.Episode]) -> records.Recollection:
        except_task, budget = "" if self.same_task else task.task_id, float(self.shown.max_tokens)
        selected = fit = records.Recollection()
        for kind in self.kinds:
            entries = kind.select(task, own, getattr(self.shown, kind.name), except_task)
            inside, budget = fitting(entries, kind.text, budget)
            selected = replace(selected, **{kind.name: tuple(entries)})
            fit = replace(fit, **{kind.name: tuple(inside[:: records.RECALLED[kind.name]])})
        return replace(fit, left_out=tuple(sorted(selected.ids - fit.ids)))

    def selection(self, task: records.Task) -> records.Selection:
        return self.curated.selection(task) if self.curated else records.Selection()

    def _put(self, episodes: Iterable[records.Episode]) -> list[list[records.Episode]]:
        """Index `episodes`, oldest first; returns their loops, with which the adaptive Ω and the outcomes change."""
        stored = self.buffer.extend(episodes)
        self._taken += len(stored)
        loops = [list(loop) for _, loop in groupby(stored, key=lambda episode: episode.session_id)]
        for loop in loops:
            self.omega = adapted(self.omega, loop)
            # Reflected failures, and those fixed by the next attempt, by category; unknown verdicts are skipped.
            for failure, retry in pairwise(loop):
                if failure.reflection and not failure.passed and retry.has_verdict:
                    fixed, n = self.outcomes.get(failure.category, (0, 0))
                    self.outcomes[failure.category] = (fixed + retry.passed, n + 1)
        return loops


def run_ids_in(store: Store) -> set[str]:
    """Ids of the runs whose episodes are in the store."""
    return {episode.run_id for episode in store.read(records.Episode)}


def is_begun_with(store: Store, beginning: records.Beginning, owner: str) -> bool:
    """Whether the store holds the newest episode of `beginning`, or without episodes one of its items; with neither in
    `beginning`, whether it has no episodes, and no items of this `owner`.
    """
    ids = {episode.episode_id for episode in store.read(records.Episode)}
    if beginning.episodes:
        return beginning.newest_episode in ids
    items = {item.item_id for item in store.read(records.Item) if item.owner == owner}
    return any(item.item_id in items for item in beginning.items) if beginning.items else not ids and not items


def _warn(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=3)


class Rounds:
    """Rounds of `size` tasks, in order.

    `log`: receives each new update of the curator. `frozen`: ids of tasks from which memory learns nothing; they form
    a round of their own.
    """

    @validated
    def __init__(
        self,
        archive: Archive,
        size: Positive,
        run_id: str,
        agent_id: str,
        log: Callable[[records.Update], None] = lambda update: None,
        frozen: Collection[str] = (),
    ) -> None:
        self.archive = archive
        self.size = size
        self.run_id = run_id
        self.agent_id = agent_id
        self.log = log
        self._done: Sequence[records.Update] = ()
        self._is_over = False
        self._number = 0
        self.frozen = frozenset(frozen)
        self._episodes: dict[str, list[records.Episode]] = {}
        self._attempts: dict[str, Sequence[records.Attempt]] = {}

    def resume(self, done: Sequence[records.Update], is_over: bool) -> None:
        """Follow the updates of the curator that an interrupted run has logged. `is_over`: it had ended, so that its
        items are in the store, as far as nobody removed them.
        """
        self._done, self._is_over = done, is_over

    def of(self, tasks: Sequence[records.Task]) -> list[Sequence[records.Task]]:
        """The tasks of each round."""
        parts = [(is_frozen, list(part)) for is_frozen, part in groupby(tasks, key=self._is_frozen)]
        sizes = [(part, len(part) if is_frozen else self.size) for is_frozen, part in parts]
        return [part[start : start + size] for part, size in sizes for start in range(0, len(part), size)]

    def _is_frozen(self, task: records.Task) -> bool:
        return task.loop_id in self.frozen

    def finished(self, task: records.Task, attempts: Sequence[records.Attempt]) -> None:
        """Keep a task's attempts, and episodes made of them as in its loop, until its round ends. Thread-safe."""
        if self._is_frozen(task):
            return
        if self.archive.keeps_episodes:
            name = session_id(self.run_id, task.loop_id)
            self._episodes[task.loop_id] = [episode_of(task, attempt, name, self.agent_id) for attempt in attempts]
        if self.archive.curated:
            self._attempts[task.loop_id] = tuple(attempts)

    def end(self, tasks: Sequence[records.Task]) -> None:
        """Add the round's attempts to shared memory, in task order."""
        if self._is_frozen(tasks[0]):
            return
        loops = [(task, self._attempts.pop(task.loop_id, ())) for task in tasks]
        self.archive.absorb([episode for task in tasks for episode in self._episodes.pop(task.loop_id, ())])
        done = [update for update in self._done if update.round == self._number]
        # A kill may have come between the log and the store, but in the last logged round alone.
        is_stored = self._is_over or self._number < max((update.round for update in self._done), default=0)
        self.archive.curate(self._number, loops, done, self.log, is_stored)
        self._number += 1
