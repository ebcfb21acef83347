"""The workers of one run: who has least to do is asked next, and who is lost is replaced."""

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
"""Workers that may end while they have one loop, or one program, before it is given up."""


class Lost(RuntimeError):
    """A worker's process, or its machine, is gone."""


class Elsewhere(RuntimeError):
    """Where in a worker an exception came from."""


class Member:
    """One worker."""

    def __init__(self, actor: Any) -> None:
        self.actor = actor
        self.busy = Counter[str]()
        self.place: Place
        self.heard = 0
        """Messages of the run that it has received."""

    def __str__(self) -> str:
        return f"worker {self.place.pid} on {self.place.node}" if hasattr(self, "place") else "a worker"


class Crew:
    """`size` workers, told alike and asked in turn. Thread-safe.

    Parameters
    ----------
    start : Callable[[], Any]
        Starts one; its actor is returned at once.
    patience : float
        Seconds for all of them to be there.

    Raises
    ------
    HarnessError
        They cannot be had, or differ in what results depend on.
    """

    def __init__(self, start: Callable[[], Any], size: int, patience: float) -> None:
        self.start = start
        self.patience = patience
        self.counted: Callable[[Sequence[Counts]], None] = lambda counts: None
        self._numbers = itertools.count()
        self._told: list[tuple[str, Any]] = []
        """What a newcomer has to be told, from the beginning."""
        self._changed = threading.Condition()
        self._members: list[Member] = []
        self._broken: Exception | None = None
        self._first: Place | None = None
        for member in [Member(start()) for _ in range(size)]:
            self._admit(member)

    @property
    def layers(self) -> tuple[str, ...]:
        """Isolation of model-written code, the same at every worker."""
        assert self._first
        return self._first.layers

    @property
    def places(self) -> list[Place]:
        with self._changed:
            return [member.place for member in self._members]

    def tell(self, method: str, what: Any) -> None:
        """Call `method` on every worker, including later replacements. `what`: put into Ray's store by the caller."""
        with self._changed:
            self._told.append((method, what))
            members = list(self._members)
            for member in members:
                member.heard = len(self._told)
        for member, pending in [(member, member.actor.ask.remote(method, what)) for member in members]:
            try:
                self._answer(member, pending)
            except Lost:
                self._replace(member)

    def ask(self, kind: str, about: str, method: str, *args: Any) -> Any:
        """What the least busy worker answers; another one, where it is lost meanwhile.

        Raises
        ------
        HarnessError
            So many were lost over it; whatever `method` raises.
        """
        for left in reversed(range(TRIES)):
            with self._least_busy(kind) as member, self._loss(member, about, left):
                return self._answer(member, member.actor.ask.remote(method, *args))
        raise AssertionError("unreachable")

    def attempts(self, task: Task) -> Iterator[Attempt]:
        """As `Reflexion.attempts`, in a worker: each attempt is made when it is asked for. Where the worker is lost,
        the loop begins anew in another, from its first attempt.
        """
        for left in reversed(range(TRIES)):
            with self._least_busy("loops") as member, self._loss(member, f"task {task.task_id}", left):
                number = next(self._numbers)
                while True:
                    attempt = self._answer(member, member.actor.ask.remote("attempt", number, task))
                    yield attempt
                    if attempt.stop_reason:
                        return

    def close(self, patience: float = 10.0) -> None:
        """End the workers, and what runs in them."""
        import ray

        with self._changed:
            members, self._members = self._members, []
            self._broken = HarnessError("the workers were closed")
            self._changed.notify_all()
        ray.wait([member.actor.ask.remote("close") for member in members], num_returns=len(members), timeout=patience)
        for member in members:
            ray.kill(member.actor)

    @contextmanager
    def _loss(self, member: Member, about: str, left: int) -> Iterator[None]:
        """Takes the loss of `member`, which is replaced, as long as tries are left."""
        try:
            yield
        except Lost as problem:
            self._replace(member)
            if not left:
                message = f"{TRIES} workers in a row ended while they had it; the last was {problem}"
                raise HarnessError(f"{about}: {message}") from problem

    def _answer(self, member: Member, pending: Any) -> Any:
        import ray

        try:
            reply: Reply = ray.get(pending)
        except ray.exceptions.RayTaskError as problem:  # before the worker came to answer
            raise HarnessError(f"{member}: {problem.cause}") from problem
        except ray.exceptions.RayError as problem:
            raise Lost(" ".join(f"{member}: {problem}".split())[:500]) from problem
        if reply.counts:
            self.counted(reply.counts)
        if reply.problem:
            raise reply.problem from Elsewhere(f"{member}\n{reply.trace}")
        return reply.value

    @contextmanager
    def _least_busy(self, kind: str) -> Iterator[Member]:
        with self._changed:
            while not self._members and not self._broken:
                self._changed.wait()
            if self._broken:
                raise self._broken
            member = min(self._members, key=lambda member: member.busy[kind])
            member.busy[kind] += 1
        try:
            yield member
        finally:
            with self._changed:
                member.busy[kind] -= 1

    def _replace(self, member: Member) -> None:
        """Another in its place, once."""
        import ray

        with self._changed:
            if member not in self._members:
                return
            self._members.remove(member)
        with suppress(ray.exceptions.RayError, ValueError):
            ray.kill(member.actor)  # which may only be out of reach, and then would keep its place and spend on
        try:
            self._admit(Member(self.start()))
        except Exception as error:
            with self._changed:
                self._broken = error
                self._changed.notify_all()
            raise

    def _admit(self, member: Member) -> None:
        """Take `member` in, once it has started, is like the others, and has received every message."""
        import ray

        pending = member.actor.ask.remote("place")
        if not ray.wait([pending], timeout=self.patience)[0]:
            raise HarnessError(
                "executor.workers",
                f"one that had not started after {self.patience:g} s",
                "room for them in the cluster",
                "set executor.workers, or executor.cpus, lower",
            )
        try:
            member.place = self._answer(member, pending)
            self._check(member.place)
            while not self._joined(member):
                method, what = self._told[member.heard]
                self._answer(member, member.actor.ask.remote(method, what))
                member.heard += 1
        except Lost as problem:
            raise HarnessError(f"executor: a worker ended while it started: {problem}") from problem

    def _joined(self, member: Member) -> bool:
        """Add `member` to those that are asked, unless a message came meanwhile that it has yet to receive."""
        with self._changed:
            if member.heard == len(self._told):
                self._members.append(member)
                self._changed.notify_all()
            return member in self._members

    def _check(self, place: Place) -> None:
        self._first = first = self._first or place
        for name in ("layers", "version"):
            got, expected = getattr(place, name), getattr(first, name)
            if got != expected:
                workers = f"{name} {got!r} on {place.node} and {expected!r} on {first.node}"
                raise HarnessError("executor", workers, "the same, or results would depend on the machine")


