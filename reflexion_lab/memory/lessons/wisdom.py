"""Wisdom: recurring root causes with advice, usage counts and success rates."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from reflexion_lab.errors import ConfigError
from reflexion_lab.limits import Positive, Share, validated
from reflexion_lab.memory.lessons.lessons import Lessons
from reflexion_lab.memory.retrieval.controls import Recency
from reflexion_lab.memory.retrieval.documents import Documents
from reflexion_lab.memory.retrieval.texts import QUOTED, failure_query
from reflexion_lab.memory.retrieval.trace import note_search
from reflexion_lab.protocols import Retriever, Store, Stored
from reflexion_lab.records import Episode, Task, Wisdom
from reflexion_lab.text.replies.tokens import WORD, tokens

USAGE = ("use_count", "success_rate", "last_used_at")
HISTORY = (*USAGE, "created_at")


class WisdomBook(Lessons[Wisdom]):
    """Wisdom by id, searched with a retriever.

    `retriever`: empty, for this book alone. `retire_after`, `retire_below`: an entry is retired after this many uses if
    its success rate is below the threshold, in [0, 1]; 0: never. `min_score`: of entries that `select` chooses.
    """

    name = "wisdom"

    @validated
    def __init__(
        self, retriever: Retriever, retire_after: Positive = 5, retire_below: Share = 0.2, min_score: Share = 0.0
    ) -> None:
        self.retire_after = retire_after
        self.retire_below = retire_below
        self.min_score = min_score
        self._known: dict[str, Wisdom] = {}
        self._documents: Documents[str] = Documents(retriever)
        self._causes = RecurringCauses()

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[Wisdom]:
        """All entries, retired ones included, in order of arrival."""
        return iter(self._known.values())

    def __contains__(self, wisdom_id: object) -> bool:
        return wisdom_id in self._known

    def __getitem__(self, wisdom_id: str) -> Wisdom:
        """Raises ConfigError for an unknown id."""
        if wisdom_id in self._known:
            return self._known[wisdom_id]
        hint = "`reflexion-lab wisdom list` prints them"
        raise ConfigError("wisdom", repr(wisdom_id), f"one of {len(self)} ids", hint)

    def begin(self, stored: Sequence[Wisdom], loops: Sequence[Sequence[Episode]]) -> None:
        """Uses are counted from the loops; a higher stored count is kept, since episodes may have been pruned."""
        for entry in stored:
            self.upsert(replace(entry, use_count=0, success_rate=0.0))
        self.learn(loops)
        for entry in stored:
            if entry.use_count > (known := self[entry.wisdom_id]).use_count:
                self._known[entry.wisdom_id] = with_fields_of(entry, known, USAGE)

    def learn(self, loops: Sequence[Sequence[Episode]]) -> list[Stored]:
        """Uses are counted from episodes, too, so loading a round again counts nothing twice."""
        episodes = [*chain.from_iterable(loops)]
        changed = {entry.wisdom_id: self.upsert(entry) for entry in self._causes.add(episodes)}
        for episode in episodes:
            for name in wisdom_used(episode):
                if name in self:
                    changed[name] = self.record_usage(name, episode.passed, episode.timestamp)
        return [self[name] for name in changed]

    def select(self, task: Task, own: Sequence[Episode], limit: int, except_task: str) -> Sequence[Wisdom]:
        """Each entry as extracted from the other tasks; without those that they alone do not yield."""

        def view(entry: Wisdom) -> Wisdom | None:
            others = self._causes.without(entry, except_task) if except_task else entry
            return others and with_fields_of(entry, others, HISTORY)

        return self.relevant(failure_query(task, own), limit, self.min_score, view=view)

    def text(self, entry: Wisdom) -> str:
        return entry.pattern[:300] + entry.advice[:300]

    def upsert(self, wisdom: Wisdom) -> Wisdom:
        """Insert or update an entry; returns it. A known one keeps its usage and creation time."""
        if known := self._known.get(wisdom.wisdom_id):
            wisdom = with_fields_of(known, wisdom, HISTORY)
        self._documents.put({wisdom.wisdom_id: wisdom_document(wisdom)})
        self._known[wisdom.wisdom_id] = wisdom
        return wisdom

    def relevant(
        self,
        text: str,
        k: int,
        min_score: float = 0.0,
        *,
        view: Callable[[Wisdom], Wisdom | None] = lambda wisdom: wisdom,
    ) -> list[Wisdom]:
        """At most `k` entries that are not retired, best first, each as returned by `view`; None excludes it.

        Ranked by retriever score (at least `min_score`) times `trust`, then impact, then the newer first.
        """
        depth, last = 2 * k, 0.0
        while depth > 0 and text.strip():
            scores = self._documents.rank(text, depth)
            views: dict[str, Wisdom] = {}
            weighted: list[tuple[float, float, int, str]] = []
            for name, last in scores.items():
                entry = self._known[name]
                if last >= min_score and not self.is_retired(entry) and (viewed := view(entry)):
                    views[name] = viewed
                    weighted.append((last * trust(entry), viewed.impact, self._documents.numbers[name], name))
            best = sorted(weighted, reverse=True)[:k]
            # Trust is at most 1, so no further entry can outweigh the last score.
            is_settled = len(best) == k and best[-1][0] > last
            if is_settled or len(scores) < depth or last < min_score:
                note_search(self._documents.retriever, text, scores, views)
                return [views[name] for *_, name in best]
            depth *= 4
        return []

    def record_usage(self, wisdom_id: str, success: bool, at: float) -> Wisdom:
        """Count a use by an attempt that passed its feedback tests or not, at `at` (seconds since the epoch); returns
        the updated entry. Raises ConfigError for an unknown id.
        """
        known = self[wisdom_id]
        uses = known.use_count + 1
        rate, latest = (_successes(known) + success) / uses, max(at, known.last_used_at)
        self._known[wisdom_id] = replace(known, use_count=uses, success_rate=rate, last_used_at=latest)
        return self._known[wisdom_id]

    def is_retired(self, wisdom: Wisdom) -> bool:
        return wisdom.use_count >= self.retire_after and wisdom.success_rate < self.retire_below


def with_fields_of(source: Wisdom, wisdom: Wisdom, fields: Iterable[str]) -> Wisdom:
    return replace(wisdom, **{field: getattr(source, field) for field in fields})


def wisdom_document(wisdom: Wisdom) -> str:
    """Retrieval document: the distinct words of pattern, tags and domain."""
    return " ".join(dict.fromkeys(tokens(" ".join((wisdom.pattern, *wisdom.tags, wisdom.domain)))))


def trust(wisdom: Wisdom) -> float:
    """Smoothed success rate (successes + 1) / (uses + 1), in (0, 1]; 1 before the first use."""
    return (_successes(wisdom) + 1) / (wisdom.use_count + 1)


def _successes(wisdom: Wisdom) -> int:
    # Whole counts keep the rate exact over any number of updates.
    return round(wisdom.success_rate * wisdom.use_count)


class Recount(NamedTuple):
    episodes: int
    wisdom: int
    new: int
    """Entries that were not in the store."""
    changed: int


def recount(store: Store) -> Recount:
    """Extract the wisdom of all stored episodes into `store`. Idempotent. Raises StoreError.

    Concurrent runs know their own episodes only and overwrite each other's entries. Each run recounts at its end, and
    repeats the recount if episodes were added meanwhile, so the last writer has counted all of them.
    """
    first = before = _by_id(store)
    while True:
        episodes, book = [*store.read(Episode)], WisdomBook(Recency())
        book.begin([*before.values()], [episodes])
        if changed := [entry for entry in book if entry != before.get(entry.wisdom_id)]:
            store.append(changed)
        if not changed or sum(1 for _ in store.read(Episode)) == len(episodes):
            new = sum(entry.wisdom_id not in first for entry in book)
            different = sum(entry != first.get(entry.wisdom_id) for entry in book)
            return Recount(len(episodes), len(book), new, different - new)
        before = _by_id(store)


def _by_id(store: Store) -> dict[str, Wisdom]:
    return {entry.wisdom_id: entry for entry in store.read(Wisdom)}


def wisdom_used(episode: Episode) -> list[str]:
    """Ids of the wisdom in the actor's prompt; [] for an unknown verdict."""
    return episode.metadata.get("wisdom", "").split() if episode.has_verdict else []


