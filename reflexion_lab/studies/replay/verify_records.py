"""Consistency of records: with each other, with their checks, and of figures with the records."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from reflexion_lab.analysis.summary import Log, differences, summary
from reflexion_lab.loop.reflexion import delta
from reflexion_lab.loop.selection import best_of, submitted_at
from reflexion_lab.memory.curators.items import ItemMemory
from reflexion_lab.records import (
    OUTCOMES,
    Attempt,
    Beginning,
    Check,
    Evaluation,
    Grade,
    Manifest,
    Record,
    Resumption,
    SetAside,
    SuiteVerdict,
    Task,
    TaskResult,
    Trajectory,
    Update,
    WrittenTests,
)
from reflexion_lab.studies.replay.findings import Disagreement, Finding, unlike
from reflexion_lab.tasks.evaluators.combined import WEIGHTS, weighted_mean
from reflexion_lab.tasks.evaluators.trajectory import TrajectoryHeuristics

R = TypeVar("R", bound=Record)
Ended = Sequence[tuple[TaskResult, Sequence[Attempt]]]
"""By task, its result and its attempts."""

KINDS = ("test", "type", "lint")
FILE = "summary.json"
FIGURES = "figures"


class Lines(NamedTuple):
    """The records of a run, in the order in which they were written."""

    attempts: list[Attempt]
    results: list[TaskResult]
    grades: list[Grade]
    written: list[WrittenTests]
    verdicts: list[SuiteVerdict]
    set_aside: list[SetAside]
    resumptions: list[Resumption]
    updates: list[Update]
    finding: Finding
    torn: tuple[str, ...]
    """File and line number of each torn line."""


def read(folder: Path) -> Lines:
    """Every line of a run's records; a line that cannot be read is a disagreement or torn. Raises OSError."""
    torn: list[str] = []
    wrong: list[Disagreement] = []

    def of(name: str, kind: type[R]) -> list[R]:
        path, decoder, records = folder / name, msgspec.json.Decoder(kind), []
        for number, line in enumerate(path.read_bytes().split(b"\n") if path.is_file() else [], 1):
            try:
                records += [decoder.decode(line)] if line else []
            except msgspec.ValidationError as problem:
                wrong.append(unlike(f"{name}, line {number}", str(problem), "a record of this version"))
            except msgspec.DecodeError:
                torn.append(f"{name}, line {number}")
        return records

    files = (
        of("attempts.jsonl", Attempt),
        of("results.jsonl", TaskResult),
        of("grades.jsonl", Grade),
        of("written_tests.jsonl", WrittenTests),
        of("suite_verdicts.jsonl", SuiteVerdict),
        of("set_aside.jsonl", SetAside),
        of("resumptions.jsonl", Resumption),
        of("operations.jsonl", Update),
    )
    count = sum(len(records) for records in files)
    finding = Finding(name="lines", value=f"{count} records", disagreements=tuple(wrong))
    return Lines(*files, finding, tuple(torn))


def loops(lines: Lines, manifest: Manifest, attempts: Mapping[str, Sequence[Attempt]]) -> list[Finding]:
    """Findings about loops. `attempts`: by task, those that count, in order."""
    results = {result.task_id: result for result in lines.results}
    ended = [(result, attempts.get(task, ())) for task, result in results.items()]
    every = sum(len(history) for _, history in ended)
    wrong = {
        "tasks that ended": (manifest.n_expected, _ended(lines, manifest, attempts)),
        "attempts": (every, _numbered(lines, ended)),
        "submissions": (len(results), _submitted(ended, manifest)),
        "ends of loops": (len(results), _stopped(ended)),
        "changes between attempts": (every, _changed(ended)),
        "hidden verdicts": (len(lines.grades), _graded(lines, ended)),
    }
    if lines.written or manifest.feedback_source == "self_tests":
        tests = {written.task_id: len(written.tests) for written in lines.written}
        wrong["tests by the model"] = len(tests), _judged(lines.verdicts, tests)
    return [Finding(name=name, value=str(n), disagreements=tuple(places)) for name, (n, places) in wrong.items()]


def operations(updates: Sequence[Update], beginning: Beginning | None) -> Iterator[Finding]:
    """Memory across tasks, rebuilt from the curator's calls, against the digest after each; none without a call."""
    memory = ItemMemory(beginning.items if beginning else ())
    wrong = (
        unlike(f"operations.jsonl, round {update.round}, call {update.call}, digest", update.digest, got)
        for update in updates
        if (got := memory.redo(update)) != update.digest
    )
    if updates:
        first = tuple(islice(wrong, 1))  # all later digests differ, too
        yield Finding(name="operations", value=f"{len(updates)} calls", disagreements=first)


