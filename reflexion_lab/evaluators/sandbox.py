"""Runs model-written programs in locked-down children of lean server processes, and reads their reports.

The lab never imports, compiles or executes a candidate. See `lockdown.py` for what each layer stops and what remains
possible, and `harness.py` for the life of a child.
"""

from __future__ import annotations

import contextlib
import marshal
import math
import os
import queue
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from reflexion_lab.evaluators.execution import Execution, ending, entries, read_checks, readable
from reflexion_lab.evaluators.harness import ASK, STATUS, sweep
from reflexion_lab.evaluators.lockdown import layers
from reflexion_lab.protocols import HarnessError
from reflexion_lab.records import Record

SERVER = Path(__file__).with_name("harness.py")
GRACE = 10.0
"""Seconds past its deadline after which a silent server is given up."""


class Limits(Record, frozen=True, kw_only=True):
    """What one execution may use."""

    wall_seconds: float = 3.0
    cpu_seconds: int = 3
    memory_mb: int = 512
    file_mb: int = 4
    """Of one file; the private folder and the captured output count as files."""
    open_files: int = 64
    output_chars: int = 2000
    """Of what the program printed, kept for feedback."""

    def __post_init__(self) -> None:
        for field in self.__struct_fields__:
            if not getattr(self, field) > 0:
                raise ValueError(f"evaluator.{field}: {getattr(self, field)!r} found; expected a number above 0")


DEFAULTS = Limits()


class Sandbox:
    """A pool of servers; `run` may be called from many threads, and waits for a free server.

    `servers` bounds how many programs run at once; the default is one per core.
    """

    def __init__(self, limits: Limits = DEFAULTS, servers: int | None = None) -> None:
        if os.name != "posix":
            raise HarnessError("The sandbox needs fork(): run the lab on Linux or macOS, or in WSL.")
        self.limits = limits
        self.layers = tuple(layers())
        """Names of the isolation layers in force."""
        self._idle: queue.LifoQueue[_Server | None] = queue.LifoQueue()
        for _ in range(servers or os.cpu_count() or 1):
            self._idle.put(None)
        self._started: list[_Server] = []

    def run(self, program: str, entry_point: str, checks: Sequence[str], setup: str = "") -> Execution:
        """Execute `program`, then each check in one namespace, all in one fresh child.

        Raises:
            HarnessError: twice in a row no server could run it.
        """
        server = self._idle.get()
        try:
            for last in (False, True):
                server = server or self._start()
                try:
                    return server.run(program, entry_point, checks, setup)
                except (OSError, HarnessError) as problem:
                    server.close()
                    server = None
                    if last:
                        raise HarnessError(f"The sandbox could not run a program: {problem}") from problem
        finally:
            self._idle.put(server)
        raise AssertionError("unreachable")

    def _start(self) -> _Server:
        server = _Server(self.limits)
        self._started.append(server)
        return server

    def close(self) -> None:
        for server in self._started:
            server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Server:
    """One harness process and the socket to it; used by one thread at a time."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.folder = tempfile.mkdtemp(prefix="reflexion_lab-")
        self.socket, theirs = socket.socketpair()
        self._closing = threading.Lock()
        sizes = (limits.memory_mb << 20, limits.file_mb << 20, limits.open_files)
        interpreter = getattr(sys, "_base_executable", sys.executable)
        self.process = subprocess.Popen(
            [
                interpreter,
                "-s",
                "-S",
                "-P",
                "-B",
                SERVER,
                str(theirs.fileno()),
                self.folder,
                *map(str, sizes),
            ],
            env={"PYTHONHASHSEED": "0", "PYTHONUTF8": "1"},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
        theirs.close()

    def run(self, program: str, entry_point: str, checks: Sequence[str], setup: str) -> Execution:
        nonce = secrets.token_hex(16)
        asked = {
            "nonce": nonce,
            "program": program,
            "entry_point": entry_point,
            "setup": setup,
            "checks": checks,
        }
        with _scratch() as request, _scratch() as report, _scratch() as output:
            request.write(marshal.dumps(asked))
            request.seek(0)
            descriptors = [file.fileno() for file in (request, report, output)]
            ask = ASK.pack(self.limits.wall_seconds, math.ceil(self.limits.cpu_seconds))
            socket.send_fds(self.socket, [ask], descriptors)
            self.socket.settimeout(self.limits.wall_seconds + GRACE)
            reply = self.socket.recv(STATUS.size, socket.MSG_WAITALL)
            if len(reply) < STATUS.size:
                raise HarnessError(f"its server ended with exit code {self.process.poll()}")
            status, seconds, _, locked, over = STATUS.unpack(reply)
            output.seek(0)
            printed = readable(output.read(4 * self.limits.output_chars).decode(errors="replace"))
            printed = printed[: self.limits.output_chars]
            if not locked:
                raise HarnessError(f"the isolation layers could not be entered: {printed.strip() or status}")
            report.seek(0)
            told = entries(report.read(), nonce)
        return Execution(checks=read_checks(checks, told, ending(status, over)), output=printed, seconds=seconds)

    def close(self) -> None:
        """End the server and whatever it runs; safe to call twice."""
        with self._closing:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
            self.socket.close()
            with contextlib.suppress(OSError):  # gone already
                sweep(self.folder)
                os.rmdir(self.folder)


def _scratch() -> IO[bytes]:
    """An unnamed file: in memory where the system has such."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("scratch"), "w+b", buffering=0)
    return tempfile.TemporaryFile(buffering=0)
