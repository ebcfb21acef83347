"""Key insights: short lessons of reflections, and patterns among them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain

from reflexion_lab.memory.lessons.lessons import Lessons
from reflexion_lab.protocols import Stored
from reflexion_lab.records import Episode, Record, Reflection, Task

MOST = 20
"""Maximum insights; the oldest is dropped."""
_OPENING = re.compile(r"in (?:my function|this function|similar tasks) i will |i will |my mistake is that ")
"""Sentence openings that the lab's own prompts and rules produce."""


class Insights(Lessons[str]):
    """The newest insights of all tasks, readable without those of one task.

    At most `MOST` come from one task, and an insight from at most two tasks, so the newest 60 contain 20 distinct
    ones without any one task.
    """

    name = "insights"

    def __init__(self) -> None:
        self._entries: list[tuple[str, str, str]] = []
        """Task, key and text, oldest first."""

    def learn(self, loops: Sequence[Sequence[Episode]]) -> list[Stored]:
        for episode in chain.from_iterable(loops):
            if episode.reflection:
                self.add(episode.task_id, insight_of(episode.reflection))
        return []

    def select(self, task: Task, own: Sequence[Episode], limit: int, except_task: str) -> Sequence[str]:
        """The newest first, the loop's own included."""
        insights = self.newest(except_task)
        for reflection in filter(None, (episode.reflection for episode in own)):
            insights = with_insight(insights, insight_of(reflection))
        return insights[::-1][:limit]

    def text(self, entry: str) -> str:
        return entry[:300]

    def add(self, task_id: str, text: str) -> None:
        """Add `text`, unless it is empty, or this task or two others have it already."""
        key = _key(text)
        sources = [task for task, known, _ in self._entries if known == key]
        if not says_something(text) or task_id in sources or len(sources) == 2:
            return
        own = [place for place, (task, _, _) in enumerate(self._entries) if task == task_id]
        if len(own) == MOST:
            del self._entries[own[0]]
        self._entries = [*self._entries, (task_id, key, " ".join(text.split()))][-3 * MOST :]

    def newest(self, except_task: str = "") -> tuple[str, ...]:
        """At most `MOST` distinct insights, oldest first, without those of the task `except_task`; "": of all."""
        texts: dict[str, str] = {}
        for task, key, text in self._entries:
            if not except_task or task != except_task:
                texts.setdefault(key, text)
        return tuple(texts.values())[-MOST:]


def with_insight(insights: Sequence[str], text: str) -> tuple[str, ...]:
    """`insights`, oldest first, with `text` appended unless it is empty or repeats one of them.

    Comparison ignores case, white space, final punctuation and the openings that the lab's own prompts produce.
    """
    new = " ".join(text.split())
    if not says_something(new) or any(_key(new) == _key(known) for known in insights):
        return tuple(insights)
    return (*insights, new)[-MOST:]


def insight_of(reflection: Reflection) -> str:
    """The key insight, else the first lesson, else `what_to_change`; "" if all are empty."""
    candidates = (reflection.key_insight, *reflection.lessons, reflection.what_to_change)
    return next((text.strip() for text in candidates if says_something(text)), "")


def says_something(text: str) -> bool:
    """Whether a text is neither blank nor `N/A`, in any case."""
    return text.strip().casefold() not in ("", "n/a")


def _key(insight: str) -> str:
    """Equal for repeated insights."""
    text = " ".join(insight.casefold().split())
    opening = _OPENING.match(text)
    return text[opening.end() if opening else 0 :].rstrip(".!… ")


_ARTICLES = frozenset(("a", "an", "the"))
_WORD = re.compile(r"\w+")


class Pattern(Record, frozen=True, kw_only=True):
    """An insight or lesson of several reflections, in its first wording."""

    text: str
    count: int
    """Number of reflections."""
    reflection_ids: tuple[str, ...]
    """In input order."""


def extract_patterns(reflections: Iterable[Reflection], min_frequency: int = 2) -> list[Pattern]:
    """Insights and lessons of at least `min_frequency` reflections, most frequent first, ties in input order.

    A text counts once per reflection. Comparison ignores case, white space, punctuation and articles, but no other
    stop words, since `not` inverts a lesson.
    """
    texts: dict[tuple[str, ...], tuple[str, list[str]]] = {}
    for reflection in reflections:
        for words, text in _statements(reflection).items():
            texts.setdefault(words, (text, []))[1].append(reflection.reflection_id)
    patterns = [Pattern(text=text, count=len(ids), reflection_ids=tuple(ids)) for text, ids in texts.values()]
    frequent = [pattern for pattern in patterns if pattern.count >= min_frequency]
    return sorted(frequent, key=lambda pattern: -pattern.count)


def _statements(reflection: Reflection) -> dict[tuple[str, ...], str]:
    """A reflection's insight and lessons in their first wording, by compared words."""
    statements: dict[tuple[str, ...], str] = {}
    for text in (reflection.key_insight, *reflection.lessons):
        words = tuple(word for word in _WORD.findall(text.casefold()) if word not in _ARTICLES)
        if words and says_something(text):
            statements.setdefault(words, text.strip())
    return statements
