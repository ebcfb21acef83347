"""Blocks of code and text in a reply, found line by line in linear time, without parsing."""

from __future__ import annotations

import re
from typing import NamedTuple

THOUGHT = re.compile(r"<(/?)(?:think|thinking|thought|reasoning)>|\[(/?)THINK\]", re.IGNORECASE)
QUOTED = re.compile(r"""\"[^"\n]*"|(?<!\w)[bfru]{0,2}'[^'\n]*'|`[^`\n]+`""", re.IGNORECASE)
"""A quotation in one line; the apostrophe of "it's" begins none."""
BLANK = re.compile(r"\s*")
TAG = re.compile(r"\[(/?)PYTHON\]")
SPECIAL = re.compile(r"""("[^"\n]*"|'[^'\n]*'|`[^`\n]+`)|<\|[^|\n]{1,40}\|>""")
"""Chat-template tokens leaked into the reply; tokens within a quotation (group 1) are kept."""
LAST_TOKEN = re.compile(r"(?:<\|[^|\n]{1,40}\|>|</s>)\s*\Z")
TAIL = 1000
"""Characters at the end of a reply in which template tokens are removed even within an unclosed fence."""
SPEAKER = re.compile(r"\A\s*(?:assistant|answer|response|solution)[ \t]*:[ \t]*", re.IGNORECASE)
LATE_FENCE = re.compile(r"^([^`\n]*[^`\s])[ \t]*(`{3,}[\w+#.-]*)[ \t]*$", re.MULTILINE)
"""A fence after other text on its line."""
FENCE = re.compile(r"([ \t]*+)(?:`{3,}+(?=[^`]*+(?:`++[ \t]*+)?$)|~{3,}+)[ \t]*+(.*)")
"""Indentation and the text after the fence. Possessive quantifiers keep it linear for hostile lines."""
INFO = re.compile(r"[\w+#.-]*[ \t]*")
STATEMENT = re.compile(
    r"""(?:import\s+\w | from\s+[\w.]+\s+import\b | (?:async\s+)?def\s+\w+\s*[(\[] | class\s+\w+\s*[(:\[] | @\w
    | (?:if|elif|else|for|while|with|async|try|except|finally|match|case)\b.*:\s*(?:\#.*)?$
    | (?:return|raise|yield|assert|del|global|nonlocal|pass|break|continue)\b
    | \w[\w.]*(?:\[[^\]]*\])?\s*(?:[:,][^=]*|[-+*/%|&^@<>]{0,3})=(?!=)
    | \w[\w.]*[(\[].*[()\[\]{},]\s*(?:\#.*)?$)""",
    re.VERBOSE,
)
"""The beginning of a statement; rarely matches an English sentence."""
DEFINITION = re.compile(r"(?:async\s+)?def\b|class\b")


class Block(NamedTuple):
    """A run of lines of a reply."""

    text: str
    fenced: bool
    closed: bool
    """False if the reply ended within the block, which may be truncated."""


def without_thoughts(reply: str) -> tuple[str, bool]:
    """A reply without its `<think>` sections, and whether it ended within one.

    Outside a section, tags within a line or a fence are ignored as quotations. The first closing tag without an opening
    tag, which some templates put into the prompt, ends a section from the beginning of the reply; it may stand anywhere
    in its line except in a quotation. Further ones are ignored.
    """
    parts: list[str] = []
    thinking = closed = fenced = False
    for line in re.findall(r"[^\n]*\n|[^\n]+", reply):
        position, margin, end = 0, len(line) - len(line.lstrip()), len(line.rstrip())
        unquoted = QUOTED.sub(lambda quotation: " " * len(quotation[0]), line)
        for tag in THOUGHT.finditer(line):
            closing = bool(tag[1] or tag[2])
            at_edge = tag.start() <= margin or tag.end() >= end
            is_first = closing and not closed and not unquoted[tag.start()].isspace()
            if not thinking and (fenced or not (at_edge or is_first)):
                continue
            if closing and not thinking and not closed:
                parts.clear()
            elif not thinking:
                parts.append(line[position : tag.start()])
            thinking, closed, position = not closing, closed or closing, tag.end()
            margin = BLANK.match(line, position).end()  # type: ignore[union-attr]  # it matches everything
        if not thinking:
            parts.append(line[position:])
            fenced = _fenced_after(line[position:], fenced)
    return "".join(parts), thinking


