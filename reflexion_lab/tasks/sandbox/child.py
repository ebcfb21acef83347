"""A candidate's process inside the sandbox: executes a program and its checks. Standard library only.

A check judged apart arrives only as calls, whose values the lab compares; nothing here has the expected values. A check
judged in place runs here, next to the program, which could forge its report.
"""

import _ast
import os
import sys
import types
from _json import encode_basestring_ascii as quoted
from collections.abc import Callable, Iterator
from time import perf_counter as clock
from typing import Any

if "." in __name__:
    from reflexion_lab.tasks.sandbox.plain import encode
else:  # a file without a package inside the sandbox
    from plain import encode  # type: ignore[import-not-found,no-redef]

REPORT = 3
"""Descriptor of the report."""
EXPLAINED = 3
"""Maximum number of failing checks in place with expected and actual values."""


def run_checks(request: dict[str, Any]) -> None:
    """Execute the program, then run and report every check in a copy of its namespace."""
    send, checks = sender(request.pop("nonce")), request["checks"]
    try:
        tests = define(request)
    except BaseException as problem:
        if isinstance(problem, KeyError) and problem.args == (request["entry_point"],):
            problem = NameError(f"name '{request['entry_point']}' is not defined")
        for index in range(len(checks)):
            send(index, row(*describe(problem), 0.0))
        return
    failed = []
    for index, check in enumerate(checks):
        if isinstance(check, tuple):
            imports, calls = check
            send(index, compute(imports, calls, tests))
            continue
        outcome, fields = run_check(check, tests)
        send(index, fields)
        if outcome == "fail":
            failed.append(index)
    for index in failed[:EXPLAINED]:
        if sides := explain(request["sources"][index], tests):
            send(index, row(*sides))


def sender(nonce: str) -> Callable[[int, str], None]:
    """The writer of report lines; binds `os.write` before the program can replace it."""
    write = os.write

    def send(index: int, fields: str) -> None:
        write(REPORT, f"{nonce} [{index}, {fields}]\n".encode())

    return send


def row(*fields: Any) -> str:
    """Texts and numbers as a JSON list without brackets."""
    return ", ".join([quoted(field) if isinstance(field, str) else repr(field) for field in fields])


def define(request: dict[str, Any]) -> dict[str, Any]:
    """Execute the program as a module; returns the namespace of its tests."""
    if "random" in request["program"]:  # so that equal programs draw equal numbers
        import random

        random.seed(0)
    module = types.ModuleType("candidate")
    sys.modules["candidate"] = sys.modules["__main__"] = module
    for private in ("lockdown", "seccomp", "child", "plain"):
        sys.modules.pop(private, None)
    exec(compile(request["program"], "<candidate>", "exec"), module.__dict__)
    tests = dict(module.__dict__)
    tests["candidate"] = module.__dict__[request["entry_point"]]
    if setup := request["setup"]:
        exec(setup if isinstance(setup, types.CodeType) else compile(setup, "<setup>", "exec"), tests)
    return tests


def compute(imports: Any, calls: list[Any], tests: dict[str, Any]) -> str:
    """The values of the calls as plain data, or the exception."""
    start = clock()
    try:
        if imports is not None:
            exec(imports, tests)
        memo: Any = {}
        values = [encode(eval(call, tests), memo) for call in calls]
    except BaseException as problem:
        outcome, *details = describe(problem)
        return row("error" if outcome == "fail" else outcome, *details, round(clock() - start, 6))
    return f"[{','.join(values)}], {clock() - start:.6f}"


def run_check(check: Any, tests: dict[str, Any]) -> tuple[str, str]:
    """Run one check in place; returns its outcome and its row."""
    start, fields = clock(), ["pass", "", "", 0]
    try:
        exec(compile(check, "<check>", "exec") if isinstance(check, str) else check, tests)
    except BaseException as problem:
        fields = describe(problem)
    return str(fields[0]), row(*fields, round(clock() - start, 6))


def describe(problem: BaseException) -> list[Any]:
    """Outcome, exception type, message, and line of the program."""
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
    except Exception:  # printing a user-defined exception may fail
        message = ""
    return [outcome, type(problem).__name__, message, lines[-1] if lines else 0]


def walk(trace: types.TracebackType | None) -> Iterator[tuple[types.FrameType, int]]:
    """Frames and lines, outermost first, without the module `traceback`, which would slow down every fork."""
    while trace is not None:
        yield trace.tb_frame, trace.tb_lineno
        trace = trace.tb_next


def explain(source: str, tests: dict[str, Any]) -> list[str]:
    """Expected and actual value of a check that ends in `assert actual == expected`, evaluated again; else []."""
    try:
        tree: Any = compile(source, "<check>", "exec", _ast.PyCF_ONLY_AST)
        last = tree.body[-1]
        if not (isinstance(last, _ast.Assert) and isinstance(last.test, _ast.Compare) and len(last.test.ops) == 1):
            return []
        if not isinstance(last.test.ops[0], _ast.Eq):
            return []
        sides = (last.test.comparators[0], last.test.left)
        return [repr(eval(compile(_ast.Expression(side), "<check>", "eval"), tests))[:200] for side in sides]
    except BaseException:
        return []
