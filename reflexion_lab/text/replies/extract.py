"""The program in a model's reply.

Replies are hostile: they are parsed within bounds (`replies/syntax.py`), never compiled or executed in this process.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from reflexion_lab.records import Task
from reflexion_lab.text.replies.blocks import Block, blocks, pieces, without_thoughts
from reflexion_lab.text.replies.readings import ORDER, Reader, Reading, at_margin
from reflexion_lab.text.replies.syntax import (
    CODE_CHARS,
    Parser,
    asides,
    bound_names,
    future_imports,
    idle,
    unbound_names,
    usage,
    without,
)

REPLY_CHARS = 1_000_000
"""Characters of the longest reply that is read."""


class Extraction(NamedTuple):
    """A program and the rule that found it.

    A rule is words joined by `+`. Place: `fence`, or nothing for bare text. Kind: `function` (it defines the entry
    point), `body` (it completes the prompt), `stub` (a definition without a body), `undefined` (Python that does not
    define the entry point at top level), `unparsed` (not Python), `continuation` (the reply continued a program).
    Changes: `truncated` (the reply broke off; cut back to what parses), `joined` (with other blocks that define what it
    needs), `usage` (asserts, trial calls, `input()` and exits are removed, but nothing that changes a name which the
    entry point reads).

    Without a program the rule is the reason: `none` (no code), `thinking` (the reply ended within its `<think>`
    section), `too_long`.
    """

    program: str
    """A whole program, or "" when there was none."""
    rule: str


def extract(reply: str, task: Task) -> Extraction:
    """The program of `reply` for `task`. Never raises; parses a bounded number of bounded texts.

    It is the last complete definition of the entry point, since a reply may correct itself. Fenced code is preferred to
    bare text, and a definition, even a faulty one, to a body. Imports and helper functions of the prompt that the code
    does not define itself are added in front. Code that is not Python is returned unchanged: its syntax error is
    feedback.
    """
    if len(reply) > REPLY_CHARS:
        return Extraction("", "too_long")
    text, thinking = without_thoughts(reply)
    every, parser = blocks(text), Parser()
    readable = [block for block in every if len(block.text) <= CODE_CHARS]
    best = _best(Reader(task, parser).readings(readable))
    if best is None:
        return Extraction("", "thinking" if thinking else "too_long" if len(readable) < len(every) else "none")
    where = "fence+" if best.block.fenced else ""
    if best.what in ("unparsed", "faulty"):
        return Extraction(best.code.strip("\n") + "\n", where + "unparsed")
    helpers = _helpers(best, readable, task, parser) if best.what.startswith("function") else []
    program, has_usage = _assembled(best.code, helpers, task, parser)
    return Extraction(program, where + best.what + "+joined" * bool(helpers) + "+usage" * has_usage)


def preamble(task: Task) -> str:
    """The code of the prompt before its entry point: imports, helper functions; "" for a prompt in prose."""
    decorators, name = r"(?:@.*\n(?:[ \t)#].*\n)*)*", re.escape(task.entry_point)
    head = re.search(rf"^{decorators}(?:(?:async[ \t]+)?def|class)[ \t]+{name}\b", task.prompt, re.MULTILINE)
    return task.prompt[: head.start()] if head else ""


def _best(readings: Iterator[Reading]) -> Reading | None:
    """The first reading of the most trusted kind; a complete function ends the search."""
    first: dict[str, Reading] = {}
    for reading in readings:
        first.setdefault(reading.what, reading)
        if reading.what == "function":
            break
    return min(first.values(), key=lambda reading: ORDER.index(reading.what), default=None)


def _helpers(best: Reading, every: list[Block], task: Task, parser: Parser) -> list[str]:
    """Definitions in other blocks that the code needs, in the order of the reply; the last of a name counts."""
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
    """The whole program, definitions of the prompt that the reply lacks before the reply's code; and whether usage was
    removed.
    """
    code = "\n\n\n".join([*helpers, code])
    tree = parser.parse(code)
    if tree is None:  # the reply used up its parses
        return code.strip("\n") + "\n", False
    before = preamble(task)
    known = parser.parse(before) or ast.Module([], [])
    trials = usage(tree, task.entry_point, known)
    front = _lacking(before, known, bound_names(tree))
    future = future_imports(tree) if front or helpers else []
    first = [f"{ast.unparse(node)}\n" for node in future]  # they must stand before everything else
    rest = without(code, tree, [*trials, *future, *idle(tree)]).strip("\n")
    return f"{''.join(first)}{front}{rest}\n", bool(trials)


def _lacking(before: str, tree: ast.Module, bound: set[str]) -> str:
    """The statements of `before`, whose tree is `tree`, that define other names than `bound`."""
    known = [node for node in tree.body if bound_names(ast.Module([node], [])) <= bound]
    return without(before, tree, known).lstrip("\n") if len(known) < len(tree.body) else ""
