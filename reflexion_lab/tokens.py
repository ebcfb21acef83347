"""The one tokeniser of retrieval and wisdom: casefolded words without the commonest ones."""

from __future__ import annotations

import re

COMMON = """
a an and are as at be but by can did do does for from had has have i if in into is it its my not of on or our so that
the their them then there these they this to was we were what when which will with you your
"""
STOP_WORDS = frozenset(COMMON.split())
WORD = re.compile(r"\w+")


def tokens(text: str, min_length: int = 1) -> list[str]:
    """The words of `text` in order, repeats included: digits and short words stay, stop words go.

    `min_length`: characters of the shortest word that is kept; 3 is the rule of the `helix` preset.
    """
    words = WORD.findall(text.casefold())
    return [word for word in words if word not in STOP_WORDS and len(word) >= min_length]
