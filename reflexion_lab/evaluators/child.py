"""A candidate's process inside the sandbox: execute a program, run its checks, report. Standard library only."""

import _ast
import os
import sys
import types
from _json import encode_basestring_ascii as quoted
from collections.abc import Callable, Iterator
from time import perf_counter as clock
from typing import Any

REPORT = 3
"""The descriptor of the report."""
EXPLAINED = 3
"""Failing checks whose two sides are shown."""


def run_checks(asked: dict[str, Any]) -> None:
    """Execute the program, then every check in a copy of its namespace; report each."""
    tell, checks = teller(asked.pop("nonce")), asked["checks"]
    try:
        tests = define(asked)
    except BaseException as problem:
        if isinstance(problem, KeyError) and problem.args == (asked["entry_point"],):
            problem = NameError(f"name '{asked['entry_point']}' is not defined")
        for index in range(len(checks)):
            tell([index, *describe(problem), 0.0])
        return
    outcomes = [run_check(index, source, tests, tell) for index, source in enumerate(checks)]
    failed = [index for index, outcome in enumerate(outcomes) if outcome == "fail"]
    for index in failed[:EXPLAINED]:
        if message := explain(checks[index], tests):
            tell([index, message])


def teller(nonce: str) -> Callable[[list[Any]], None]:
    """Writes report lines. What it needs is bound here, before the program can replace it."""
    write, text = os.write, str

    def tell(entry: list[Any]) -> None:
        fields = ", ".join([quoted(field) if isinstance(field, text) else repr(field) for field in entry])
        write(REPORT, f"{nonce} [{fields}]\n".encode())

    return tell


def define(asked: dict[str, Any]) -> dict[str, Any]:
    """Execute the program as a module of its own; returns the namespace of its tests."""
    if "random" in asked["program"]:  # equal programs draw equal numbers
        import random

        random.seed(0)
    module = types.ModuleType("candidate")
    sys.modules["candidate"] = sys.modules["__main__"] = module
    for private in ("lockdown", "child"):
        sys.modules.pop(private, None)
    exec(compile(asked["program"], "<candidate>", "exec"), module.__dict__)
    tests = dict(module.__dict__)
    tests["candidate"] = module.__dict__[asked["entry_point"]]
    exec(compile(asked["setup"], "<setup>", "exec"), tests)
    return tests


def run_check(index: int, source: str, tests: dict[str, Any], tell: Callable[[list[Any]], None]) -> str:
    """Run one check and report it; returns its outcome."""
    start, told = clock(), ["pass", "", "", 0]
    try:
        exec(compile(source, "<check>", "exec"), tests)
    except BaseException as problem:
        told = describe(problem)
    tell([index, *told, round(clock() - start, 6)])
    return str(told[0])


def describe(problem: BaseException) -> list[Any]:
    """Outcome, exception type, message, and the line of the program that it points at."""
    lines = [line for frame, line in walk(problem.__traceback__) if frame.f_code.co_filename == "<candidate>"]
    if isinstance(problem, SyntaxError) and problem.filename == "<candidate>":
        lines = [problem.lineno or 0]
    outcome = "error"
    if isinstance(problem, SystemExit):
        outcome = "early_exit"
    elif isinstance(problem, MemoryError):
        outcome = "memory"
    elif isinstance(problem, AssertionError) and not lines:
        outcome = "fail"
    try:
        message = str(problem)[:500]
    except Exception:  # an exception of the candidate's own may refuse to be printed
        message = ""
    return [outcome, type(problem).__name__, message, lines[-1] if lines else 0]


def walk(trace: types.TracebackType | None) -> Iterator[tuple[types.FrameType, int]]:
    """Frames and lines, outermost first. (The module `traceback` would make every fork dearer.)"""
    while trace is not None:
        yield trace.tb_frame, trace.tb_lineno
        trace = trace.tb_next


def explain(source: str, tests: dict[str, Any]) -> str:
    """`expected X, got Y` for a check that ends in `assert Y == X`, by evaluating both sides once more."""
    try:
        tree: Any = compile(source, "<check>", "exec", _ast.PyCF_ONLY_AST)
        last = tree.body[-1]
        if not (isinstance(last, _ast.Assert) and isinstance(last.test, _ast.Compare) and len(last.test.ops) == 1):
            return ""
        if not isinstance(last.test.ops[0], _ast.Eq):
            return ""
        sides = (last.test.comparators[0], last.test.left)
        expected, got = (repr(eval(compile(_ast.Expression(s), "<check>", "eval"), tests))[:200] for s in sides)
    except BaseException:
        return ""
    return f"expected {expected}, got {got}"
