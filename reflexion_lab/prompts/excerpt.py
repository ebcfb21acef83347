"""A program in a prompt that has no room for all of it: its middle goes first."""

from __future__ import annotations

from collections.abc import Callable

CLOSE = 16
"""Characters that the longest excerpt may have missed."""


def excerpt(text: str, chars: int) -> str:
    """All of `text`, or about so many characters of it: whole lines of both ends, and a comment on what is missing.

    Signatures stand first, and what was written last, last.
    """
    if len(text) <= chars:
        return text
    lines = text.splitlines()
    ends: tuple[list[str], list[str]] = ([], [])
    while lines and chars >= 0:
        from_end = sum(map(len, ends[1])) < sum(map(len, ends[0]))
        line = lines.pop(-1 if from_end else 0)
        chars -= len(line) + 1
        if chars >= 0:
            ends[from_end].append(line)
        else:
            lines.append(line)
    return "\n".join([*ends[0], f"# ({len(lines)} lines are left out here)", *reversed(ends[1])])


def longest(text: str, fits: Callable[[str], bool]) -> str:
    """`text` where it `fits`, else about the longest excerpt that does; "" where none does."""
    if fits(text):
        return text
    kept, low, high = "", 0, len(text)
    while high - low > CLOSE:
        middle = (low + high) // 2
        shorter = excerpt(text, middle)
        if fits(shorter):
            kept, low = shorter, middle
        else:
            high = middle
    return kept
