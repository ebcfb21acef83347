"""Runs model-written programs in locked-down children of small server processes, and judges the reported values.

The lab never imports, compiles or executes a candidate. `lockdown.py` lists what each layer blocks and what remains
possible, `harness.py` describes the life of a child, and `apart.py` keeps verdicts out of its reach. One file: who
holds which descriptor of a child is seen only if its start, its work and its end are read together.
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
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple, Self

from msgspec.structs import replace

from reflexion_lab.errors import HarnessError
from reflexion_lab.io.files import Scratch
from reflexion_lab.limits import Above0, Positive, check_fields
from reflexion_lab.records import Check, Execution, Record
from reflexion_lab.tasks.sandbox.apart import Prepared, compiled, defined_by, judge, literal, prepare_all
from reflexion_lab.tasks.sandbox.child import CALLED
from reflexion_lab.tasks.sandbox.comparison import Decoder, Unreadable
from reflexion_lab.tasks.sandbox.harness import ASK, OUT_OF_MEMORY, STATUS, sweep
from reflexion_lab.tasks.sandbox.lockdown import layers
from reflexion_lab.tasks.sandbox.packages import packages
from reflexion_lab.tasks.sandbox.programs import STUCK, Terms, case, compared, name_of, raised
from reflexion_lab.text.replies.syntax import UNPARSABLE

HARNESS = Path(__file__).with_name("harness.py")
GRACE = 10.0
"""Seconds after the deadline at which a silent server counts as broken."""
SWEEP = 1.0
"""Seconds after which a server that still empties its folder is replaced."""
REFERENCE = 0.0065
"""CPU seconds of the loop of `slowness` on the reference machine."""


@functools.cache
def slowness() -> float:
    """How many times longer than on the reference machine a program takes here; 1 where it is below 1.25."""
    times = []
    for _ in range(6):
        start, table, number = time.thread_time(), dict[int, int](), 0
        for i in range(50_000):
            number = (number * 31 + i) % 1_000_003
            table[number & 255] = i
        times.append(time.thread_time() - start)
    return round(factor, 2) if (factor := min(times) / REFERENCE) >= 1.25 else 1.0


class Limits(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Resource limits of one execution. Times are those of the reference machine: a slower one has longer limits."""

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

    def times(self, canonical: float, most: float = math.inf) -> tuple[float, int]:
        """Wall and (integer) CPU limits for a canonical solution that uses `canonical` CPU seconds, for a task that
        allows `most` CPU seconds.
        """
        cpu = min(max(self.cpu_seconds, self.cpu_factor * canonical), most)
        return self.wall_seconds * cpu / self.cpu_seconds, math.ceil(cpu)

    def here(self, canonical: float, most: float = math.inf) -> tuple[float, int]:
        """`times` on this machine."""
        wall, cpu = self.times(canonical, most)
        return wall * slowness(), math.ceil(cpu * slowness())


class Reported(NamedTuple):
    """Report, output and exit status of a child."""

    report: bytes
    nonce: str
    output: str
    status: int
    """Exit code, negative for a signal."""
    timed_out: bool
    is_full: bool
    """Whether it was ended because it filled its private folder."""
    seconds: float
    cpu_seconds: float
    is_doubtful: bool = False
    """Whether the machine may have caused the result, also of a second run."""
    broken: str = ""
    """Why there is no report, if two servers in a row ended on this program and none on a trivial one."""


class Job(NamedTuple):
    """A program with checks, as requests."""

    program: Mapping[str, object]
    trusted: Mapping[str, object] | None = None
    """For checks that run apart from the program."""
    input: bytes | None = None
    """Standard input of a script; None for a program whose functions are called."""
    seconds: float = math.inf
    """CPU seconds that the task allows."""
    requires: tuple[str, ...] = ()


TRIVIAL = Job({"program": "f = abs", "entry_point": "f", "setup": "", "checks": []})


