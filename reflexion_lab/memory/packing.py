"""Selecting what fits into a prompt's token budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from reflexion_lab.records import Episode, Recollection
from reflexion_lab.text.prompts.excerpt import program, shortened
from reflexion_lab.text.prompts.length import estimated
from reflexion_lab.text.shorten import cut, line

T = TypeVar("T")

Tokens = Callable[[str], int]
"""Length of a text in tokens."""


def words(episode: Episode) -> str:
    """The longest text that a prompt has of an episode of the same task."""
    reflection = episode.reflection
    texts = (reflection.root_cause, reflection.what_went_wrong, reflection.what_to_change) if reflection else ()
    return "".join((program(episode, 1500), cut(episode.test_results, 900), *(line(text, 300) for text in texts)))


def foreign_words(episode: Episode) -> str:
    """The longest text that a prompt has of an episode of another task: with that task."""
    return episode.task_description.strip()[:600] + words(episode)


def window(episodes: Sequence[Episode], budget: int, tokens: Tokens = estimated) -> list[Episode]:
    """Those of a task's own `episodes` that fit into `budget` tokens, in their order. The newest comes first, shortened
    where it is too long; older ones that do not fit are skipped.
    """
    newest = shortened(episodes[-1], lambda episode: tokens(words(episode)) <= budget) if episodes else None
    return packed([*episodes[:-1], newest] if newest else episodes[:-1], budget, tokens)


def packed(
    episodes: Sequence[Episode],
    budget: int,
    tokens: Tokens = estimated,
    text: Callable[[Episode], str] = words,
) -> list[Episode]:
    """Those of `episodes` that fit into `budget` tokens, in their order: the last ones are packed first, and one that
    does not fit is skipped.
    """
    return fitting(episodes[::-1], text, budget, tokens)[0][::-1]


def fitting(
    entries: Sequence[T], text: Callable[[T], str], budget: int, tokens: Tokens = estimated
) -> tuple[list[T], int]:
    """Those of `entries`, from the first on, whose texts fit into `budget` tokens; and what is left of it."""
    chosen = []
    for entry in entries:
        if (size := tokens(text(entry))) <= budget:
            chosen.append(entry)
            budget -= size
    return chosen, budget


def lessons_within(lessons: Recollection, budget: int, tokens: Tokens = estimated) -> Recollection:
    """Of its wisdom, insights and mistakes those that fit into `budget` tokens together, as a prompt shows them: first
    the best wisdom, then the newest insights, then the nearest mistakes, which are the longest.
    """
    wisdom, budget = fitting(lessons.wisdom, lambda w: w.pattern[:300] + w.advice[:300], budget, tokens)
    insights, budget = fitting(lessons.insights[::-1], lambda insight: insight[:300], budget, tokens)
    mistakes, _ = fitting(
        lessons.mistakes, lambda m: m.prompt.strip()[:600] + m.mistake[:300] + m.correction[:300], budget, tokens
    )
    kept = replace(lessons, wisdom=tuple(wisdom), insights=tuple(insights[::-1]), mistakes=tuple(mistakes))
    return replace(kept, left_out=tuple(sorted(lessons.ids - kept.ids)))
