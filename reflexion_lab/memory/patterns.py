"""Patterns: insights and lessons that several reflections share."""

from __future__ import annotations

import re
from collections.abc import Iterable

from reflexion_lab.memory.insights import says_something
from reflexion_lab.records import Record, Reflection

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
