"""How much memory fits into a prompt."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from reflexion_lab.records import Episode

Tokens = Callable[[str], int]
"""Length of a text in tokens."""


def estimated(text: str) -> int:
    """⌈characters / 4⌉, where no tokenizer is at hand."""
    return math.ceil(len(text) / 4)


def words(episode: Episode) -> str:
    """All of an episode that a prompt may show."""
    reflection = episode.reflection
    said = (reflection.root_cause, reflection.what_went_wrong, reflection.what_to_change) if reflection else ()
    return "".join((episode.code, episode.test_results, *said))


def packed(episodes: Sequence[Episode], budget: int, tokens: Tokens = estimated) -> list[Episode]:
    """Those of `episodes` that fit into `budget` tokens, in their order: the last ones are packed first, and one that
    does not fit is skipped.
    """
    chosen, left = [], budget
    for episode in reversed(episodes):
        if (size := tokens(words(episode))) <= left:
            chosen.append(episode)
            left -= size
    return chosen[::-1]
