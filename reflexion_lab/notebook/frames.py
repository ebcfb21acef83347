"""Run folders as pandas frames, for notebooks.

    frames = load("runs/*")

Rows join on `run_id`, `task_id` and `number`. Tasks whose loops have not ended are excluded. Hidden verdicts are only
in columns that begin with `hidden_`, in `pass_at_1` and `upper_bound` of a run, and in the registered metrics
(`analysis.metrics`), the last columns of runs, tasks and attempts. They are NA without a verdict.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from reflexion_lab.analysis.run_list import selected
from reflexion_lab.analysis.shards import grouped, read
from reflexion_lab.notebook import frame_rows as rows
from reflexion_lab.notebook.frame_rows import Columns, Loop, Run
from reflexion_lab.notebook.overrides import Override, as_lines
from reflexion_lab.runner.folder.folder import readable, some_folders
from reflexion_lab.runner.folder.manifest import settings

if TYPE_CHECKING:
    import pandas as pd


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
        whole = (Run(run.path, run.log.held(False)) for run in self._runs)
        return _frame(whole, rows.RUNS | rows.metric_columns("run") | _swept(self._runs))

    @cached_property
    def tasks(self) -> pd.DataFrame:
        """One row per task of a run. Tasks of one `cluster` (template, family, repository) are no independent units:
        for an interval, group by it and not by `task_id`. A task that stands alone has its id there. `learning_rate`,
        `trend`, `diminishing_returns` and `breakthroughs` (numbers of attempts) describe the feedback rewards,
        `errors_removed` the failing checks; see `learning.transitions`.
        """
        return _frame(self._loops, rows.HEAD | rows.CLUSTER | rows.TASKS | rows.metric_columns("task"))

    @cached_property
    def attempts(self) -> pd.DataFrame:
        """One row per attempt. `passed` is the feedback verdict, NA without one. `tokens_so_far` and `cost_so_far` are
        cumulative within a loop and include written tests.
        """
        roles = dict.fromkeys(role for run in self._runs for role in run.roles)
        by_role = {f"tokens_{role}": ("int64", functools.partial(_tokens, role)) for role in roles}
        columns = rows.HEAD | rows.CLUSTER | rows.NUMBER | rows.ATTEMPTS | by_role | rows.metric_columns("attempt")
        return self._of_attempts(rows.attempts, columns, rows.ATTEMPT_TEXTS)

    @cached_property
    def checks(self) -> pd.DataFrame:
        """One row per feedback check of an attempt; `place` counts from 1."""
        return self._of_attempts(rows.checks, rows.HEAD | rows.NUMBER | rows.CHECKS, rows.CHECK_TEXTS)

    @cached_property
    def reflections(self) -> pd.DataFrame:
        """One row per reflection; `number` is its attempt."""
        return self._of_attempts(rows.reflections, rows.HEAD | rows.NUMBER | rows.REFLECTIONS, rows.REFLECTION_TEXTS)

    @cached_property
    def memory(self) -> pd.DataFrame:
        """One row per episode, wisdom, mistake, item or insight (its own id) that an attempt recalled. Sources are NA
        if the id names none; `retriever`, `rank` and `score` (`records.Retrieved`) if no search found it.
        """
        return self._of_attempts(rows.memories, rows.HEAD | rows.NUMBER | rows.MEMORY, rows.MEMORY_TEXTS)

    @property
    def _loops(self) -> Iterator[Loop]:
        return (loop for run in self._runs for loop in run.loops)

    def _of_attempts(self, of: Callable[..., Iterable[Any]], columns: Columns, texts: Columns) -> pd.DataFrame:
        return _frame(of(self._loops), columns | (texts if self._texts else {}))

    def __iter__(self) -> Iterator[pd.DataFrame]:
        return (getattr(self, name) for name in self.NAMES)

    def __repr__(self) -> str:
        sizes = zip(self.NAMES, self, strict=True)
        return "\n".join(f".{name}: {len(frame)} rows, {frame.shape[1]} columns" for name, frame in sizes)

    def _repr_html_(self) -> str:
        return f"<pre>{self!r}</pre>"


def load(*runs: object, texts: bool = False, where: Override = ()) -> Frames:
    """Runs as pandas tables: `.runs`, `.tasks`, `.attempts`, `.checks`, `.reflections`, `.memory`.

    Raises FolderError: no run given, a folder is no run, or a file cannot be read. `runs`: run folders, patterns such
    as `"runs/*"`, runs and sweeps, or lists of these. `texts`: include columns for programs, prompts, replies, feedback
    and reflections. `where`: only runs with these settings: `{"recall.omega": [1, 3], "model": "gpt-4o-mini"}`, or
    `"retriever=bm25"`.

    Examples
    --------
    >>> frames = rl.load(sweep)
    >>> len(frames.runs), len(frames.tasks), len(frames.attempts)
    (4, 32, 49)
    >>> frames.tasks.groupby("arm").size().to_dict()
    {'reflexion': 16, 'retry': 16}
    """
    groups = grouped(selected(some_folders(*runs), as_lines([where])))
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
        texts = [str(value) if isinstance(value, list) else value for value in values]  # pandas cannot group by lists
        of = dict(zip(configs, texts, strict=True))
        columns[key] = _kind(values), functools.partial(lambda of, run: of[run.path], of)
    return columns


def _kind(values: Iterable[object]) -> str:
    kinds = {type(value) for value in values} - {type(None)}
    return {frozenset({bool}): "boolean", frozenset({int}): "Int64", frozenset({float}): "Float64"}.get(
        frozenset(kinds), "Float64" if kinds == {int, float} else "object" if len(kinds) > 1 else "category"
    )


def _tokens(role: str, row: rows.AttemptRow) -> int:
    usage = row.loop.usages[row.place].get(role)
    return usage.tokens if usage else 0
