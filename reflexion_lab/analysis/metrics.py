"""The metric registry: a metric is one function, and every table, frame, page and tracker shows it.

    @metric("attempt", "share", label="slow attempts", direction="lower")
    def slow(attempt: Attempt, grade: Grade | None) -> bool:
        return attempt.seconds > 60

A metric of attempts or tasks is a column of that frame, and its pooled value stands in the tables of runs and arms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from reflexion_lab.analysis.estimators import Paired, feedback_confusion, paired, suite_quality
from reflexion_lab.analysis.stats.intervals import PAIRED, Estimate, Rate
from reflexion_lab.errors import ConfigError
from reflexion_lab.loop.selection import submitted_at, verdicts_at
from reflexion_lab.records import UNKNOWN, Attempt, Grade, Record

if TYPE_CHECKING:
    from reflexion_lab.analysis.arms import Arm
    from reflexion_lab.analysis.run_log import Log

Level = Literal["attempt", "task", "run", "arm"]
Unit = Literal["share", "points", "count", "number", "p"]
Value = Rate | Estimate | float
F = TypeVar("F", bound=Callable[..., Any])


class Metric(Record, frozen=True, kw_only=True):
    """A named figure, and the function that computes it."""

    name: str
    """In frames and CSV, and behind `final/` in MLflow; `pass_at_1` in it reads `upper_bound` for an oracle's run."""
    level: Level
    unit: Unit
    """`share` in [0, 1], `points` a difference of two shares, `count`, `number` any other, `p` a p-value."""
    direction: Literal["higher", "lower", ""]
    """Which is better; "" where neither is."""
    of: Callable[..., Any]
    """attempt: `of(attempt, grade or None)`; task: `of(attempts, grades by number)`; run: `of(log)`; arm: `of(arm)`.
    Returns None where there is no value."""
    interval: str
    """Method of its 95 % interval; "" where it has none."""
    label: str
    """Its name in tables."""
    note: str
    """Stands behind the value."""
    cases: str
    """What the n of a share counts."""

    def in_run(self, log: Log) -> Value | None:
        """Its value over a run; None where the run has none."""
        if self.level == "run":
            value: Value | None = self.of(log)
            return value
        if self.level == "attempt":
            return self._pooled(
                self.of(attempt, log.grades.get((attempt.task_id, attempt.number))) for attempt in log.every
            )
        grades = by_task(log.grades)
        return self._pooled(self.of(attempts, grades.get(name, {})) for name, attempts in log.attempts.items())

    def in_arm(self, arm: Arm) -> Value | None:
        """Its value over an arm. Shares of tasks cluster by task; shares of attempts take attempts as independent."""
        if self.level == "arm":
            value: Value | None = self.of(arm)
            return value
        if self.level == "attempt":
            cases = arm.attempts.items()
            return self._pooled(
                self.of(attempt, arm.grades[case].get(attempt.number))
                for case, attempts in cases
                for attempt in attempts
            )
        values = {case: self.of(attempts, arm.grades[case]) for case, attempts in arm.judged.items()}
        known = {case: value for case, value in values.items() if value is not None}
        return arm.share(known) if known and self.unit == "share" else self._pooled(known.values())

    def key(self, is_upper_bound: bool = False) -> str:
        """Its name in MLflow, where a share of attempts ends in `_rate`."""
        name = self.name
        if is_upper_bound:  # hidden tests were the feedback, too
            name = name.replace("pass_at_1", "upper_bound").replace("visible_pass", "upper_bound_feedback")
        return f"{name}_rate" if self.level == "attempt" and self.unit == "share" else name

    def _pooled(self, values: Iterable[Any]) -> Value | None:
        known = [value for value in values if value is not None]
        if not known:
            return None
        if self.unit == "share":
            return Rate.of(sum(known), len(known))
        return float(sum(known)) if self.unit == "count" else sum(known) / len(known)


REGISTRY: dict[tuple[Level, str], Metric] = {}
"""By level and name, in the order in which tables show them."""


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
) -> Callable[[F], F]:
    """Register the decorated function as a metric.

    Parameters
    ----------
    level, unit, direction, label, note
        See `Metric`.
    interval
        By default "Wilson" for a share.
    cases
        By default "attempts" for a metric of attempts, else "tasks".
    name
        By default the function's.

    Raises
    ------
    ConfigError
        The level has a metric of that name.
    """

    def register(function: F) -> F:
        key = level, name or function.__name__
        if key in REGISTRY:
            raise ConfigError("metric", f"a second {key[1]!r} of level {level}", "one function per name and level")
        REGISTRY[key] = Metric(
            name=key[1],
            level=level,
            unit=unit,
            direction=direction,
            of=function,
            interval=interval or ("Wilson" if unit == "share" else ""),
            label=label,
            note=note,
            cases=cases or ("attempts" if level == "attempt" else "tasks"),
        )
        return function

    return register


