"""Run folders as pandas frames, for notebooks.

    frames = load("runs/*")

Rows join on `run_id`, `task_id` and `number`. Tasks whose loops have not ended are excluded. Hidden verdicts are only
in columns that begin with `hidden_`, in `pass_at_1` and `upper_bound` of a run, and in the registered metrics
(`analysis.metrics`), the last columns of runs, tasks and attempts. They are NA without a verdict.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reflexion_lab.analysis import metrics
from reflexion_lab.analysis.run_list import selected
from reflexion_lab.analysis.shards import grouped, read
from reflexion_lab.notebook.frame_rows import (
    ATTEMPT_TEXTS,
    ATTEMPTS,
    CHECK_TEXTS,
    CHECKS,
    CLUSTER,
    HEAD,
    MEMORY,
    MEMORY_TEXTS,
    NUMBER,
    REFLECTION_TEXTS,
    REFLECTIONS,
    RUNS,
    TASKS,
    AttemptRow,
    Columns,
    Loop,
    Run,
    attempts,
    checks,
    memories,
    metric_columns,
    reflections,
)
from reflexion_lab.records import Usage
from reflexion_lab.runner.folder.folder import readable, some_folders
from reflexion_lab.runner.folder.manifest import settings

if TYPE_CHECKING:
    import pandas as pd

NO_USAGE = Usage()


class Frames:
    """The tables of some runs. Each is read when it is first asked for, in one pass over the attempts, of which only
    its columns are kept; what a run appends after `load` is in none. Tokens, calls, seconds and cost include cached
    calls.
    """

    NAMES = ("runs", "tasks", "attempts", "checks", "reflections", "memory")

    def __init__(self, runs: Sequence[Run], texts: bool) -> None:
        self._runs = runs
        self._texts = texts

    @cached_property
    def runs(self) -> pd.DataFrame:
        """One row per run. Config values in which the runs differ are columns, by dotted key. `pass_at_1` (of an
        oracle, `upper_bound`) and its 95 % interval `low`, `high` are over the `n` tasks with a hidden verdict; they
        are NA until the run is finished. `no_verdict` is the number of other tasks. `memory_of` is the run whose memory
        a frozen run has, `memory_after` the rounds after which it was taken (NA: all).
        """
        with_texts = not metrics.all_built_in()
        whole = (Run(run.path, run.log.held(with_texts)) for run in self._runs)
        return _frame(whole, RUNS | metric_columns("run") | _swept(self._runs))

    @cached_property
    def tasks(self) -> pd.DataFrame:
        """One row per task of a run. Tasks of one `cluster` (template, family, repository) are no independent units:
        for an interval, group by it and not by `task_id`. A task that stands alone has its id there. `learning_rate`,
        `trend`, `diminishing_returns` and `breakthroughs` (numbers of attempts) describe the feedback rewards,
        `errors_removed` the failing checks; see `learning.transitions`.
        """
        return _frame(self._loops, HEAD | CLUSTER | TASKS | metric_columns("task"))

    @cached_property
    def attempts(self) -> pd.DataFrame:
        """One row per attempt. `passed` is the feedback verdict, NA without one. `tokens_so_far` and `cost_so_far` are
        cumulative within a loop and include written tests.
        """
        roles = dict.fromkeys(role for run in self._runs for role in run.roles)
        by_role = {f"tokens_{role}": ("int64", functools.partial(_tokens, role)) for role in roles}
        columns = HEAD | CLUSTER | NUMBER | ATTEMPTS | by_role | metric_columns("attempt")
        return self._of_attempts(attempts, columns, ATTEMPT_TEXTS)

    @cached_property
    def checks(self) -> pd.DataFrame:
        """One row per feedback check of an attempt; `place` counts from 1."""
        return self._of_attempts(checks, HEAD | NUMBER | CHECKS, CHECK_TEXTS)

    @cached_property
    def reflections(self) -> pd.DataFrame:
        """One row per reflection; `number` is its attempt."""
        return self._of_attempts(reflections, HEAD | NUMBER | REFLECTIONS, REFLECTION_TEXTS)

    @cached_property
    def memory(self) -> pd.DataFrame:
        """One row per episode, wisdom, mistake, item or insight (its own id) that an attempt recalled. Sources are NA
        if the id names none; `retriever`, `rank` and `score` (`records.Retrieved`) if no search found it.
        """
        return self._of_attempts(memories, HEAD | NUMBER | MEMORY, MEMORY_TEXTS)

    @property
    def _loops(self) -> Iterator[Loop]:
        return (loop for run in self._runs for loop in run.loops)

    def _of_attempts(
        self, rows: Callable[[Iterable[Loop]], Iterable[Any]], columns: Columns, texts: Columns
    ) -> pd.DataFrame:
        return _frame(rows(self._loops), columns | (texts if self._texts else {}))

    def __iter__(self) -> Iterator[pd.DataFrame]:
        return (getattr(self, name) for name in self.NAMES)

    def __repr__(self) -> str:
        sizes = zip(self.NAMES, self, strict=True)
        return "\n".join(f".{name}: {len(frame)} rows, {frame.shape[1]} columns" for name, frame in sizes)

    def _repr_html_(self) -> str:
        return f"<pre>{self!r}</pre>"


def load(*runs: object, texts: bool = False, where: Sequence[str] = ()) -> Frames:
    """Tables of all `runs`, in their order, without duplicates; those over the shards of a benchmark are one run.

    Runs that cannot be read are left out with a warning. Raises FolderError: no run, or none that can be read.

    Parameters
    ----------
    runs : object
        Run folders, patterns such as `runs/*`, sweeps, or lists of these; see `folder.folders`.
    texts : bool, default False
        Add columns for programs, prompts, replies, feedback, reflections, and queries and texts of memory.
    where : Sequence[str], default ()
        Only runs with these settings: `run_list.selected`.
    """
    groups = grouped(selected(some_folders(*runs), where))
    return Frames(readable(groups, lambda group: Run(group[0].path, read(group, "on demand"))), texts)


BATCH = 5_000
"""Rows of which all values are held at once; earlier ones are held as columns."""


def _frame(rows: Iterable[object], columns: Columns) -> pd.DataFrame:
    import pandas as pd

    values, kinds = ([of(row) for _, of in columns.values()] for row in rows), [kind for kind, _ in columns.values()]
    parts = [[pd.Series([], dtype=kind)] for kind in kinds]
    while batch := list(itertools.islice(values, BATCH)):
        for part, column, kind in zip(parts, zip(*batch, strict=True), kinds, strict=True):
            part.append(pd.Series(column, dtype=kind))
    frame = {}
    for name, kind, part in zip(columns, kinds, parts, strict=True):
        frame[name] = pd.concat(part[len(part) > 1 :], ignore_index=True).astype(kind)  # type: ignore[call-overload]
        part.clear()
    return pd.DataFrame(frame, copy=False)


def _swept(runs: Sequence[Run]) -> Columns:
    """Config values in which runs differ; NA for a run without the key."""
    configs = {run.path: settings(run.log.manifest.config) for run in runs}
    known = {"arm", "seed", "feedback_source", "benchmark.name"}
    keys = list(dict.fromkeys(key for config in configs.values() for key in config))
    columns: Columns = {}
    for key in keys:
        values = [config.get(key) for config in configs.values()]
        if key in known or len({*map(repr, values)}) == 1:
            continue
        columns[key] = _kind(values), functools.partial(_value, configs, key)
    return columns


def _value(configs: Mapping[Path, Mapping[str, object]], key: str, run: Run) -> object:
    """Lists as text, since pandas cannot group by lists."""
    value = configs[run.path].get(key)
    return str(value) if isinstance(value, list) else value


def _kind(values: Iterable[object]) -> str:
    kinds = {type(value) for value in values} - {type(None)}
    return {frozenset({bool}): "boolean", frozenset({int}): "Int64", frozenset({float}): "Float64"}.get(
        frozenset(kinds), "Float64" if kinds == {int, float} else "object" if len(kinds) > 1 else "category"
    )


def _tokens(role: str, row: AttemptRow) -> int:
    return row.loop.usages[row.place].get(role, NO_USAGE).tokens
