"""Metric registry: a metric is one function, shown by all tables, frames, pages and trackers.

    @metric("attempt", "share", label="slow attempts", direction="lower")
    def slow(attempt: Attempt, grade: Grade | None) -> bool:
        return attempt.seconds > 60

A metric of attempts or tasks is a column of that frame; tables of runs and arms show its pooled value.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from reflexion_lab.analysis.learning.curation import curated, has_curator, has_items, size_at_end
from reflexion_lab.analysis.learning.memory import EFFECTS
from reflexion_lab.analysis.stats.bootstrap import rate
from reflexion_lab.analysis.stats.clusters import ALONE, Clusters
from reflexion_lab.analysis.stats.estimators import Paired, feedback_confusion, paired, suite_quality, verdict
from reflexion_lab.analysis.stats.intervals import PAIRED, Estimate, Rate
from reflexion_lab.errors import ConfigError
from reflexion_lab.loop.deadline import awaited
from reflexion_lab.loop.selection import submitted_at, verdicts_at, without_verdict
from reflexion_lab.records import BY_MODEL, Attempt, Grade, Record

if TYPE_CHECKING:
    from reflexion_lab.analysis.arms import Arm
    from reflexion_lab.analysis.run_log import Log

Level = Literal["attempt", "task", "run", "arm"]
Unit = Literal["share", "points", "count", "number", "p"]
Value = Rate | Estimate | float
F = TypeVar("F", bound=Callable[..., Any])


class Metric(Record, frozen=True, kw_only=True):
    """A named figure and the function that computes it."""

    name: str
    """Name in frames and CSV, after `final/` in MLflow. In an oracle's run, `upper_bound` replaces `pass_at_1`."""
    level: Level
    unit: Unit
    """`share` in [0, 1], `points` (difference of two shares), `count`, `p` (p-value), or `number`."""
    direction: Literal["higher", "lower", ""]
    """Which is better; "" if neither."""
    of: Callable[..., Any]
    """attempt: `of(attempt, grade or None)`; task: `of(attempts, grades by number)`; run: `of(log)`; arm: `of(arm)`.
    Returns None for no value."""
    interval: str
    """Method of the 95 % interval of an `Estimate`; "" for no interval."""
    label: str
    """Name in tables; "" if they have a column of its own."""
    note: str
    """Remark after the value."""
    cases: str
    """Unit of the n of a share."""
    of_whole: bool
    """Whether it is of a whole run, train tasks included, where the run has a split, and of an arm pooled over runs."""

    @property
    def is_of_lab(self) -> bool:
        """Whether the lab defines it, and no user."""
        return self.of.__module__.startswith("reflexion_lab.")

    def in_run(self, log: Log) -> Value | None:
        """Value over a run; with a split over its test tasks, unless it is `of_whole`."""
        log = log if self.of_whole else log.headline
        if self.level == "run":
            value: Value | None = self.of(log)
            return value
        if self.level == "attempt":
            pairs = ((attempt, log.grades.get((attempt.task_id, attempt.number))) for attempt in log.every)
            return self._pooled(((attempt.task_id, self.of(attempt, grade)) for attempt, grade in pairs), log.clusters)
        grades = log.grades_by_task
        values = {name: self.of(attempts, grades.get(name, {})) for name, attempts in log.attempts.items()}
        return self._pooled(values.items(), log.clusters)

    def in_arm(self, arm: Arm) -> Value | None:
        """Value over an arm; all cases or attempts of a cluster of tasks are one unit of the interval of a share.
        What is of whole runs is summed over them, if it is a count or a share, else averaged.
        """
        if self.level == "arm":
            value: Value | None = self.of(arm)
            return value
        if self.level == "run":
            values = [value for log in arm.whole if (value := self.in_run(log)) is not None]
            rates = [value for value in values if isinstance(value, Rate)]
            if rates:
                return Rate.of(sum(each.k for each in rates), sum(each.n for each in rates))
            return self._pooled((None, value) for value in values)
        if self.level == "attempt":
            graded = ((attempt.task_id, self.of(attempt, grade)) for attempt, grade in arm.graded)
            return self._pooled(graded, arm.clusters)
        of_tasks = ((case.task_id, self.of(attempts, arm.grades[case])) for case, attempts in arm.judged.items())
        return self._pooled(of_tasks, arm.clusters)

    def key(self, is_upper_bound: bool = False) -> str:
        """Name in MLflow, where a share of attempts ends in `_rate`."""
        name = self.name
        if is_upper_bound:  # feedback came from the hidden tests
            name = name.replace("pass_at_1", "upper_bound").replace("visible_pass", "upper_bound_feedback")
        return f"{name}_rate" if self.level == "attempt" and self.unit == "share" else name

    def _pooled(self, values: Iterable[tuple[Any, Any]], clusters: Clusters = ALONE) -> Value | None:
        """Of pairs (task, value)."""
        pairs = [(task, value) for task, value in values if value is not None]
        known = [value for _, value in pairs]
        if not known:
            return None
        if self.unit == "share":
            return rate(pairs, clusters)
        return float(sum(known)) if self.unit == "count" else sum(known) / len(known)


