"""Lines of a program by their text: prompts show programs in part, so that a number would name another line."""

from __future__ import annotations

import re

from reflexion_lab.text.shorten import line

QUOTED = 120
"""Largest length of a quoted line."""
FILE = "<candidate>"
"""Name of the program in Python's own messages."""
_OF_SYNTAX_ERROR = re.compile(r" \(<[^<>\n]*>, line \d+\)$")
_FRAME = re.compile(rf'({FILE}", )line (\d{{1,9}})\b')
_NUMBER = re.compile(rf'({FILE}", |\b(?:on|at|from|see) )line (\d{{1,9}})\b')
_LINE_END = re.compile(r"\r\n|\r|\n")
"""As Python counts lines; `splitlines` would break at more characters."""


def quoted_line(program: str, number: int) -> str:
    """The text of a line of `program` (1-based) in backticks; "" for an empty line and for none of that number."""
    lines = _LINE_END.split(program)
    text = line(lines[number - 1], QUOTED) if 0 < number <= len(lines) else ""
    return f"`{text}`" if text else ""


def where(program: str, number: int) -> str:
    """The place of an error for the end of its message, or ""."""
    quoted = quoted_line(program, number)
    return f" (at {quoted})" if quoted else ""


def by_text(message: str, program: str) -> str:
    """A `message` of Python or of a tool about `program`, with the lines that it numbers quoted instead."""
    return _quoted(_NUMBER, _OF_SYNTAX_ERROR.sub("", message), program)


def output_by_text(output: str, program: str) -> str:
    """What `program` printed, with the lines quoted that a traceback of Python numbers: other words are its own."""
    return _quoted(_FRAME, output, program)


def _quoted(numbers: re.Pattern[str], text: str, program: str) -> str:
    return numbers.sub(lambda match: match[1] + (quoted_line(program, int(match[2])) or "another line"), text)


def by_text_of(error_type: str, message: str, program: str) -> str:
    """As `by_text`, of an exception's message: only that of a syntax error is Python's own."""
    return by_text(message, program) if error_type in ("SyntaxError", "IndentationError", "TabError") else message