def _ended(lines: Lines, manifest: Manifest, attempts: Mapping[str, Sequence[Attempt]]) -> Iterator[Disagreement]:
    counts = Counter(result.task_id for result in lines.results)
    yield from (unlike(f"{task}, results", n, 1) for task, n in counts.items() if n > 1)
    if len(counts) != manifest.n_expected:
        yield unlike("tasks with a result", len(counts), f"{manifest.n_expected}; finish the run with resume=")
    for task in attempts.keys() - counts.keys() if len(counts) == manifest.n_expected else ():
        yield unlike(f"{task}, attempts", len(attempts[task]), "none, since it has no result")


def _numbered(lines: Lines, ended: Ended) -> Iterator[Disagreement]:
    last: Counter[str] = Counter()
    for attempt in lines.attempts:
        task = attempt.task_id
        if attempt.number not in (1, last[task] + 1):  # 1: an interrupted loop is restarted
            yield unlike(f"{task}, attempt after {last[task]}", attempt.number, last[task] + 1)
        last[task] = attempt.number
    for result, history in ended:
        numbers, n = [attempt.number for attempt in history], result.attempts
        if numbers != list(range(1, n + 1)):
            yield unlike(f"{result.task_id}, attempts", numbers, f"1 to {n}, as its result says")


def _submitted(ended: Ended, manifest: Manifest) -> Iterator[Disagreement]:
    for result, history in ended:
        if history:
            yield from _unlike_fields(
                result,
                submitted=submitted_at(history).number,
                best=best_of(history).number,
                last=history[-1].number,
                feedback_source=manifest.feedback_source,
            )


def _stopped(ended: Ended) -> Iterator[Disagreement]:
    for result, history in ended:
        for attempt in history:
            where, reason = f"{result.task_id}, attempt {attempt.number}, stop_reason", attempt.stop_reason
            is_last = attempt is history[-1]
            if bool(reason) != is_last:
                yield unlike(where, reason or "none", "one" if is_last else "none before the end")
            if reason == "passed" and not attempt.evaluation.passed:
                yield unlike(where, reason, f"another, its checks ended in {attempt.evaluation.outcome}")
        if history:
            yield from _unlike_fields(result, stop_reason=history[-1].stop_reason)


def _unlike_fields(result: TaskResult, **expected: object) -> Iterator[Disagreement]:
    for field, value in expected.items():
        if (got := getattr(result, field)) != value:
            yield unlike(f"{result.task_id}, {field}", got, value)


def _changed(ended: Ended) -> Iterator[Disagreement]:
    for result, history in ended:
        for number, attempt in enumerate(history):
            expected = delta(attempt.evaluation, history[:number])
            if attempt.delta != expected:
                yield unlike(f"{result.task_id}, attempt {attempt.number}, delta", attempt.delta, expected)


def _graded(lines: Lines, ended: Ended) -> Iterator[Disagreement]:
    submitted = {(result.task_id, attempt.number): result.submitted for result, history in ended for attempt in history}
    """By attempt, the number of the one that its task submitted."""
    counts = Counter((grade.task_id, grade.number) for grade in lines.grades)
    yield from (unlike(f"{task}, attempt {number}, grades", n, 1) for (task, number), n in counts.items() if n > 1)
    for task, number in sorted(submitted.keys() - counts.keys()):
        yield unlike(f"{task}, attempt {number}, grades", 0, 1)
    for grade in lines.grades:
        where = f"{grade.task_id}, grade of attempt {grade.number}"
        if (grade.task_id, grade.number) not in submitted:
            yield unlike(where, "no such attempt", "a grade of an attempt in the log")
        elif grade.sealed is (grade.number == submitted[grade.task_id, grade.number]):
            yield unlike(f"{where}, sealed", grade.sealed, not grade.sealed)
        yield from _sound(where, grade)


def _sound(where: str, grade: Grade) -> Iterator[Disagreement]:
    """A pass means that all tests passed, and that there is at least one."""
    passed = 0 < grade.checks_total == grade.checks_passed
    if (grade.passed, grade.outcome == "pass") != (passed, passed):
        got = f"passed={grade.passed}, {grade.outcome}"
        yield unlike(where, got, f"passed={passed}, since {grade.checks_passed} of {grade.checks_total} tests passed")


def _judged(verdicts: Sequence[SuiteVerdict], tests: Mapping[str, int]) -> Iterator[Disagreement]:
    for verdict in verdicts:
        if len(verdict.checks) != (n := tests.get(verdict.task_id, 0)):
            yield unlike(f"{verdict.task_id}, verdicts on written tests", len(verdict.checks), n)


def verdicts(by_task: Mapping[str, Sequence[Attempt]], config: Mapping[str, Any]) -> Finding:
    """Feedback verdicts against their checks; for a user-defined evaluator, only their ranges."""
    every = [attempt for attempts in by_task.values() for attempt in attempts]
    wrong = (place for attempt in every for place in _unlike_checks(attempt, config.get("evaluator")))
    return Finding(name="feedback verdicts", value=str(len(every)), disagreements=tuple(wrong))


