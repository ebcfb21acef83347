"""The server that runs candidates: a lean process of its own, forked once per program. Standard library only.

Started as `python -s -S -P harness.py SOCKET FOLDER MEMORY FILE_SIZE OPEN_FILES` with an empty environment: a fresh
exec, never a fork of the lab, whose memory holds API keys and hidden tests. The server never reads a request either:
request, report and output are descriptors that travel from the lab to the child, so that one candidate's tests are in
no memory that a later candidate inherits.

Request (JSON): `nonce, program, entry_point, setup, checks`. Report: one line per check, `nonce [index, outcome,
error_type, message, line, seconds]`; after all of them, explanations of failures, `nonce [index, message]`.
Reply on the socket: `STATUS`. Whether the layers were entered is told by a byte in a pipe, which nobody can take back.
"""

import ast
import contextlib
import gc
import json
import os
import random
import select
import shutil
import signal
import socket
import struct
import sys
import time
import types
from collections.abc import Callable
from time import perf_counter as clock
from traceback import walk_tb
from typing import Any

if __name__ == "__main__":  # a lone file here; a module of the package where the lab reads its constants
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import lockdown  # type: ignore[import-not-found]

    del sys.path[0]
else:
    from reflexion_lab.evaluators import lockdown

ASK = struct.Struct("<dI")
"""Wall seconds, CPU seconds."""
STATUS = struct.Struct("<id??")
"""Exit code (negative: signal), seconds, whether the layers were in force, whether the time was over."""
OUT_OF_MEMORY, BROKEN = 98, 99
"""Exit codes of a child whose reporting failed: for want of memory, or otherwise."""
REPORT, ALIVE = 3, 4
"""Descriptors that a child keeps, besides the three streams."""
EXPLAINED = 3
"""Failing checks whose two sides are shown."""
WARM = [
    "abc",
    "ast",
    "bisect",
    "collections",
    "collections.abc",
    "copy",
    "dataclasses",
    "datetime",
    "decimal",
    "enum",
    "fractions",
    "functools",
    "hashlib",
    "heapq",
    "io",
    "itertools",
    "json",
    "linecache",
    "math",
    "operator",
    "random",
    "re",
    "statistics",
    "string",
    "time",
    "traceback",
    "types",
    "typing",
]


def serve(connection: socket.socket, folder: str, layers: lockdown.Lockdown) -> None:
    """Answer one request after the other until the lab hangs up."""
    null = os.open(os.devnull, os.O_RDWR)
    while True:
        ask, descriptors, _, _ = socket.recv_fds(connection, ASK.size, 3)
        if len(ask) < ASK.size:
            return
        wall, cpu = ASK.unpack(ask)
        start = time.monotonic()
        ended, alive = os.pipe()
        child = os.fork()
        if child == 0:
            run_child((*descriptors, alive, null), folder, layers, cpu)
        for descriptor in (*descriptors, alive):
            os.close(descriptor)
        locked, over = wait(ended, connection, start + wall)
        os.close(ended)
        status = end(child)
        sweep(folder)
        connection.sendall(STATUS.pack(status, time.monotonic() - start, locked, over))


def wait(ended: int, connection: socket.socket, deadline: float) -> tuple[bool, bool]:
    """Until the child is gone or the lab hangs up: whether the layers were entered, whether the time was over."""
    locked = False
    while (left := deadline - time.monotonic()) > 0:
        ready, _, _ = select.select([ended, connection.fileno()], [], [], left)
        if connection.fileno() in ready or (ended in ready and not os.read(ended, 1)):
            return locked, False
        locked = locked or ended in ready
    return locked, True


def end(child: int) -> int:
    """Kill the child and its group, and reap it."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def sweep(folder: str) -> None:
    """Empty the private folder; a candidate's leavings never meet the next one."""
    with os.scandir(folder) as entries:
        leavings = list(entries)
    for entry in leavings:
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            os.unlink(entry.path)


def run_child(descriptors: tuple[int, ...], folder: str, layers: lockdown.Lockdown, cpu: int) -> None:
    """Become the candidate's process; never returns."""
    try:
        os.setsid()
        lockdown.LIBC.prctl(lockdown.PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        request, report, output, alive, null = (os.dup2(d, 20 + i) for i, d in enumerate(descriptors))
        for source, target in ((null, 0), (output, 1), (output, 2), (report, REPORT), (alive, ALIVE)):
            os.dup2(source, target, inheritable=False)
        asked = read_json(request)
        os.chdir(folder)
        layers.enter(cpu)
        os.closerange(ALIVE + 1, 256)
        os.write(ALIVE, b".")
        run_checks(asked)
        sys.stdout.flush()
    except BaseException as problem:
        os.write(2, f"sandbox: {problem!r}\n".encode())
        os._exit(OUT_OF_MEMORY if isinstance(problem, MemoryError) else BROKEN)
    os._exit(0)


def read_json(descriptor: int) -> dict[str, Any]:
    with open(descriptor, "rb", closefd=False) as file:
        asked: dict[str, Any] = json.loads(file.read())
    return asked


def run_checks(asked: dict[str, Any]) -> None:
    """Execute the program, then every check in a copy of its namespace; report each."""
    tell, checks = teller(asked.pop("nonce")), asked["checks"]
    random.seed(0)
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
    write, dumps = os.write, json.dumps

    def tell(entry: list[Any]) -> None:
        write(REPORT, f"{nonce} {dumps(entry)}\n".encode())

    return tell


def define(asked: dict[str, Any]) -> dict[str, Any]:
    """Execute the program as a module of its own; returns the namespace of its tests."""
    module = types.ModuleType("candidate")
    sys.modules["candidate"] = sys.modules["__main__"] = module
    sys.modules.pop("lockdown", None)
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
    lines = [line for frame, line in walk_tb(problem.__traceback__) if frame.f_code.co_filename == "<candidate>"]
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


def explain(source: str, tests: dict[str, Any]) -> str:
    """`expected X, got Y` for a check that ends in `assert Y == X`, by evaluating both sides once more."""
    try:
        last = ast.parse(source).body[-1]
        if not (isinstance(last, ast.Assert) and isinstance(last.test, ast.Compare) and len(last.test.ops) == 1):
            return ""
        if not isinstance(last.test.ops[0], ast.Eq):
            return ""
        sides = (last.test.comparators[0], last.test.left)
        expected, got = (repr(eval(compile(ast.Expression(s), "<check>", "eval"), tests))[:200] for s in sides)
    except BaseException:
        return ""
    return f"expected {expected}, got {got}"


def main() -> None:
    descriptor, folder, *limits = sys.argv[1:]
    for name in WARM:
        __import__(name)
    connection = socket.socket(fileno=int(descriptor))
    layers = lockdown.Lockdown(folder, *map(int, limits))
    os.environ.clear()
    gc.collect()
    gc.freeze()
    serve(connection, folder, layers)


if __name__ == "__main__":
    main()
