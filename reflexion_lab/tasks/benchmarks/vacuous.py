"""Tests that check nothing: they pass with a program that only returns None, or only raises."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import chain

from reflexion_lab.protocols import Sandbox
from reflexion_lab.records import Task
from reflexion_lab.tasks.evaluators.executed import executed
from reflexion_lab.tasks.sandbox.apart import judge, prepare
from reflexion_lab.tasks.sandbox.programs import case
from reflexion_lab.tasks.sandbox.suites import is_main_guard
from reflexion_lab.text.replies.syntax import UNPARSABLE, tree_of

STUB = "def {}(*_, **__):\n    {}\n"
DOES = {"returns None": "return None", "raises": "raise type('Stub', (Exception,), {})()"}
NEITHER = """own = {{'__name__': 'candidate'}}
exec({program!r}, own)
globals().update(own)
def {name}(*arguments, **named):
    try:
        return own[{name!r}](*arguments, **named) or object()
    except Exception:
        return object()
"""
"""A program that does the same as another, but returns no false value and raises nothing."""
CATCHES = ("", "AssertionError", "Exception", "BaseException")


def vacuous(task: Task, tests: Sequence[str], executor: Sandbox) -> str:
    """Why `tests` check nothing; "" if they do check something, or are none.

    A right answer may be None or an exception: a stub's pass counts only if the canonical solution passes without
    giving either; without one, if a program passes whose answers are equal to nothing.
    """
    if task.kind == "program" and tests and not any(case(test).output.split() for test in tests):
        return "a program passes that prints nothing"
    if task.kind != "function" or not tests or any(_fails_with_none(test, task) for test in tests):
        return ""
    named = next((flaw for test in tests for flaw in flaws(test)), "")
    if named and all(map(_flaw, chain.from_iterable(map(_statements, tests)))):
        return named

    def passes(program: str) -> bool:
        checks = executed(task, program, tests, executor).checks
        return all(check.outcome == "pass" for check in checks)

    neither = NEITHER.format(program=task.canonical_program, name=task.entry_point)
    neither = neither if task.canonical_solution.strip() else STUB.format(task.entry_point, "return object()")
    for what, does in DOES.items():
        if passes(STUB.format(task.entry_point, does)) and passes(neither):
            return named or f"a program passes that only {what}"
    return ""


def flaws(test: str) -> Iterator[str]:
    """What looks like a check in `test` and is none."""
    if not test.startswith("assert ") or test.startswith("assert ("):
        for node in (part for statement in _statements(test) for part in ast.walk(statement)):
            if flaw := _flaw(node):
                yield f"{flaw}: {' '.join(ast.unparse(node).split())}"


def _statements(test: str) -> list[ast.stmt]:
    try:
        return tree_of(test).body
    except UNPARSABLE:
        return [ast.Raise()]


def _fails_with_none(test: str, task: Task) -> bool:
    """Whether the test compares a call so that None fails, which needs no process."""
    check = prepare(test, task.entry_point, task.setup)
    calls = check.calls[1] if check.calls else []
    return check.test is not None and bool(calls) and judge(check.test, [None] * len(calls))["outcome"] != "pass"


def _flaw(node: ast.AST) -> str:
    match node:
        case ast.Expr(value=ast.Compare() | ast.BoolOp()):
            return "a comparison without `assert`"
        case ast.Assert(test=ast.Tuple(elts=[_, *_])):
            return "an `assert` on a tuple, which is always true"
        case ast.If() if is_main_guard(node) and asserts(node):
            return "never executed"
        case ast.Try(body=body, handlers=handlers, orelse=[], finalbody=[]) if asserts(*body):
            kinds = {ast.unparse(handler.type) if handler.type else "" for handler in handlers}
            does = {ast.unparse(statement).partition("(")[0] for handler in handlers for statement in handler.body}
            return "an `assert` that is caught" if kinds & {*CATCHES} and does <= {"pass", "print", "..."} else ""
        case ast.With(items=items, body=body) if asserts(*body):
            calls = {ast.unparse(item.context_expr).rpartition(".")[2] for item in items}
            return "an `assert` that is caught" if calls & {f"suppress({name})" for name in CATCHES} else ""
    return ""


def asserts(*nodes: ast.stmt) -> bool:
    """Whether an `assert` is in the nodes."""
    return any(isinstance(part, ast.Assert) for node in nodes for part in ast.walk(node))