class Server:
    """One harness process with its socket. Not thread-safe."""

    def __init__(self, limits: Limits, has_standin: bool, hash_seed: int = 0, requires: tuple[str, ...] = ()) -> None:
        self.limits = limits
        self.has_standin = has_standin
        """Whether it can run checks apart from the program; one that cannot forks faster."""
        self._private = Scratch(remove=_remove)
        self.folder = str(self._private.path)
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(None)  # whatever socket.setdefaulttimeout says
        self._closing = threading.Lock()
        self._errors = _unnamed_file()
        sizes = (limits.memory_mb << 20, limits.file_mb << 20, limits.open_files)
        self._library = Scratch() if requires else None
        modules, entries, *_ = packages(requires)
        library = self._library.path if self._library else ""
        for entry in entries:
            Path(library, entry.name).symlink_to(entry)
        arguments = map(str, (theirs.fileno(), self.folder, *sizes, int(has_standin), library, *modules))
        interpreter = getattr(sys, "_base_executable", sys.executable)
        self.process = subprocess.Popen(
            [interpreter, "-s", "-S", "-P", "-B", HARNESS, *arguments],
            # LD_BIND_NOW: look up symbols once, not in each child.
            # MALLOC_ARENA_MAX: each further arena would reserve 64 MB of a thread's memory limit.
            env={"PYTHONHASHSEED": str(hash_seed), "PYTHONUTF8": "1", "LD_BIND_NOW": "1", "MALLOC_ARENA_MAX": "1"},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
        theirs.close()
        self.has_run = self.is_retired = False

    def run(self, job: Job, canonical_seconds: float) -> Reported:
        """Run a job in fresh children.

        Raises HarnessError, OSError: the server is gone or broken; says nothing about the program.
        """
        nonce = secrets.token_hex(16)
        wall, cpu = self.limits.here(canonical_seconds, job.seconds)
        is_script = job.input is not None
        contents = [marshal.dumps({**job.program, "nonce": "" if job.trusted else nonce})]
        contents += [marshal.dumps({**job.trusted, "nonce": nonce})] if job.trusted else []
        contents += [job.input] if job.input is not None else []
        request, report, output, *others = files = [_unnamed_file() for _ in range(2 + len(contents))]
        try:
            for file, content in zip((request, *others), contents, strict=True):
                os.pwrite(file, content, 0)
            socket.send_fds(self.socket, [ASK.pack(wall, cpu, is_script)], files)
            self._wait_at_most(wall + GRACE * slowness())
            try:
                reply = self.socket.recv(STATUS.size, socket.MSG_WAITALL)
            except ConnectionResetError:
                reply = b""
            if len(reply) < STATUS.size:
                raise HarnessError(self._why())
            status, seconds, cpu_used, locked, timed_out, is_full = STATUS.unpack(reply)
            most = 4 * self.limits.output_chars
            start = max(0, os.fstat(output).st_size - most) if is_script else 0  # a traceback is the last it writes
            printed = os.pread(output, most, start).decode(errors="replace")
            if not locked:
                raise HarnessError(f"the isolation layers could not be entered: {printed.strip() or status}")
            lines = os.pread(report, os.fstat(report).st_size, 0)
        finally:
            for file in files:
                os.close(file)
        self.has_run = True
        output_text = printed if is_script else printed[: self.limits.output_chars]
        return Reported(lines, nonce, output_text, status, timed_out, is_full, seconds, cpu_used)

    def is_swept(self) -> bool:
        """Whether its folder is empty again. One that takes longer ends after that, a dead one is closed."""
        self._wait_at_most(SWEEP)
        try:
            if not self.has_run or self.socket.recv(1):
                return True
            self.close()
        except BlockingIOError:
            self.is_retired = True
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            self.close()
        return False

    def _wait_at_most(self, seconds: float) -> None:
        """For an answer. `settimeout` would poll before each read and write, and let another thread run each time."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", math.ceil(seconds), 0))

    @property
    def is_closed(self) -> bool:
        return self._errors < 0

    def close(self) -> None:
        """End the server and its child; safe to call twice."""
        with self._closing:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
            self.socket.close()
            self._private.close()
            if self._library:
                self._library.close()
            if self._errors >= 0:
                os.close(self._errors)
                self._errors = -1

    def _why(self) -> str:
        """Why the server ended: its last line of error, else its exit code."""
        try:
            code: object = self.process.wait(1)
        except subprocess.TimeoutExpired:
            code = "none yet"
        lines = os.pread(self._errors, 1 << 16, 0).decode(errors="replace").strip().splitlines()
        return readable(lines[-1]) if lines else f"its server ended with exit code {code}"


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
DEFAULTS, EXACT = Limits(), Terms()
CPU_USED_UP = 0.9
"""Share of its CPU limit from which a program that timed out is no victim of a busy machine."""
TROUBLE = re.compile(rb'Error(?:", "|: )\[Errno (?:5|11|12|23|28|122)\]|(?:"|Error: )can\'t start new thread')
"""An error in a report, or in the errors of a script, that the machine may have caused: EIO, EAGAIN, ENOMEM, ENFILE,
ENOSPC, EDQUOT; no thread."""
SCARCE = 1 / 8
"""Share of a program's memory limit below which the machine's available memory counts as exhausted."""
PAUSES = (1.0, 5.0, 0.0)
"""Seconds between second runs on a machine that is out of disk, memory, processes or descriptors."""
KEPT = 4
"""Servers of one place, each with other packages."""
RESTARTS = 2
"""Maximum number of further children for checks that did not start; each child has the full time limit."""


class Sandbox:
    """A pool of servers. Thread-safe; `run` waits for a free server.

    `servers` is the maximum number of programs that run at once, by default one per core.
    """

    def __init__(self, limits: Limits = DEFAULTS, servers: int | None = None, hash_seed: int = 0) -> None:
        if os.name != "posix":
            raise HarnessError("The sandbox needs fork(): use Linux, macOS or WSL.")
        self.limits, self._hash_seed = limits, hash_seed
        slowness()  # once, before threads ask
        self.layers = tuple(layers())
        """Names of the isolation layers in force."""
        self.servers = servers or os.cpu_count() or 1
        self._turns = _Turns()
        self._idle: queue.LifoQueue[_Slot] = queue.LifoQueue()
        for _ in range(self.servers):
            self._idle.put(_Slot(self._start))
        self._started: list[Server] = []
        self._starting = threading.Lock()
        self._closed = False

    def run(
        self,
        program: str,
        entry_point: str,
        checks: Sequence[str],
        setup: str = "",
        cpu_seconds: float = 0.0,
        requires: tuple[str, ...] = (),
    ) -> Execution:
        """Execute `program`, then its checks in order, in a fresh child that can import the packages of `requires`.

        Of a check that can be split the child only computes values, which are compared here. Other checks run in a
        trusted child, which calls the program in the first, or beside the program if they need more than plain data.
        Checks that did not start, because an earlier one hung or ended its child, run in further children, at most
        `RESTARTS` times. A check that called an object of the program runs once more, beside it; that verdict counts.

        Time limits scale with `cpu_seconds`, the CPU time of the canonical solution, if known. A program that times out
        before it has used its CPU time, or that meets a full disk, a killed process or another trouble that the machine
        may have caused, is run once more when no first run waits, and only the second result counts. One on which
        servers fail, although a trivial program runs, has the outcome `harness_error`. Raises HarnessError: no program
        runs, or the machine is out of disk, memory, processes or descriptors. Arguments: as of `protocols.Sandbox.run`.
        """
        texts, children = tuple(checks), list[Reported]()
        if why := packages(requires).why:
            return without_packages(texts, why)

        def run_all(prepared: Sequence[Prepared]) -> list[Check | None]:
            verdicts: list[Check | None] = [None] * len(texts)
            waiting = list(range(len(texts)))
            for restart in range(1 + RESTARTS):
                ready = [prepared[i] for i in waiting]
                job = _job(program, entry_point, ready, setup)._replace(requires=requires)
                children.append(self._report(job, cpu_seconds))
                for i, check in zip(waiting, read_checks(ready, children[-1]), strict=True):
                    verdicts[i] = check
                is_stuck = restart and children[-1].timed_out and all(verdicts[i] is None for i in waiting[1:])
                waiting = [i for i in waiting if verdicts[i] is None]
                if not waiting or is_stuck or children[-1].broken or defined_by(texts):
                    break
            return verdicts

        prepared = prepare_all(texts, entry_point, setup)
        verdicts = run_all(prepared)
        if called := [i for i, check in enumerate(verdicts) if check and check.outcome == CALLED]:
            prepared = prepare_all(texts, entry_point, setup, called)
            again = zip(prepared, verdicts, run_all(prepared), strict=True)
            verdicts = [apart if ready.code and not ready.in_process else beside for ready, apart, beside in again]
        timed_out = any(child.timed_out for child in children)
        outcome, message = ending(children[-1])
        not_run = f"{message}: the program ended {len(children)} times before this check began"
        return Execution(
            checks=tuple(
                check or ready.result(outcome, message=not_run) for ready, check in zip(prepared, verdicts, strict=True)
            ),
            output=readable(children[0].output, self.limits.output_chars),
            seconds=sum(child.seconds for child in children),
            cpu_seconds=sum(child.cpu_seconds for child in children) / slowness(),
            timed_out=timed_out,
            is_doubtful=any(child.is_doubtful for child in children),
        )

    def run_program(
        self, program: str, checks: Sequence[str], terms: Terms = EXACT, cpu_seconds: float = 0.0
    ) -> Execution:
        """Run a whole program on the input of each check, in a fresh child each, and compare its outputs here.

        Time limits, second runs and errors as of `run`; `cpu_seconds` of the result are those of the slowest check.
        Checks after `programs.STUCK` time-outs in a row are not run. Raises DataError: a check is no input and output.
        """
        verdicts, children = list[Check](), list[Reported]()
        if why := packages(terms.requires).why:
            return without_packages(checks, why)
        job = Job({"program": program, "memory": terms.memory_mb << 20}, None, b"", terms.seconds, terms.requires)
        for check in checks:
            if len(children) >= STUCK and all(child.timed_out for child in children[-STUCK:]):
                message = f"not run, after {STUCK} time-outs in a row"
                verdicts.append(Check(name=name_of(check), outcome="timeout", message=message))
            else:
                children.append(self._report(job._replace(input=case(check).input.encode()), cpu_seconds))
                verdicts.append(read_program(check, children[-1], terms, self.limits))
        failing = (child for child, verdict in zip(children, verdicts, strict=False) if verdict.outcome != "pass")
        words = [child.output.partition("Traceback (most recent call last):\n")[0] for child in failing]
        errors = next((text for text in words if text.strip()), "")
        return Execution(
            checks=tuple(verdicts),
            output=readable(errors[-self.limits.output_chars :], self.limits.output_chars),
            seconds=sum(child.seconds for child in children),
            cpu_seconds=max((child.cpu_seconds for child in children), default=0.0) / slowness(),
            timed_out=any(child.timed_out for child in children),
            is_doubtful=any(child.is_doubtful for child in children),
        )

    def values(self, program: str, entry_point: str, calls: Sequence[str], setup: str = "") -> list[str | None]:
        """Return values of calls of `program`, as Python source; None if a call raised or gave no plain data."""
        codes = [(None, [compiled(call, "eval", "<call>")]) for call in calls]
        request = {"program": program, "entry_point": entry_point, "setup": setup, "checks": codes}
        return read_literals(self._report(Job(request), 0.0), len(calls))

    def _report(self, job: Job, cpu_seconds: float) -> Reported:
        """Run a job, and once more if the machine may have caused its result; then the second result counts."""
        with self._turns.turn(is_second=False):
            reported = self._run(job, cpu_seconds)
        _, cpu = self.limits.here(cpu_seconds, job.seconds)
        if not _is_doubtful(reported, cpu, self.limits):
            return reported
        for pause in PAUSES:
            with self._turns.turn(is_second=True):
                reported = self._run(job, cpu_seconds)
            if not (_is_doubtful(reported, cpu, self.limits) and (missing := exhausted(self.limits))):
                return reported._replace(is_doubtful=_is_doubtful(reported, cpu, self.limits))
            time.sleep(pause)
        raise HarnessError(f"The machine is out of {missing}; free some, then resume the run")

    def _run(self, job: Job, cpu_seconds: float) -> Reported:
        slot = self._idle.get()
        try:
            return slot.run(job, cpu_seconds)
        finally:
            self._idle.put(slot)

    def _start(self, has_standin: bool, requires: tuple[str, ...]) -> Server:
        server = Server(self.limits, has_standin, self._hash_seed, requires)
        with self._starting:
            for other in self._started:
                if other.is_retired and other.process.poll() is not None:
                    other.close()
            self._started = [*(other for other in self._started if not other.is_closed), server]
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


class _Turns:
    """Order of runs: a second one begins when no first one waits or runs, so that it has the machine to itself."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = [0, 0]
        """Numbers of first and of second runs."""

    @contextlib.contextmanager
    def turn(self, is_second: bool) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._running[not is_second])
            self._running[is_second] += 1
        try:
            yield
        finally:
            with self._changed:
                self._running[is_second] -= 1
                self._changed.notify_all()