REGISTRY: dict[tuple[Level, str], Metric] = {}
"""By level and name, in the order of tables."""


def all_built_in() -> bool:
    """Whether no metric and no figure is a user's, which may read texts that those of the lab do not."""
    drawing = sys.modules.get("reflexion_lab.analysis.figures.drawing")
    every = [*REGISTRY.values(), *(drawing.REGISTRY.values() if drawing else ())]
    return all(each.of.__module__.startswith("reflexion_lab.") for each in every)


def _is_taken(name: str, columns: Collection[str] = ()) -> bool:
    """Whether a metric of the lab, one of `columns` or a line of a comparison has the name."""
    from reflexion_lab.analysis.comparison import arm_metrics  # noqa: F401 their names are taken, too

    of_lab = [each for each in REGISTRY.values() if each.is_of_lab]
    taken = {*columns} | {key for each in of_lab for key in (each.name, each.key(), each.key(True))}
    return bool({name, f"{name}_rate"} & taken or re.search(r"_(as_run|equal_\w+|area)$|^price_", name))


def metric(
    level: Level,
    unit: Unit,
    *,
    label: str,
    direction: Literal["higher", "lower", ""] = "",
    interval: str = "",
    note: str = "",
    cases: str = "",
    name: str = "",
    of_whole: bool = False,
) -> Callable[[F], F]:
    """Register the decorated function as a metric.

    Raises ConfigError: the level already has a metric of that name. `level`, `unit`, `direction`, `label`, `note`,
    `of_whole`: see `Metric`. `interval`: by default that of `bootstrap.rate` for a share. `cases`: by default
    "attempts" at level attempt, else "tasks". `name`: by default the name of the function.
    """

    def register(function: F) -> F:
        key = level, name or function.__name__
        if key in REGISTRY:
            raise ConfigError("metric", f"a second {key[1]!r} of level {level}", "one function per name and level")
        if not function.__module__.startswith("reflexion_lab.") and _is_taken(key[1]):
            raise ConfigError(f"metrics.{key[1]}", "the name of a metric or column of the lab", "a name of its own")
        REGISTRY[key] = Metric(
            name=key[1],
            level=level,
            unit=unit,
            direction=direction,
            of=function,
            interval=interval or (PAIRED if unit == "share" else ""),
            label=label,
            note=note,
            cases=cases or ("attempts" if level == "attempt" else "tasks"),
            of_whole=of_whole,
        )
        return function

    return register


