"""Extraction of the program from a reply.

Replies are hostile: they are parsed within bounds (`replies/syntax.py`), never compiled or executed in this process.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from msgspec.structs import replace

from reflexion_lab.records import Task
from reflexion_lab.text.replies.syntax import (
    CODE_CHARS,
    Parser,
    asides,
    bound_names,
    definition,
    future_imports,
    has_result,
    idle,
    is_stub,
    returns_outside,
    set_up,
    unbound_names,
    usage,
    without,
)

THOUGHT = re.compile(r"<(/?)(?:think|thinking|thought|reasoning)>|\[(/?)THINK\]", re.IGNORECASE)
QUOTED = re.compile(r"""\"[^"\n]*"|(?<!\w)[bfru]{0,2}'[^'\n]*'|`[^`\n]+`""", re.IGNORECASE)
"""A quotation in one line; the apostrophe of "it's" begins none."""
BLANK = re.compile(r"\s*")
TAG = re.compile(r"\[(/?)PYTHON\]")
SPECIAL = re.compile(r"""("[^"\n]*"|'[^'\n]*'|`[^`\n]+`)|<\|[^|\n]{1,40}\|>""")
"""Chat-template tokens leaked into the reply; tokens within a quotation (group 1) are kept."""
LAST_TOKEN = re.compile(r"(?:<\|[^|\n]{1,40}\|>|</s>)\s*\Z")
TOKENS = 4
"""Leaked tokens at the end of a reply that are dropped."""
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
READS = re.compile(r"\binput\b|\bstdin\b|\bopen\(0\b|\bos\.read\b|\bfileinput\b")
PRINTS = re.compile(r"\bprint\b|\bstdout\b|\bos\.write\b|\bopen\(1\b")
DEFINITION = re.compile(r"(?:async\s+)?def\b|class\b")


class Block(NamedTuple):
    """A run of lines of a reply."""

    text: str
    fenced: bool
    closed: bool
    """False if the reply ended within the block, which may be truncated."""


def without_tokens(text: str) -> str:
    """`text` without the last `TOKENS` chat-template tokens at its end."""
    for _ in range(TOKENS):
        token = LAST_TOKEN.search(text, max(0, len(text) - 100))
        text = text[: token.start()] if token else text
    return text


def without_thoughts(reply: str) -> tuple[str, bool]:
    """A reply without its `<think>` sections, and whether it ended within one.

    Outside a section, tags within a line or a fence are ignored as quotations. The first closing tag without an opening
    tag, which some templates put into the prompt, ends a section from the beginning of the reply; it may stand anywhere
    in its line except in a quotation. Further ones are ignored.
    """
    if THOUGHT.search(reply) is None:
        return reply, False
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
        if opens:  # code on the line of the fence, with or without a language before it
            lines += [code for code in (info, INFO.sub("", info, count=1)) if STATEMENT.match(code)][:1]
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


REPLY_CHARS = 1_000_000
"""Length limit of replies in characters."""


class Extraction(NamedTuple):
    """A program, and the rule by which it was extracted.

    A rule consists of words joined by `+`. Place: `fence`, or nothing for bare text. Kind: `function` (defines the
    entry point), `body` (completes the prompt), `stub` (a definition without a body), `undefined` (Python that does not
    define the entry point at top level), `unparsed` (not Python), `continuation` (the reply continued a program).
    Changes: `truncated` (an incomplete reply was cut back until it parses), `joined` (other blocks define names that it
    needs), `usage` (asserts, example calls, `input()` and exits were removed, except statements that change a name that
    the entry point reads).

    Of a task whose solution reads standard input the kinds are `program` (it prints, and defines every name that it
    reads), `part` (other Python) and `unparsed`; nothing is removed from it.

    Without a program the rule is the reason: `none` (no code), `thinking` (it ended within `<think>`), `too_long`.
    """

    program: str
    """A whole program, or "" if there is none."""
    rule: str