class _Slot:
    """Place of a server, started when first needed and replaced when it dies; of several, each with other packages."""

    def __init__(self, start: Callable[[bool, tuple[str, ...]], Server]) -> None:
        self.servers: dict[tuple[str, ...], Server] = {}
        """By packages, the last used at the end."""
        self.start = start

    def run(self, job: Job, cpu_seconds: float) -> Reported:
        with contextlib.suppress(OSError, HarnessError):
            return self._once(job, cpu_seconds)
        try:
            return self._once(job, cpu_seconds)
        except (OSError, HarnessError) as problem:
            why = str(problem)
            text = why if why.startswith("sandbox.limits.") else f"The sandbox could not run a program: {why}"
            try:
                self._once(TRIVIAL, 0.0)
            except (OSError, HarnessError):
                raise HarnessError(text) from problem
        return Reported(b"", "", "", 0, False, False, 0.0, 0.0, broken=why)

    def _once(self, job: Job, cpu_seconds: float) -> Reported:
        try:
            return self._ready(job).run(job, cpu_seconds)
        except BaseException:  # also an interrupt: the next call must not read this reply
            if server := self.servers.pop(job.requires, None):
                server.close()
            raise

    def _ready(self, job: Job) -> Server:
        """The server; replaced by the first job with a trusted child, and while it empties its folder for long."""
        server = self.servers.pop(job.requires, None)
        if server and job.trusted and not server.has_standin:
            server.close()
            server = None
        if server and not server.is_swept():
            server = None
        for oldest in [*self.servers][: 1 - KEPT]:
            self.servers.pop(oldest).close()
        self.servers[job.requires] = server = server or self.start(bool(job.trusted), job.requires)
        return server