def register_own(functions: Mapping[str, Callable[..., Any]], columns: Collection[str] = ()) -> None:
    """Register metrics of a notebook by name; known names are replaced. `columns`: names that no metric may have.

    Raises ConfigError: a first parameter or return annotation does not say what is measured, or a name is the lab's.
    """
    levels: dict[str, Level] = {"attempt": "attempt", "attempts": "task", "log": "run", "arm": "arm"}
    for name, function in functions.items():
        try:
            signature = inspect.signature(function, eval_str=True)
        except (TypeError, NameError, ValueError) as problem:
            raise ConfigError(f"metrics.{name}", str(problem), "a function whose annotations can be read") from None
        first = next(iter(signature.parameters), "none")
        if first not in levels:
            raise ConfigError(f"metrics.{name}", f"a first parameter {first}", f"one of {', '.join(levels)}")
        kinds = set(get_args(signature.return_annotation) or (signature.return_annotation,)) - {type(None)}
        if len(kinds) != 1 or not kinds <= {bool, int, float}:
            raise ConfigError(f"metrics.{name}", "no return annotation bool or float", "-> bool (a share) or -> float")
        if _is_taken(name, columns):
            raise ConfigError(f"metrics.{name}", "the name of a metric or column of the lab", "a name of its own")
        REGISTRY.pop((levels[first], name), None)
        unit: Unit = "share" if kinds == {bool} else "number"
        metric(levels[first], unit, label=name.replace("_", " "), name=name)(awaited(function))


def of_level(*levels: Level) -> list[Metric]:
    return [metric for level in levels for metric in REGISTRY.values() if metric.level == level]


def of_arms() -> list[Metric]:
    """Metrics with a value over an arm."""
    whole = [metric for metric in of_level("run") if metric.of_whole]
    return [*of_level("arm"), *whole, *of_level("attempt", "task")]


def in_run(log: Log) -> Iterator[tuple[Metric, Value]]:
    """Metrics with a value in this run."""
    for each in of_level("run", "task", "attempt"):
        if (value := each.in_run(log)) is not None:
            yield each, value


def in_arm(arm: Arm) -> dict[str, Value]:
    """Values of this arm by MLflow key, without missing ones."""
    values = {each.key(arm.is_upper_bound): each.in_arm(arm) for each in of_arms()}
    return {name: value for name, value in values.items() if value is not None}


def numbers(name: str, value: Value | None) -> dict[str, float]:
    """A value and its interval as `name`, `name_low`, `name_high`; {} for a rate with n = 0."""
    if isinstance(value, Estimate):
        return {name: value.value, f"{name}_low": value.low, f"{name}_high": value.high}
    if isinstance(value, Rate):
        return {name: value.share, f"{name}_low": value.low, f"{name}_high": value.high} if value.n else {}
    return {} if value is None else {name: value}


@metric("run", "share", label="pass@1", direction="higher")
def pass_at_1(log: Log) -> Rate:
    """Hidden verdicts on submissions."""
    return rate(_final(log).items(), log.clusters)


@metric("run", "share", label="plain single attempt", direction="higher", note="attempt 1 of the same loops")
def pass_at_1_first(log: Log) -> Rate | None:
    """Hidden verdicts on attempt 1; None until every attempt is graded."""
    return rate(verdicts_at(log.attempts, log.grades, 1).items(), log.clusters) if log.is_graded else None


@metric("run", "points", label="gain over attempt 1", direction="higher", interval=PAIRED)
def gain_over_attempt_1(log: Log) -> Estimate | None:
    """Share solved by submissions minus the share solved by attempt 1, paired by task."""
    pairs = against_attempt_1(log)
    return Estimate(value=pairs.difference, low=pairs.low, high=pairs.high) if pairs and pairs.n else None


@metric("run", "p", label="p of the gain", note="McNemar exact; sign-flip test if clustered")
def gain_over_attempt_1_p(log: Log) -> float | None:
    pairs = against_attempt_1(log)
    return pairs.p if pairs and pairs.n else None


@metric("run", "share", label="any attempt solved", direction="higher", note="best case")
def any_solved(log: Log) -> Rate | None:
    """Tasks of which any attempt passes the hidden tests; None until every attempt is graded."""
    if not log.is_graded:
        return None
    solved = {attempt.task_id for attempt in log.every if log.grades[attempt.task_id, attempt.number].passed}
    return rate(((task_id, task_id in solved) for task_id in _final(log)), log.clusters)


@metric("run", "share", label="feedback passed", direction="higher")
def visible_pass(log: Log) -> Rate:
    """Submissions that passed their feedback checks, of those with a feedback verdict."""
    passed = ((task_id, verdict(submitted_at(attempts).evaluation)) for task_id, attempts in log.attempts.items())
    return rate(passed, log.clusters)