def extract(reply: str, task: Task) -> Extraction:
    """The program of `reply` for `task`. Never raises; parses a bounded number of bounded texts.

    The last complete definition of the entry point is taken, since a reply may correct itself. Fenced code is preferred
    to bare text, and a definition, even an invalid one, to a body. Imports and helper functions of the prompt that the
    code does not define are prepended, and its set-up, such as `random.seed(0)`. Code that is not Python is returned
    unchanged: its syntax error is feedback.
    """
    if len(reply) > REPLY_CHARS:
        return Extraction("", "too_long")
    text, thinking = without_thoughts(reply)
    every, parser = blocks(text), Parser()
    readable = [block for block in every if len(block.text) <= CODE_CHARS]
    is_script = task.kind == "program"
    task = replace(task, prompt="", entry_point="") if is_script else task
    reader, first = Reader(task, parser), dict[str, Reading]()  # the first of each kind
    for reading in reader.programs(readable) if is_script else reader.readings(readable):
        first.setdefault(reading.kind, reading)
        if reading.kind in ("function", "program"):  # a complete one ends the search
            break
    best = min(first.values(), key=lambda reading: ORDER.index(reading.kind), default=None)
    if best is None:
        return Extraction("", "thinking" if thinking else "too_long" if len(readable) < len(every) else "none")
    where = "fence+" if best.block.fenced else ""
    if best.kind in ("unparsed", "faulty"):
        return Extraction(best.code.strip("\n") + "\n", where + "unparsed")
    helpers = _helpers(best, readable, task, parser) if best.kind.startswith(("function", "part")) else []
    if is_script:
        program = "\n\n\n".join([*helpers, best.code]).strip("\n") + "\n"
        return Extraction(program, where + best.kind + "+joined" * bool(helpers))
    program, has_usage = _assembled(best.code, helpers, task, parser)
    return Extraction(program, where + best.kind + "+joined" * bool(helpers) + "+usage" * has_usage)


def preamble(task: Task) -> str:
    """The code of the prompt before the entry point (imports, helper functions); "" for a prompt in prose."""
    decorators, name = r"(?:@.*\n(?:[ \t)#].*\n)*)*", re.escape(task.entry_point)
    head = re.search(rf"^{decorators}(?:(?:async[ \t]+)?def|class)[ \t]+{name}\b", task.prompt, re.MULTILINE)
    return task.prompt[: head.start()] if head else ""


def _helpers(best: Reading, every: list[Block], task: Task, parser: Parser) -> list[str]:
    """Definitions in other blocks that the code needs, in the order of the reply; of each name the last one."""
    tree = parser.parse(f"{preamble(task)}\n{best.code}")
    needed = unbound_names(tree) if tree else set()
    helpers: list[str] = []
    for part in reversed([part for block in every for part in pieces(block)]):
        if not parser.left or part.text == best.block.text or needed.isdisjoint(re.findall(r"\w+", part.text)):
            continue
        code = at_margin(part.text)
        tree = parser.parse(code)
        if tree and task.entry_point not in bound_names(tree) and needed & bound_names(tree):
            helpers.insert(0, without(code, tree, asides(tree, task.entry_point)).strip("\n"))
            needed = (needed | unbound_names(tree)) - bound_names(tree)
    return helpers


def _assembled(code: str, helpers: list[str], task: Task, parser: Parser) -> tuple[str, bool]:
    """The whole program, with the missing definitions of the prompt prepended, and whether usage was removed."""
    code = "\n\n\n".join([*helpers, code])
    tree = parser.parse(code)
    if tree is None:  # no parses are left for this reply
        return code.strip("\n") + "\n", False
    before = preamble(task)
    known = parser.parse(before) or ast.Module([], [])
    trials, bound = usage(tree, task.entry_point, known), bound_names(tree)
    needed = set_up(known, tree, task.entry_point)
    defined = [node for node in known.body if node not in needed and bound_names(ast.Module([node], [])) <= bound]
    front = without(before, known, defined).lstrip("\n") if len(defined) < len(known.body) else ""
    future = future_imports(tree) if front or helpers else []
    first = [f"{ast.unparse(node)}\n" for node in future]  # these must precede all other statements
    rest = without(code, tree, [*trials, *future, *idle(tree)]).strip("\n")
    return f"{''.join(first)}{front}{rest}\n", bool(trials)


ORDER = (
    "function", "function+truncated", "program", "program+truncated", "unparsed", "body", "body+truncated", "stub",
    "undefined", "part", "faulty",
)  # fmt: skip
"""Kinds of readings, the most reliable first."""


class Reading(NamedTuple):
    """A block of a reply, read as the program."""

    kind: str
    """One of `ORDER`."""
    code: str
    block: Block