def _job(program: str, entry_point: str, checks: Sequence[Prepared], setup: str) -> Job:
    beside = [check.calls or (check.code if check.in_process else None) for check in checks]
    code = _compiled(setup)
    request = {"program": program, "entry_point": entry_point, "setup": code if any(beside) else "", "checks": beside}
    if all(check is not None for check in beside):
        return Job(request)
    apart = [check.calls[:1] if check.calls else None if check.in_process else check.code for check in checks]
    return Job(request, {"entry_point": entry_point, "setup": code, "checks": apart})


@functools.lru_cache(maxsize=1 << 10)
def _compiled(setup: str) -> CodeType | str:
    """`setup` as code; unchanged if it is empty or does not compile, which the child reports."""
    try:
        return compiled(setup, "exec", "<setup>") if setup else ""
    except UNPARSABLE:
        return setup


def without_packages(checks: Sequence[str], why: str) -> Execution:
    """No verdict, and not kept: the packages may be installed later."""
    broken = Check(name="", outcome="harness_error", error_type="NotInstalled", message=why)
    every = tuple(replace(broken, name=name_of(check)) for check in checks)
    return Execution(checks=every, output="", seconds=0.0, cpu_seconds=0.0, is_doubtful=True)


def _is_doubtful(reported: Reported, cpu: float, limits: Limits) -> bool:
    """Whether the machine, and not the program, may have caused the result."""
    if reported.timed_out:
        return reported.status != -signal.SIGXCPU and reported.cpu_seconds < CPU_USED_UP * cpu
    was_killed = reported.broken or (reported.status == -signal.SIGKILL and not reported.is_full)
    is_short = (reported.status or b'"memory"' in reported.report) and exhausted(limits)
    trouble = TROUBLE.search(reported.report) or (reported.status and TROUBLE.search(reported.output.encode()))
    return bool(was_killed or is_short or trouble or disk_is_full(limits))


