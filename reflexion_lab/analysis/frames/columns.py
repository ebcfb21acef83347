"""The columns of `frames`: by name, a dtype and what is taken from a row."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any

from reflexion_lab.analysis import metrics
from reflexion_lab.analysis.learning.progression import (
    breakthroughs,
    diminishing_returns,
    errors_removed,
    learning_rate,
    trend,
)
from reflexion_lab.records import UNKNOWN, Evaluation, Grade, Reflection

Columns = dict[str, tuple[str, Callable[[Any], object]]]

RUNS: Columns = {
    "run_id": ("category", lambda run: run.log.manifest.run_id),
    "arm": ("category", lambda run: run.arm),
    "seed": ("int64", lambda run: run.log.manifest.seed),
    "benchmark": ("category", lambda run: run.log.manifest.benchmark),
    "feedback_source": ("category", lambda run: run.log.manifest.feedback_source),
    "model": ("category", lambda run: run.log.manifest.model_fingerprint),
    "study": ("category", lambda run: run.log.manifest.study),
    "config_digest": ("category", lambda run: run.log.manifest.config_digest),
    "n": ("int64", lambda run: len(run.loops) - len(run.log.no_verdict)),
    "no_verdict": ("int64", lambda run: len(run.log.no_verdict)),
    "n_expected": ("int64", lambda run: run.log.manifest.n_expected),
    "pass_at_1": ("Float64", lambda run: run.solved.share if run.solved and not run.is_upper_bound else None),
    "upper_bound": ("Float64", lambda run: run.solved.share if run.solved and run.is_upper_bound else None),
    "low": ("Float64", lambda run: run.solved.low if run.solved else None),
    "high": ("Float64", lambda run: run.solved.high if run.solved else None),
    "attempts": ("int64", lambda run: sum(len(loop.attempts) for loop in run.loops)),
    "tokens": ("int64", lambda run: run.usage.tokens),
    "calls": ("int64", lambda run: run.usage.calls),
    "cost": ("float64", lambda run: run.usage.cost),
    "torn": ("int64", lambda run: run.log.torn),
    "path": ("string", lambda run: str(run.path)),
}
HEAD: Columns = {
    "run_id": ("category", lambda row: row.loop.head[0]),
    "arm": ("category", lambda row: row.loop.head[1]),
    "seed": ("int64", lambda row: row.loop.head[2]),
    "task_id": ("category", lambda row: row.loop.head[3]),
}
NUMBER: Columns = {"number": ("int64", lambda row: row.number)}
TASKS: Columns = {
    "attempts": ("int64", lambda loop: len(loop.attempts)),
    "submitted": ("int64", lambda loop: loop.attempts[loop.submitted].number),
    "stop_reason": ("category", lambda loop: loop.result.stop_reason),
    "passed": ("boolean", lambda loop: _verdict(loop.attempts[loop.submitted].evaluation)),
    "reward": ("float64", lambda loop: loop.attempts[loop.submitted].evaluation.reward),
    "learning_rate": ("float64", lambda loop: learning_rate(loop.rewards)),
    "trend": ("category", lambda loop: trend(loop.rewards)),
    "diminishing_returns": ("bool", lambda loop: diminishing_returns(loop.rewards)),
    "breakthroughs": ("string", lambda loop: " ".join(map(str, breakthroughs(loop.rewards)))),
    "errors_removed": ("int64", lambda loop: errors_removed(loop.errors)),
    "hidden_passed": ("boolean", lambda loop: _hidden(loop.grades[loop.submitted])),
    "hidden_outcome": ("category", lambda loop: _of(loop.grades[loop.submitted], "outcome")),
    "hidden_passed_first": ("boolean", lambda loop: _hidden(loop.grades[0])),
    "hidden_any_solved": ("boolean", lambda loop: loop.any_solved),
    "tokens": ("int64", lambda loop: loop.so_far[-1].tokens),
    "calls": ("int64", lambda loop: loop.so_far[-1].calls),
    "cost": ("float64", lambda loop: loop.so_far[-1].cost),
    "duration": ("float64", lambda loop: loop.result.duration),
}
ATTEMPTS: Columns = {
    "passed": ("boolean", lambda row: _verdict(row.attempt.evaluation)),
    "outcome": ("category", lambda row: row.attempt.evaluation.outcome),
    "reward": ("float64", lambda row: row.attempt.evaluation.reward),
    "hidden_passed": ("boolean", lambda row: _hidden(row.grade)),
    "hidden_outcome": ("category", lambda row: _of(row.grade, "outcome")),
    "submitted": ("bool", lambda row: row.place == row.loop.submitted),
    "stop_reason": ("category", lambda row: row.attempt.stop_reason or None),
    "recalled": ("int64", lambda row: len(row.attempt.recalled)),
    "recalled_wisdom": ("int64", lambda row: len(row.attempt.recalled_wisdom)),
    "recalled_mistakes": ("int64", lambda row: len(row.attempt.recalled_mistakes)),
    "omega": ("Int64", lambda row: row.attempt.memory.omega),
    "reflection_source": ("category", lambda row: _of(row.attempt.reflection, "source")),
    "reflection_category": ("category", lambda row: _of(row.attempt.reflection, "category")),
    "reflection_confidence": ("Float64", lambda row: _confidence(row.attempt.reflection)),
    "extraction_failed": ("bool", lambda row: not row.attempt.trajectory.solution.strip()),
    "finish_reason": ("category", lambda row: row.attempt.trajectory.finish_reason),
    "cached": ("bool", lambda row: row.attempt.trajectory.cached),
    "seconds": ("float64", lambda row: row.attempt.seconds),
    "calls": ("int64", lambda row: row.spent.calls),
    "cost": ("float64", lambda row: row.spent.cost),
    "cost_so_far": ("float64", lambda row: row.so_far.cost),
    "tokens": ("int64", lambda row: row.spent.tokens),
    "tokens_so_far": ("int64", lambda row: row.so_far.tokens),
}
ATTEMPT_TEXTS: Columns = {
    "solution": ("string", lambda row: row.attempt.trajectory.solution),
    "prompt": ("string", lambda row: "\n\n".join(message.content for message in row.attempt.trajectory.messages)),
    "reply": ("string", lambda row: row.attempt.trajectory.reply),
    "feedback": ("string", lambda row: row.attempt.evaluation.feedback),
}
CHECKS: Columns = {
    "place": ("int64", lambda row: row.place),
    "name": ("category", lambda row: row.of.name),
    "kind": ("category", lambda row: row.of.kind),
    "mode": ("category", lambda row: row.of.mode or None),
    "outcome": ("category", lambda row: row.of.outcome),
    "error_type": ("category", lambda row: row.of.error_type or None),
    "line": ("Int64", lambda row: row.of.line or None),
    "seconds": ("float64", lambda row: row.of.seconds),
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
    "was_read": ("bool", lambda row: row.of.was_read),
    "source_run": ("category", lambda row: row.of.run),
    "source_task": ("category", lambda row: row.of.task),
    "source_number": ("Int64", lambda row: row.of.number),
}


def metric_columns(level: metrics.Level) -> Columns:
    """The registered metrics of attempts, tasks or runs; a run's pooled values of the other two are its, too."""
    if level == "attempt":
        return {metric.name: (_dtype(metric), partial(_of_attempt, metric)) for metric in metrics.of_level("attempt")}
    if level == "task":
        return {metric.name: (_dtype(metric), partial(_of_task, metric)) for metric in metrics.of_level("task")}
    columns: Columns = {}
    for metric in metrics.of_level("run", "task", "attempt"):
        for is_upper_bound in (False, True):  # a pass@1 and an upper bound are two columns
            columns[metric.key(is_upper_bound)] = "Float64", partial(_of_run, metric, is_upper_bound)
    return {name: column for name, column in columns.items() if name not in RUNS}


