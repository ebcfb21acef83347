"""Tokenizer of retrieval and wisdom: casefolded words without stop words."""

from __future__ import annotations

import re
from collections.abc import Iterator

COMMON = """
a an and are as at be but by can did do does for from had has have i if in into is it its my not of on or our so that
the their them then there these they this to was we were what when which will with you your
"""
STOP_WORDS = frozenset(COMMON.split())
WORD = re.compile(r"\w+")
_UNSPACED = re.compile("([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+)")
"""Chinese and Japanese characters, which are written without spaces between words."""


def tokens(text: str, min_length: int = 1) -> list[str]:
    """The words of `text` in order, without stop words; in Chinese and Japanese, pairs of adjacent characters.

    `min_length`: length of the shortest word, 1 or more; 3 in the `helix` preset.
    """
    words = [word for word in WORD.findall(text.casefold()) if word not in STOP_WORDS and len(word) >= min_length]
    has_spaces = text.isascii() or not _UNSPACED.search(text)
    return words if has_spaces else [piece for word in words for piece in _pieces(word)]


def _pieces(word: str) -> Iterator[str]:
    for part in filter(None, _UNSPACED.split(word)):
        if _UNSPACED.match(part):
            yield from (part[place : place + 2] for place in range(max(len(part) - 1, 1)))
        else:
            yield part
