"""The lab's end of one server: starts it, sends it requests, reads what a child left."""

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
"""Seconds past its deadline after which a silent server is given up."""


class Limits(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one execution may use."""

    cpu_seconds: Above0 = 2.0
    """At least; more where the canonical solution is known to need it."""
    cpu_factor: Above0 = 10.0
    """Times the canonical solution's own CPU seconds."""
    wall_seconds: Above0 = 4.0
    """For `cpu_seconds`; more in proportion."""
    memory_mb: Positive = 512
    file_mb: Positive = 4
    """Of one file; the private folder, the report and the captured output count as files."""
    open_files: Positive = 64
    output_chars: Positive = 2000
    """Of what the program printed, kept for feedback."""

    def __post_init__(self) -> None:
        check_fields(self)

    def times(self, canonical: float) -> tuple[float, int]:
        """Wall seconds and whole CPU seconds of a task whose canonical solution uses `canonical` CPU seconds."""
        cpu = max(self.cpu_seconds, self.cpu_factor * canonical)
        return self.wall_seconds * cpu / self.cpu_seconds, math.ceil(cpu)


class Reported(NamedTuple):
    """What a child left."""

    report: bytes
    nonce: str
    output: str
    status: int
    """Exit code, negative for a signal."""
    over: bool
    """Whether its time was."""
    seconds: float
    cpu_seconds: float


class Server:
    """One harness process and the socket to it; used by one thread at a time."""

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
            # LD_BIND_NOW: symbols that each child would look up anew are looked up once.
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
        """Have a fresh child do what is `asked`.

        Raises
        ------
        HarnessError, OSError
            The server is gone or broken; nothing can be said of the program.
        """
        nonce = secrets.token_hex(16)
        wall, cpu = self.limits.times(canonical_seconds)
        files = [_scratch(), _scratch(), _scratch()]
        try:
            request, report, output = files
            os.write(request, marshal.dumps({**fields, "nonce": nonce}))
            os.lseek(request, 0, os.SEEK_SET)
            socket.send_fds(self.socket, [ASK.pack(wall, cpu)], files)
            self.socket.settimeout(wall + GRACE)
            reply = self.socket.recv(STATUS.size, socket.MSG_WAITALL)
            if len(reply) < STATUS.size:
                raise HarnessError(f"its server ended with exit code {self.process.poll()}")
            status, seconds, used, locked, over = STATUS.unpack(reply)
            printed = os.pread(output, 4 * self.limits.output_chars, 0).decode(errors="replace")
            if not locked:
                raise HarnessError(f"the isolation layers could not be entered: {printed.strip() or status}")
            report_bytes = os.pread(report, os.fstat(report).st_size, 0)
        finally:
            for file in files:
                os.close(file)
        return Reported(report_bytes, nonce, printed[: self.limits.output_chars], status, over, seconds, used)

    def close(self) -> None:
        """End the server and whatever it runs; safe to call twice."""
        with self._closing:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
            self.socket.close()
            self._private.close()


def _remove(folder: str) -> None:
    with contextlib.suppress(OSError):  # gone already
        sweep(folder)
        os.rmdir(folder)


def _scratch() -> int:
    """The descriptor of an unnamed file: in memory where the system has such."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("scratch")
    descriptor, path = tempfile.mkstemp()
    os.unlink(path)
    return descriptor
