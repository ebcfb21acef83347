"""Finds the asserts in what a model wrote, and says which of them can serve as tests.

Text is hostile: it is parsed within bounds and never run here. Only the sandbox executes what is kept.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from reflexion_lab.extract import preamble
from reflexion_lab.records import Task
from reflexion_lab.replies.blocks import without_thoughts
from reflexion_lab.replies.syntax import NAME, Parser, unbound_names

READ = 20_000
"""Characters of a reply that are looked at; more are no tests but a loop."""
LINES, LONGEST = 20, 2000
"""Lines and characters of one assert at most: what is this short cannot overwhelm the parser."""
BEGINNING = re.compile(r"[ \t]*assert\b")
MISTAKES = (SyntaxError, ValueError, TypeError, MemoryError, RecursionError)
"""What `compile` and `ast.unparse` raise on what is Python in form alone, or too deep or too large."""


class Assert(NamedTuple):
    source: str
    """In one line, as `ast` writes it, without the message; the raw text, cut, where it could not be read."""
    test: ast.expr | None
    """None where it could not be read."""
    problem: str = ""
    """Why it could not: `no Python` (or more than an assert), `too long`."""


def asserts(reply: str, max_chars: int) -> Iterator[Assert]:
    """Every assert of `reply` in its order, also from inside functions; none longer than `max_chars` is read."""
    lines = without_thoughts(reply)[0][:READ].split("\n")
    at = 0
    while at < len(lines):
        if not BEGINNING.match(lines[at]):
            at += 1
            continue
        found, taken = _from(lines[at : at + LINES], max_chars)
        yield from found
        at += taken


def _from(lines: list[str], max_chars: int) -> tuple[list[Assert], int]:
    """The asserts of the shortest beginning of `lines` that is Python, and its number of lines."""
    text, problem = "", "no Python"
    for number, line in enumerate(lines, 1):
        if number > 1 and BEGINNING.match(line):
            break
        text = f"{text}\n{line}".strip()
        if len(text) > max_chars:
            problem = "too long"
            break
        if found := _parse(text):
            return found, number
    return [Assert(lines[0].strip()[:max_chars], None, problem)], 1


def _parse(text: str) -> list[Assert]:
    """The asserts of a line; [] where it is no Python or does more than assert."""
    tree = Parser().parse(text)
    if tree is None or not all(isinstance(node, ast.Assert) for node in tree.body):
        return []
    try:
        compile(tree, NAME, "exec", dont_inherit=True)  # refuses `f(x=1, x=2)`, which parses
        tests = [node.test for node in tree.body if isinstance(node, ast.Assert)]
        # A message would only tell the candidate's author what the values tell.
        return [Assert(f"assert {ast.unparse(test)}", test) for test in tests]
    except MISTAKES:
        return []


class Sieve:
    """Says of one assert after the other why it is no use as a test of `task`, "" for one that is.

    `known` are tests that shall not be written again.
    """

    def __init__(self, task: Task, known: Iterable[str] = ()) -> None:
        self.calls = {task.entry_point, "candidate"}
        # Words, not definitions: a name too many costs a test that fails, one too few a test that is lost.
        self.defined = {*self.calls, *re.findall(r"\w+", task.setup + preamble(task))}
        self.known = {found.source for test in known for found in _parse(test)}
        self._answers: dict[str, str] = {}

    def refusal(self, one: Assert) -> str:
        if one.test is None:
            return one.problem
        try:
            return self._flaw(one.test) or self._repetition(one.test, one.source)
        except RecursionError:  # what could just be read may be too deep from here
            return "no Python"

    def _flaw(self, test: ast.expr) -> str:
        if not self._is_called(test):
            return "no call"
        if unknown := unbound_names(ast.Module([ast.Expr(test)], [])) - self.defined:
            return f"undefined name: {min(unknown)}"
        return "always true" if _always_true(test) else ""

    def _repetition(self, test: ast.expr, source: str) -> str:
        if source in self.known:
            return "shown by the task"
        question = self._question(test)
        if question in self._answers:
            return "duplicate" if self._answers[question] == source else "contradicts an earlier test"
        self._answers[question] = source
        return ""

    def _is_called(self, node: ast.expr) -> bool:
        called = (part.func for part in ast.walk(node) if isinstance(part, ast.Call))
        return any(isinstance(function, ast.Name) and function.id in self.calls for function in called)

    def _question(self, test: ast.expr) -> str:
        """What the test asks, without the answer: two answers to one question can never both be right."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self._question(test.operand)
        match test:
            case ast.Compare(left=left, ops=[ast.Eq() | ast.Is()], comparators=[right]):
                sides = [side for side in (left, right) if self._is_called(side)]
                return ast.unparse(sides[0] if len(sides) == 1 else test)
        return ast.unparse(test)


def _always_true(test: ast.expr) -> bool:
    """Whether no result could fail it, as far as its shape tells."""
    match test:
        case ast.Constant(value=value):
            return bool(value)
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            return bool(parts)
        case ast.BoolOp(op=ast.Or(), values=values):
            return any(map(_always_true, values))
        case ast.BoolOp(values=values):
            return all(map(_always_true, values))
        case ast.Compare(left=left, ops=[ast.Eq() | ast.Is() | ast.LtE() | ast.GtE()], comparators=[right]):
            return ast.dump(left) == ast.dump(right)
    return False
