"""The execution cache: identical code with identical tests is executed once."""

from __future__ import annotations

import contextlib
import hashlib
import sys
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import msgspec
from msgspec.structs import replace

from reflexion_lab.errors import HarnessError
from reflexion_lab.protocols import Pool, Sandbox
from reflexion_lab.records import Execution, Task
from reflexion_lab.storage.table import FAULTS, FileTable, Layout, Row

VERSION = 4
"""Raised whenever the sandbox would judge a program differently than before."""
LAYOUT = Layout(
    name="executions",
    application_id=0x52464C45,
    columns="key TEXT PRIMARY KEY, execution TEXT NOT NULL",
)

_EXECUTION = msgspec.json.Decoder(Execution)


class CachedSandbox:
    """`sandbox`, asked once for every program with its checks, across runs and processes that share the file at `path`.

    Equal executions that are under way at once in this process are one too. A time-out is kept for this process alone:
    it says as much about the machine as about the program. Without a path nothing is kept. Thread-safe.
    """

    hits: int
    """Executions that were answered without one."""
    misses: int

    def __init__(self, sandbox: Pool, path: str | Path | None) -> None:
        self.limits = sandbox.limits
        self.values = sandbox.values
        self.hits = self.misses = 0
        self._sandbox = sandbox
        self._table = None if path is None else FileTable(Path(path), LAYOUT)
        self._lock = threading.Lock()
        self._here: dict[str, Future[Execution]] = {}
        """Under way, or not to be stored."""

    @property
    def layers(self) -> tuple[str, ...]:
        """Asked when they are needed: a cluster starts by it."""
        return self._sandbox.layers

    @property
    def servers(self) -> int:
        return self._sandbox.servers

    def run(
        self, program: str, entry_point: str, checks: Sequence[str], setup: str = "", cpu_seconds: float = 0.0
    ) -> Execution:
        """As `Sandbox.run`; also raises HarnessError when the file cannot be used."""
        if self._table is None:
            self.misses += 1
            return self._sandbox.run(program, entry_point, checks, setup, cpu_seconds)
        request = (program, entry_point, tuple(checks), setup)
        times = self.limits.times(cpu_seconds)
        key = execution_key(VERSION, sys.version, self.layers, self.limits, times, *request)
        future = Future[Execution]()
        with self._lock:
            if waiting := self._here.get(key):
                self.hits += 1
            elif stored := self._stored(key):
                self.hits += 1
                return stored
            else:
                self.misses += 1
                self._here[key] = future
        return waiting.result() if waiting else self._execute(key, future, *request, cpu_seconds)

    def _execute(
        self,
        key: str,
        future: Future[Execution],
        program: str,
        entry_point: str,
        checks: Sequence[str],
        setup: str,
        cpu_seconds: float,
    ) -> Execution:
        try:
            execution = self._sandbox.run(program, entry_point, checks, setup, cpu_seconds)
            if not execution.timed_out:
                with self._lock:
                    self._store(key, execution)
                    del self._here[key]
        except BaseException as problem:
            with self._lock:
                del self._here[key]
            future.set_exception(problem)
            raise
        future.set_result(execution)
        return execution

    def _stored(self, key: str) -> Execution | None:
        rows = self._rows("SELECT execution FROM executions WHERE key = ?", key)
        with contextlib.suppress(msgspec.DecodeError):  # a damaged row is executed again
            return _EXECUTION.decode(str(rows[0][0])) if rows else None
        return None

    def _store(self, key: str, execution: Execution) -> None:
        self._rows("INSERT OR REPLACE INTO executions VALUES (?, ?)", key, msgspec.json.encode(execution).decode())

    def _rows(self, statement: str, *values: str) -> list[Row]:
        try:
            return self._table.rows(statement, values) if self._table else []
        except FAULTS as problem:
            place = self._table.place if self._table else ""
            raise HarnessError(
                f"cache.executions: {place} cannot be used ({problem}); free its disk, move it away, or set "
                "cache.executions=null"
            ) from problem

    def open(self, is_new: bool = True) -> None:
        """Open the file now, not with the first execution; unless `is_new`, only an existing one.

        Raises
        ------
        HarnessError
            It cannot be used.
        """
        with contextlib.suppress(OSError):  # a name too long: the first execution says so
            if self._table is not None and (is_new or Path(self._table.place).exists()):
                self._rows("SELECT 1")

    def close(self) -> None:
        """End the sandbox; what is stored stays."""
        self._sandbox.close()
        if self._table is not None:
            self._table.close()


def execution_key(*parts: object) -> str:
    """SHA-256, in hex, of everything that an execution depends on."""
    return hashlib.sha256(repr(parts).encode(errors="surrogatepass")).hexdigest()


def measured(tasks: Iterable[Task], executor: Sandbox, workers: int) -> tuple[tuple[Task, ...], list[str]]:
    """`tasks` with their `cpu_seconds`, and the ids of those whose canonical solution fails a test of theirs.

    Tasks without canonical solution or tests stay as they are. A failing one means that the task, or this machine, is
    not what its authors had: a program that fails it may be right.

    Raises
    ------
    HarnessError
        The sandbox is broken.
    """

    def execute(task: Task) -> Execution | None:
        tests = (*task.visible_tests, *task.hidden_tests)
        if not (task.canonical_solution.strip() and tests):
            return None
        return executor.run(task.canonical_program, task.entry_point, tests, task.setup)

    whole = tuple(tasks)
    with ThreadPoolExecutor(workers) as pool:
        executions = list(pool.map(execute, whole))
    failing = [
        task.task_id
        for task, execution in zip(whole, executions, strict=True)
        if execution and any(check.outcome != "pass" for check in execution.checks)
    ]
    timed = (
        replace(task, cpu_seconds=execution.cpu_seconds) if execution else task
        for task, execution in zip(whole, executions, strict=True)
    )
    return tuple(timed), failing
