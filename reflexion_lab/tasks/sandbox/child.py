"""A candidate's process inside the sandbox: executes a program and its checks. Standard library only.

A check that can be split arrives only as calls, whose values the lab compares. A check that needs no more than plain
data runs in a trusted child (`standin.py`). Only a check that needs more runs here, beside the program, which can forge
it: it is marked `in_process`.
"""

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

REPORT, CALLS = 3, 5
"""Descriptors of the report, and of the connection between a trusted child and the candidate that it calls."""
SIDES = ("$actual", "$expected")
"""Names under which a check keeps both sides of its last comparison (`apart.py`)."""


def run_checks(request: dict[str, Any]) -> None:
    """Execute the program, then compute and report every check in a copy of its namespace."""
    send, checks = sender(request.pop("nonce")), request["checks"]
    try:
        tests = define(request)
    except BaseException as problem:
        for index in range(len(checks)):
            send(index, row(*describe(problem), 0.0))
        return
    for index, check in enumerate(checks):
        for fields in results(check, tests):
            send(index, fields)


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
    """Execute the program as a module; returns the namespace of its tests: a copy, or that of the program if a whole
    check runs here, as in plain Python.
    """
    if "random" in request["program"]:  # so that equal programs draw equal numbers
        import random

        random.seed(0)
    module = types.ModuleType("candidate")
    sys.modules["candidate"] = sys.modules["__main__"] = module
    for private in ("lockdown", "seccomp", "child", "plain", "standin", "comparison", "semaphores"):
        sys.modules.pop(private, None)
    exec(compile(request["program"], "<candidate>", "exec"), module.__dict__)
    is_shared = any(isinstance(check, str | types.CodeType) for check in request["checks"])
    tests = module.__dict__ if is_shared else dict(module.__dict__)
    if (name := request["entry_point"]) not in tests:
        raise NameError(f"name '{name}' is not defined")
    tests["candidate"] = tests[name]
    if setup := request["setup"]:
        exec(setup if isinstance(setup, types.CodeType) else compile(setup, "<setup>", "exec"), tests)
    return tests


def results(check: Any, tests: dict[str, Any]) -> Iterator[str]:
    """Rows of a check: imports and calls of one that is split, else code, or source that does not compile."""
    if isinstance(check, tuple):
        imports, calls = check
        yield compute(imports, calls, tests)
    else:
        yield from run(check, tests)


def run(check: Any, tests: dict[str, Any]) -> Iterator[str]:
    """Run a whole check; its row, and that of both sides of its last comparison if it fails."""
    for name in SIDES:
        tests.pop(name, None)
    start, fields = clock(), ["pass", "", "", 0]
    try:
        exec(compile(check, "<check>", "exec") if isinstance(check, str) else check, tests)
    except BaseException as problem:
        fields = vars(problem).get("$report") or describe(problem)
    yield row(*fields, round(clock() - start, 6))
    if fields[0] == "fail" and all(name in tests for name in SIDES):
        actual, expected = (shown(tests[name]) for name in SIDES)
        yield row(expected, actual)


def shown(value: Any) -> str:
    """`repr`, truncated; "" if it raises."""
    try:
        return repr(value)[:200]
    except Exception:
        return ""


def compute(imports: Any, calls: list[Any], tests: dict[str, Any]) -> str:
    """The values of the calls as plain data, or the exception."""
    start = clock()
    try:
        if imports is not None:
            exec(imports, tests)
        values = [encode(eval(call, tests)) for call in calls]
    except BaseException as problem:
        outcome, *details = describe(problem)
        return row("error" if outcome == "fail" else outcome, *details, round(clock() - start, 6))
    return f"[{','.join(values)}], {clock() - start:.6f}"


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
