"""Filters for quoted text in prompts: bounded, and in blocks that it cannot leave."""

from __future__ import annotations

import re
from collections.abc import Iterable

from reflexion_lab.text.prompts.excerpt import program
from reflexion_lab.text.shorten import cut, line

_FENCES = re.compile(r"`{3}|^[ \t]*~{3}", re.MULTILINE)


def fenced(text: str, language: str = "python") -> str:
    """`text` in a code block whose fence is longer than any in it."""
    longest = max((len(run) for run in re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def quoted(text: str, before: str = "") -> str:
    """`text` as it is; where it would open or close a block, in a block of its own after `before`."""
    return before + fenced(text, "text") if _FENCES.search(text) else text


def commented(text: str, chars: int, width: int = 160) -> str:
    """At most `chars` characters of `text` as Python comments, in lines of at most `width`."""
    return "\n".join(f"# {cut(row, width)}".rstrip() for row in cut(text, chars).splitlines())


def sentences(texts: Iterable[str], chars: int) -> str:
    """Non-empty `texts` in one line, each cut and with a full stop."""
    lines = (line(text, chars) for text in texts)
    return " ".join(text if text[-1] in ".!?…" else f"{text}." for text in lines if text)


FILTERS = {filter.__name__: filter for filter in (cut, line, fenced, quoted, commented, sentences, program)}
