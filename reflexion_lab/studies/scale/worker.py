"""A process of the cluster: a sandbox, and once a run has started, its models, memory and loops.

It receives public tasks and the names of environment variables, never a key. Hidden tests arrive as checks of a program
only, from the judge.
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
from reflexion_lab.records import Attempt, Beginning, Task, Update
from reflexion_lab.runner.config.assemble import loop_factory
from reflexion_lab.runner.config.compose import restored
from reflexion_lab.runner.config.parts import Models, cached_sandbox, load_archive, load_models
from reflexion_lab.runner.folder.manifest import versions
from reflexion_lab.storage.in_memory import InMemory
from reflexion_lab.tasks.sandbox.cached import CachedSandbox
from reflexion_lab.tasks.sandbox.sandbox import Limits, Sandbox

THREADS = 1000
"""Maximal number of calls at once; threads are started as needed."""


class Place(NamedTuple):
    """Location of a worker, and what has to be equal for all."""

    node: str
    pid: int
    layers: tuple[str, ...]
    version: str
    """Version of the lab."""


class RunContext(NamedTuple):
    """The data about a started run that a worker needs."""

    config: Mapping[str, Any]
    """With interpolations: environment variables are those of the worker."""
    workers: int
    run_id: str
    scope: str
    beginning: Beginning | None
    """None: tasks share no memory."""
    stored: Sequence[Stored]
    """Records of earlier runs in the store."""


class Reply(NamedTuple):
    """The answer to a call. Exceptions are values, since Ray would change their types."""

    value: Any
    problem: Exception | None
    trace: str
    counts: Sequence[Counts]
    """Model calls since the last reply, by model."""


class Worker:
    """Answers calls, each in a thread; a call is a method's name and its arguments.

    folder: where the run was started; relative paths and user-defined parts are found from there.
    """

    def __init__(self, limits: Limits, servers: int, folder: str) -> None:
        with contextlib.suppress(OSError):
            os.chdir(folder)
        if folder not in sys.path:
            sys.path.append(folder)
        self.sandbox = Sandbox(limits, servers)
        self.run, self.values = self.sandbox.run, self.sandbox.values
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
        return Reply(value, problem, trace, self.models.pop_counts() if self.models else ())

    def place(self) -> Place:
        return Place(platform.node(), os.getpid(), self.sandbox.layers, versions().get("reflexion_lab", ""))

    def begin(self, context: RunContext) -> None:
        """Make the parts of the run's loops.

        Raises
        ------
        ConfigError, ModelError
            This machine lacks a file or a key of the config.
        HarnessError
            There are caps, and their ledger is out of reach.
        """
        cfg = restored(context.config)
        _check_ledger(cfg, context.run_id)
        for node in (cfg.model, *cfg.roles.values()):
            if node.get("requests_per_minute"):  # the limit is for all workers together
                node.requests_per_minute /= context.workers
        # Wall time is the run's: each worker counts a share of it.
        self.models = load_models(cfg, clock=lambda: time.monotonic() / context.workers)
        self.models.meter.scope = context.scope
        if context.beginning:
            store = InMemory()
            store.append(context.stored)
            self.archive = load_archive(cfg, self.models, store)
        if self.archive:
            self.archive.begin(context.beginning, context.run_id)
        self.programs = cached_sandbox(cfg, self.sandbox)
        self._make = loop_factory(cfg, self.models, self.programs, self.archive, context.run_id)

    def absorb(self, updates: Sequence[Learnt | Update]) -> None:
        """Add the updates of a round of tasks to the memory."""
        if self.archive:
            self.archive.receive(updates)

    def attempt(self, number: int, task: Task) -> Attempt | None:
        """The next attempt of loop `number`, or None at its end; the first call starts the loop."""
        if number not in self._loops:
            self._loops[number] = self._make().attempts(task)
        try:
            attempt = next(self._loops[number], None)
        except BaseException:
            del self._loops[number]
            raise
        if attempt is None:
            del self._loops[number]
        return attempt

    def close(self) -> None:
        """Close sandbox and models."""
        (self.programs or self.sandbox).close()
        if self.models:
            self.models.close()


def _check_ledger(cfg: Any, run_id: str) -> None:
    """Caps have one ledger, which every worker has to reach."""
    place = str((cfg.storage or {}).get("spending"))
    is_shared = "://" in place or (Path(cfg.run_root) / run_id / "manifest.json").is_file()
    if not is_shared and any(cap is not None for cap in (cfg.caps or {}).values()):
        unseen = f"some in {place}, which {platform.node()} does not see"
        raise HarnessError("caps", unseen, "storage=postgres, or a folder that it shares")


def _portable(problem: Exception) -> Exception:
    """`problem`, or its text if it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(problem))
    except Exception:  # a user-defined exception may not be picklable at all
        left = RuntimeError(f"{type(problem).__name__}: {problem}")
        left.__notes__ = list(getattr(problem, "__notes__", ()))
        return left
    return problem
