"""Names of arms and runs, which anybody may choose, as text that does no harm where it is shown."""

from __future__ import annotations


def plain(text: str) -> str:
    """On one line, with what no eye can see spelt out: control, direction and zero-width characters."""
    folded = " ".join(text.split())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in folded)


def inert(text: str) -> str:
    """On one line, and never a formula: a spreadsheet obeys what begins with one of these."""
    safe = plain(text)
    return f"'{safe}" if safe[:1] in ("=", "+", "-", "@") else safe