@metric("run", "share", label="wrong among passed", direction="lower", cases="submissions that passed their feedback")
def feedback_wrong_if_passed(log: Log) -> Rate | None:
    """P(hidden fail | feedback pass) of submissions; None for an oracle, whose feedback is the hidden tests."""
    return None if log.is_upper_bound else feedback_confusion(log.submitted.values(), log.clusters).wrong_if_passed


@metric("run", "share", label="right among failed", direction="lower", cases="submissions that failed their feedback")
def feedback_right_if_failed(log: Log) -> Rate | None:
    """P(hidden pass | feedback fail) of submissions; None for an oracle."""
    return None if log.is_upper_bound else feedback_confusion(log.submitted.values(), log.clusters).right_if_failed


@metric("run", "share", label="valid tests", direction="higher", cases="tests", note="the canonical solution passes")
def written_tests_valid(log: Log) -> Rate | None:
    """Model-written tests that the canonical solution passes."""
    is_shown = log.written and not log.is_upper_bound
    return suite_quality(log.written.values(), log.suite_verdicts, log.clusters).valid if is_shown else None


@metric("task", "share", label="pass@1 by base tests", direction="higher", note="without the tests that a + adds")
def hidden_base_passed(attempts: Sequence[Attempt], grades: Mapping[int, Grade]) -> bool | None:
    """Verdict of the original benchmark's tests on the submission."""
    grade = grades.get(submitted_at(attempts).number)
    return None if grade is None or without_verdict(attempts, grades.values()) else grade.base_passed


@metric("run", "number", label="attempts per task", direction="lower")
def attempts_mean(log: Log) -> float:
    return len(log.every) / len(log.attempts) if log.attempts else 0.0


@metric("run", "share", label="model-written reflections", cases="reflections")
def reflections_by_model_share(log: Log) -> Rate:
    """Reflections written by the model; the others come from rules."""
    written = ((a.task_id, a.reflection.source in BY_MODEL) for a in log.every if a.reflection)
    return rate(written, log.clusters)


@metric("run", "count", label="duplicate reflections", direction="lower", note="equal to an earlier one on their task")
def reflections_repeated(log: Log) -> int:
    return sum(_repeated(attempts) for attempts in log.attempts.values())


@metric("run", "count", label="tasks without feedback tests")
def no_feedback(log: Log) -> int:
    return sum(attempts[0].evaluation.outcome == "no_tests" for attempts in log.attempts.values())


def in_process(log: Log) -> tuple[int, int]:
    """Number of tests that ran beside the program, which can forge them, and of all: of feedback and hidden ones."""
    tests = [check.in_process for a in log.every for check in a.evaluation.checks if check.kind == "test"]
    grades = log.grades.values()
    count = sum(grade.checks_in_process for grade in grades)
    return sum(tests) + count, len(tests) + sum(grade.checks_total for grade in grades)


@metric("run", "count", label="harness errors", direction="lower", note="in feedback and hidden tests")
def harness_errors(log: Log) -> int:
    """Feedback and hidden verdicts invalid because of a harness failure."""
    evaluations = [attempt.evaluation for attempt in log.every]
    invalid = ["harness_error" in (e.outcome, *(check.outcome for check in e.checks)) for e in evaluations]
    return sum(invalid) + sum(grade.outcome == "harness_error" for grade in log.grades.values())


@metric("run", "number", label="items of memory", note="of the curator, at the end", of_whole=True)
def items_at_end(log: Log) -> int | None:
    return size_at_end(log).items if has_items(log) else None


@metric("run", "number", label="tokens of memory", note="of all items, at the end", of_whole=True)
def items_tokens(log: Log) -> int | None:
    return size_at_end(log).tokens if has_items(log) else None


@metric(
    "run",
    "count",
    label="collapses of memory",
    direction="lower",
    note="calls that lost half of its tokens",
    of_whole=True,
)
def items_collapses(log: Log) -> int | None:
    return len(curated(log).collapses) if has_items(log) else None


