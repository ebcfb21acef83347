"""Names of arms and runs, which anybody may choose, as text that does no harm where it is shown."""

from __future__ import annotations

from reflexion_lab.io.terminal_text import plain


def inert(text: str) -> str:
    """On one line, and never a formula: a spreadsheet obeys what begins with one of these."""
    safe = plain(text)
    return f"'{safe}" if safe[:1] in ("=", "+", "-", "@") else safe
