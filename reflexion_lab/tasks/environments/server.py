"""A process that forks a child for each session, so that one that hangs or dies ends no other.

The server imports the libraries of the environments once. A session is one connection: its child sends its process id,
then answers lines of JSON with `{"value": ...}` or `{"problem": ...}`. The first line names `module:function` and its
values; each later one is an action. The environment variables of the lab, and so its keys, are not passed on.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from reflexion_lab.errors import HarnessError

PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "XDG_CACHE_HOME", "VIRTUAL_ENV", "ALFWORLD_DATA")
"""Environment variables that a world may need."""
PATIENCE = 600.0
"""Seconds for the imports of a server: minutes on a loaded machine or a slow disk."""
ID = struct.Struct("q")


class Server:
    """Starts the process at the first session. Thread-safe. `modules`: imported before any session; of
    `module:function`, the function is called, too.
    """

    def __init__(self, modules: Sequence[str]) -> None:
        self.modules = tuple(modules)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._place = ""

    def connect(self) -> tuple[socket.socket, int]:
        """A connection to a new child, and its process id. Waits for the imports. Raises HarnessError: they failed."""
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._start()
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(self._place)
            connection.settimeout(PATIENCE)
            return connection, ID.unpack(connection.recv(ID.size))[0]
        except (OSError, struct.error) as problem:
            connection.close()
            late = f"died, or its imports took more than {PATIENCE:g} s"
            raise HarnessError(f"environment: its server {late} ({problem})") from problem

    def ready(self) -> None:
        """Wait for the imports. Raises HarnessError: they failed."""
        self.connect()[0].close()

    def _start(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="reflexion-lab-worlds-")
        self._place = f"{self._folder.name}/server"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self._place)
        listener.listen(128)
        environ = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        environ |= {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}
        environ |= {"PYTHONHASHSEED": "0"}  # the order of sets is in some games
        command = [sys.executable, "-m", __name__, str(listener.fileno()), *self.modules]
        with listener:
            self._process = subprocess.Popen(
                command, pass_fds=[listener.fileno()], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environ,
                process_group=0,
            )  # fmt: skip

    def close(self) -> None:
        """End the server and its sessions."""
        with self._lock:
            if self._process:
                with contextlib.suppress(OSError):  # no process is left of the group
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._process.communicate()
                self._process = None
                self._folder.cleanup()


class Connection:
    """A child of the server that runs `target`, `module:function`; its `values` are JSON. Raises HarnessError."""

    def __init__(self, server: Server, target: str, values: dict[str, Any], seconds: float) -> None:
        self._seconds = seconds
        self._socket, self._pid = server.connect()
        self._file = self._socket.makefile("rwb")
        self.ask({"target": target, "values": values})

    def ask(self, request: Any) -> Any:
        """The answer to a request. Raises HarnessError: the child failed, died, or took too long and was killed."""
        self._socket.settimeout(self._seconds)
        try:
            self._file.write(json.dumps(request).encode() + b"\n")
            self._file.flush()
            line = self._file.readline()
        except TimeoutError:
            self.close()
            raise HarnessError(f"environment: no answer within {self._seconds:g} s (environment.seconds)") from None
        except OSError as problem:
            self.close()
            raise HarnessError(f"environment: its process died ({problem})") from problem
        if not line.endswith(b"\n"):
            self.close()
            raise HarnessError("environment: its process died")
        answer = json.loads(line)
        if "problem" in answer:
            self.close()
            raise HarnessError(f"environment: {answer['problem']}")
        return answer.get("value")

    def close(self) -> None:
        """End the child, whatever it does."""
        if self._pid:
            with contextlib.suppress(OSError):
                os.kill(self._pid, signal.SIGKILL)
        self._pid = 0
        with contextlib.suppress(OSError):
            self._file.close()
        self._socket.close()


def serve(listener: socket.socket) -> None:
    """Fork a child for each connection until standard input ends, as it does with the lab's process."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children are reaped by the kernel
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the lab's
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in ready:
            os.killpg(0, signal.SIGKILL)
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            try:
                answer(connection)
            finally:
                os._exit(0)
        connection.close()


def answer(connection: socket.socket) -> None:
    """Serve one session: its first line makes the callable that answers the others."""
    connection.sendall(ID.pack(os.getpid()))
    with connection.makefile("rwb") as file:
        act = None
        for line in file:
            try:
                request = json.loads(line)
                if act is None:
                    module, _, name = request["target"].partition(":")
                    act = getattr(import_module(module), name)(**request["values"])
                    text = "{}"
                else:
                    text = json.dumps({"value": act(request)})
            except Exception as problem:
                text = json.dumps({"problem": f"{type(problem).__name__}: {problem}"[:500]})
            file.write(text.encode() + b"\n")
            file.flush()


if __name__ == "__main__":
    for name in sys.argv[2:]:
        module, _, function = name.partition(":")
        loaded = import_module(module)
        if function:
            getattr(loaded, function)()
    serve(socket.socket(fileno=int(sys.argv[1])))