class Programs:
    """The sandboxes of all workers as one: the judge's, and for whatever else this process executes. Thread-safe.

    `crew`: the workers, who may have to be started. `servers`: programs at once in each.
    """

    def __init__(self, crew: Callable[[], Crew], limits: Limits, servers: int) -> None:
        self.crew = crew
        self.limits = limits
        self.each = servers

    @property
    def layers(self) -> tuple[str, ...]:
        """Those of every worker."""
        return self.crew().layers

    @property
    def servers(self) -> int:
        return self.each * len(self.crew().places)

    def run(
        self, program: str, entry_point: str, checks: Sequence[str], setup: str = "", cpu_seconds: float = 0.0
    ) -> Execution:
        """As `Sandbox.run`; elsewhere once more where a worker is lost over it, but not for ever."""
        arguments = (program, entry_point, tuple(checks), setup, cpu_seconds)
        execution: Execution = self.crew().ask("programs", f"a program for {entry_point}", "run", *arguments)
        return execution

    def values(self, program: str, entry_point: str, calls: Sequence[str], setup: str = "") -> list[str | None]:
        arguments = (program, entry_point, tuple(calls), setup)
        values: list[str | None] = self.crew().ask("programs", f"calls of {entry_point}", "values", *arguments)
        return values

    def close(self) -> None:
        """Workers end with the cluster."""