def of_level(*levels: Level) -> list[Metric]:
    """The metrics of these levels, level by level."""
    return [metric for level in levels for metric in REGISTRY.values() if metric.level == level]


def in_run(log: Log) -> Iterator[tuple[Metric, Value]]:
    """Every metric that has a value in this run."""
    for each in of_level("run", "task", "attempt"):
        if (value := each.in_run(log)) is not None:
            yield each, value


def in_arm(arm: Arm) -> dict[str, Value]:
    """By MLflow key, every metric that has a value in this arm."""
    values = {each.key(arm.is_upper_bound): each.in_arm(arm) for each in of_level("arm", "task", "attempt")}
    return {name: value for name, value in values.items() if value is not None}


def numbers(name: str, value: Value | None) -> dict[str, float]:
    """A value and its interval by name: `name`, `name_low`, `name_high`; {} for a rate without any case."""
    if isinstance(value, Estimate):
        return {name: value.value, f"{name}_low": value.low, f"{name}_high": value.high}
    if isinstance(value, Rate):
        return {name: value.share, f"{name}_low": value.low, f"{name}_high": value.high} if value.n else {}
    return {} if value is None else {name: value}


def by_task(grades: Mapping[tuple[str, int], Grade]) -> dict[str, dict[int, Grade]]:
    """Grades by task, then by attempt number."""
    tasks: dict[str, dict[int, Grade]] = {}
    for (task_id, number), grade in grades.items():
        tasks.setdefault(task_id, {})[number] = grade
    return tasks


@metric("run", "share", label="pass@1", direction="higher")
def pass_at_1(log: Log) -> Rate:
    """Hidden verdicts on submissions."""
    final = _final(log)
    return Rate.of(sum(final.values()), len(final))


@metric("run", "share", label="plain single attempt", direction="higher", note="attempt 1 of the same loops")
def attempt_1_pass_at_1(log: Log) -> Rate | None:
    """Hidden verdicts on attempt 1; None until every attempt is graded."""
    first = verdicts_at(log.attempts, log.grades, 1) if log.is_graded else None
    return None if first is None else Rate.of(sum(first.values()), len(first))


@metric("run", "points", label="gain over attempt 1", direction="higher", interval=PAIRED)
def gain_over_attempt_1(log: Log) -> Estimate | None:
    """Share solved as submitted, minus the share solved at attempt 1, paired by task."""
    pairs = against_attempt_1(log)
    return Estimate(value=pairs.difference, low=pairs.low, high=pairs.high) if pairs and pairs.n else None


@metric("run", "p", label="p of the gain", note="McNemar's exact test")
def gain_over_attempt_1_p(log: Log) -> float | None:
    pairs = against_attempt_1(log)
    return pairs.p if pairs and pairs.n else None


@metric("run", "share", label="any attempt solved", direction="higher", note="an oracle's pick")
def any_solved(log: Log) -> Rate | None:
    """Tasks of which any attempt passes the hidden tests; None until every attempt is graded."""
    if not log.is_graded:
        return None
    solved = {attempt.task_id for attempt in log.every if log.grades[attempt.task_id, attempt.number].passed}
    return Rate.of(len(solved.difference(log.no_verdict)), len(_final(log)))


@metric("run", "share", label="feedback passed", direction="higher")
def visible_pass(log: Log) -> Rate:
    """Submissions that passed their feedback checks, of those with a feedback verdict."""
    tried = [
        evaluation for attempts in log.attempts.values() if _known(evaluation := submitted_at(attempts).evaluation)
    ]
    return Rate.of(sum(evaluation.passed for evaluation in tried), len(tried))


@metric("run", "share", label="wrong if passed", direction="lower", cases="submissions that passed their feedback")
def feedback_wrong_if_passed(log: Log) -> Rate | None:
    """P(hidden fail | feedback pass), of submissions; None for an oracle, whose feedback is the hidden tests."""
    return None if log.is_upper_bound else feedback_confusion(log.submitted.values()).wrong_if_passed


@metric("run", "share", label="right if failed", direction="lower", cases="submissions that failed their feedback")
def feedback_right_if_failed(log: Log) -> Rate | None:
    """P(hidden pass | feedback fail), of submissions; None for an oracle."""
    return None if log.is_upper_bound else feedback_confusion(log.submitted.values()).right_if_failed


