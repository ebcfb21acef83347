"""Wisdom: recurring root causes with advice, usage counts and success rates."""

from __future__ import annotations

import hashlib
import re
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from reflexion_lab.errors import ConfigError
from reflexion_lab.limits import Positive, Share, validated
from reflexion_lab.memory.retrieval.texts import QUOTED
from reflexion_lab.memory.retrieval.trace import note
from reflexion_lab.protocols import Retriever, Store
from reflexion_lab.records import UNKNOWN, Episode, Record, Reflection, Wisdom
from reflexion_lab.storage.in_memory import Packed
from reflexion_lab.text.replies.tokens import WORD, tokens

USAGE = ("use_count", "success_rate", "last_used_at")
HISTORY = (*USAGE, "created_at")


class WisdomBook:
    """Wisdom by id, searched with a retriever. Thread-safe.

    `retriever`: empty, for this book alone. `retire_after`, `retire_below`: an entry is retired after this many uses if
    its success rate is below the threshold, in [0, 1]; 0: never.
    """

    @validated
    def __init__(self, retriever: Retriever, retire_after: Positive = 5, retire_below: Share = 0.2) -> None:
        self.retire_after = retire_after
        self.retire_below = retire_below
        self._retriever = retriever
        self._known: dict[str, Wisdom] = {}
        self._numbers: dict[str, int] = {}
        self._documents: list[str] = []
        """Ids by document number. An entry whose text changed has several numbers; `_numbers` has the current one."""
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[Wisdom]:
        """All entries, retired ones included, in order of arrival."""
        with self._lock:
            return iter(list(self._known.values()))

    def __contains__(self, wisdom_id: object) -> bool:
        return wisdom_id in self._known

    def __getitem__(self, wisdom_id: str) -> Wisdom:
        """Raises ConfigError for an unknown id."""
        with self._lock:
            if wisdom_id in self._known:
                return self._known[wisdom_id]
            hint = "`reflexion-lab wisdom list` prints them"
            raise ConfigError("wisdom", repr(wisdom_id), f"one of {len(self)} ids", hint)

    def upsert(self, wisdom: Wisdom) -> Wisdom:
        """Insert or update an entry; returns it. A known one keeps its usage and creation time."""
        with self._lock:
            if known := self._known.get(wisdom.wisdom_id):
                wisdom = with_fields_of(known, wisdom, HISTORY)
            if known is None or document(known) != document(wisdom):
                self._retriever.add([document(wisdom)])
                self._numbers[wisdom.wisdom_id] = len(self._documents)
                self._documents.append(wisdom.wisdom_id)
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
        depth = 2 * k
        while depth > 0 and text.strip():
            with self._lock:
                hits = self._retriever.rank(text, depth)
                views: dict[int, Wisdom] = {}
                weighted: list[tuple[float, float, int]] = []
                for number, score in hits:
                    entry = self._known[self._documents[number]]
                    is_current = self._numbers[entry.wisdom_id] == number
                    if is_current and score >= min_score and not self.is_retired(entry) and (viewed := view(entry)):
                        views[number] = viewed
                        weighted.append((score * trust(entry), viewed.impact, number))
            best = sorted(weighted, reverse=True)[:k]
            # Trust is at most 1, so no further entry can outweigh the last hit's score.
            is_settled = len(best) == k and best[-1][0] > hits[-1].score
            if is_settled or len(hits) < depth or hits[-1].score < min_score:
                note(self._retriever, text, hits, views)
                return [views[number] for _, _, number in best]
            depth *= 4
        return []

    def record_usage(self, wisdom_id: str, success: bool, at: float) -> Wisdom:
        """Count a use by an attempt that passed its feedback tests or not, at `at` (seconds since the epoch); returns
        the updated entry. Raises ConfigError for an unknown id.
        """
        with self._lock:
            known = self[wisdom_id]
            uses = known.use_count + 1
            rate, latest = (_successes(known) + success) / uses, max(at, known.last_used_at)
            used = replace(known, use_count=uses, success_rate=rate, last_used_at=latest)
            self._known[wisdom_id] = used
            return used

    def remember_usage(self, wisdom: Wisdom) -> None:
        """Adopt an entry's usage if higher: its episodes may be pruned. Raises ConfigError: an unknown id."""
        with self._lock:
            if wisdom.use_count > (known := self[wisdom.wisdom_id]).use_count:
                self._known[wisdom.wisdom_id] = with_fields_of(wisdom, known, USAGE)

    def is_retired(self, wisdom: Wisdom) -> bool:
        return wisdom.use_count >= self.retire_after and wisdom.success_rate < self.retire_below


