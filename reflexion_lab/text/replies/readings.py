"""Readings of a reply: which block may be the program, and what is wrong with it."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from reflexion_lab.records import Task
from reflexion_lab.text.replies.blocks import Block, looks_like_code, pieces
from reflexion_lab.text.replies.syntax import Parser, bound_names, definition, gives_back, is_stub, returns_outside

ORDER = ("function", "function+truncated", "unparsed", "body", "body+truncated", "stub", "undefined", "faulty")
"""Kinds of readings, the most trusted first."""


class Reading(NamedTuple):
    """A block of a reply as the program."""

    what: str
    """One of `ORDER`."""
    code: str
    block: Block


class Reader:
    """Readings of one reply to one task, with one parser."""

    def __init__(self, task: Task, parser: Parser) -> None:
        self.name = task.entry_point
        self.prompt = task.prompt.rstrip()
        self.parser = parser
        name = re.escape(task.entry_point)
        self.defines = re.compile(
            rf"^[ \t]*(?:(?:async[ \t]+)?def|class)[ \t]+{name}\b|^{name}[ \t]*(?::[^=\n]*)?=", re.MULTILINE
        )

    def readings(self, blocks: list[Block]) -> Iterator[Reading]:
        """Definitions, the last first; then faulty ones, bodies, and other code. Fenced before bare."""
        defining = [block for block in blocks if self.defines.search(block.text)]
        others = [block for block in blocks if not self.defines.search(block.text)]
        defining.sort(key=lambda block: block.fenced)
        others.sort(key=lambda block: not block.fenced)
        broken: list[Block] = []
        for block in reversed(defining):
            yield from self._definitions(block, broken)
        for block in dict.fromkeys(broken):
            code = at_margin(block.text)
            if not block.closed and (prefix := self.cut_back(code)):
                yield Reading("function+truncated", prefix, block)
            yield Reading("unparsed", code, block)
        for block in (*others, *defining):  # a body may define a function of the same name inside
            yield from self._bodies(block)
        for block in others:
            yield from self._leavings(block)

    def _definitions(self, block: Block, broken: list[Block]) -> Iterator[Reading]:
        """The block as it is, else its parts, the last first. What does not parse goes to `broken`."""
        parts = [part for part in reversed(pieces(block)) if self.defines.search(part.text)]
        for part in (block, *parts):
            code = at_margin(part.text)
            if tree := self.parser.parse(code):
                entry = definition(tree, self.name)
                kind = "stub" if entry and is_stub(entry) else "function"
                is_defined = self.name in bound_names(tree) and not returns_outside(tree)
                yield Reading(kind if is_defined else "undefined", code, part)
                if part is block:
                    return
            elif part is not block:
                broken.append(block if block.fenced else part)

    def _bodies(self, block: Block) -> Iterator[Reading]:
        """The prompt completed with the block or a part of it, with its indentation corrected where necessary."""
        if not self.parser.left or not self.defines.search(self.prompt):
            return
        for part in dict.fromkeys((block, *pieces(block))):
            body = part.text.strip("\n")
            indented = body.startswith((" ", "\t"))
            variants = [f"{self.prompt}\n{variant}" for variant in _indented(body, self._margin)]
            for code in dict.fromkeys(variants):
                tree = self.parser.parse(code)
                entry = tree and definition(tree, self.name)
                if tree and entry and not returns_outside(tree) and (indented or gives_back(entry)):
                    yield Reading("stub" if is_stub(entry) else "body", code, part)
                    return
            if not part.closed and (prefix := self.cut_back(variants[0])):
                yield Reading("body+truncated", prefix, part)

    def _leavings(self, block: Block) -> Iterator[Reading]:
        """Other code; bare text only where it looks like code."""
        for part in [block] if block.fenced else pieces(block):
            if block.fenced or looks_like_code(part.text):
                code = at_margin(part.text)
                yield Reading("undefined" if self.parser.parse(code) else "faulty", code, part)

    def cut_back(self, code: str) -> str:
        """The longest beginning of a truncated `code` that parses, if it gives the entry point a body; else "".

        A fault in its middle is the model's own and is kept.
        """
        if not self.parser.ran_out(code):
            return ""
        lines = code.split("\n")
        tree = self.parser.parse(code)
        while tree is None and self.parser.fault:
            del lines[min(len(lines), self.parser.fault) - 1 :]
            tree = self.parser.parse("\n".join(lines))
        entry = tree and definition(tree, self.name)
        return "\n".join(lines) if entry and not is_stub(entry) else ""

    @cached_property
    def _margin(self) -> str:
        """The white space before the body that the prompt begins; four spaces where there is none yet."""
        tree = self.parser.parse(self.prompt)
        entry = tree and definition(tree, self.name)
        if not entry:
            return "    "
        return self.prompt.split("\n")[entry.body[0].lineno - 1][: entry.body[0].col_offset]


def at_margin(text: str) -> str:
    """`text` dedented, unless it begins at the margin: `dedent` also empties blank lines within strings."""
    text = text.strip("\n")
    return textwrap.dedent(text) if text.startswith((" ", "\t")) else text


def _indented(body: str, margin: str) -> Iterator[str]:
    """`body` if it is indented; then all of it moved, its first line moved alone, its tabs turned into spaces."""
    if body.startswith((" ", "\t")):
        yield body
    first, _, rest = body.partition("\n")
    yield textwrap.indent(at_margin(body), margin)
    yield f"{margin}{first.lstrip()}\n{rest}"
    yield textwrap.indent(f"{first.lstrip()}\n{rest}", margin)
    spaces = re.sub(r"^[ \t]+", lambda indent: indent[0].expandtabs(4), body, flags=re.MULTILINE)
    yield textwrap.indent(at_margin(spaces), margin)