def exhausted(limits: Limits) -> str:
    """The resource that the machine lacks: disk, descriptors, threads or memory; "" if none."""
    if disk_is_full(limits):
        return f"disk space in {tempfile.gettempdir()}"
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return "file descriptors"
    try:
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()
    except RuntimeError:
        return "processes or threads"
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        available = next(line for line in lines if line.startswith("MemAvailable:"))
        if int(available.split()[1]) < limits.memory_mb * 1024 * SCARCE:
            return "memory"
    return ""


def disk_is_full(limits: Limits) -> bool:
    """Whether the disk of the private folders has no room for a file of the maximum size."""
    disk = os.statvfs(tempfile.gettempdir())
    return disk.f_bavail * disk.f_frsize < limits.file_mb << 20 or (disk.f_files > 0 and disk.f_favail == 0)


ADDRESS = re.compile(r"(?<= at )0x[0-9a-f]{6,16}\b")
ENDINGS = ("error", "early_exit", "memory")
"""Outcomes that a child may report for any check; of a whole check also `pass` and `fail`."""
LONGEST = 500
"""Maximum characters of a text from a child."""
LINES = 1_000_000
"""Maximum line number from a child."""


def read_checks(prepared: Sequence[Prepared], reported: Reported) -> list[Check | None]:
    """The result of each check, None for those that did not start; the first unreported one gets that of the child."""
    results: dict[int, Check] = {}
    judged: set[int] = set()
    decoder = Decoder()
    for entry in entries(reported.report, reported.nonce):
        match entry:
            case [int(i), list(values), float(seconds)] if 0 <= i < len(prepared) and i not in judged:
                if (test := prepared[i].test) is not None:
                    judged.add(i)
                    results[i] = _judged(prepared[i], test, values, decoder, seconds)
            case [int(i), *fields] if 0 <= i < len(prepared):
                if check := _from_child(prepared[i], fields, results.get(i)):
                    results[i] = check
    first = next((i for i in range(len(prepared)) if i not in results), 0)
    if prepared and first not in results:
        outcome, message = ending(reported)
        results[first] = prepared[first].result(outcome, message=message)
    return [results.get(i) for i in range(len(prepared))]


