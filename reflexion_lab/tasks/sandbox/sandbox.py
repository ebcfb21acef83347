"""Runs model-written programs in locked-down children of small server processes, and judges the reported values.

The lab never imports, compiles or executes a candidate. `lockdown.py` lists what each layer blocks and what remains
possible, `harness.py` describes the life of a child, and `apart.py` keeps verdicts out of its reach.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import json
import marshal
import math
import os
import queue
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple, Self

from msgspec.structs import replace

from reflexion_lab.errors import HarnessError
from reflexion_lab.io.files import Scratch
from reflexion_lab.limits import Above0, Positive, check_fields
from reflexion_lab.records import Check, Execution, Record
from reflexion_lab.tasks.sandbox.apart import Prepared, compiled, defined_by, judge, literal, prepare, whole
from reflexion_lab.tasks.sandbox.comparison import Decoder, Unreadable
from reflexion_lab.tasks.sandbox.harness import ASK, OUT_OF_MEMORY, STATUS, sweep
from reflexion_lab.tasks.sandbox.lockdown import layers
from reflexion_lab.text.replies.syntax import UNPARSABLE

HARNESS = Path(__file__).with_name("harness.py")
GRACE = 10.0
"""Seconds after the deadline at which a silent server counts as broken."""


class Limits(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Resource limits of one execution."""

    cpu_seconds: Above0 = 2.0
    """Minimum CPU limit; raised by `cpu_factor` if the canonical solution is slow."""
    cpu_factor: Above0 = 10.0
    """CPU limit as a multiple of the canonical solution's CPU time."""
    wall_seconds: Above0 = 4.0
    """Wall-clock limit for `cpu_seconds`; scales with the CPU limit."""
    memory_mb: Positive = 512
    file_mb: Positive = 4
    """Maximum size of each file in the private folder, of the report and of the captured output."""
    open_files: Positive = 64
    output_chars: Positive = 2000
    """Maximum characters of the printed output in the feedback."""

    def __post_init__(self) -> None:
        check_fields(self)

    def times(self, canonical: float) -> tuple[float, int]:
        """Wall and (integer) CPU limits for a canonical solution that uses `canonical` CPU seconds."""
        cpu = max(self.cpu_seconds, self.cpu_factor * canonical)
        return self.wall_seconds * cpu / self.cpu_seconds, math.ceil(cpu)


class Reported(NamedTuple):
    """Report, output and exit status of a child."""

    report: bytes
    nonce: str
    output: str
    status: int
    """Exit code, negative for a signal."""
    timed_out: bool
    seconds: float
    cpu_seconds: float


class Server:
    """One harness process with its socket. Not thread-safe."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._private = Scratch(remove=_remove)
        self.folder = str(self._private.path)
        self.socket, theirs = socket.socketpair()
        self._closing = threading.Lock()
        sizes = (limits.memory_mb << 20, limits.file_mb << 20, limits.open_files)
        interpreter = getattr(sys, "_base_executable", sys.executable)
        self.process = subprocess.Popen(
            [interpreter, "-s", "-S", "-P", "-B", HARNESS, str(theirs.fileno()), self.folder, *map(str, sizes)],
            # LD_BIND_NOW: look up symbols once, not in each child.
            env={"PYTHONHASHSEED": "0", "PYTHONUTF8": "1", "LD_BIND_NOW": "1"},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
        theirs.close()

    def run(self, fields: Mapping[str, object], canonical_seconds: float) -> Reported:
        """Run a request in a fresh child.

        Raises
        ------
        HarnessError, OSError
            The server is gone or broken; says nothing about the program.
        """
        nonce = secrets.token_hex(16)
        wall, cpu = self.limits.times(canonical_seconds)
        files = [_unnamed_file(), _unnamed_file(), _unnamed_file()]
        try:
            request, report, output = files
            os.write(request, marshal.dumps({**fields, "nonce": nonce}))
            os.lseek(request, 0, os.SEEK_SET)
            socket.send_fds(self.socket, [ASK.pack(wall, cpu)], files)
            self.socket.settimeout(wall + GRACE)
            reply = self.socket.recv(STATUS.size, socket.MSG_WAITALL)
            if len(reply) < STATUS.size:
                raise HarnessError(f"its server ended with exit code {self.process.poll()}")
            status, seconds, cpu_used, locked, timed_out = STATUS.unpack(reply)
            printed = os.pread(output, 4 * self.limits.output_chars, 0).decode(errors="replace")
            if not locked:
                raise HarnessError(f"the isolation layers could not be entered: {printed.strip() or status}")
            report_bytes = os.pread(report, os.fstat(report).st_size, 0)
        finally:
            for file in files:
                os.close(file)
        return Reported(report_bytes, nonce, printed[: self.limits.output_chars], status, timed_out, seconds, cpu_used)

    def close(self) -> None:
        """End the server and its child; safe to call twice."""
        with self._closing:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
            self.socket.close()
            self._private.close()


def _remove(folder: str) -> None:
    with contextlib.suppress(OSError):  # already removed
        sweep(folder)
        os.rmdir(folder)


def _unnamed_file() -> int:
    """Descriptor of an unnamed file, in memory if the system supports it."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("scratch")
    descriptor, path = tempfile.mkstemp()
    os.unlink(path)
    return descriptor


