"""A benchmark: tasks in a fixed order, with the digest of their data set."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import overload

import msgspec

from reflexion_lab.errors import ConfigError
from reflexion_lab.limits import Positive, validated
from reflexion_lab.records import Manifest, Task


@dataclass(frozen=True, repr=False)
class Benchmark:
    """An immutable sequence of tasks. A selection is also a benchmark, with the same order, name and digest.

    Raises ConfigError: two tasks share a `task_id`.
    """

    name: str
    tasks: tuple[Task, ...]
    digest: str = ""
    """SHA-256 (hex) of the whole data set, also for a selection; by default of the tasks' JSON."""
    tasks_digest: str = ""
    """SHA-256 (hex) of the JSON of the data set's tasks, whatever line ends or compression their file has."""
    held_out: frozenset[str] = frozenset()
    """Ids of the tasks that a split holds out, for which memory is frozen; empty without one."""
    part: str = "test"
    """Name of the held-out tasks in results, `test` or `validation`."""
    note: str = ""
    """A warning about the file: its columns that are not read; "" for none."""

    def __post_init__(self) -> None:
        counts = Counter(task.loop_id for task in self.tasks)
        if repeated := [task_id for task_id, count in counts.items() if count > 1]:
            raise ConfigError(
                f"{self.name}: {len(repeated)} task ids occur twice, as {repeated[0]!r}", hint="rename one"
            )
        if not self.tasks_digest:
            object.__setattr__(self, "tasks_digest", _digest(self.tasks))
        if not self.digest:
            object.__setattr__(self, "digest", self.tasks_digest)

    def __repr__(self) -> str:
        """Without the tasks' content: a notebook would save the hidden tests."""
        first = ", ".join(task.loop_id for task in self.tasks[:3]) + ", …" * (len(self) > 3)
        return f"Benchmark {self.name}: {len(self)} tasks ({first}), digest {self.digest[:12]}"

    def __len__(self) -> int:
        return len(self.tasks)

    def __iter__(self) -> Iterator[Task]:
        return iter(self.tasks)

    @overload
    def __getitem__(self, key: int | str) -> Task: ...
    @overload
    def __getitem__(self, key: slice) -> Benchmark: ...
    def __getitem__(self, key: int | str | slice) -> Task | Benchmark:
        """A task by position or `task_id` (KeyError for an unknown id), or a benchmark by slice."""
        if isinstance(key, slice):
            return replace(self, tasks=self.tasks[key])
        if isinstance(key, int):
            return self.tasks[key]
        if key not in self._by_id:
            raise KeyError(self._unknown(key))
        return self._by_id[key]

    @validated
    def select(
        self,
        *,
        limit: Positive | None = None,
        sample: int | None = None,
        seed: int = 0,
        ids: Collection[str] | None = None,
    ) -> Benchmark:
        """Select `ids`, then draw `sample` tasks, then take the first `limit`; None skips a step.

        Raises ConfigError: an id is unknown, or `sample` or `limit` is out of range.
        """
        selection = self if ids is None else self.only(ids)
        selection = selection if sample is None else selection.sample(sample, seed)
        return selection[:limit]

    def since(self, day: str) -> Benchmark:
        """The tasks released on an ISO date or later, which no model of an earlier cut-off has read. A task without a
        date may be older: it is left out, and `note` counts it. Raises ConfigError: no task is left.
        """
        if not re.fullmatch(r"\d{4}-\d\d-\d\d", day):
            raise ConfigError("benchmark.load.since", repr(day), "an ISO date, such as 2025-01-31")
        dated = [task for task in self.tasks if task.released]
        if not (kept := tuple(task for task in dated if task.released >= day)):
            last = max((task.released for task in dated), default="none has a date")
            raise ConfigError("benchmark.load.since", day, f"a date up to that of the newest task ({last})")
        n = len(self.tasks) - len(dated)
        note = f"{n} tasks without a date of release are left out, since they may be older than {day}" if n else ""
        return replace(self, tasks=kept, note="; ".join(filter(None, (self.note, note))))

    def sample(self, n: int, seed: int) -> Benchmark:
        """Draw `n` tasks without replacement, in benchmark order. A larger sample contains every smaller one. A task is
        drawn by its id (`draw`): another name, order or content of the benchmark draws no other one.

        Raises ConfigError: `n` is not in 1..len(self).
        """
        if not 1 <= n <= len(self):
            raise ConfigError("benchmark.sample", n, f"1 to {len(self)} tasks of {self.name}")
        chosen = set(sorted(self._by_id, key=lambda task_id: draw(seed, "sample", task_id))[:n])
        return replace(self, tasks=tuple(task for task in self.tasks if task.loop_id in chosen))

    def only(self, ids: Collection[str]) -> Benchmark:
        """Select tasks by id (or one id), in benchmark order. Raises ConfigError: `ids` is empty or has unknown ids."""
        wanted = {ids} if isinstance(ids, str) else set(ids)
        if not wanted:
            raise ConfigError("benchmark.ids", "no task", "at least one", "leave it null for all")
        if unknown := sorted(wanted - self._by_id.keys()):
            raise ConfigError("benchmark.ids: " + " ".join(map(self._unknown, unknown)))
        return replace(self, tasks=tuple(task for task in self.tasks if task.loop_id in wanted))

    @property
    def drawn(self) -> str:
        """SHA-256 of ids and clusters of these tasks, in their order, shortened to 16 hex digits."""
        rows = [(task.loop_id, task.cluster_id, task.task_id in self.held_out) for task in self]
        return hashlib.sha256(msgspec.json.encode(rows)).hexdigest()[:16]

    def is_of(self, run: Manifest) -> bool:
        """Whether a run had this data set."""
        return run.benchmark_digest == self.digest or run.tasks_digest == self.tasks_digest

    @cached_property
    def _by_id(self) -> dict[str, Task]:
        return {task.loop_id: task for task in self.tasks}

    def _unknown(self, task_id: str) -> str:
        close = difflib.get_close_matches(task_id, self._by_id, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else "."
        return f"{self.name} has no task {task_id!r} among these {len(self)}{hint}"


def draw(seed: int, purpose: str, name: str) -> str:
    """A random key of a task or cluster, by which a draw sorts: it depends on nothing else of the benchmark."""
    return hashlib.sha256(f"{seed}:{purpose}:{name}".encode(errors="surrogatepass")).hexdigest()


LOCAL_PATH = "local_path"
"""Key of `Task.data` for a file of this machine, whose content another key digests."""
_LATER = {"initial_code": "", "base_tests": 0, "kind": "function", "data": {}, "requires": (), "released": ""}
"""Fields that most tasks lack, with what they have then, in no digest: digests of before stay."""


def _digest(tasks: Sequence[Task]) -> str:
    """SHA-256 of the tasks' JSON, which is never in memory as a whole."""
    sha256 = hashlib.sha256(b"[")
    for number, task in enumerate(tasks):
        row = msgspec.to_builtins(task)
        del row["cluster"], row["repetition"]  # they change no result of a task
        row["data"].pop(LOCAL_PATH, None)
        for name, usual in _LATER.items():
            if row[name] == usual:
                del row[name]
        sha256.update(b"," * bool(number) + msgspec.json.encode(row, order="sorted"))
    sha256.update(b"]")
    return sha256.hexdigest()