@metric("run", "share", label="valid tests", direction="higher", cases="tests", note="the canonical solution passes")
def written_tests_valid(log: Log) -> Rate | None:
    """Of the tests that the model wrote, those that the canonical solution passes."""
    is_shown = log.written and not log.is_upper_bound
    return suite_quality(log.written.values(), log.suite_verdicts).valid if is_shown else None


@metric("run", "number", label="attempts a task", direction="lower")
def attempts_mean(log: Log) -> float:
    return len(log.every) / len(log.attempts) if log.attempts else 0.0


@metric("run", "share", label="model-written reflections", cases="reflections")
def reflections_by_model_share(log: Log) -> Rate:
    """Reflections that the model wrote, of all; the others are those of rules."""
    sources = [attempt.reflection.source for attempt in log.every if attempt.reflection]
    return Rate.of(sources.count("llm"), len(sources))


@metric("run", "count", label="duplicate reflections", direction="lower", note="equal to an earlier one on their task")
def reflections_repeated(log: Log) -> int:
    return sum(_repeated(attempts) for attempts in log.attempts.values())


@metric("run", "count", label="no feedback", note="tasks that show no test: one attempt, submitted as it was")
def no_feedback(log: Log) -> int:
    return sum(attempts[0].evaluation.outcome == "no_tests" for attempts in log.attempts.values())


@metric("run", "count", label="harness errors", direction="lower", note="verdicts, feedback and hidden")
def harness_errors(log: Log) -> int:
    """Feedback and hidden verdicts invalid because of a harness failure."""
    evaluations = [attempt.evaluation for attempt in log.every]
    spoilt = ["harness_error" in (e.outcome, *(check.outcome for check in e.checks)) for e in evaluations]
    return sum(spoilt) + sum(grade.outcome == "harness_error" for grade in log.grades.values())


@metric("attempt", "share", label="no program", direction="lower")
def extraction_failures(attempt: Attempt, grade: Grade | None) -> bool:
    """No program was found in the reply."""
    return not attempt.trajectory.solution.strip()


@metric("attempt", "share", label="retries without a program", direction="lower", cases="retries")
def empty_retries(attempt: Attempt, grade: Grade | None) -> bool | None:
    """No program was found in the reply of a retry, which so could not use what it had read; None at attempt 1."""
    return None if attempt.number == 1 else not attempt.trajectory.solution.strip()


@metric("attempt", "share", label="blind retries", direction="lower", cases="retries with Ω of 1 or more")
def blind_retries(attempt: Attempt, grade: Grade | None) -> bool | None:
    """The prompt of a retry held nothing of the task's own past, though Ω asks for it; None where it does not."""
    return attempt.memory.is_blind if attempt.memory.total and attempt.memory.omega else None


@metric("attempt", "share", label="timed out", direction="lower")
def timeouts(attempt: Attempt, grade: Grade | None) -> bool:
    """A feedback check timed out, or the first failing hidden check did: grades name no other."""
    return "timeout" in _outcomes(attempt, grade)


@metric("attempt", "share", label="harness errors", direction="lower", name="harness_errors")
def harness_error(attempt: Attempt, grade: Grade | None) -> bool:
    """The harness failed at a verdict, feedback or hidden, which says nothing about the program."""
    return "harness_error" in _outcomes(attempt, grade)


def against_attempt_1(log: Log) -> Paired | None:
    """Submissions against attempt 1 of the same task: repairs, damage, difference, p; None until all are graded."""
    return paired(verdicts_at(log.attempts, log.grades, 1), _final(log)) if log.is_graded else None


def _final(log: Log) -> dict[str, bool]:
    """Hidden verdicts on submissions, of the tasks that have one."""
    return {task_id: grade.passed for task_id, (_, grade) in log.submitted.items() if task_id not in log.no_verdict}


def _known(evaluation: Any) -> bool:
    return evaluation.outcome not in UNKNOWN


def _outcomes(attempt: Attempt, grade: Grade | None) -> set[str]:
    evaluation = attempt.evaluation
    return {evaluation.outcome, grade.outcome if grade else "", *(check.outcome for check in evaluation.checks)}


def _repeated(attempts: Sequence[Attempt]) -> int:
    words = [
        (r.root_cause, r.what_went_wrong, r.what_to_change, r.action_items) for a in attempts if (r := a.reflection)
    ]
    return len(words) - len(set(words))
