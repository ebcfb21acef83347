"""The execution cache: equal programs with equal tests are executed once."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from reflexion_lab.errors import HarnessError
from reflexion_lab.protocols import Environment, Sandbox
from reflexion_lab.records import Execution, Task
from reflexion_lab.tasks.evaluators.executed import EXECUTED, executed
from reflexion_lab.tasks.evaluators.unit_tests import describe
from reflexion_lab.tasks.sandbox.packages import packages
from reflexion_lab.tasks.sandbox.programs import Terms
from reflexion_lab.tasks.sandbox.sandbox import EXACT
from reflexion_lab.tasks.sandbox.sandbox import Sandbox as Processes
from reflexion_lab.text.replies import syntax
from reflexion_lab.text.shorten import line

if TYPE_CHECKING:
    from reflexion_lab.storage.sql import Statement

VERSION = 7
"""Increased whenever a change of the sandbox can change verdicts; recorded in manifests."""
TEST_CHARS, REASON_CHARS = 80, 160
OF_VERSION = "version"
"""Key of the row that names the version of all others."""


@functools.cache
def version() -> str:
    """Digest of the sources of the sandbox, which any change of a verdict changes."""
    sources = [*sorted(Path(__file__).parent.glob("*.py")), Path(syntax.__file__)]
    return execution_key(*((source.name, source.read_text(encoding="utf-8")) for source in sources))


_EXECUTION = msgspec.json.Decoder(Execution)


class CachedSandbox:
    """Sandbox with a cache of executions in the file at `path`, shared by runs and processes. Thread-safe.

    Equal executions that run at the same time in this process are executed once. Time-outs are cached only in this
    process, because they also depend on the machine; results that the machine may have caused are not cached. A file of
    another version of the sandbox is emptied. Without a path nothing is cached.
    """

    hits: int
    misses: int

    def __init__(self, sandbox: Processes, path: str | Path | None, environment: Environment | None = None) -> None:
        self.environment = environment
        self.limits = sandbox.limits
        self.values = sandbox.values
        self.hits = self.misses = 0
        self._sandbox = sandbox
        self._database = None
        if path is not None:
            from sqlalchemy import bindparam

            from reflexion_lab.storage.sql import EXECUTIONS, Database

            self._database = Database(path, [EXECUTIONS], "cache.executions", error=HarnessError)
            query = EXECUTIONS.select().with_only_columns(EXECUTIONS.c.execution)
            self._select = self._database.compiled(query.where(EXECUTIONS.c.key == bindparam("key")))
            self._insert = self._database.inserted(EXECUTIONS)
            self._delete = self._database.compiled(EXECUTIONS.delete())
        self._is_current = False
        self._lock = threading.Lock()
        self._here: dict[str, Future[Execution]] = {}
        """Executions that are running, or that are not stored in the file."""

    @property
    def layers(self) -> tuple[str, ...]:
        return self._sandbox.layers

    @property
    def servers(self) -> int:
        return self._sandbox.servers

    def run(
        self,
        program: str,
        entry_point: str,
        checks: Sequence[str],
        setup: str = "",
        cpu_seconds: float = 0.0,
        requires: tuple[str, ...] = (),
    ) -> Execution:
        """As `Sandbox.run`; also raises HarnessError if the file cannot be used."""
        request = (program, entry_point, tuple(checks), setup)
        times = self.limits.times(cpu_seconds)
        packaged = (packages(requires).versions, requires) if requires else ()
        return self._once(lambda: self._sandbox.run(*request, cpu_seconds, requires), times, *request, *packaged)

    def run_program(
        self, program: str, checks: Sequence[str], terms: Terms = EXACT, cpu_seconds: float = 0.0
    ) -> Execution:
        """As `Sandbox.run_program`; also raises HarnessError if the file cannot be used."""
        request, times = (program, tuple(checks), terms), self.limits.times(cpu_seconds, terms.seconds)
        packaged = packages(terms.requires).versions
        return self._once(
            lambda: self._sandbox.run_program(*request, cpu_seconds), times, "program", packaged, *request
        )

    def _once(self, execute: Callable[[], Execution], *request: object) -> Execution:
        """The execution of a request, from the file if it is there."""
        if self._database is None:
            self.misses += 1
            return execute()
        key = execution_key(version(), sys.version, self.layers, self.limits, *request)
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
        return waiting.result() if waiting else self._execute(key, future, execute)

    def _execute(self, key: str, future: Future[Execution], execute: Callable[[], Execution]) -> Execution:
        try:
            execution = execute()
            if execution.is_doubtful or not execution.timed_out:
                with self._lock:
                    if not execution.is_doubtful:
                        self._store(key, msgspec.json.encode(execution).decode())
                    del self._here[key]
        except BaseException as problem:
            with self._lock:
                del self._here[key]
            future.set_exception(problem)
            raise
        future.set_result(execution)
        return execution

    def _stored(self, key: str) -> Execution | None:
        self._empty_of_another_version()
        with contextlib.suppress(msgspec.DecodeError):  # a damaged row is executed again
            return _EXECUTION.decode(text) if (text := self._row(key)) else None
        return None

    def _row(self, key: str) -> str | None:
        rows = self._rows(self._select, {"key": key})
        return rows[0][0] if rows else None

    def _store(self, key: str, text: str) -> None:
        self._rows(self._insert, {"key": key, "execution": text})

    def _rows(self, statement: Statement, values: Mapping[str, object]) -> list[Any]:
        return self._database.rows(statement, values, "used as cache.executions") if self._database else []

    def _empty_of_another_version(self) -> None:
        if not self._is_current:
            if self._row(OF_VERSION) != version():
                self._rows(self._delete, {})
                self._store(OF_VERSION, version())
            self._is_current = True

    def open(self, is_new: bool = True) -> None:
        """Open the file before the first execution; an existing file only, unless `is_new`.

        Raises HarnessError: the file cannot be used.
        """
        with contextlib.suppress(OSError):  # the name is too long, which the first execution reports
            if self._database is not None and (is_new or Path(self._database.place).exists()):
                self._empty_of_another_version()

    def close(self) -> None:
        self._sandbox.close()
        if end := getattr(self.environment, "close", None):
            end()
        if self._database is not None:
            self._database.close()


def execution_key(*parts: object) -> str:
    """SHA-256 (hex) of everything that an execution depends on."""
    return hashlib.sha256(repr(parts).encode(errors="surrogatepass")).hexdigest()


def measured(tasks: Iterable[Task], executor: Sandbox, workers: int) -> tuple[tuple[Task, ...], list[str]]:
    """Tasks with the measured `cpu_seconds` of their canonical solution; ids, first failing test and its error of those
    whose solution fails one.

    Tasks without solution or tests stay. If a canonical solution fails, the task or this machine differs from that of
    its authors, and its tests may reject correct programs. Raises HarnessError: the sandbox is broken.
    """

    def execute(task: Task) -> Execution | None:
        tests = (*task.visible_tests, *task.hidden_tests)
        if task.kind not in EXECUTED or not (task.canonical_solution.strip() and tests):
            return None
        return executed(task, task.canonical_program, tests, executor)

    timed, failing = [], []
    with ThreadPoolExecutor(workers) as pool:
        tasks = tuple(tasks)
        for task, execution in zip(tasks, pool.map(execute, tasks), strict=True):
            timed.append(replace(task, cpu_seconds=execution.cpu_seconds) if execution else task)
            for check in [check for check in execution.checks if check.outcome != "pass"][:1] if execution else ():
                why = f"{line(check.name, TEST_CHARS)}: {describe(check, '')}"
                failing.append(f"{task.loop_id} ({line(why, REASON_CHARS)})")
    return tuple(timed), failing