@metric("run", "share", label="items read", direction="higher", cases="items", of_whole=True)
def items_read(log: Log) -> Rate | None:
    """Items that an attempt had in its prompt, of all that memory ever held."""
    return curated(log).shown if has_items(log) else None


@metric("run", "share", label="unreadable replies", direction="lower", cases="calls of the curator", of_whole=True)
def curation_unreadable(log: Log) -> Rate | None:
    """Replies of the curator that could not be read; None without a call."""
    memory = curated(log) if has_items(log) else None
    if memory is None:
        return None
    calls = memory.curation.calls + memory.selection.calls
    calls = max(calls, memory.unreadable)  # a model of one's own may count no calls
    return Rate.of(memory.unreadable, calls) if calls else None


@metric("run", "number", label="tokens of curation", direction="lower", note="before and after tasks", of_whole=True)
def curation_tokens(log: Log) -> int | None:
    memory = curated(log) if has_curator(log) else None
    return memory.curation.tokens + memory.selection.tokens if memory else None


def _of_memory(name: str) -> Callable[[Arm], Estimate | None]:
    def of(arm: Arm) -> Estimate | None:
        if arm.memory is None or arm.is_upper_bound:
            return None
        estimate: Estimate | None = getattr(arm.memory.measures, name)
        return estimate

    return of


for _name in EFFECTS:
    metric("arm", "points", label="", name=_name, interval=PAIRED,
           direction="lower" if _name == "forgetting" else "higher")(_of_memory(_name))  # fmt: skip


@metric("attempt", "share", label="no program", direction="lower")
def extraction_failures(attempt: Attempt, grade: Grade | None) -> bool:
    """The reply contains no program."""
    return not attempt.trajectory.solution.strip()


@metric("attempt", "share", label="retries without a program", direction="lower", cases="retries")
def empty_retries(attempt: Attempt, grade: Grade | None) -> bool | None:
    """The reply of a retry contains no program, so the retry used nothing of what it read; None of a fresh draw."""
    return None if not attempt.parent else not attempt.trajectory.solution.strip()


@metric("attempt", "share", label="blind retries", direction="lower", cases="retries with Ω of 1 or more")
def blind_retries(attempt: Attempt, grade: Grade | None) -> bool | None:
    """The prompt of a retry contains no earlier attempt although Ω is not 0; None of a fresh draw, and for Ω = 0."""
    return attempt.memory.is_blind if attempt.parent and attempt.memory.total and attempt.memory.omega else None


@metric("attempt", "share", label="timed out", direction="lower")
def timeouts(attempt: Attempt, grade: Grade | None) -> bool:
    """A feedback check or the first failing hidden check timed out; grades record no other check."""
    return "timeout" in _outcomes(attempt, grade)


@metric("attempt", "share", label="harness errors", direction="lower", name="harness_errors")
def harness_error(attempt: Attempt, grade: Grade | None) -> bool:
    """The feedback or hidden verdict is invalid because of a harness failure."""
    return "harness_error" in _outcomes(attempt, grade)


def against_attempt_1(log: Log) -> Paired | None:
    """Submissions compared with attempt 1 of the same task; None until every attempt is graded."""
    return paired(verdicts_at(log.attempts, log.grades, 1), _final(log), log.clusters) if log.is_graded else None


def _final(log: Log) -> dict[str, bool]:
    """Hidden verdicts on submissions, of tasks with a verdict."""
    return {task_id: grade.passed for task_id, (_, grade) in log.submitted.items() if task_id not in log.no_verdict}


def _outcomes(attempt: Attempt, grade: Grade | None) -> set[str]:
    evaluation = attempt.evaluation
    return {evaluation.outcome, grade.outcome if grade else "", *(check.outcome for check in evaluation.checks)}


def _repeated(attempts: Sequence[Attempt]) -> int:
    reflections = [attempt.reflection for attempt in attempts if attempt.reflection]
    fields = [(r.root_cause, r.what_went_wrong, r.what_to_change, r.action_items) for r in reflections]
    texts = [of if any(of) else r.text for r, of in zip(reflections, fields, strict=True)]  # a recorded one has a text
    return len(worded := [text for text in texts if text]) - len({*worded})