def _fenced_after(line: str, fenced: bool) -> bool:
    """Whether the line after `line` is within a fence; `fenced`: whether `line` is."""
    line = line.rstrip()
    late = LATE_FENCE.fullmatch(line)
    fence = FENCE.fullmatch(late[2] if late else line)
    if fence is None:
        return fenced
    info = fence[2].rstrip("`~ \t")
    return (not fenced or bool(info)) and len(info) == len(fence[2].rstrip())


def blocks(text: str) -> list[Block]:
    """The fenced blocks of `text` and the text between them, in order, without blank ones.

    A fence with a language opens a block even within another block. A fence that is indented by more than three columns
    relative to its block is content.
    """
    parts: list[Block] = []
    lines: list[str] = []
    indent: str | None = None

    def end(closed: bool) -> None:
        if any(line.strip() for line in lines):
            parts.append(Block("\n".join(lines), indent is not None, closed))
        lines.clear()

    for line in _plain(text).split("\n"):
        fence = FENCE.fullmatch(line)
        if fence is None or (indent is not None and len(fence[1]) > len(indent) + 3):
            lines.append(line.removeprefix(indent or ""))
            continue
        info = fence[2].rstrip("`~ \t")
        opens = indent is None or bool(info)
        end(closed=True)
        indent = fence[1] if opens else None
        if opens and (code := _code_after(info)):
            lines.append(code)
        if opens and len(info) < len(fence[2].rstrip()):  # the block is closed on the same line
            end(closed=True)
            indent = None
    end(closed=False)
    return parts


def pieces(block: Block) -> list[Block]:
    """The runs of lines between lines of prose in `block`; the last run is closed only if `block` is."""
    runs: list[list[str]] = [[]]
    for line in block.text.split("\n"):
        if is_prose(line):
            runs.append([])
        else:
            runs[-1].append(line)
    last = len(runs) - 1
    cut = [Block("\n".join(run), block.fenced, block.closed or i < last) for i, run in enumerate(runs)]
    return [piece for piece in cut if piece.text.strip()]


def is_prose(line: str) -> bool:
    """Whether `line` is not indented, contains a letter, and does not begin like a statement, comment or bracket."""
    return (
        not line.startswith((" ", "\t", "#", ")", "]", "}", '"', "'"))
        and any(map(str.isalpha, line))
        and not STATEMENT.match(line)
    )


def looks_like_code(text: str) -> bool:
    """Whether a line defines a function or a class, or is indented and begins like a statement."""
    lines = ((line, line.lstrip()) for line in text.split("\n"))
    return any(STATEMENT.match(code) and (code != line or DEFINITION.match(line)) for line, code in lines)


def _plain(text: str) -> str:
    """`text` with uniform line breaks and fences, without chat-template tokens."""
    text = re.sub(r"\r\n?", "\n", text.removeprefix("\ufeff"))
    head, tail = text[:-TAIL], text[-TAIL:]
    while token := LAST_TOKEN.search(tail):
        tail = tail[: token.start()]
    lines, fenced, code = list[str](), False, 0
    for line in (head + tail).split("\n"):
        is_code = fenced and not FENCE.match(line)
        lines.append(line if is_code else _unmarked(line))
        code = code if is_code else len(lines)
        fenced = _fenced_after(lines[-1], fenced)
    if fenced:  # in an unclosed fence, unquoted tokens are removed too
        lines[code:] = map(_unmarked, lines[code:])
    text = "\n".join(lines)
    text = TAG.sub(lambda tag: "\n```\n" if tag[1] else "\n```python\n", text)
    return LATE_FENCE.sub(r"\1\n\2", SPEAKER.sub("", text))


def _unmarked(line: str) -> str:
    return SPECIAL.sub(lambda token: token[1] or "\n", line)


def _code_after(info: str) -> str:
    """Code on the line of the opening fence, with or without a language before it."""
    rest = INFO.sub("", info, count=1)
    return next((code for code in (info, rest) if STATEMENT.match(code)), "")
