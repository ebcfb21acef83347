"""Rows of `frames` (runs, loops, attempts and their parts), and columns: name, dtype, function of a row."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from reflexion_lab.analysis import metrics
from reflexion_lab.analysis.learning.checkpoints import rounds_before, source
from reflexion_lab.analysis.learning.transitions import (
    breakthroughs,
    diminishing_returns,
    errors_removed,
    learning_rate,
    trend,
)
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.stats.estimators import verdict
from reflexion_lab.analysis.stats.intervals import Rate
from reflexion_lab.analysis.summary import is_priced
from reflexion_lab.loop.policy import is_tree, path_to
from reflexion_lab.loop.selection import submitted_at
from reflexion_lab.records import ITEM_SOURCE, Attempt, Critique, Grade, Reflection, Retrieved, TaskResult, Usage


class Loop:
    """A finished loop: one task in one run."""

    def __init__(self, run: Run, result: TaskResult) -> None:
        self.run = run
        self.result = result
        self.head = run.log.manifest.run_id, run.log.arm, run.log.manifest.seed, result.task_id
        self.cluster = run.log.clusters.get(result.task_id, result.task_id)
        self.attempts: Sequence[Attempt] = run.log.attempts[result.task_id]
        self.grades = [run.log.grades.get((result.task_id, attempt.number)) for attempt in self.attempts]
        self.usages = [attempt.usage for attempt in self.attempts]

    @cached_property
    def spent(self) -> list[Usage]:
        return [sum(usage.values(), Usage()) for usage in self.usages]

    @cached_property
    def so_far(self) -> list[Usage]:
        """Up to each attempt, with what was spent before the first."""
        before = self.run.log.overhead.get(self.result.task_id, Usage())
        return list(itertools.accumulate(self.spent, initial=before))[1:]

    @property
    def path(self) -> Sequence[Attempt]:
        """The attempts, each continuing the one before; of a tree those on the path to the submitted one."""
        is_chain = not is_tree(self.attempts)
        return self.attempts if is_chain else path_to(self.attempts[self.submitted].number, self.attempts)

    @property
    def series(self) -> list[float]:
        """The rewards of `path`."""
        return [attempt.evaluation.reward for attempt in self.path]

    @property
    def loop(self) -> Loop:
        """Itself: columns in `HEAD` read the loop of a row."""
        return self

    @cached_property
    def submitted(self) -> int:
        """Index of the submitted attempt."""
        return self.attempts.index(submitted_at(self.attempts))

    @property
    def any_solved(self) -> bool | None:
        """Whether any attempt passes the hidden tests; None until all have a hidden verdict."""
        verdicts = [verdict(grade) for grade in self.grades]
        return None if None in verdicts else any(verdicts)


class Run:
    def __init__(self, path: Path, log: Log) -> None:
        self.path = path
        self.log = log
        usages = (usage for loop in self.loops for usage in loop.usages)  # of which each is read once, in any case
        self.roles = dict.fromkeys(role for usage in usages for role in usage)

    @property
    def loops(self) -> Iterator[Loop]:
        """Read one by one, unless the log holds them."""
        return (Loop(self, result) for result in self.log.results.values())

    @cached_property
    def usage(self) -> Usage:
        return sum((loop.so_far[-1] for loop in self.loops), Usage())

    @cached_property
    def is_priced(self) -> bool:
        return is_priced(self.log) if self.log.manifest.prices else any(loop.so_far[-1].cost for loop in self.loops)

    def cost(self, usage: Usage) -> float:
        """NaN if it is not known."""
        return usage.cost if self.is_priced and not usage.uncounted else math.nan

    @cached_property
    def solved(self) -> Rate | None:
        """Hidden verdicts on submissions; None until the run is finished in every shard, and without any verdict."""
        is_finished = len(self.log.submitted) == self.log.manifest.n_expected
        rate = metrics.pass_at_1(self.log.headline)
        return rate if is_finished and rate.n and not self.log.lacks_shards else None


class AttemptRow(NamedTuple):
    loop: Loop
    place: int
    """From 0."""
    number: int
    attempt: Attempt
    grade: Grade | None


class PartRow(NamedTuple):
    """A check, a reflection or a recalled item."""

    loop: Loop
    number: int
    place: int
    """From 1."""
    of: Any


class Recalled(NamedTuple):
    """An item that an attempt recalled, and its source according to its id."""

    kind: str
    name: str
    run: str | None
    task: str | None
    number: int | None
    retrieved: Retrieved | None


def attempts(loops: Iterable[Loop]) -> Iterator[AttemptRow]:
    for loop in loops:
        for place, attempt in enumerate(loop.attempts):
            yield AttemptRow(loop, place, attempt.number, attempt, loop.grades[place])


def checks(loops: Iterable[Loop]) -> Iterator[PartRow]:
    for row in attempts(loops):
        for place, check in enumerate(row.attempt.evaluation.checks, 1):
            yield PartRow(row.loop, row.number, place, check)


def reflections(loops: Iterable[Loop]) -> Iterator[PartRow]:
    for row in attempts(loops):
        if row.attempt.reflection:
            yield PartRow(row.loop, row.number, 1, row.attempt.reflection)


def memories(loops: Iterable[Loop]) -> Iterator[PartRow]:
    for row in attempts(loops):
        attempt, own = row.attempt, row.loop.run.log.run_ids
        places = {item.item_id: item for item in attempt.retrieved}
        recalled = ((kind, name) for kind, names in attempt.recalled_by_kind.items() for name in names)
        for place, (kind, name) in enumerate(recalled, 1):
            of = Recalled(kind, name, *_source(name, own), places.get(name))
            yield PartRow(row.loop, row.number, place, of)


def _source(name: str, own: Sequence[str]) -> tuple[str | None, str | None, int | None]:
    """Run, task and attempt; a name without a run, or with one of `own`, belongs to the first of them."""
    for run_id in own:
        name = name.replace(f"-{run_id}/", "-", 1)
    match = ITEM_SOURCE.fullmatch(name)
    if not match:
        return None, None, None
    number = int(match["last"]) if name.startswith("ep-") and match["last"].isdecimal() else None
    return sys.intern(match["run"] or own[0]), sys.intern(match["task"]), number


Columns = dict[str, tuple[str, Callable[[Any], object]]]
"""Types and values by column; `object` for texts to compare with a category, since two categories cannot be."""


def kinds_of_tokens(usage: Callable[[Any], Usage]) -> Columns:
    """Columns of prompt and completion tokens, and of the cached and the reasoning tokens among them."""

    def of(name: str, row: Any) -> int:
        return int(getattr(usage(row), name))

    names = ("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens")
    return {name: ("int64", partial(of, name)) for name in names}


RUNS: Columns = {
    "run_id": ("category", lambda run: run.log.manifest.run_id),
    "arm": ("category", lambda run: run.log.arm),
    "seed": ("int64", lambda run: run.log.manifest.seed),
    "benchmark": ("category", lambda run: run.log.manifest.benchmark),
    "feedback_source": ("category", lambda run: run.log.manifest.feedback_source),
    "model": ("category", lambda run: run.log.manifest.model_fingerprint),
    "study": ("category", lambda run: run.log.study),
    "memory_of": ("category", lambda run: source(run.log.manifest) or None),
    "memory_after": ("Int64", lambda run: rounds_before(run.log) if source(run.log.manifest) else None),
    "config_digest": ("category", lambda run: run.log.manifest.config_digest),
    "n": ("int64", lambda run: len(run.log.headline.results) - len(run.log.headline.no_verdict)),
    "no_verdict": ("int64", lambda run: len(run.log.headline.no_verdict)),
    "n_expected": ("int64", lambda run: run.log.manifest.n_expected),
    "pass_at_1": ("Float64", lambda run: run.solved.share if run.solved and not run.log.is_upper_bound else None),
    "upper_bound": ("Float64", lambda run: run.solved.share if run.solved and run.log.is_upper_bound else None),
    "low": ("Float64", lambda run: run.solved.low if run.solved else None),
    "high": ("Float64", lambda run: run.solved.high if run.solved else None),
    "attempts": ("int64", lambda run: len(run.log.every)),
    "tokens": ("int64", lambda run: run.usage.tokens),
    **kinds_of_tokens(lambda run: run.usage),
    "calls": ("int64", lambda run: run.usage.calls),
    "uncounted": ("int64", lambda run: run.usage.uncounted),
    "cost": ("float64", lambda run: run.cost(run.usage)),
    "torn": ("int64", lambda run: run.log.torn),
    "path": ("string", lambda run: str(run.path)),
}
HEAD: Columns = {
    "run_id": ("category", lambda row: row.loop.head[0]),
    "arm": ("category", lambda row: row.loop.head[1]),
    "seed": ("int64", lambda row: row.loop.head[2]),
    "task_id": ("category", lambda row: row.loop.head[3]),
}
CLUSTER: Columns = {
    "cluster": ("object", lambda row: row.loop.cluster),
    "released": ("category", lambda row: row.loop.result.released or None),
    "split": ("category", lambda row: row.loop.result.split or None),
}
NUMBER: Columns = {"number": ("int64", lambda row: row.number)}
TASKS: Columns = {
    "attempts": ("int64", lambda loop: len(loop.attempts)),
    "submitted": ("int64", lambda loop: loop.attempts[loop.submitted].number),
    "stop_reason": ("category", lambda loop: loop.result.stop_reason),
    "passed": ("boolean", lambda loop: verdict(loop.attempts[loop.submitted].evaluation)),
    "reward": ("float64", lambda loop: loop.attempts[loop.submitted].evaluation.reward),
    "learning_rate": ("float64", lambda loop: learning_rate(loop.series)),
    "trend": ("category", lambda loop: trend(loop.series)),
    "diminishing_returns": ("bool", lambda loop: diminishing_returns(loop.series)),
    "breakthroughs": ("string", lambda loop: " ".join(map(str, breakthroughs(loop.series)))),
    "errors_removed": ("int64", lambda loop: errors_removed([len(each.evaluation.failures) for each in loop.path])),
    "hidden_passed": ("boolean", lambda loop: verdict(loop.grades[loop.submitted])),
    "hidden_outcome": ("object", lambda loop: _of(loop.grades[loop.submitted], "outcome")),
    "hidden_passed_first": ("boolean", lambda loop: verdict(loop.grades[0])),
    "hidden_any_solved": ("boolean", lambda loop: loop.any_solved),
    "tokens": ("int64", lambda loop: loop.so_far[-1].tokens),
    **kinds_of_tokens(lambda loop: loop.so_far[-1]),
    "calls": ("int64", lambda loop: loop.so_far[-1].calls),
    "cost": ("float64", lambda loop: loop.run.cost(loop.so_far[-1])),
    "duration": ("float64", lambda loop: loop.result.duration),
}
ATTEMPTS: Columns = {
    "parent": ("int64", lambda row: row.attempt.parent),
    "passed": ("boolean", lambda row: verdict(row.attempt.evaluation)),
    "outcome": ("category", lambda row: row.attempt.evaluation.outcome),
    "reward": ("float64", lambda row: row.attempt.evaluation.reward),
    "hidden_passed": ("boolean", lambda row: verdict(row.grade)),
    "hidden_outcome": ("object", lambda row: _of(row.grade, "outcome")),
    "submitted": ("bool", lambda row: row.place == row.loop.submitted),
    "stop_reason": ("category", lambda row: row.attempt.stop_reason or None),
    "recalled": ("int64", lambda row: len(row.attempt.recalled)),
    "recalled_wisdom": ("int64", lambda row: len(row.attempt.recalled_wisdom)),
    "recalled_mistakes": ("int64", lambda row: len(row.attempt.recalled_mistakes)),
    "recalled_items": ("int64", lambda row: len(row.attempt.recalled_items)),
    "left_out": ("int64", lambda row: len(row.attempt.trajectory.left_out)),
    "omega": ("Int64", lambda row: row.attempt.memory.omega),
    "omega_shown": ("Int64", lambda row: row.attempt.memory.own),
    "reflection_source": ("category", lambda row: _of(row.attempt.reflection, "source")),
    "reflection_category": ("category", lambda row: _of(row.attempt.reflection, "category")),
    "reflection_confidence": ("Float64", lambda row: _confidence(row.attempt.reflection)),
    "extraction_failed": ("bool", lambda row: not row.attempt.trajectory.solution.strip()),
    "strategy": ("category", lambda row: row.attempt.trajectory.strategy),
    "inner_loop_ended": ("category", lambda row: row.attempt.trajectory.ended or None),
    "drafts": ("int64", lambda row: len(_critiques(row.attempt))),
    "severity_first": ("Float64", lambda row: _severity(row.attempt, 0)),
    "severity_last": ("Float64", lambda row: _severity(row.attempt, -1)),
    "finish_reason": ("category", lambda row: row.attempt.trajectory.finish_reason),
    "cached": ("bool", lambda row: row.attempt.trajectory.cached),
    "seconds": ("float64", lambda row: row.attempt.seconds),
    "calls": ("int64", lambda row: row.loop.spent[row.place].calls),
    "cost": ("float64", lambda row: row.loop.run.cost(row.loop.spent[row.place])),
    "cost_so_far": ("float64", lambda row: row.loop.run.cost(row.loop.so_far[row.place])),
    "tokens": ("int64", lambda row: row.loop.spent[row.place].tokens),
    **kinds_of_tokens(lambda row: row.loop.spent[row.place]),
    "tokens_so_far": ("int64", lambda row: row.loop.so_far[row.place].tokens),
}
ATTEMPT_TEXTS: Columns = {
    "solution": ("string", lambda row: row.attempt.trajectory.solution),
    "prompt": ("string", lambda row: "\n\n".join(message.content for message in row.attempt.trajectory.messages)),
    "reply": ("string", lambda row: row.attempt.trajectory.reply),
    "feedback": ("string", lambda row: row.attempt.evaluation.feedback),
}
OF_LAB = frozenset({*RUNS, *HEAD, *CLUSTER, *NUMBER, *TASKS, *ATTEMPTS, *ATTEMPT_TEXTS})
"""Columns whose names no metric of a user may have."""
CHECKS: Columns = {
    "place": ("int64", lambda row: row.place),
    "name": ("category", lambda row: row.of.name),
    "kind": ("category", lambda row: row.of.kind),
    "outcome": ("category", lambda row: row.of.outcome),
    "error_type": ("category", lambda row: row.of.error_type or None),
    "line": ("Int64", lambda row: row.of.line or None),
    "seconds": ("float64", lambda row: row.of.seconds),
    "in_process": ("bool", lambda row: row.of.in_process),
}
CHECK_TEXTS: Columns = {name: ("string", attrgetter(f"of.{name}")) for name in ("expected", "actual", "message")}
REFLECTIONS: Columns = {
    "reflection_id": ("string", lambda row: row.of.reflection_id),
    "source": ("category", lambda row: row.of.source),
    "category": ("category", lambda row: row.of.category),
    "confidence": ("Float64", lambda row: _confidence(row.of)),
    "confidence_source": ("category", lambda row: row.of.confidence_source),
    "flags": ("category", lambda row: " ".join(row.of.flags)),
    "tokens": ("int64", lambda row: row.of.usage.tokens),
}
REFLECTION_TEXTS: Columns = {
    name: ("string", attrgetter(f"of.{name}"))
    for name in ("root_cause", "what_went_wrong", "what_to_change", "key_insight", "text", "problem")
}
MEMORY: Columns = {
    "place": ("int64", lambda row: row.place),
    "kind": ("category", lambda row: row.of.kind),
    "recalled_id": ("string", lambda row: row.of.name),
    "source_run": ("object", lambda row: row.of.run),
    "source_task": ("object", lambda row: row.of.task),
    "source_number": ("Int64", lambda row: row.of.number),
    "retriever": ("category", lambda row: _of(row.of.retrieved, "retriever")),
    "rank": ("Int64", lambda row: _of(row.of.retrieved, "rank")),
    "score": ("Float64", lambda row: _of(row.of.retrieved, "score")),
}
MEMORY_TEXTS: Columns = {
    name: ("string", partial(lambda name, row: _of(row.of.retrieved, name), name)) for name in ("query", "text")
}


def _critiques(attempt: Attempt) -> list[Critique]:
    return [step.critique for step in attempt.trajectory.steps if step.critique]


def _severity(attempt: Attempt, place: int) -> float | None:
    critiques = _critiques(attempt)
    return critiques[place].severity if critiques else None


def metric_columns(level: metrics.Level) -> Columns:
    """Registered metrics of a level; runs also have the pooled values of their tasks and attempts."""
    if level != "run":
        of = _of_attempt if level == "attempt" else _of_task
        return {
            metric.name: ("boolean" if metric.unit == "share" else "Float64", partial(of, metric))
            for metric in metrics.of_level(level)
        }
    columns: Columns = {}
    for metric in metrics.of_level("run", "task", "attempt"):
        for is_upper_bound in (False, True):  # a pass@1 and an upper bound are two columns
            columns[metric.key(is_upper_bound)] = "Float64", partial(_of_run, metric, is_upper_bound)
    return {name: column for name, column in columns.items() if name not in RUNS}


def _of_attempt(metric: metrics.Metric, row: Any) -> object:
    return metric.of(row.attempt, row.grade)


def _of_task(metric: metrics.Metric, loop: Any) -> object:
    grades = {grade.number: grade for grade in loop.grades if grade}
    return metric.of(loop.attempts, grades)


def _of_run(metric: metrics.Metric, is_upper_bound: bool, run: Any) -> float | None:
    is_other = run.log.is_upper_bound != is_upper_bound and metric.key(False) != metric.key(True)
    name = metric.key()
    return None if is_other else metrics.numbers(name, metric.in_run(run.log)).get(name)


def _confidence(reflection: Reflection | None) -> float | None:
    """None without a reflection, and for controls without a confidence."""
    return None if reflection is None or reflection.confidence_source == "none" else reflection.confidence


def _of(record: Grade | Reflection | Retrieved | None, field: str) -> object:
    """The field; None without a record."""
    return getattr(record, field) if record else None