def _dtype(metric: metrics.Metric) -> str:
    return "boolean" if metric.unit == "share" else "Float64"


def _of_attempt(metric: metrics.Metric, row: Any) -> object:
    return metric.of(row.attempt, row.grade)


def _of_task(metric: metrics.Metric, loop: Any) -> object:
    grades = {grade.number: grade for grade in loop.grades if grade}
    return metric.of(loop.attempts, grades)


def _of_run(metric: metrics.Metric, is_upper_bound: bool, run: Any) -> float | None:
    is_other = run.is_upper_bound != is_upper_bound and metric.key(False) != metric.key(True)
    name = metric.key()
    return None if is_other else metrics.numbers(name, metric.in_run(run.log)).get(name)


def _verdict(evaluation: Evaluation) -> bool | None:
    return None if evaluation.outcome in UNKNOWN else evaluation.passed


def _hidden(grade: Grade | None) -> bool | None:
    return None if grade is None or grade.outcome in UNKNOWN else grade.passed


def _confidence(reflection: Reflection | None) -> float | None:
    """None where it says nothing, as of controls that judge nothing."""
    return None if reflection is None or reflection.confidence_source == "none" else reflection.confidence


def _of(record: Grade | Reflection | None, field: str) -> object:
    """The field; None without a record."""
    return getattr(record, field) if record else None
