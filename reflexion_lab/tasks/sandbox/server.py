"""The lab's side of one server: starts it, sends requests, reads the reports of its children."""

from __future__ import annotations

import contextlib
import marshal
import math
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from reflexion_lab.errors import HarnessError
from reflexion_lab.io.files import Scratch
from reflexion_lab.limits import Above0, Positive, check_fields
from reflexion_lab.records import Record
from reflexion_lab.tasks.sandbox.harness import ASK, STATUS, sweep

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