SOURCES = 1000
"""Maximum episodes (the newest) and tasks (the first) in an entry; a cause may recur a million times."""

DOMAINS = {
    "code": "def class func",
    "testing": "test tests testing assert asserts assertion assertionerror mock fixture coverage flaky",
    "architecture": "architecture interface module component coupling dependency inheritance abstraction refactor",
    "concurrency": "concurrency mutex deadlock race thread threads threading lock async await asyncio semaphore",
    "performance": "performance timeout time slow latency memory memoryerror recursion recursionerror complexity cache",
}
"""Keywords by domain; the earlier domain wins a tie."""

_WORDS = {domain: frozenset(words.split()) for domain, words in DOMAINS.items()}
_NUMBER = re.compile(r"(?<![\w.])[-+]?\.?\d(?:[\w.,]*\w)?")


def normalised(cause: str) -> str:
    """`cause` without details of the task: case, numbers, quoted names, spaces, last punctuation; "" without a word."""
    folded = _NUMBER.sub("<number>", QUOTED.sub("<name>", cause.casefold()))
    return " ".join(folded.split()).rstrip(" .,;:!?…") if WORD.search(cause) else ""


def wisdom_of(episodes: Iterable[Episode]) -> list[Wisdom]:
    """Root causes of at least two failed episodes, ordered by their first ones; `episodes` are oldest first."""
    whole = RecurringCauses()
    whole.add(episodes)
    return whole.wisdom


