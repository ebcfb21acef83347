"""A process of the cluster: a sandbox, and once the run has begun, all that a loop needs.

It gets public tasks and the names of environment variables, never a key; what it does not share with the others is
opened here. Hidden tests come as checks of a program alone, from the judge.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import platform
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from reflexion_lab.agent.models.cache import Counts
from reflexion_lab.errors import HarnessError
from reflexion_lab.memory.archive import Archive, Learnt
from reflexion_lab.protocols import Stored
from reflexion_lab.records import Attempt, Beginning, Execution, Task
from reflexion_lab.runner.config.compose import loop_factory, restored
from reflexion_lab.runner.config.parts import Models, cached_sandbox, load_archive, load_models
from reflexion_lab.runner.folder.manifest import versions
from reflexion_lab.storage.in_memory import InMemory
from reflexion_lab.tasks.sandbox.cached import CachedSandbox
from reflexion_lab.tasks.sandbox.sandbox import Limits, Sandbox

THREADS = 1000
"""Calls at once, at most; threads are started as they are needed."""


class Place(NamedTuple):
    """Where a worker is, and what has to be alike for all."""

    node: str
    pid: int
    layers: tuple[str, ...]
    version: str
    """Of the lab."""


class Sent(NamedTuple):
    """The data of a started run that is sent to a worker."""

    config: Mapping[str, Any]
    """With interpolations: what comes from the environment comes from the worker's own."""
    workers: int
    run_id: str
    scope: str
    beginning: Beginning | None
    """None: tasks know nothing of each other."""
    stored: Sequence[Stored]
    """What the run's store holds of earlier ones."""


class Reply(NamedTuple):
    """What comes back: exceptions travel as values, since Ray would give them other types."""

    value: Any
    problem: Exception | None
    trace: str
    counts: Sequence[Counts]
    """Calls since the last reply, by model."""


class Worker:
    """Async, so that threads come as calls do; every call is a method's name and its arguments.

    `folder`: where the run was started; relative paths and a reader's own parts are found from there.
    """

    def __init__(self, limits: Limits, servers: int, folder: str) -> None:
        with contextlib.suppress(OSError):
            os.chdir(folder)
        if folder not in sys.path:
            sys.path.append(folder)
        self.sandbox = Sandbox(limits, servers)
        self.programs: CachedSandbox | None = None
        self.models: Models | None = None
        self.archive: Archive | None = None
        self._loops: dict[int, Iterator[Attempt]] = {}
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="worker")

    async def ask(self, method: str, *args: Any) -> Reply:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._reply, method, args)

    def _reply(self, method: str, args: Sequence[Any]) -> Reply:
        value = problem = None
        trace = ""
        try:
            value = getattr(self, method)(*args)
        except Exception as error:
            problem, trace = _portable(error), traceback.format_exc()
        return Reply(value, problem, trace, self.models.taken() if self.models else ())

    def place(self) -> Place:
        return Place(platform.node(), os.getpid(), self.sandbox.layers, versions().get("reflexion_lab", ""))

    def run(self, program: str, entry_point: str, checks: Sequence[str], setup: str, cpu_seconds: float) -> Execution:
        return self.sandbox.run(program, entry_point, checks, setup, cpu_seconds)

    def values(self, program: str, entry_point: str, calls: Sequence[str], setup: str) -> list[str | None]:
        return self.sandbox.values(program, entry_point, calls, setup)

    def begin(self, sent: Sent) -> None:
        """Make the parts of the run's loops.

        Raises
        ------
        ValueError, ModelError
            This machine lacks what the config names: a file, a key in the environment.
        HarnessError
            There are caps, and their ledger is out of reach.
        """
        cfg = restored(sent.config)
        _check_ledger(cfg, sent.run_id)
        for node in (cfg.model, *cfg.roles.values()):
            if node.get("requests_per_minute"):  # a pace of the run, which its workers keep together
                node.requests_per_minute /= sent.workers
        # Wall time is the run's, too: each of its workers counts a share of it.
        self.models = load_models(cfg, clock=lambda: time.monotonic() / sent.workers)
        self.models.meter.scope = sent.scope
        if sent.beginning:
            store = InMemory()
            store.append(sent.stored)
            self.archive = load_archive(cfg, store)
        if self.archive:
            self.archive.begin(sent.beginning, sent.run_id)
        self.programs = cached_sandbox(cfg, self.sandbox)
        self._make = loop_factory(cfg, self.models, self.programs, self.archive, sent.run_id)

    def absorb(self, learnt: Sequence[Learnt]) -> None:
        """Take in what a round of tasks has learnt."""
        if self.archive:
            self.archive.absorb(learnt)

    def attempt(self, number: int, task: Task) -> Attempt:
        """The next attempt of loop `number`, which begins with the first."""
        if number not in self._loops:
            self._loops[number] = self._make().attempts(task)
        try:
            attempt = next(self._loops[number])
        except BaseException:
            del self._loops[number]
            raise
        if attempt.stop_reason:
            del self._loops[number]
        return attempt

    def close(self) -> None:
        """End what runs here."""
        (self.programs or self.sandbox).close()
        if self.models:
            self.models.close()


def _check_ledger(cfg: Any, run_id: str) -> None:
    """Caps are kept in one place, which every worker has to see."""
    place = str((cfg.storage or {}).get("spending"))
    is_shared = "://" in place or (Path(cfg.run_root) / run_id / "manifest.json").is_file()
    if not is_shared and any(cap is not None for cap in (cfg.caps or {}).values()):
        unseen = f"some in {place}, which {platform.node()} does not see"
        raise HarnessError("caps", unseen, "storage=postgres, or a folder that it shares")


def _portable(problem: Exception) -> Exception:
    """`problem`, or what is left of it where it cannot travel."""
    try:
        pickle.loads(pickle.dumps(problem))
    except Exception:  # a user-defined exception may not be picklable at all
        left = RuntimeError(f"{type(problem).__name__}: {problem}")
        left.__notes__ = list(getattr(problem, "__notes__", ()))
        return left
    return problem
