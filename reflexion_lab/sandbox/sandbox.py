"""Runs model-written programs in locked-down children of lean server processes, and judges what they report.

The lab never imports, compiles or executes a candidate. See `lockdown.py` for what each layer stops and what remains
possible, `harness.py` for the life of a child, and `apart.py` for how a verdict is kept out of its reach.
"""

from __future__ import annotations

import contextlib
import functools
import os
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType, TracebackType
from typing import Self

from reflexion_lab.protocols import HarnessError
from reflexion_lab.records import Execution
from reflexion_lab.sandbox.apart import MISTAKES, compiled, defined_by, literal, prepare
from reflexion_lab.sandbox.lockdown import layers
from reflexion_lab.sandbox.report import read_checks, read_values, readable
from reflexion_lab.sandbox.server import Limits, Reported, Server

__all__ = ["Limits", "Sandbox"]
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
        self.servers = servers or os.cpu_count() or 1
        self._idle: queue.LifoQueue[Server | None] = queue.LifoQueue()
        for _ in range(self.servers):
            self._idle.put(None)
        self._started: list[Server] = []
        self._one_alone = threading.Lock()
        self._starting = threading.Lock()
        self._closed = False

    def run(
        self, program: str, entry_point: str, checks: Sequence[str], setup: str = "", cpu_seconds: float = 0.0
    ) -> Execution:
        """Execute `program` and its checks, each in turn, in one fresh child.

        `cpu_seconds` is what the canonical solution uses, if known: limits of time scale with it. A program whose time
        was over is run once more while nothing else runs here, before that is believed.

        Raises:
            HarnessError: twice in a row no server could run it.
        """
        foreign = defined_by(tuple(checks))
        prepared = [prepare(check, entry_point, setup, foreign) for check in checks]
        asked = {
            "program": program,
            "entry_point": entry_point,
            "setup": _compiled(setup),
            "checks": [check.asked for check in prepared],
            "sources": {i: checks[i] for i, check in enumerate(prepared) if check.test is None},
        }
        reported = self._report(asked, cpu_seconds)
        return Execution(
            checks=read_checks(prepared, reported),
            output=readable(reported.output, self.limits.output_chars),
            seconds=reported.seconds,
            cpu_seconds=reported.cpu_seconds,
            timed_out=reported.over,
        )

    def values(self, program: str, entry_point: str, calls: Sequence[str], setup: str = "") -> list[str | None]:
        """What each call of `program` returns, as Python source; None where that is no plain data or it raised."""
        codes = [(None, [compiled(call, "eval", "<call>")]) for call in calls]
        asked = {"program": program, "entry_point": entry_point, "setup": setup, "checks": codes, "sources": {}}
        computed = read_values(self._report(asked, 0.0), len(calls))
        return [literal(values[0]) if values else None for values in computed]

    def _report(self, asked: Mapping[str, object], cpu_seconds: float) -> Reported:
        with self._server() as server:
            reported = server.run(asked, cpu_seconds)
        if not reported.over:
            return reported
        with self._one_alone, contextlib.ExitStack() as stack:
            servers = [stack.enter_context(self._server()) for _ in range(self.servers)]
            return servers[0].run(asked, cpu_seconds)

    @contextlib.contextmanager
    def _server(self) -> Iterator[_Replaced]:
        """A server that nobody else uses meanwhile."""
        held = _Replaced(self._idle.get(), self._start)
        try:
            yield held
        finally:
            self._idle.put(held.server)

    def _start(self) -> Server:
        server = Server(self.limits)
        with self._starting:
            self._started = [*(other for other in self._started if other.process.poll() is None), server]
            closed = self._closed
        if closed:
            server.close()
            raise HarnessError("The sandbox was closed; make another.")
        return server

    def close(self) -> None:
        """End every server and what it runs. Nothing runs here any more."""
        with self._starting:
            self._closed = True
        for server in self._started:
            server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Replaced:
    """A server that is started when first needed, and replaced when it dies."""

    def __init__(self, server: Server | None, start: Callable[[], Server]) -> None:
        self.server = server
        self.start = start

    def run(self, asked: Mapping[str, object], cpu_seconds: float) -> Reported:
        for last in (False, True):
            self.server = self.server or self.start()
            try:
                return self.server.run(asked, cpu_seconds)
            except BaseException as problem:  # an interrupt too: the reply that is still to come is nobody else's
                self.server.close()
                self.server = None
                if not isinstance(problem, OSError | HarnessError):
                    raise
                if last:
                    raise HarnessError(f"The sandbox could not run a program: {problem}") from problem
        raise AssertionError("unreachable")


@functools.lru_cache(maxsize=1 << 10)
def _compiled(setup: str) -> CodeType | str:
    """`setup` as code; as it is where it is empty or does not compile, which the child then reports."""
    try:
        return compiled(setup, "exec", "<setup>") if setup else ""
    except MISTAKES:
        return setup
