"""Texts made shorter: their beginning, one line, or both ends."""

from __future__ import annotations


def cut(text: str, chars: int, mark: str = "…") -> str:
    """At most `chars` characters; where some are missing it ends in `mark`, before which no second space stands."""
    if len(text) <= chars:
        return text
    start = text[: max(chars - len(mark), 0)]
    return ((start.rstrip() if mark.startswith(" ") else start) + mark)[: max(chars, 0)]


def line(text: str, chars: int, mark: str = "…") -> str:
    """All of `text` on one line, cut."""
    return cut(" ".join(text.split()), chars, mark)


def bounded(text: str, chars: int) -> str:
    """At most `chars` characters; both ends stay, "…" between them."""
    if len(text) <= chars:
        return text
    head = (chars - 1) // 2
    return text[:head] + "…" + text[len(text) - (chars - 1 - head) :]
