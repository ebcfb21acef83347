"""The workers of one run: the least busy one gets the next call, a lost one is replaced."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from reflexion_lab.agent.models.cache import Counts
from reflexion_lab.errors import HarnessError
from reflexion_lab.records import Attempt, Execution, Task
from reflexion_lab.studies.scale.worker import Place, Reply
from reflexion_lab.tasks.sandbox.sandbox import Limits

TRIES = 3
"""Workers that may be lost over one loop or one program before it is given up."""


class Lost(RuntimeError):
    """The process or machine of a worker is gone."""


class Elsewhere(RuntimeError):
    """The traceback of an exception in a worker."""


class Handle:
    """One worker and its state."""

    def __init__(self, actor: Any) -> None:
        self.actor = actor
        self.busy = Counter[str]()
        self.place: Place
        self.received = 0
        """Number of broadcasts that it has received."""

    def __str__(self) -> str:
        return f"worker {self.place.pid} on {self.place.node}" if hasattr(self, "place") else "a worker"


class WorkerPool:
    """`size` workers. Thread-safe.

    Parameters
    ----------
    start : Callable[[], Any]
        Starts one; returns its actor at once.
    patience : float
        Seconds for a worker to start.

    Raises
    ------
    HarnessError
        Workers cannot be started, or differ in what results depend on.
    """

    def __init__(self, start: Callable[[], Any], size: int, patience: float) -> None:
        self.start = start
        self.patience = patience
        self.counted: Callable[[Sequence[Counts]], None] = lambda counts: None
        self._numbers = itertools.count()
        self._broadcasts: list[tuple[str, Any]] = []
        """All broadcasts so far, for new workers."""
        self._changed = threading.Condition()
        self._handles: list[Handle] = []
        self._broken: Exception | None = None
        self._first: Place | None = None
        for handle in [Handle(start()) for _ in range(size)]:
            self._admit(handle)

    @property
    def layers(self) -> tuple[str, ...]:
        """Isolation of model-written code, the same at every worker."""
        assert self._first
        return self._first.layers

    @property
    def places(self) -> list[Place]:
        with self._changed:
            return [handle.place for handle in self._handles]

    def broadcast(self, method: str, what: Any) -> None:
        """Call `method` on every worker, including later replacements. `what`: an object in Ray's store."""
        with self._changed:
            self._broadcasts.append((method, what))
            handles = list(self._handles)
            for handle in handles:
                handle.received = len(self._broadcasts)
        for handle, pending in [(handle, handle.actor.ask.remote(method, what)) for handle in handles]:
            try:
                self._answer(handle, pending)
            except Lost:
                self._replace(handle)

    def ask(self, kind: str, about: str, method: str, *args: Any) -> Any:
        """The answer of the least busy worker, or of another one if that is lost.

        Raises
        ------
        HarnessError
            `TRIES` workers were lost over it.
        """
        for left in reversed(range(TRIES)):
            with self._least_busy(kind) as handle, self._loss(handle, about, left):
                return self._answer(handle, handle.actor.ask.remote(method, *args))
        raise AssertionError("unreachable")

    def attempts(self, task: Task) -> Iterator[Attempt]:
        """As `Reflexion.attempts`, in a worker. If it is lost, the loop restarts in another, from the first attempt."""
        for left in reversed(range(TRIES)):
            with self._least_busy("loops") as handle, self._loss(handle, f"task {task.task_id}", left):
                number = next(self._numbers)
                while (attempt := self._answer(handle, handle.actor.ask.remote("attempt", number, task))) is not None:
                    yield attempt
                return

    def close(self, patience: float = 10.0) -> None:
        """End the workers, and what runs in them."""
        import ray

        with self._changed:
            handles, self._handles = self._handles, []
            self._broken = HarnessError("the workers were closed")
            self._changed.notify_all()
        ray.wait([handle.actor.ask.remote("close") for handle in handles], num_returns=len(handles), timeout=patience)
        for handle in handles:
            ray.kill(handle.actor)

    @contextmanager
    def _loss(self, handle: Handle, about: str, left: int) -> Iterator[None]:
        """Replace `handle` if it is lost, as long as tries are left."""
        try:
            yield
        except Lost as problem:
            self._replace(handle)
            if not left:
                message = f"{TRIES} workers in a row ended while they had it; the last was {problem}"
                raise HarnessError(f"{about}: {message}") from problem

    def _answer(self, handle: Handle, pending: Any) -> Any:
        import ray

        try:
            reply: Reply = ray.get(pending)
        except ray.exceptions.RayTaskError as problem:  # before the worker came to answer
            raise HarnessError(f"{handle}: {problem.cause}") from problem
        except ray.exceptions.RayError as problem:
            raise Lost(" ".join(f"{handle}: {problem}".split())[:500]) from problem
        if reply.counts:
            self.counted(reply.counts)
        if reply.problem:
            raise reply.problem from Elsewhere(f"{handle}\n{reply.trace}")
        return reply.value

    @contextmanager
    def _least_busy(self, kind: str) -> Iterator[Handle]:
        with self._changed:
            while not self._handles and not self._broken:
                self._changed.wait()
            if self._broken:
                raise self._broken
            handle = min(self._handles, key=lambda handle: handle.busy[kind])
            handle.busy[kind] += 1
        try:
            yield handle
        finally:
            with self._changed:
                handle.busy[kind] -= 1

    def _replace(self, handle: Handle) -> None:
        """Start another worker, once."""
        import ray

        with self._changed:
            if handle not in self._handles:
                return
            self._handles.remove(handle)
        with suppress(ray.exceptions.RayError, ValueError):
            ray.kill(handle.actor)  # it may be out of reach only, and would go on spending
        try:
            self._admit(Handle(self.start()))
        except Exception as error:
            with self._changed:
                self._broken = error
                self._changed.notify_all()
            raise

    def _admit(self, handle: Handle) -> None:
        """Add `handle` once it has started, is like the others, and has received every broadcast."""
        import ray

        pending = handle.actor.ask.remote("place")
        if not ray.wait([pending], timeout=self.patience)[0]:
            raise HarnessError(
                "executor.workers",
                f"one that had not started after {self.patience:g} s",
                "room for them in the cluster",
                "set executor.workers, or executor.cpus, lower",
            )
        try:
            place: Place = self._answer(handle, pending)
            handle.place = place
            self._first = first = self._first or place
            for name in ("layers", "version"):
                got, expected = getattr(place, name), getattr(first, name)
                if got != expected:
                    workers = f"{name} {got!r} on {place.node} and {expected!r} on {first.node}"
                    raise HarnessError("executor", workers, "the same, or results would depend on the machine")
            while not self._joined(handle):
                method, what = self._broadcasts[handle.received]
                self._answer(handle, handle.actor.ask.remote(method, what))
                handle.received += 1
        except Lost as problem:
            raise HarnessError(f"executor: a worker ended while it started: {problem}") from problem

    def _joined(self, handle: Handle) -> bool:
        """Add `handle` to the pool, unless a broadcast arrived meanwhile that it has not received."""
        with self._changed:
            if handle.received == len(self._broadcasts):
                self._handles.append(handle)
                self._changed.notify_all()
            return handle in self._handles