def with_fields_of(source: Wisdom, wisdom: Wisdom, fields: Iterable[str]) -> Wisdom:
    """`wisdom` with the `fields` of `source`."""
    return replace(wisdom, **{field: getattr(source, field) for field in fields})


def document(wisdom: Wisdom) -> str:
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
    uses, extracted = _counted(store)
    first = before = _by_id(store)
    while True:
        stored = (with_fields_of(before.get(entry.wisdom_id, entry), entry, HISTORY) for entry in extracted)
        wisdom = [uses.with_uses(entry) for entry in stored]
        if changed := [entry for entry in wisdom if entry != before.get(entry.wisdom_id)]:
            store.append(changed)
        episodes = uses.episodes
        if not changed or sum(1 for _ in store.read(Episode)) == episodes:
            new = sum(entry.wisdom_id not in first for entry in wisdom)
            different = sum(entry != first.get(entry.wisdom_id) for entry in wisdom)
            return Recount(episodes, len(wisdom), new, different - new)
        uses, extracted = _counted(store)
        before = _by_id(store)


def _by_id(store: Store) -> dict[str, Wisdom]:
    return {entry.wisdom_id: entry for entry in store.read(Wisdom)}


class _Uses:
    """Usage counts of wisdom."""

    def __init__(self) -> None:
        self.episodes = 0
        self.count: Counter[str] = Counter()
        self.passed: Counter[str] = Counter()
        self.latest: dict[str, float] = {}

    def counted(self, episodes: Iterable[Episode]) -> Iterator[Episode]:
        for episode in episodes:
            self.episodes += 1
            for name in wisdom_used(episode):
                self.count[name] += 1
                self.passed[name] += episode.passed
                self.latest[name] = max(episode.timestamp, self.latest.get(name, 0.0))
            yield episode

    def with_uses(self, wisdom: Wisdom) -> Wisdom:
        """The entry with its usage; a higher stored count is kept, since episodes may have been pruned."""
        name, count = wisdom.wisdom_id, self.count[wisdom.wisdom_id]
        if count <= wisdom.use_count:
            return wisdom
        return replace(wisdom, use_count=count, success_rate=self.passed[name] / count, last_used_at=self.latest[name])


def wisdom_used(episode: Episode) -> list[str]:
    """Ids of the wisdom in the actor's prompt; [] for an unknown verdict."""
    return [] if episode.metadata.get("outcome") in UNKNOWN else episode.metadata.get("wisdom", "").split()


def _counted(store: Store) -> tuple[_Uses, list[Wisdom]]:
    uses = _Uses()
    return uses, extract(uses.counted(store.read(Episode)))


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


def extract(episodes: Iterable[Episode]) -> list[Wisdom]:
    """Root causes of at least two failed episodes, ordered by their first ones; `episodes` are oldest first."""
    whole = Extraction()
    whole.add(episodes)
    return whole.wisdom


class Extraction:
    """Incremental `extract`. The cost of `add` depends on the new episodes only, and so does its memory: causes that
    occurred once are kept compressed.
    """

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}
        """By wisdom id."""
        self._once: Packed[str, _First] = Packed(_First)
        """By the wisdom id that a second episode would make."""
        self._seen: set[str] = set()

    @property
    def wisdom(self) -> list[Wisdom]:
        """As `extract` of all episodes so far."""
        return [group.wisdom for group in sorted(self._groups.values(), key=lambda group: group.number)]

    def add(self, episodes: Iterable[Episode]) -> list[Wisdom]:
        """Wisdom that these episodes create or change. Known episode ids are skipped."""
        changed: dict[str, None] = {}
        for episode in episodes:
            reflection = episode.reflection
            cause = normalised(reflection.root_cause) if reflection and not episode.passed else ""
            if cause and (name := _id(episode)) not in self._seen:
                self._seen.add(name)
                wisdom_id = f"wis-{_digest(cause.encode())}"
                changed[wisdom_id] = None
                if wisdom_id not in self._groups and wisdom_id not in self._once:
                    self._once[wisdom_id] = _First(number=len(self._seen), name=name, episode=episode)
                    continue
                if first := self._once.pop(wisdom_id, None):
                    self._groups[wisdom_id] = _Group(wisdom_id, first)
                self._groups[wisdom_id].add(name, episode)
        return [self._groups[wisdom_id].wisdom for wisdom_id in changed if wisdom_id in self._groups]

    def without(self, entry: Wisdom, task_id: str) -> Wisdom | None:
        """`entry` without the episodes of one task; None if fewer than two remain, or if its episodes are unknown and
        may be the task's: a full list of tasks lacks later ones.
        """
        if group := self._groups.get(entry.wisdom_id):
            return group.without(task_id) if task_id in group.parts else entry
        return None if task_id in entry.tasks or len(entry.tasks) == SOURCES else entry


