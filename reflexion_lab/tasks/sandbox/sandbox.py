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

from reflexion_lab.errors import HarnessError
from reflexion_lab.records import Check, Execution
from reflexion_lab.tasks.sandbox.apart import MISTAKES, compiled, defined_by, literal, prepare, whole
from reflexion_lab.tasks.sandbox.lockdown import layers
from reflexion_lab.tasks.sandbox.report import ending, read_checks, read_values, readable
from reflexion_lab.tasks.sandbox.server import Limits, Reported, Server

__all__ = ["Limits", "Sandbox"]
DEFAULTS = Limits()
ENDED = ("timeout", "early_exit", "memory")
"""Outcomes of a check that may have ended its child."""
RESTARTS = 2
"""New children for checks that were not started because the child ended; each has the full time limit."""


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

        Checks that it never began, as one before them hung or ended it, run in another, at most `RESTARTS` times.
        Comparisons of the program's own objects that are undecidable from outside are judged in place.

        `cpu_seconds` is what the canonical solution uses, if known: limits of time scale with it. A program whose time
        was over is run once more while nothing else runs here, before that is believed.

        Raises
        ------
        HarnessError
            Twice in a row no server could run it.
        """
        foreign = defined_by(tuple(checks))
        prepared = [prepare(check, entry_point, setup, foreign) for check in checks]
        request = {"program": program, "entry_point": entry_point, "setup": _compiled(setup)}
        children: list[Reported] = []

        undecided: set[int] = set()

        def report(wanted: Sequence[int], order: Sequence[int]) -> list[Check | None]:
            """Results of the checks `wanted` in a new child that runs the checks in `order`."""
            run = {i: prepared[i] for i in order}
            sources = {n: checks[i] for n, (i, check) in enumerate(run.items()) if check.test is None}
            codes = {"checks": [check.asked for check in run.values()], "sources": sources}
            children.append(self._report({**request, **codes}, cpu_seconds))
            read = read_checks(list(run.values()), children[-1])
            undecided.update(i for n, i in enumerate(run) if n in read.undecided and run[i].is_shared)
            results = dict(zip(run, read.checks, strict=True))
            return [results[i] for i in wanted]

        every = range(len(checks))
        done = report(every, every)
        for _ in range(RESTARTS):
            never_begun = [i for i, check in enumerate(done) if check is None]
            if not never_begun or foreign:
                break
            again = report(never_begun, never_begun)
            for i, check in zip(never_begun, again, strict=True):
                done[i] = check
            if children[-1].over and all(check is None for check in again[1:]):  # it hangs before any check ends
                break
        if in_place := sorted(undecided):
            for i in in_place:
                prepared[i] = whole(prepared[i], checks[i])
            lived = [i for i, check in enumerate(done) if check and check.outcome not in ENDED]  # each may need earlier
            for i, check in zip(in_place, report(in_place, lived), strict=True):
                done[i] = check or done[i]
        outcome, message = ending(children[-1].status, any(child.over for child in children))
        never = f"{message}: the program ended {len(children)} times before this check began"
        return Execution(
            checks=tuple(
                check or Check(name=ready.name, outcome=outcome, message=never, mode=ready.mode)
                for ready, check in zip(prepared, done, strict=True)
            ),
            output=readable(children[0].output, self.limits.output_chars),
            seconds=sum(child.seconds for child in children),
            cpu_seconds=sum(child.cpu_seconds for child in children),
            timed_out=any(child.over for child in children),
        )

    def values(self, program: str, entry_point: str, calls: Sequence[str], setup: str = "") -> list[str | None]:
        """The return value of each call of `program`, as Python source; None where it is no plain data or it raised."""
        codes = [(None, [compiled(call, "eval", "<call>")]) for call in calls]
        request = {"program": program, "entry_point": entry_point, "setup": setup, "checks": codes, "sources": {}}
        computed = read_values(self._report(request, 0.0), len(calls))
        return [literal(values[0]) if values else None for values in computed]

    def _report(self, request: Mapping[str, object], cpu_seconds: float) -> Reported:
        with self._server() as server:
            reported = server.run(request, cpu_seconds)
        if not reported.over:
            return reported
        with self._one_alone, contextlib.ExitStack() as stack:
            servers = [stack.enter_context(self._server()) for _ in range(self.servers)]
            return servers[0].run(request, cpu_seconds)

    @contextlib.contextmanager
    def _server(self) -> Iterator[_Replaced]:
        """A server for exclusive use."""
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
        """End every server and its programs. The sandbox cannot be used afterwards."""
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

    def run(self, request: Mapping[str, object], cpu_seconds: float) -> Reported:
        for last in (False, True):
            self.server = self.server or self.start()
            try:
                return self.server.run(request, cpu_seconds)
            except BaseException as problem:  # an interrupt too: the next call must not read this reply
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