class Programs:
    """The sandboxes of all workers as one. Thread-safe.

    worker_pool: starts the workers if needed. servers: programs at once in each worker.
    """

    def __init__(self, worker_pool: Callable[[], WorkerPool], limits: Limits, servers: int) -> None:
        self.worker_pool = worker_pool
        self.limits = limits
        self.each = servers

    @property
    def layers(self) -> tuple[str, ...]:
        """Isolation layers that every worker has."""
        return self.worker_pool().layers

    @property
    def servers(self) -> int:
        return self.each * len(self.worker_pool().places)

    def run(
        self, program: str, entry_point: str, checks: Sequence[str], setup: str = "", cpu_seconds: float = 0.0
    ) -> Execution:
        """As `Sandbox.run`; repeated by another worker if one is lost, up to `TRIES` times."""
        arguments = (program, entry_point, tuple(checks), setup, cpu_seconds)
        execution: Execution = self.worker_pool().ask("programs", f"a program for {entry_point}", "run", *arguments)
        return execution

    def values(self, program: str, entry_point: str, calls: Sequence[str], setup: str = "") -> list[str | None]:
        arguments = (program, entry_point, tuple(calls), setup)
        values: list[str | None] = self.worker_pool().ask("programs", f"calls of {entry_point}", "values", *arguments)
        return values

    def close(self) -> None:
        """Workers end with the cluster."""