def read_program(check: str, child: Reported, terms: Terms, limits: Limits) -> Check:
    """The verdict on one run of a whole program. A crash decides, whatever was printed before it."""
    limit, line = limits.file_mb << 20, 0
    outcome, kind, message = "error", "", f"it printed more than {limits.file_mb} MB"
    if len(case(check).output.encode()) >= limit:
        outcome, message = "harness_error", f"this check needs a larger sandbox.limits.file_mb than {limits.file_mb}"
    elif child.broken or child.timed_out or child.is_full:
        outcome, message = ending(child)
    elif len(child.report) < limit and not child.status:
        verdict = compared(check, child.report, terms, finite(child.seconds))
        texts = {side: readable(getattr(verdict, side)) for side in ("message", "expected", "actual")}
        return replace(verdict, **texts)
    elif len(child.report) < limit and (report := raised(child.output))[0]:
        kind, message, line = report
        outcome = "memory" if kind == "MemoryError" else "error"
    elif len(child.report) < limit:
        how = f"signal {-child.status}" if child.status < 0 else f"exit code {child.status}"
        outcome, message = "early_exit", f"the program ended with {how}, a failure whatever it printed"
    verdict = Check(name=name_of(check), outcome=outcome, error_type=readable(kind), message=readable(message))
    return replace(verdict, line=min(line, LINES), seconds=finite(child.seconds))


def _judged(prepared: Prepared, test: ast.expr, values: list[Any], decoder: Decoder, seconds: float) -> Check:
    """The verdict on the computed values; values that cannot be decoded are an error."""
    try:
        verdict = judge(test, decoder.decode(*values))
    except Unreadable as problem:
        return prepared.result("error", error_type="Unreadable", message=readable(str(problem)))
    return prepared.result(seconds=finite(seconds), **{name: readable(text) for name, text in verdict.items()})


def _from_child(prepared: Prepared, fields: list[Any], before: Check | None) -> Check | None:
    """A check as reported by a child; None if the child may not report it."""
    whole = ("pass", "fail", *ENDINGS, *[CALLED] * (not prepared.in_process))
    outcomes = ENDINGS if prepared.test is not None else whole
    match fields:
        case [str(outcome), str(kind), str(message), int(line), float(seconds)] if outcome in outcomes:
            error = {"error_type": readable(kind), "message": readable(message)}
            line, seconds = min(max(int(line), 0), LINES), finite(seconds)  # `True` is also an int
            return prepared.result(outcome, line=line, seconds=seconds, **error)
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
    parsed = list[list[object]]()
    for line in report.split(b"\n"):
        if line.startswith(mark):
            with contextlib.suppress(ValueError, RecursionError):  # lines by a candidate
                parsed.append(json.loads(line[len(mark) :].decode()))
    return parsed


def ending(child: Reported) -> tuple[str, str]:
    """Outcome and message of the checks that a child did not report."""
    if child.broken:
        return "harness_error", f"the sandbox failed on this program, and not on a trivial one: {child.broken}"
    if child.timed_out:
        return "timeout", "the time was over before this check ended"
    if child.status == OUT_OF_MEMORY:
        return "memory", "the memory limit was reached"
    if child.is_full:
        return "early_exit", "the program filled its private folder before this check ended"
    how = f"signal {-child.status}" if child.status < 0 else f"exit code {child.status}"
    return "early_exit", f"the process ended ({how}) before this check did"


def readable(text: str, limit: int = LONGEST) -> str:
    """A candidate's text, truncated, encodable as UTF-8, and equal in every run.

    Lone surrogates become `?`; addresses of objects, which differ between runs, become `0x…`.
    """
    text = text[:limit]
    if not text.isascii():
        text = text.encode(errors="replace").decode()
    return ADDRESS.sub("0x…", text) if " at 0x" in text else text