__all__ = ["Limits", "Sandbox"]
DEFAULTS = Limits()
ENDED = ("timeout", "early_exit", "memory")
"""Outcomes of a check that may have ended its child."""
CPU_USED_UP = 0.9
"""Share of its CPU limit from which a program that timed out is no victim of a busy machine."""
RESTARTS = 2
"""Maximum number of further children for checks that did not start; each child has the full time limit."""


class Sandbox:
    """A pool of servers. Thread-safe; `run` waits for a free server.

    `servers` is the maximum number of programs that run at once, by default one per core.
    """

    def __init__(self, limits: Limits = DEFAULTS, servers: int | None = None) -> None:
        if os.name != "posix":
            raise HarnessError("The sandbox needs fork(): use Linux, macOS or WSL.")
        self.limits = limits
        self.layers = tuple(layers())
        """Names of the isolation layers in force."""
        self.servers = servers or os.cpu_count() or 1
        self._idle: queue.LifoQueue[_Slot] = queue.LifoQueue()
        for _ in range(self.servers):
            self._idle.put(_Slot(self._start))
        self._started: list[Server] = []
        self._exclusive = threading.Lock()
        self._starting = threading.Lock()
        self._closed = False

    def run(
        self, program: str, entry_point: str, checks: Sequence[str], setup: str = "", cpu_seconds: float = 0.0
    ) -> Execution:
        """Execute `program`, then its checks in order, in a fresh child.

        Checks that did not start, because an earlier one hung or ended the child, run in further children, at most
        `RESTARTS` times. Comparisons of the program's own objects that cannot be decided outside are judged in place.

        Time limits scale with `cpu_seconds`, the CPU time of the canonical solution, if known. A program that times out
        before it has used its CPU time, as on a busy machine, is run once more while nothing else runs in this sandbox,
        and only the second result counts.

        Raises
        ------
        HarnessError
            Two servers in a row failed.
        """
        foreign = defined_by(tuple(checks))
        prepared = [prepare(check, entry_point, setup, foreign) for check in checks]
        request = {"program": program, "entry_point": entry_point, "setup": _compiled(setup)}
        children: list[Reported] = []

        undecided: set[int] = set()

        def report(wanted: Sequence[int], order: Sequence[int]) -> list[Check | None]:
            """Results of the checks `wanted`, from a new child that runs the checks in `order`."""
            run = {i: prepared[i] for i in order}
            sources = {n: checks[i] for n, (i, check) in enumerate(run.items()) if check.test is None}
            codes = {"checks": [check.request for check in run.values()], "sources": sources}
            children.append(self._report({**request, **codes}, cpu_seconds))
            read = read_checks(list(run.values()), children[-1])
            undecided.update(i for n, i in enumerate(run) if n in read.undecided and run[i].is_shared)
            results = dict(zip(run, read.checks, strict=True))
            return [results[i] for i in wanted]

        every = range(len(checks))
        verdicts = report(every, every)
        for _ in range(RESTARTS):
            not_started = [i for i, check in enumerate(verdicts) if check is None]
            if not not_started or foreign:
                break
            again = report(not_started, not_started)
            for i, check in zip(not_started, again, strict=True):
                verdicts[i] = check
            if children[-1].timed_out and all(check is None for check in again[1:]):  # hangs before any check ends
                break
        if in_place := sorted(undecided):
            for i in in_place:
                prepared[i] = whole(prepared[i], checks[i])
            # Run the other checks too, because a check may depend on earlier ones.
            completed = [i for i, check in enumerate(verdicts) if check and check.outcome not in ENDED]
            for i, check in zip(in_place, report(in_place, completed), strict=True):
                verdicts[i] = check or verdicts[i]
        timed_out = any(child.timed_out for child in children)
        outcome, message = ending(children[-1].status, timed_out)
        not_run = f"{message}: the program ended {len(children)} times before this check began"
        return Execution(
            checks=tuple(
                check or Check(name=ready.name, outcome=outcome, message=not_run, mode=ready.mode)
                for ready, check in zip(prepared, verdicts, strict=True)
            ),
            output=readable(children[0].output, self.limits.output_chars),
            seconds=sum(child.seconds for child in children),
            cpu_seconds=sum(child.cpu_seconds for child in children),
            timed_out=timed_out,
        )

    def values(self, program: str, entry_point: str, calls: Sequence[str], setup: str = "") -> list[str | None]:
        """Return values of calls of `program`, as Python source; None if a call raised or gave no plain data."""
        codes = [(None, [compiled(call, "eval", "<call>")]) for call in calls]
        request = {"program": program, "entry_point": entry_point, "setup": setup, "checks": codes, "sources": {}}
        return read_literals(self._report(request, 0.0), len(calls))

    def _report(self, request: Mapping[str, object], cpu_seconds: float) -> Reported:
        with self._slot() as slot:
            reported = slot.run(request, cpu_seconds)
        _, cpu = self.limits.times(cpu_seconds)
        if not reported.timed_out or reported.cpu_seconds >= CPU_USED_UP * cpu:
            return reported
        with self._exclusive, contextlib.ExitStack() as stack:
            slots = [stack.enter_context(self._slot()) for _ in range(self.servers)]
            return slots[0].run(request, cpu_seconds)

    @contextlib.contextmanager
    def _slot(self) -> Iterator[_Slot]:
        """A slot for exclusive use."""
        slot = self._idle.get()
        try:
            yield slot
        finally:
            self._idle.put(slot)

    def _start(self) -> Server:
        server = Server(self.limits)
        with self._starting:
            self._started = [*(other for other in self._started if other.process.poll() is None), server]
            closed = self._closed
        if closed:
            server.close()
            raise HarnessError("The sandbox is closed; create another one.")
        return server

    def close(self) -> None:
        """End all servers and their programs, for good."""
        with self._starting:
            self._closed = True
        for server in self._started:
            server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Slot:
    """Place of one server, which is started when first needed and replaced when it dies."""

    def __init__(self, start: Callable[[], Server]) -> None:
        self.server: Server | None = None
        self.start = start

    def run(self, request: Mapping[str, object], cpu_seconds: float) -> Reported:
        for last in (False, True):
            self.server = self.server or self.start()
            try:
                return self.server.run(request, cpu_seconds)
            except BaseException as problem:  # also an interrupt: the next call must not read this reply
                self.server.close()
                self.server = None
                if not isinstance(problem, OSError | HarnessError):
                    raise
                if last:
                    raise HarnessError(f"The sandbox could not run a program: {problem}") from problem
        raise AssertionError("unreachable")


