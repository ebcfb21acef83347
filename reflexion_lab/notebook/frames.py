"""Run folders as pandas frames, for notebooks.

    frames = load("runs/*")

Rows join on `run_id`, `task_id` and `number`. Tasks whose loops have not ended are excluded. Hidden verdicts are only
in columns that begin with `hidden_`, in `pass_at_1` and `upper_bound` of a run, and in the registered metrics
(`analysis.metrics`), the last columns of runs, tasks and attempts. They are NA without a verdict.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from reflexion_lab.analysis.run_list import selected
from reflexion_lab.analysis.shards import grouped
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


class Frames(NamedTuple):
    """The tables of some runs. Tokens, calls, seconds and cost include cached calls."""

    runs: pd.DataFrame
    """One row per run. Config values in which the runs differ are columns, by dotted key. `pass_at_1` (of an oracle,
    `upper_bound`) and its 95 % interval `low`, `high` are over the `n` tasks with a hidden verdict; they are NA
    until the run is finished. `no_verdict` is the number of other tasks. `memory_of` is the run whose memory a frozen
    run has, `memory_after` the rounds after which it was taken (NA: all)."""
    tasks: pd.DataFrame
    """One row per task of a run. Tasks of one `cluster` (template, family, repository) are no independent units: for an
    interval, group by it and not by `task_id`. A task that stands alone has its id there. `learning_rate`, `trend`,
    `diminishing_returns` and `breakthroughs` (numbers of attempts) describe the feedback rewards, `errors_removed` the
    failing checks; see `learning.transitions`."""
    attempts: pd.DataFrame
    """One row per attempt. `passed` is the feedback verdict, NA without one. `tokens_so_far` and `cost_so_far` are
    cumulative within a loop and include written tests."""
    checks: pd.DataFrame
    """One row per feedback check of an attempt; `place` counts from 1."""
    reflections: pd.DataFrame
    """One row per reflection; `number` is its attempt."""
    memory: pd.DataFrame
    """One row per episode, wisdom, mistake, item or insight (its own id) that an attempt recalled. Sources are NA if
    the id names none; `retriever`, `rank` and `score` (`records.Retrieved`) if no search found it."""

    def __repr__(self) -> str:
        sizes = zip(self._fields, self, strict=True)
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
    all_runs = readable(grouped(selected(some_folders(*runs), where)), lambda group: Run(group, texts))
    loops = [loop for run in all_runs for loop in run.loops]
    rows = list(attempts(loops))
    attempt_columns = ATTEMPTS | _by_role(rows) | metric_columns("attempt") | (ATTEMPT_TEXTS if texts else {})
    return Frames(
        runs=_frame(all_runs, RUNS | metric_columns("run") | _swept(all_runs)),
        tasks=_frame(loops, HEAD | CLUSTER | TASKS | metric_columns("task")),
        attempts=_frame(rows, HEAD | CLUSTER | NUMBER | attempt_columns),
        checks=_frame(list(checks(rows)), HEAD | NUMBER | CHECKS | (CHECK_TEXTS if texts else {})),
        reflections=_frame(list(reflections(rows)), HEAD | NUMBER | REFLECTIONS | (REFLECTION_TEXTS if texts else {})),
        memory=_frame(list(memories(rows)), HEAD | NUMBER | MEMORY | (MEMORY_TEXTS if texts else {})),
    )


def _frame(rows: Sequence[object], columns: Columns) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame({key: pd.Series([of(row) for row in rows], dtype=kind) for key, (kind, of) in columns.items()})


def _swept(runs: Sequence[Run]) -> Columns:
    """Config values in which runs differ; NA for a run without the key."""
    configs = {run: settings(run.log.manifest.config) for run in runs}
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
    """Lists as text, since pandas cannot group by lists."""
    value = configs[run].get(key)
    return str(value) if isinstance(value, list) else value


def _kind(values: Iterable[object]) -> str:
    kinds = {type(value) for value in values} - {type(None)}
    return {frozenset({bool}): "boolean", frozenset({int}): "Int64", frozenset({float}): "Float64"}.get(
        frozenset(kinds), "Float64" if kinds == {int, float} else "object" if len(kinds) > 1 else "category"
    )


def _by_role(rows: Sequence[AttemptRow]) -> Columns:
    """Tokens of each role of any attempt."""
    roles = dict.fromkeys(role for row in rows for role in row.loop.usages[row.place])
    return {f"tokens_{role}": ("int64", functools.partial(_tokens, role)) for role in roles}


def _tokens(role: str, row: AttemptRow) -> int:
    return row.loop.usages[row.place].get(role, NO_USAGE).tokens
