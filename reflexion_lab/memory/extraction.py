"""Wisdom extraction: recurring causes of failure, one entry per normalised root cause."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, deque
from collections.abc import Iterable
from itertools import islice

import msgspec
from msgspec.structs import replace

from reflexion_lab.memory.texts import QUOTED
from reflexion_lab.records import Episode, Reflection, Wisdom
from reflexion_lab.text.replies.tokens import WORD, tokens

SOURCES = 1000
"""Episodes that a wisdom names, the newest, and tasks, the first; a cause may come back a million times."""

DOMAINS = {
    "code": "def class func",
    "testing": "test tests testing assert asserts assertion assertionerror mock fixture coverage flaky",
    "architecture": "architecture interface module component coupling dependency inheritance abstraction refactor",
    "concurrency": "concurrency mutex deadlock race thread threads threading lock async await asyncio semaphore",
    "performance": "performance timeout time slow latency memory memoryerror recursion recursionerror complexity cache",
}
"""Whole words that count for a domain; the earlier domain wins a tie."""

_WORDS = {domain: frozenset(words.split()) for domain, words in DOMAINS.items()}
_NUMBER = re.compile(r"(?<![\w.])[-+]?\.?\d(?:[\w.,]*\w)?")


def normalised(cause: str) -> str:
    """`cause` without what tells one task's failure from another's: case, numbers, quoted names, white space and the
    punctuation at its end. "" for a cause that holds no word.
    """
    folded = _NUMBER.sub("<number>", QUOTED.sub("<name>", cause.casefold()))
    return " ".join(folded.split()).rstrip(" .,;:!?…") if WORD.search(cause) else ""


def extract(episodes: Iterable[Episode]) -> list[Wisdom]:
    """The causes that at least two failed episodes share, in the order of their first episodes.

    `episodes` are oldest first. The same episodes give the same wisdom.
    """
    whole = Extraction()
    whole.add(episodes)
    return whole.wisdom


class Extraction:
    """Incremental extraction, oldest episodes first. The cost of `add` depends on the new episodes only."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}
        self._shared: dict[str, _Group] = {}
        """By the ids of their wisdom."""
        self._seen: set[str] = set()

    @property
    def wisdom(self) -> list[Wisdom]:
        """The result of `extract` for all episodes so far."""
        return [group.wisdom for group in self._groups.values() if group.is_shared]

    def add(self, episodes: Iterable[Episode]) -> list[Wisdom]:
        """The wisdom that these episodes create or change. An episode whose id is known changes nothing."""
        changed: dict[str, _Group] = {}
        for episode in episodes:
            reflection = episode.reflection
            cause = normalised(reflection.root_cause) if reflection and not episode.passed else ""
            if reflection and cause and (name := _id(episode)) not in self._seen:
                self._seen.add(name)
                group = changed[cause] = self._groups.setdefault(cause, _Group(cause, reflection))
                group.add(name, episode, reflection)
        shared = [(group, group.wisdom) for group in changed.values() if group.is_shared]
        self._shared.update((wisdom.wisdom_id, group) for group, wisdom in shared)
        return [wisdom for _, wisdom in shared]

    def without(self, wisdom_id: str, task_id: str) -> Wisdom | None:
        """A wisdom without the episodes of one task; None where the others do not share a cause,
        or no episode so far gave this wisdom.
        """
        group = self._shared.get(wisdom_id)
        return group.without(task_id) if group else None


class _Group:
    """Episodes that share a cause, as sums that a further episode adds to."""

    def __init__(self, cause: str, first: Reflection) -> None:
        self.cause = cause
        self.pattern = " ".join(first.root_cause.split())
        self.frequency = 0
        self.sources: deque[str] = deque(maxlen=SOURCES)
        self.tasks: dict[str, _Share] = {}
        self.domains: Counter[str] = Counter()
        self.best: Reflection | None = None
        self.confidence: dict[str, float] = {}
        self.gains = 0.0
        self.pairs = 0
        self.since = 0.0

    def add(self, name: str, episode: Episode, reflection: Reflection) -> None:
        self.frequency += 1
        self.sources.append(name)
        count, first, best = self.tasks.get(episode.task_id, (0, reflection, None))
        self.tasks[episode.task_id] = count + 1, first, _better(best, reflection)
        self.domains.update(_signals(episode))
        self.best = _better(self.best, reflection)
        if self.frequency == 2:  # before that it was no wisdom
            self.since = episode.timestamp
        if not episode.session_id:
            return
        if (before := self.confidence.get(episode.session_id)) is not None:
            self.gains += max(0.0, episode.confidence - before)
            self.pairs += 1
        self.confidence[episode.session_id] = episode.confidence

    @property
    def is_shared(self) -> bool:
        return self.frequency >= 2

    @property
    def wisdom(self) -> Wisdom:
        return Wisdom(
            wisdom_id=f"wis-{_digest(self.cause.encode())}",
            pattern=self.pattern,
            frequency=self.frequency,
            impact=min(1.0, self.gains / self.pairs) if self.pairs else 0.0,
            domain=max(DOMAINS, key=lambda domain: self.domains[domain]),
            tags=_tags(self.pattern),
            advice=self.best.what_to_change.strip() if self.best else "",
            sources=tuple(self.sources),
            tasks=tuple(islice(self.tasks, SOURCES)),
            created_at=self.since,
        )

    def without(self, task_id: str) -> Wisdom | None:
        others = {name: share for name, share in self.tasks.items() if name != task_id}
        frequency = sum(count for count, _, _ in others.values())
        if frequency < 2:
            return None
        pattern, best = "", None
        for _, first, of_task in others.values():
            pattern = pattern or " ".join(first.root_cause.split())
            best = _better(best, of_task) if of_task else best
        return replace(
            self.wisdom,
            pattern=pattern,
            frequency=frequency,
            tags=_tags(pattern),
            advice=best.what_to_change.strip() if best else "",
            tasks=tuple(islice(others, SOURCES)),
        )


_Share = tuple[int, Reflection, Reflection | None]
"""Of one task's episodes: how many, what the first says, and the best advice."""


def _better(best: Reflection | None, other: Reflection) -> Reflection | None:
    """The most confident reflection that proposes a change; the earlier one on a tie."""
    if other.what_to_change.strip() and (not best or other.confidence > best.confidence):
        return other
    return best


def _tags(pattern: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(tokens(pattern, 3)))


def _signals(episode: Episode) -> dict[str, int]:
    """By domain, how many of its words the program and the error signature hold, each counted once."""
    words = set(WORD.findall(f"{episode.code}\n{episode.failure_analysis}".casefold()))
    return {domain: len(known & words) for domain, known in _WORDS.items()}


def _id(episode: Episode) -> str:
    return episode.episode_id or f"ep-{_digest(msgspec.json.encode(episode))}"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]