def _unlike_checks(attempt: Attempt, evaluator: object) -> Iterator[Disagreement]:
    where, evaluation = f"{attempt.task_id}, attempt {attempt.number}", attempt.evaluation
    for field in ("reward", "confidence"):
        if not 0 <= (value := getattr(evaluation, field)) <= 1:
            yield unlike(f"{where}, {field}", value, "0 to 1")
    for outcome in (evaluation.outcome, *(check.outcome for check in evaluation.checks)):
        if outcome not in OUTCOMES:
            yield unlike(f"{where}, outcome", outcome, "one of records.OUTCOMES")
    for field, value in _implied(evaluation, attempt.trajectory, evaluator).items():
        if getattr(evaluation, field) != value:
            yield unlike(f"{where}, {field}", getattr(evaluation, field), f"{value!r}, by its checks")


def _implied(evaluation: Evaluation, trajectory: Trajectory, evaluator: object) -> dict[str, Any]:
    """Fields of the verdict as its checks and the trajectory imply them; {} for a user-defined evaluator."""
    values = evaluator if isinstance(evaluator, dict) else {}
    by_kind = {kind: [check.outcome for check in evaluation.checks if check.kind == kind] for kind in KINDS}
    match str(values.get("_target_")).removeprefix("reflexion_lab.tasks.evaluators."):
        case "unit_tests.UnitTests":
            return _of_outcomes(by_kind["test"]) | {"reward": evaluation.pass_rate}
        case "static.StaticCheck":
            return _of_outcomes([check.outcome for check in evaluation.checks])
        case "combined.Combined":
            weights = {name: float(values.get(f"{name}_weight", weight)) for name, weight in WEIGHTS.items()}
            shares = {"tests": evaluation.pass_rate}
            shares |= {key: float({*by_kind[kind]} == {"pass"}) for key, kind in (("types", "type"), ("lint", "lint"))}
            parts = {name: shares[name] for name in evaluation.components if name in shares}
            fields = {"components": parts, "reward": weighted_mean(weights, parts)}
            return _of_outcomes(by_kind["test"]) | fields
        case "trajectory.TrajectoryHeuristics":
            score = _score(trajectory, values, ())
            return {field: getattr(score, field) for field in ("passed", "outcome", "reward", "components")}
        case "trajectory.WithTrajectory":
            score = _score(trajectory, values.get("trajectory", {}), evaluation.checks)
            own = {name: share for name, share in evaluation.components.items() if name not in score.components}
            implied = _implied(replace(evaluation, components=own), trajectory, values.get("evaluator"))
            weight = float(values.get("verdict_weight", 0.5)) if own else 0.0
            reward = weight * implied.get("reward", 0.0) + (1 - weight) * score.reward
            parts = implied.get("components", dict.fromkeys(own, evaluation.pass_rate)) | score.components
            return implied and implied | {"reward": reward, "components": parts}
    return {}


def _of_outcomes(outcomes: Sequence[str]) -> dict[str, Any]:
    failing = [outcome for outcome in outcomes if outcome != "pass"]
    outcome = (failing[0] if failing else "pass") if outcomes else "no_tests"
    return {"passed": outcome == "pass", "outcome": outcome, "reward": float(not failing)}


def _score(trajectory: Trajectory, values: Mapping[str, Any], checks: Sequence[Check]) -> Evaluation:
    heuristics = TrajectoryHeuristics(**{name: value for name, value in values.items() if not name.startswith("_")})
    return heuristics.evaluate(Task(task_id="", prompt="", entry_point=""), trajectory, checks)


def metrics(folder: Path, log: Log) -> Finding:
    path = folder / FILE
    if not path.is_file():
        return Finding(name=FIGURES, unchecked=f"no {FILE}: a run writes it at its end, and no bundle holds it")
    now = _plain(json.dumps(msgspec.to_builtins(summary(log))))
    try:
        then = _plain(path.read_text())
    except ValueError as problem:
        return Finding(name=FIGURES, disagreements=(unlike(FILE, str(problem), "JSON"),))
    if not isinstance(then, dict):
        return Finding(name=FIGURES, disagreements=(unlike(FILE, type(then).__name__, "an object"),))
    then.pop("ended_at", None)  # a time is no figure of the records
    wrong = (unlike(f"{FILE}, {at}", old, f"{new!r}, by the records") for at, old, new in differences(then, now))
    return Finding(name=FIGURES, value=f"{_leaves(now)} figures", disagreements=tuple(wrong))


def _plain(text: str) -> Any:
    """JSON with NaN and infinities as texts, which equal themselves."""
    return json.loads(text, parse_constant=str)


def _leaves(node: Any) -> int:
    if isinstance(node, dict | list):
        return sum(map(_leaves, node.values() if isinstance(node, dict) else node))
    return 1
