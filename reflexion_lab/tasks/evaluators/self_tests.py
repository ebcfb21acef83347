"""Tests that a model writes from the prompt (Shinn et al. 2023, arXiv:2303.11366, section 4.3)."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta

from reflexion_lab.limits import Repeats, validated
from reflexion_lab.protocols import Model
from reflexion_lab.records import WITHHELD, Completion, Message, Sampling, Task, WrittenTests
from reflexion_lab.text.prompts.render import Prompts
from reflexion_lab.text.replies.extract import preamble, without_thoughts
from reflexion_lab.text.replies.syntax import NAME, UNPARSABLE, Parser, unbound_names


class SelfTests:
    """Suite writer that asks a model for asserts and keeps the valid ones.

    `style`: `continuation` lets the model continue the prompt as a file that ends in the start of an assert.
    `max_tests`: maximum number of tests; the first ones are kept. `max_chars`: maximum length of an assert.
    `drop_visible`: drop the task's visible tests.
    """

    @validated
    def __init__(
        self,
        model: Model,
        sampling: Sampling,
        prompts: Prompts | None = None,
        *,
        style: Literal["chat", "continuation"] = "chat",
        max_tests: Repeats = 6,
        max_chars: Annotated[int, Meta(ge=1, le=LONGEST)] = 500,
        drop_visible: bool = False,
    ) -> None:
        self.model = model
        self.sampling = sampling
        self.prompts = prompts or Prompts()
        self.style = style
        self.max_tests = max_tests
        self.max_chars = max_chars
        self.drop_visible = drop_visible

    def write(self, task: Task) -> WrittenTests:
        messages = (self._message(task),)
        completion = self.model.complete(messages, sampling=self.sampling)
        tests, dropped = self._sift(task, self._text(task, completion), completion.finish_reason == "length")
        return WrittenTests(
            task_id=task.loop_id,
            tests=tuple(tests),
            dropped=dropped,
            messages=messages,
            reply=completion.text,
            finish_reason=completion.finish_reason,
            usage=completion.usage,
        )

    def _message(self, task: Task) -> Message:
        # Only the prompt of the task, so that the model sees no test.
        about = {"prompt": task.prompt, "entry_point": task.entry_point}
        if self.style == "chat":
            return Message(role="user", content=self.prompts.render("write_tests", n=self.max_tests, **about))
        return Message(role="assistant", content=self.prompts.render("continue_tests", **about))

    def _text(self, task: Task, completion: Completion) -> str:
        if completion.finish_reason in WITHHELD:
            return ""
        prefix = f"assert {task.entry_point}" if self.style == "continuation" and completion.text.strip() else ""
        return prefix + completion.text

    def _sift(self, task: Task, text: str, is_cut: bool) -> tuple[list[str], dict[str, str]]:
        """Kept tests, and dropped tests with their reason."""
        tests: list[str] = []
        dropped: dict[str, str] = {}
        if is_cut:  # a cut `== 12` may still be Python
            text, _, last = text.rpartition("\n")
            dropped |= {test.source: "cut off" for test in asserts(last, self.max_chars)}
        sieve = Sieve(task, task.visible_tests if self.drop_visible else ())
        for test in asserts(text, self.max_chars):
            reason = sieve.refusal(test) or ("one too many" if len(tests) >= self.max_tests else "")
            if reason:
                dropped.setdefault(test.source, reason)
            else:
                tests.append(test.source)
        return tests, dropped


READ = 20_000
"""Characters of a reply that are searched; a longer reply is a repetition loop."""
LINES, LONGEST = 20, 2000
"""Maximum lines and characters of an assert, so that the parser stays within bounds."""
BEGINNING = re.compile(r"[ \t]*assert\b")


class Assert(NamedTuple):
    source: str
    """One line by `ast.unparse`, without the message; the truncated raw text of an invalid assert."""
    test: ast.expr | None
    """None for an invalid assert."""
    problem: str = ""
    """Why it is invalid: `no Python` (also for other statements), `too long`."""


def asserts(reply: str, max_chars: int) -> Iterator[Assert]:
    """All asserts of `reply` in order, also those inside functions; those longer than `max_chars` are invalid."""
    lines = without_thoughts(reply)[0][:READ].split("\n")
    at = 0
    while at < len(lines):
        if not BEGINNING.match(lines[at]):
            at += 1
            continue
        parsed, n_lines = _from(lines[at : at + LINES], max_chars)
        yield from parsed
        at += n_lines


def _from(lines: list[str], max_chars: int) -> tuple[list[Assert], int]:
    """Asserts of the shortest valid prefix of `lines`, and its number of lines."""
    text, problem = "", "no Python"
    for number, line in enumerate(lines, 1):
        if number > 1 and BEGINNING.match(line):
            break
        text = f"{text}\n{line}".strip()
        if len(text) > max_chars:
            problem = "too long"
            break
        if parsed := _parse(text):
            return parsed, number
    return [Assert(lines[0].strip()[:max_chars], None, problem)], 1


def _parse(text: str) -> list[Assert]:
    """Asserts of `text`; [] if it is no Python or has other statements."""
    tree = Parser().parse(text)
    if tree is None or not all(isinstance(node, ast.Assert) for node in tree.body):
        return []
    try:
        compile(tree, NAME, "exec", dont_inherit=True)  # refuses `f(x=1, x=2)`, which parses
        tests = [node.test for node in tree.body if isinstance(node, ast.Assert)]
        return [Assert(f"assert {ast.unparse(test)}", test) for test in tests]
    except UNPARSABLE:
        return []


class Sieve:
    """Filter of the asserts for `task`, in order; `known` are tests to reject as repetitions."""

    def __init__(self, task: Task, known: Iterable[str] = ()) -> None:
        self.calls = {task.entry_point, "candidate"}
        # Words, not definitions: a surplus name admits a test that fails, a missing name rejects a valid test.
        self.defined = {*self.calls, *re.findall(r"\w+", task.setup + preamble(task))}
        self.entry_point = task.entry_point
        self.known = {self._source(assertion) for test in known for assertion in _parse(test)} - {""}
        self._answers: dict[str, str] = {}

    def _source(self, known: Assert) -> str:
        """Source of a known test that calls the entry point by its name; "" if it is nested too deep."""
        try:
            return ast.unparse(self._renamed(known.test)) if known.test else ""
        except RecursionError:
            return ""

    def refusal(self, assertion: Assert) -> str:
        """Why an assert cannot serve as a test; "" if it can."""
        if assertion.test is None:
            return assertion.problem
        try:
            test = self._renamed(assertion.test)
            return self._flaw(test) or self._repetition(test)
        except RecursionError:  # the stack is deeper here than in the parser
            return "no Python"

    def _flaw(self, test: ast.expr) -> str:
        if not self._is_called(test):
            return "no call"
        if unknown := unbound_names(ast.Module([ast.Expr(test)], [])) - self.defined:
            return f"undefined name: {min(unknown)}"
        return "always true" if _always_true(test) else ""

    def _renamed(self, test: ast.expr) -> ast.expr:
        """A copy of the test with `candidate` replaced by the entry point's name."""
        test = copy.deepcopy(test)
        for node in ast.walk(test):
            if isinstance(node, ast.Name) and node.id == "candidate":
                node.id = self.entry_point
        return test

    def _repetition(self, test: ast.expr) -> str:
        if ast.unparse(test) in self.known:
            return "shown by the task"
        question, answer = self._question(test)
        if question in self._answers:
            return "duplicate" if self._answers[question] == answer else "contradicts an earlier test"
        self._answers[question] = answer
        return ""

    def _is_called(self, node: ast.expr) -> bool:
        called = (part.func for part in ast.walk(node) if isinstance(part, ast.Call))
        return any(isinstance(function, ast.Name) and function.id in self.calls for function in called)

    def _question(self, test: ast.expr) -> tuple[str, str]:
        """The tested expression and its expected value; two tests of one expression must expect the same value."""
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                question, answer = self._question(operand)
                return question, "False" if answer == "True" else f"not {answer}"
            case ast.Compare(left=left, ops=[ast.Eq() | ast.Is()], comparators=[right]):
                match [self._is_called(side) for side in (left, right)]:
                    case [True, False]:
                        return ast.unparse(left), ast.unparse(right)
                    case [False, True]:
                        return ast.unparse(right), ast.unparse(left)
        return ast.unparse(test), "True"


def _always_true(test: ast.expr) -> bool:
    """Whether the test holds for every result, judged by its syntax."""
    result = False
    match test:
        case ast.Constant(value=value):
            result = bool(value)
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            result = bool(parts)
        case ast.Dict(values=parts):
            result = bool(parts)
        case ast.GeneratorExp() | ast.Lambda() | ast.JoinedStr():
            result = True
        case ast.ListComp(generators=loops) | ast.SetComp(generators=loops) | ast.DictComp(generators=loops):
            result = all(_always_true(loop.iter) and not loop.ifs for loop in loops)
        case ast.IfExp(body=body, orelse=other):
            result = _always_true(body) and _always_true(other)
        case ast.NamedExpr(value=value):
            result = _always_true(value)
        case ast.BoolOp(op=ast.Or(), values=values):
            result = any(map(_always_true, values))
        case ast.BoolOp(values=values):
            result = all(map(_always_true, values))
        case ast.Compare(left=left, ops=[ast.Eq() | ast.Is() | ast.LtE() | ast.GtE()], comparators=[right]):
            result = ast.dump(left) == ast.dump(right)
    return result