class _First(Record, frozen=True, kw_only=True):
    """The first episode with a root cause."""

    number: int
    """In the order of arrival."""
    name: str
    episode: Episode


class _Advice(NamedTuple):
    """The best advice of one task: the most confident, of the earliest task on a tie."""

    confidence: float
    minus_order: int
    text: str


@dataclass
class _Part:
    """Of a group, what one task adds to its sums."""

    order: int
    """The task's place among the tasks."""
    episodes: int = 0
    gains: float = 0.0
    pairs: int = 0


class _Group:
    """Running sums over the episodes with one root cause, two or more."""

    def __init__(self, wisdom_id: str, first: _First) -> None:
        self.wisdom_id = wisdom_id
        self.number = first.number
        self.frequency = 0
        self.sources: deque[str] = deque(maxlen=SOURCES)
        self.parts: dict[str, _Part] = {}
        """By task, in their order."""
        self.patterns: list[str] = []
        """First wordings of the first two tasks: of all tasks, and of all but the first."""
        self.domains: Counter[str] = Counter()
        self.best: tuple[float, str] | None = None
        """Confidence and text of the best advice, the earlier one on a tie."""
        self.best_by_task: dict[str, _Advice] = {}
        """Best advice of the two best tasks; any other task takes the better of both."""
        self.confidence: dict[str, float] = {}
        self.gains = 0.0
        self.pairs = 0
        self.since = 0.0
        self.add(first.name, first.episode)

    def add(self, name: str, episode: Episode) -> None:
        self.frequency += 1
        self.sources.append(name)
        part = self.parts.setdefault(episode.task_id, _Part(len(self.parts)))
        part.episodes += 1
        if reflection := episode.reflection:
            if part.episodes == 1 and part.order < 2:
                self.patterns.append(" ".join(reflection.root_cause.split()))
            self._advise(episode.task_id, part.order, reflection)
        # The number of distinct keywords of each domain in the program and the error signature.
        words = set(WORD.findall(f"{episode.code}\n{episode.failure_analysis}".casefold()))
        self.domains.update({domain: len(known & words) for domain, known in _WORDS.items()})
        if self.frequency == 2:  # now it is wisdom
            self.since = episode.timestamp
        if not episode.session_id:
            return
        if (before := self.confidence.get(episode.session_id)) is not None:
            gain = max(0.0, episode.confidence - before)
            self.gains, self.pairs = self.gains + gain, self.pairs + 1
            part.gains, part.pairs = part.gains + gain, part.pairs + 1
        self.confidence[episode.session_id] = episode.confidence

    def _advise(self, task_id: str, order: int, reflection: Reflection) -> None:
        if not (text := reflection.what_to_change.strip()):
            return
        if not self.best or reflection.confidence > self.best[0]:
            self.best = reflection.confidence, text
        known = self.best_by_task.get(task_id)
        if not known or reflection.confidence > known.confidence:
            advice = self.best_by_task | {task_id: _Advice(reflection.confidence, -order, text)}
            self.best_by_task = dict(sorted(advice.items(), key=lambda item: item[1][:2], reverse=True)[:2])

    @property
    def wisdom(self) -> Wisdom:
        return Wisdom(
            wisdom_id=self.wisdom_id,
            pattern=self.patterns[0],
            frequency=self.frequency,
            impact=_mean(self.gains, self.pairs),
            domain=max(DOMAINS, key=lambda domain: self.domains[domain]),
            tags=_tags(self.patterns[0]),
            advice=self.best[1] if self.best else "",
            sources=tuple(self.sources),
            tasks=tuple(islice(self.parts, SOURCES)),
            created_at=self.since,
        )

    def without(self, task_id: str) -> Wisdom | None:
        part = self.parts.get(task_id, _Part(-1))
        if self.frequency - part.episodes < 2:
            return None
        pattern = self.patterns[1 if part.order == 0 else 0]
        return replace(
            self.wisdom,
            pattern=pattern,
            frequency=self.frequency - part.episodes,
            impact=_mean(self.gains - part.gains, self.pairs - part.pairs),
            tags=_tags(pattern),
            advice=next((advice.text for name, advice in self.best_by_task.items() if name != task_id), ""),
            tasks=tuple(islice((name for name in self.parts if name != task_id), SOURCES)),
        )


def _mean(gains: float, pairs: int) -> float:
    return min(1.0, max(0.0, gains / pairs)) if pairs else 0.0


def _tags(pattern: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(tokens(pattern, 3)))


def _id(episode: Episode) -> str:
    return episode.episode_id or f"ep-{_digest(msgspec.json.encode(episode))}"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]