@functools.lru_cache(maxsize=1 << 10)
def _compiled(setup: str) -> CodeType | str:
    """`setup` as code; unchanged if it is empty or does not compile, which the child reports."""
    try:
        return compiled(setup, "exec", "<setup>") if setup else ""
    except UNPARSABLE:
        return setup


ADDRESS = re.compile(r"(?<= at )0x[0-9a-f]{6,16}\b")
ENDINGS = ("error", "early_exit", "memory")
"""Outcomes that a child may report for any check; in-place checks may also report `pass` and `fail`."""
UNDECIDED = ("Unreadable", "TypeError")
"""Errors of comparisons of placeholders for the program's own objects."""
LONGEST = 500
"""Maximum characters of a text from a child."""
LINES = 1_000_000
"""Maximum line number from a child."""


class Read(NamedTuple):
    checks: list[Check | None]
    """One per check, in order; None for checks that the child did not start."""
    undecided: set[int]
    """Checks whose reported values do not decide the comparison."""


def read_checks(prepared: Sequence[Prepared], reported: Reported) -> Read:
    """The result of each check; the first unreported check gets the outcome of the child."""
    results: dict[int, Check] = {}
    judged: set[int] = set()
    undecided: set[int] = set()
    decoder = Decoder()
    for entry in entries(reported.report, reported.nonce):
        match entry:
            case [int(i), list(values), float(seconds)] if 0 <= i < len(prepared) and i not in judged:
                if (test := prepared[i].test) is not None:
                    judged.add(i)
                    results[i], is_undecided = _judged(prepared[i], test, values, decoder, seconds)
                    if is_undecided:
                        undecided.add(i)
            case [int(i), *fields] if 0 <= i < len(prepared):
                if check := _from_child(prepared[i], fields, results.get(i)):
                    results[i] = check
                    undecided.discard(i)
    first = next((i for i in range(len(prepared)) if i not in results), 0)
    if prepared and first not in results:
        outcome, message = ending(reported.status, reported.timed_out)
        results[first] = Check(name=prepared[first].name, outcome=outcome, message=message, mode=prepared[first].mode)
    return Read([results.get(i) for i in range(len(prepared))], undecided)


