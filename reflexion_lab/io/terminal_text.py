"""Foreign text made safe for a terminal: control, direction and invisible characters are escaped.

Models, task files and foreign logs may contain them. Writers of HTML, Markdown, LaTeX and CSV escape their own syntax.
"""

from __future__ import annotations

import re

_BEYOND = re.compile(r"[^\x20-\x7e]+")
# Printable according to Python, but invisible.
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\uffa0\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)


def visible(text: str, kept: str = "\n") -> str:
    """`text` with control and invisible characters escaped, except those in `kept`."""
    return _BEYOND.sub(lambda match: _escaped(match[0], kept), text)


def plain(text: str) -> str:
    """`text` on one line, with control and invisible characters escaped."""
    return visible(" ".join(text.split()), kept="")


def _escaped(part: str, kept: str) -> str:
    if part.isprintable() and not _BLANK.search(part):
        return part
    visibility = (c in kept or (c.isprintable() and not _BLANK.match(c)) for c in part)
    pairs = zip(part, visibility, strict=True)
    return "".join(c if is_seen else c.encode("unicode_escape").decode() for c, is_seen in pairs)