class Reader:
    """Candidate readings of one reply."""

    def __init__(self, task: Task, parser: Parser) -> None:
        self.name = task.entry_point
        self.prompt = task.prompt.rstrip()
        self.parser = parser
        name = re.escape(task.entry_point)
        self.defines = re.compile(
            rf"^[ \t]*(?:(?:async[ \t]+)?def|class)[ \t]+{name}\b|^{name}[ \t]*(?::[^=\n]*)?=", re.MULTILINE
        )

    def readings(self, blocks: list[Block]) -> Iterator[Reading]:
        """Definitions, the last first; then invalid ones, bodies, and other code. Fenced before bare."""
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
        for block in (*others, *defining):  # a body may contain a function of the same name
            yield from self._bodies(block)
        for block in others:
            yield from self._leavings(block)

    def _definitions(self, block: Block, broken: list[Block]) -> Iterator[Reading]:
        """The whole block, else its parts, the last first. Parts that do not parse are added to `broken`."""
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
        """The prompt completed by the block or a part of it, with corrected indentation."""
        if not self.parser.left or not self.defines.search(self.prompt):
            return
        for part in dict.fromkeys((block, *pieces(block))):
            body = part.text.strip("\n")
            indented = body.startswith((" ", "\t"))
            bodies = dict.fromkeys((body, without_stray_quote(body)))
            variants = [f"{self.prompt}\n{variant}" for text in bodies for variant in _indented(text, self._margin)]
            for code in dict.fromkeys(variants):
                tree = self.parser.parse(code)
                entry = tree and definition(tree, self.name)
                if tree and entry and not returns_outside(tree) and (indented or has_result(entry)):
                    yield Reading("stub" if is_stub(entry) else "body", code, part)
                    return
            if not part.closed and (prefix := self.cut_back(variants[0])):
                yield Reading("body+truncated", prefix, part)

    def _leavings(self, block: Block) -> Iterator[Reading]:
        """Other code; bare text only if it looks like code."""
        for part in [block] if block.fenced else pieces(block):
            if block.fenced or looks_like_code(part.text):
                code = at_margin(part.text)
                yield Reading("undefined" if self.parser.parse(code) else "faulty", code, part)

    def programs(self, blocks: list[Block]) -> Iterator[Reading]:
        """Whole programs, the last first, those that read input before others; then code that is none. Bare text only
        if no block is fenced.
        """
        fenced = [block for block in blocks if block.fenced]
        silent, others = list[Reading](), list[Reading]()
        for block in reversed(fenced or blocks):
            for part in dict.fromkeys((block, *reversed(pieces(block)))):
                code = at_margin(part.text)
                if not any(STATEMENT.match(line.strip()) for line in code.split("\n")):
                    continue
                tree = self.parser.parse(code)
                is_whole = tree and PRINTS.search(code) and not free_names(tree)
                if is_whole and READS.search(code):
                    yield Reading("program", code, part)
                elif is_whole:
                    silent.append(Reading("program", code, part))
                elif tree:
                    others.append(Reading("part", code, part))
                elif not part.closed and (prefix := self.cut_back(code)):
                    others.append(Reading("program+truncated", prefix, part))
                elif part is block or not block.fenced:
                    others.append(Reading("unparsed", code, part))
                if tree:
                    break
        yield from (*silent, *others)

    def cut_back(self, code: str) -> str:
        """The longest prefix of the truncated `code` that parses and gives the entry point a body; else "".

        A syntax error before the end is the model's error and is kept.
        """
        if not self.parser.is_incomplete(code):
            return ""
        lines = code.split("\n")
        tree = self.parser.parse(code)
        while tree is None and self.parser.fault:
            del lines[min(len(lines), self.parser.fault) - 1 :]
            tree = self.parser.parse("\n".join(lines))
        entry = tree and definition(tree, self.name)
        is_useful = entry and not is_stub(entry) if self.name else tree and tree.body
        return "\n".join(lines) if is_useful else ""

    @cached_property
    def _margin(self) -> str:
        """Indentation of the body that the prompt begins; four spaces by default."""
        tree = self.parser.parse(self.prompt)
        entry = tree and definition(tree, self.name)
        if not entry:
            return "    "
        return self.prompt.split("\n")[entry.body[0].lineno - 1][: entry.body[0].col_offset]


def free_names(tree: ast.Module) -> set[str]:
    """Names that a whole program reads and lacks; none if an `import *` may bind them."""
    return set() if "*" in bound_names(tree) else unbound_names(tree) - {"__file__"}


def at_margin(text: str) -> str:
    """`text` dedented, if its first line is indented; `dedent` would also strip blank lines within strings."""
    text = text.strip("\n")
    return textwrap.dedent(text) if text.startswith((" ", "\t")) else text


def _indented(body: str, margin: str) -> Iterator[str]:
    """`body` with corrected indentation: unchanged if indented; all lines moved; first line moved; tabs expanded."""
    if body.startswith((" ", "\t")):
        yield body
    first, _, rest = body.partition("\n")
    yield textwrap.indent(at_margin(body), margin)
    yield f"{margin}{first.lstrip()}\n{rest}"
    yield textwrap.indent(f"{first.lstrip()}\n{rest}", margin)
    spaces = re.sub(r"^[ \t]+", lambda indent: indent[0].expandtabs(4), body, flags=re.MULTILINE)
    yield textwrap.indent(at_margin(spaces), margin)


STRAY = re.compile(r"""\A(\s*)(["'`])(?!\2)""")
STRAY_END = re.compile(r"""(?<!["'`])["'`]\s*\Z""")


def without_stray_quote(code: str) -> str:
    """`code` without one quote mark before it, and without one after it if there is one before it; else unchanged."""
    if not STRAY.match(code):
        return code
    return STRAY_END.sub("", STRAY.sub(r"\1", code, count=1), count=1)