def _judged(
    prepared: Prepared, test: ast.expr, values: list[Any], decoder: Decoder, seconds: float
) -> tuple[Check, bool]:
    """The verdict on the computed values, and whether the check must be judged in place.

    Values that cannot be decoded are an error and never judged in place: otherwise a program could choose it.
    """
    name, mode = prepared.name, prepared.mode
    try:
        verdict = judge(test, decoder.decode(*values))
    except Unreadable as problem:
        message = readable(str(problem))
        return Check(name=name, outcome="error", error_type="Unreadable", message=message, mode=mode), False
    check = Check(
        name=name,
        outcome=verdict.outcome,
        mode=mode,
        expected=readable(verdict.expected),
        actual=readable(verdict.actual),
        error_type=readable(verdict.error_type),
        message=readable(verdict.message),
        seconds=finite(seconds),
    )
    return check, verdict.outcome == "error" and verdict.error_type in UNDECIDED


def _from_child(prepared: Prepared, fields: list[Any], before: Check | None) -> Check | None:
    """A check as reported by a child; None if the child may not report it."""
    outcomes = ENDINGS if prepared.test is not None else ("pass", "fail", *ENDINGS)
    match fields:
        case [str(outcome), str(kind), str(message), int(line), float(seconds)] if outcome in outcomes:
            error = {"error_type": readable(kind), "message": readable(message)}
            line, seconds = min(max(int(line), 0), LINES), finite(seconds)  # `True` is also an int
            return Check(name=prepared.name, outcome=outcome, mode=prepared.mode, line=line, seconds=seconds, **error)
        case [str(expected), str(actual)] if before and before.outcome == "fail" and prepared.test is None:
            sides = {"expected": readable(expected), "actual": readable(actual)}
            message = before.message or f"expected {sides['expected']}, got {sides['actual']}"
            return replace(before, message=message, **sides)
    return None


def read_literals(reported: Reported, calls: int) -> list[str | None]:
    """The value of each call as Python source; None for a call without a value that is plain data."""
    literals: list[str | None] = [None] * calls
    decoder = Decoder()
    for entry in entries(reported.report, reported.nonce):
        match entry:
            case [int(i), [encoded], float(_)] if 0 <= i < calls:
                with contextlib.suppress(Unreadable):
                    [value] = decoder.decode(encoded)
                    literals[i] = literal(value)
    return literals


def finite(seconds: float) -> float:
    """`seconds` as measured by a child; 0.0 if negative, infinite or NaN."""
    return seconds if 0.0 <= seconds < math.inf else 0.0


def entries(report: bytes, nonce: str) -> list[list[object]]:
    """Lines that start with the nonce; the harness did not write any others."""
    mark = nonce.encode() + b" "
    lines = [line[len(mark) :] for line in report.split(b"\n") if line.startswith(mark)]
    try:
        parsed: list[list[object]] = json.loads(b"[%b]" % b",".join(lines))
        return parsed
    except (ValueError, RecursionError):  # lines by a candidate
        return [entry for line in lines if (entry := _parsed(line))]


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def ending(status: int, timed_out: bool) -> tuple[str, str]:
    """Outcome and message of the checks that a child did not report."""
    if timed_out:
        return "timeout", "the time was over before this check ended"
    if status == OUT_OF_MEMORY:
        return "memory", "the memory limit was reached"
    how = f"signal {-status}" if status < 0 else f"exit code {status}"
    return "early_exit", f"the process ended ({how}) before this check did"


def readable(text: str, limit: int = LONGEST) -> str:
    """A candidate's text, truncated, encodable as UTF-8, and equal in every run.

    Lone surrogates become `?`; addresses of objects, which differ between runs, become `0x…`.
    """
    text = text[:limit]
    if not text.isascii():
        text = text.encode(errors="replace").decode()
    return ADDRESS.sub("0x…", text) if " at 0x" in text else text
