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
CALLED = "called"
"""Outcome of a check that ran apart and called an object of the program; it counts beside the program."""
HAS_RUN, RUN_REST = "$has_run", "$run_rest"
"""Names of the functions with which a check runs its tests (`suites.py`)."""


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
    suite = Tests(tests)
    tests |= {HAS_RUN: suite.has_run, RUN_REST: suite.run_rest}
    start, fields = clock(), ["pass", "", "", 0]
    try:
        code = compile(check, "<check>", "exec") if isinstance(check, str) else check
        if "unittest" in code.co_names:
            raise_failures()
        exec(code, tests)
    except BaseException as problem:
        fields = vars(problem).get("$report") or describe(problem)
    yield row(*fields, round(clock() - start, 6))
    if fields[0] == "fail" and all(name in tests for name in SIDES):
        actual, expected = (shown(tests[name]) for name in SIDES)
        yield row(expected, actual)


class Tests:
    """The tests of a check: those that it has run, and those that it only defines."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = names
        self.ran: set[tuple[type, str]] = set()

    def has_run(self, name: str, case: object = None) -> None:
        self.ran.add((type(case), name))

    def run_rest(self, entry_point: str, acts: bool, *names: str) -> None:
        """Run the tests with these names that have not run; none with an argument if the check `acts` in other ways.
        Raises their first failure, also that of a set-up, and TypeError: a test needs an argument.
        """
        values = [(name, self.names.get(name)) for name in names]
        classes: list[Any] = [value for _, value in values if isinstance(value, type)]
        unit = sys.modules.get("unittest")
        cases = [kind for kind in classes if unit and issubclass(kind, unit.TestCase)]
        if unit and cases:
            raise_failures()
            suites = [unit.defaultTestLoader.loadTestsFromTestCase(kind) for kind in cases]
            rest = [test for suite in suites for test in suite if not self.was_run(type(test), test._testMethodName)]
            unit.TextTestRunner().run(unit.TestSuite(rest))
        for kind in classes:
            is_named = kind.__name__.startswith("Test") or kind.__name__.endswith(("Test", "Tests"))
            if is_named and kind not in cases and not (acts and kind.__init__ is not object.__init__):
                self.run_class(kind)
        for name, value in values:
            if callable(value) and not isinstance(value, type) and (type(None), name) not in self.ran:
                needed = _needed(value)
                is_passed = bool(needed) and (name == "check" or needed[0] in ("candidate", entry_point))
                if not acts or len(needed) == is_passed:
                    called(value, *[eval("candidate", self.names)] * is_passed)

    def was_run(self, kind: type, name: str) -> bool:
        return any(name == other and issubclass(case, kind) for case, other in self.ran)

    def run_class(self, kind: type) -> None:
        tests = [name for name in dir(kind) if name.startswith("test") and callable(getattr(kind, name))]
        rest = [name for name in tests if not self.was_run(kind, name)]
        hook(kind, "setup_class", kind) if rest else None
        for name in rest:
            case = kind()
            hook(case, "setup", case)
            hook(case, "setup_method", getattr(case, name))
            called(getattr(case, name))


def hook(owner: Any, name: str, argument: Any) -> None:
    """Call the set-up, if there is one, with the argument if it needs one."""
    if method := getattr(owner, name, None):
        method(*[argument] * len(_needed(method)))


def called(test: Any, *arguments: Any) -> None:
    result = test(*arguments)
    if isinstance(result, types.CoroutineType):
        import asyncio

        asyncio.run(result)


def _needed(function: Any) -> tuple[str, ...]:
    """Positional parameters without a default, without that of the object."""
    code = getattr(function, "__code__", None)
    if code is None:
        return ()
    count = code.co_argcount - len(function.__defaults__ or ())
    return tuple(code.co_varnames[hasattr(function, "__self__") : count])


def raise_failures() -> None:
    """Let runners of `unittest` raise the first failure, and `unittest.main` leave the tests to `Tests`."""
    import unittest

    class Raising(unittest.TestResult):
        def addError(self, test: Any, err: Any) -> None:  # noqa: N802 (names of unittest)
            raise err[1]

        def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802
            if err:
                raise err[1]

        def addUnexpectedSuccess(self, test: Any) -> None:  # noqa: N802
            raise AssertionError("a failure was expected")

        addFailure = addError  # noqa: N815

    def run_suite(_: Any, test: Any) -> Any:
        result = Raising()
        test.run(result)
        return result

    runner: Any = unittest.TextTestRunner
    runner.run = run_suite
    unittest.main = lambda *_, **__: types.SimpleNamespace(result=Raising())  # type: ignore[assignment]


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