class RecurringCauses:
    """`wisdom_of` of episodes that come in portions."""

    def __init__(self) -> None:
        self._groups: dict[str, list[_Failure]] = {}
        """By the id of the wisdom that two of them make."""
        self._seen: set[str] = set()

    @property
    def wisdom(self) -> list[Wisdom]:
        """As `wisdom_of` of all episodes so far."""
        return [_wisdom(wisdom_id, group) for wisdom_id, group in self._groups.items() if len(group) > 1]

    def add(self, episodes: Iterable[Episode]) -> list[Wisdom]:
        """Wisdom that these episodes create or change. Known episode ids are skipped."""
        changed: dict[str, None] = {}
        for episode in episodes:
            reflection = episode.reflection
            cause = normalised(reflection.root_cause) if reflection and not episode.passed else ""
            name = episode.episode_id or f"ep-{_digest(msgspec.json.encode(episode))}"
            if reflection and cause and name not in self._seen:
                self._seen.add(name)
                wisdom_id = f"wis-{_digest(cause.encode())}"
                changed[wisdom_id] = None
                self._groups.setdefault(wisdom_id, []).append(
                    _Failure(
                        name, episode.task_id, episode.session_id, " ".join(reflection.root_cause.split()),
                        reflection.what_to_change.strip(), reflection.confidence, episode.confidence,
                        episode.timestamp, _domains(episode),
                    )
                )  # fmt: skip
        return [_wisdom(name, group) for name in changed if len(group := self._groups[name]) > 1]

    def without(self, entry: Wisdom, task_id: str) -> Wisdom | None:
        """`entry` without the episodes of one task; None if fewer than two remain, or if its episodes are unknown and
        may be the task's: a full list of tasks lacks later ones.
        """
        group = self._groups.get(entry.wisdom_id, [])
        if len(group) < 2:
            return None if task_id in entry.tasks or len(entry.tasks) == SOURCES else entry
        others = [failure for failure in group if failure.task_id != task_id]
        if len(others) == len(group):
            return entry
        return _wisdom(entry.wisdom_id, others) if len(others) > 1 else None


class _Failure(NamedTuple):
    """Of a failed episode, what wisdom is made of."""

    episode_id: str
    task_id: str
    session_id: str
    cause: str
    advice: str
    sureness: float
    """Confidence of the reflection, and so of the advice."""
    confidence: float
    timestamp: float
    domains: tuple[int, ...]
    """Distinct keywords of each domain in the program and the error signature."""


def _domains(episode: Episode) -> tuple[int, ...]:
    words = set(WORD.findall(f"{episode.code}\n{episode.failure_analysis}".casefold()))
    return tuple(len(keywords & words) for keywords in _WORDS.values())


def _wisdom(wisdom_id: str, group: list[_Failure]) -> Wisdom:
    """The entry of two or more failures with one root cause."""
    gains: list[float] = []
    last: dict[str, float] = {}
    for failure in group:
        if failure.session_id in last:
            gains.append(max(0.0, failure.confidence - last[failure.session_id]))
        if failure.session_id:
            last[failure.session_id] = failure.confidence
    domains = dict(zip(DOMAINS, map(sum, zip(*(failure.domains for failure in group), strict=True)), strict=True))
    advised = [failure for failure in group if failure.advice]
    return Wisdom(
        wisdom_id=wisdom_id,
        pattern=group[0].cause,
        frequency=len(group),
        impact=min(1.0, sum(gains) / len(gains)) if gains else 0.0,
        domain=max(DOMAINS, key=domains.__getitem__),
        tags=tuple(dict.fromkeys(tokens(group[0].cause, 3))),
        advice=max(advised, key=lambda failure: failure.sureness).advice if advised else "",
        sources=tuple(failure.episode_id for failure in group[-SOURCES:]),
        tasks=tuple(islice(dict.fromkeys(failure.task_id for failure in group), SOURCES)),
        created_at=group[1].timestamp,
    )


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]
