"""Lines of a program by their text: prompts show programs in part, so that a number would name another line."""

from __future__ import annotations

import re

from reflexion_lab.text.shorten import line

QUOTED = 120
"""Largest length of a quoted line."""
FILE = "<candidate>"
"""Name of the program in Python's own messages."""
_OF_SYNTAX_ERROR = re.compile(r" \(<[^<>\n]*>, line \d+\)$")
_NUMBER = re.compile(rf'({FILE}", |\b(?:on|at|from|see) )line (\d+)\b')


def quoted_line(program: str, number: int) -> str:
    """The text of a line of `program` (1-based) in backticks; "" for an empty line and for none of that number."""
    lines = program.splitlines()
    text = line(lines[number - 1], QUOTED) if 0 < number <= len(lines) else ""
    return f"`{text}`" if text else ""


def where(program: str, number: int) -> str:
    """The place of an error for the end of its message, or ""."""
    quoted = quoted_line(program, number)
    return f" (at {quoted})" if quoted else ""


def by_text(message: str, program: str) -> str:
    """A `message` of Python or of a tool about `program`, with the lines that it numbers quoted instead."""
    return _NUMBER.sub(
        lambda match: match[1] + (quoted_line(program, int(match[2])) or "another line"),
        _OF_SYNTAX_ERROR.sub("", message),
    )


def by_text_of(error_type: str, message: str, program: str) -> str:
    """As `by_text`, of an exception's message: only that of a syntax error is Python's own."""
    return by_text(message, program) if error_type in ("SyntaxError", "IndentationError", "TabError") else message
