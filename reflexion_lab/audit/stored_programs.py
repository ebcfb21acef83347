"""Execution of stored programs, for audits, verifications and studies of transcripts."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self, TypeVar

from msgspec.structs import replace

from reflexion_lab import protocols
from reflexion_lab.io.terminal import LOG_EVERY, bar, in_notebook
from reflexion_lab.records import Grade, Task
from reflexion_lab.tasks.evaluators.judge import HiddenTests
from reflexion_lab.tasks.sandbox.cached import CachedSandbox
from reflexion_lab.tasks.sandbox.sandbox import Limits, Sandbox

T = TypeVar("T")
U = TypeVar("U")

LIMITS = Limits(wall_seconds=5.0, cpu_seconds=5)
"""At least the limits of published verdicts."""
PATIENT = Limits(wall_seconds=30.0, cpu_seconds=10)
"""Limits of the second execution after a time-out: a slow machine must not change a verdict."""

LINE = "{desc}: {n_fmt}/{total_fmt}, {rate_fmt}, {remaining} left\n"
"""A line of progress in a log, as tqdm fills it."""


def counter(name: str, unit: str, total: int, quiet: bool = False) -> Any:
    """A progress bar of `total` programs, in a log a line every `LOG_EVERY` seconds; hidden if `quiet`."""
    in_log: dict[str, Any] = {"mininterval": LOG_EVERY, "delay": LOG_EVERY, "bar_format": LINE}
    is_log = not (sys.stderr.isatty() or in_notebook())
    return bar(total=total, desc=name, unit=unit, disable=quiet, **in_log if is_log else {})


def timed_out(_: object, verdict: Any) -> bool:
    return bool(verdict.outcome == "timeout")


def never(*_: object) -> bool:
    return False


def graded(sandbox: protocols.Sandbox, task: Task, number: int, program: str, sealed: bool = True) -> Grade:
    """The hidden verdict on attempt `number`; `sealed` as after the end of a run."""
    judge = HiddenTests(sandbox)
    if sealed:
        judge.seal()
    return judge.grade(task, number, program)


class StoredPrograms:
    """Parallel execution of programs; one that times out is executed again, alone and with `PATIENT` limits.

    `workers`: parallel programs; by default one per core. `limits`: limits of the first execution. `hash_seed`:
    `PYTHONHASHSEED` of the first execution. `environment`: where actions are taken.
    """

    def __init__(
        self,
        workers: int | None = None,
        limits: Limits | None = None,
        hash_seed: int = 0,
        environment: protocols.Environment | None = None,
    ) -> None:
        limits = limits or LIMITS
        wall, cpu = max(limits.wall_seconds, PATIENT.wall_seconds), max(limits.cpu_seconds, PATIENT.cpu_seconds)
        self.workers = workers or os.cpu_count() or 1
        self.sandbox = CachedSandbox(Sandbox(limits, servers=self.workers, hash_seed=hash_seed), None, environment)
        self._alone = CachedSandbox(
            Sandbox(replace(limits, wall_seconds=wall, cpu_seconds=cpu), servers=1), None, environment
        )

    def map(
        self,
        judge: Callable[[CachedSandbox, T], U],
        items: Sequence[T],
        *,
        key: Callable[[T], Hashable] | None = None,
        again: Callable[[T, U], bool] = timed_out,
        each: Callable[[U], object] = lambda _: None,
    ) -> list[U]:
        """The verdict on each item, in order.

        `judge`: executes one item in a sandbox. `key`: items with equal keys are executed once. `again`: whether an
        item with this verdict is executed again; by default after a time-out. `each`: called with each final verdict.
        """
        keys: list[Hashable] = [key(item) if key else place for place, item in enumerate(items)]
        distinct = dict(zip(keys, items, strict=True))
        pool = ThreadPoolExecutor(self.workers, thread_name_prefix="stored")
        try:
            futures = {name: pool.submit(judge, self.sandbox, item) for name, item in distinct.items()}
            verdicts = {}
            for name, item in zip(keys, items, strict=True):
                verdicts[name] = futures[name].result()
                if not again(item, verdicts[name]):
                    each(verdicts[name])
        finally:
            pool.shutdown(cancel_futures=True)
        repeated = [name for name, item in distinct.items() if again(item, verdicts[name])]
        for name in repeated:
            verdicts[name] = judge(self._alone, distinct[name])
            for _ in range(keys.count(name)):
                each(verdicts[name])
        return [verdicts[name] for name in keys]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.closing(self._alone):
            self.sandbox.close()
