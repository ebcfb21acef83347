"""Texts made shorter: their beginning, one line, or both ends."""

from __future__ import annotations


def cut(text: str, chars: int) -> str:
    """At most so many characters; where some are missing the last one is "…"."""
    return text if len(text) <= chars else text[: max(chars - 1, 0)] + "…"


def line(text: str, chars: int) -> str:
    """All of `text` on one line, cut."""
    return cut(" ".join(text.split()), chars)


def bounded(text: str, chars: int) -> str:
    """At most so many characters; both ends stay, "…" between them."""
    if len(text) <= chars:
        return text
    head = (chars - 1) // 2
    return text[:head] + "…" + text[len(text) - (chars - 1 - head) :]
