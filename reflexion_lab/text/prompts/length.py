"""Estimated tokens of a text, without a tokenizer: a prompt must not depend on installed weights."""

from __future__ import annotations

import re

_PIECES = re.compile(
    r"""(?P<word>[A-Z]?[a-z]+) | (?P<capitals>[A-Z]+)
    | (?P<space>\ (?=[\d\x80-\U0010ffff]) | \ (?=\s)\ {,31} | \n{1,4}\ {,32} | \t{1,4} | [^\S\ \n\t])
    | (?P<other>[^\sA-Za-z])""",
    re.VERBOSE,
)
LONG = 12
"""Letters of the longest word that counts as one; longer ones are rarely in a vocabulary."""


def estimated(text: str) -> int:
    """An upper estimate of tokens: a word is one per four letters begun (two where it is long or in capitals), an
    indentation is one, any other character is as many as it has bytes. Only random letters can have more.

    By SmolLM2's tokenizer none of 9,000 recorded prompts, programs, feedbacks and reflections has more; the median of
    the ratio is 1.3.
    """
    total = 0
    for piece in _PIECES.finditer(text):
        size = piece.end() - piece.start()
        match piece.lastgroup:
            case "word":
                total += -(-size // (4 if size <= LONG else 2))
            case "capitals":
                total += -(-size // 2)
            case "space":
                total += 1
            case _:
                total += len(piece[0].encode(errors="replace"))
    return total
