"""Run folders as pandas frames, for notebooks.

    frames = load("runs/*")

Rows join on `run_id`, `task_id` and `number`. Tasks whose loops have not ended are left out. What hidden tests said
stands in columns whose names begin with `hidden_`, in `pass_at_1` and `upper_bound` of a run, and in the registered
metrics (`analysis.metrics`), the last columns of runs, tasks and attempts; missing (NA) where a verdict still is.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from reflexion_lab.analysis.arms import flat
from reflexion_lab.analysis.frames.rows import (
    ATTEMPT_TEXTS,
    ATTEMPTS,
    CHECK_TEXTS,
    CHECKS,
    HEAD,
    MEMORY,
    NUMBER,
    REFLECTION_TEXTS,
    REFLECTIONS,
    RUNS,
    TASKS,
    AttemptRow,
    Columns,
    Run,
    attempts,
    checks,
    memories,
    metric_columns,
    reflections,
)
from reflexion_lab.records import Usage
from reflexion_lab.runner.folder.folder import some_folders
from reflexion_lab.runner.folder.manifest import measured

if TYPE_CHECKING:
    import pandas as pd

NO_USAGE = Usage()


class Frames(NamedTuple):
    """The tables of some runs. A cached reply counts the tokens, calls, seconds and cost of when it was first drawn."""

    runs: pd.DataFrame
    """One row a run. Config values in which the runs differ are columns, by dotted key. `pass_at_1`, or an oracle's
    `upper_bound`, with its Wilson 95 % interval `low`, `high`, is of the `n` tasks that have a hidden verdict; all
    missing until the run is finished. `no_verdict`: tasks that have none."""
    tasks: pd.DataFrame
    """One row a task of a run. `learning_rate`, `trend`, `diminishing_returns` and `breakthroughs` (numbers of
    attempts) are of the feedback rewards, `errors_removed` of the failing checks; see `learning.transitions`."""
    attempts: pd.DataFrame
    """One row an attempt. `passed` is the feedback verdict, missing where nobody could tell. `tokens_so_far` and
    `cost_so_far` add up a loop, with the tests that the model wrote for it."""
    checks: pd.DataFrame
    """One row a feedback check of an attempt; `place` counts from 1."""
    reflections: pd.DataFrame
    """One row a reflection; `number` is the attempt that it is about."""
    memory: pd.DataFrame
    """One row an episode, wisdom or mistake that memory gave an attempt. Sources are missing where an id names none."""

    def __repr__(self) -> str:
        sizes = zip(self._fields, self, strict=True)
        return "\n".join(f".{name}: {len(frame)} rows, {frame.shape[1]} columns" for name, frame in sizes)

    def _repr_html_(self) -> str:
        return f"<pre>{self!r}</pre>"


def load(*runs: object, texts: bool = False) -> Frames:
    """The tables of all `runs`, in their order; a run that is named twice counts once.

    Parameters
    ----------
    runs : object
        Run folders, patterns such as `runs/*`, sweeps, or lists of these; see `run_folder.folders`.
    texts : bool, default False
        With columns for programs, prompts, replies, feedback and reflections.

    Raises
    ------
    FolderError
        No run is named, a folder is none, a pattern fits none, or a file cannot be read.
    """
    read = [Run(folder) for folder in some_folders(*runs)]
    loops = [loop for run in read for loop in run.loops]
    rows = list(attempts(loops))
    wordy = ATTEMPT_TEXTS if texts else {}
    return Frames(
        runs=_frame(read, RUNS | metric_columns("run") | _swept(read)),
        tasks=_frame(loops, HEAD | TASKS | metric_columns("task")),
        attempts=_frame(rows, HEAD | NUMBER | ATTEMPTS | _by_role(rows) | metric_columns("attempt") | wordy),
        checks=_frame(list(checks(rows)), HEAD | NUMBER | CHECKS | (CHECK_TEXTS if texts else {})),
        reflections=_frame(list(reflections(rows)), HEAD | NUMBER | REFLECTIONS | (REFLECTION_TEXTS if texts else {})),
        memory=_frame(list(memories(rows)), HEAD | NUMBER | MEMORY),
    )


def _frame(rows: Sequence[object], columns: Columns) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(
        {name: pd.Series([of(row) for row in rows], dtype=kind) for name, (kind, of) in columns.items()}
    )


def _swept(runs: Sequence[Run]) -> Columns:
    """Config values in which runs differ; missing where a run has no such key."""
    configs = {run: dict(flat(measured(run.log.manifest.config))) for run in runs}
    known = {"arm", "seed", "feedback_source", "benchmark.name"}
    keys = list(dict.fromkeys(key for config in configs.values() for key in config))
    columns: Columns = {}
    for key in keys:
        values = [config.get(key) for config in configs.values()]
        if key in known or len({*map(repr, values)}) == 1:
            continue
        columns[key] = _kind(values), functools.partial(_value, configs, key)
    return columns


def _value(configs: Mapping[Run, Mapping[str, object]], key: str, run: Run) -> object:
    """Lists as text: a column of lists cannot be grouped by."""
    value = configs[run].get(key)
    return str(value) if isinstance(value, list) else value


def _kind(values: Iterable[object]) -> str:
    kinds = {type(value) for value in values} - {type(None)}
    return {frozenset({bool}): "boolean", frozenset({int}): "Int64", frozenset({float}): "Float64"}.get(
        frozenset(kinds), "Float64" if kinds == {int, float} else "object" if len(kinds) > 1 else "category"
    )


def _by_role(rows: Sequence[AttemptRow]) -> Columns:
    """Tokens of each role that any attempt has."""
    roles = dict.fromkeys(role for row in rows for role in row.loop.usages[row.place])
    return {f"tokens_{role}": ("int64", functools.partial(_tokens, role)) for role in roles}


def _tokens(role: str, row: AttemptRow) -> int:
    return row.loop.usages[row.place].get(role, NO_USAGE).tokens
