"""Key insights: the few sentences that outlast the attempts they came from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from reflexion_lab.records import Record, Reflection

MOST = 20
"""Insights that are kept; the oldest leaves."""
_OPENING = re.compile(r"in (?:my function|this function|similar tasks) i will |i will |my mistake is that ")
"""Sentence openings of the lab's own grammars, examples and rules."""


class Insights:
    """The newest insights of many tasks, kept so that each task can read those of the others.

    At most `MOST` are of one task, and at most two tasks give the same one: so the newest 60 hold 20 different ones
    whichever task is left out.
    """

    def __init__(self) -> None:
        self._kept: list[tuple[str, str, str]] = []
        """Task, key and text, oldest first."""

    def add(self, task_id: str, text: str) -> None:
        """Keep `text`, unless it says nothing, the task has said it before, or two tasks have."""
        key = _key(text)
        given_by = [task for task, known, _ in self._kept if known == key]
        if not says_something(text) or task_id in given_by or len(given_by) == 2:
            return
        own = [place for place, (task, _, _) in enumerate(self._kept) if task == task_id]
        if len(own) == MOST:
            del self._kept[own[0]]
        self._kept = [*self._kept, (task_id, key, " ".join(text.split()))][-3 * MOST :]

    def newest(self, except_task: str = "") -> tuple[str, ...]:
        """At most `MOST`, oldest first, each once; none in the words of the task `except_task`; "" leaves out none."""
        texts: dict[str, str] = {}
        for task, key, text in self._kept:
            if not except_task or task != except_task:
                texts.setdefault(key, text)
        return tuple(texts.values())[-MOST:]


def with_insight(insights: Sequence[str], text: str) -> tuple[str, ...]:
    """`insights`, oldest first, and `text` behind them, unless it says nothing or one of them says the same.

    Whole sentences are compared: case, white space, the stop at the end and the openings that the lab's own prompts ask
    for aside.
    """
    new = " ".join(text.split())
    if not says_something(new) or any(_key(new) == _key(known) for known in insights):
        return tuple(insights)
    return (*insights, new)[-MOST:]


def insight_of(reflection: Reflection) -> str:
    """Its key insight, else its first lesson, else what it wants changed; "" where none of them says anything."""
    candidates = (reflection.key_insight, *reflection.lessons, reflection.what_to_change)
    return next((text.strip() for text in candidates if says_something(text)), "")


def says_something(text: str) -> bool:
    """Whether a text is neither blank nor `N/A`, in any case."""
    return text.strip().casefold() not in ("", "n/a")


def _key(insight: str) -> str:
    """Equal for insights that say the same."""
    text = " ".join(insight.casefold().split())
    opening = _OPENING.match(text)
    return text[opening.end() if opening else 0 :].rstrip(".!… ")


_ARTICLES = frozenset(("a", "an", "the"))
_WORD = re.compile(r"\w+")


class Pattern(Record, frozen=True, kw_only=True):
    """One thing that reflections say, in the words of the first."""

    text: str
    count: int
    """Reflections that say it."""
    reflection_ids: tuple[str, ...]
    """Theirs, in the order given."""


def extract_patterns(reflections: Iterable[Reflection], min_frequency: int = 2) -> list[Pattern]:
    """Insights and lessons that at least `min_frequency` reflections share, most frequent first, then as they came.

    A reflection that says a thing twice counts once. Two texts say the same where their words agree: case, white
    space, punctuation and articles aside. Every other word counts, since `not` turns a lesson round.
    """
    texts: dict[tuple[str, ...], tuple[str, list[str]]] = {}
    for reflection in reflections:
        for words, text in _sayings(reflection).items():
            texts.setdefault(words, (text, []))[1].append(reflection.reflection_id)
    patterns = [Pattern(text=text, count=len(ids), reflection_ids=tuple(ids)) for text, ids in texts.values()]
    frequent = [pattern for pattern in patterns if pattern.count >= min_frequency]
    return sorted(frequent, key=lambda pattern: -pattern.count)


def _sayings(reflection: Reflection) -> dict[tuple[str, ...], str]:
    """A reflection's insight and lessons by their words, each once in its first form."""
    sayings: dict[tuple[str, ...], str] = {}
    for text in (reflection.key_insight, *reflection.lessons):
        words = tuple(word for word in _WORD.findall(text.casefold()) if word not in _ARTICLES)
        if words and says_something(text):
            sayings.setdefault(words, text.strip())
    return sayings
