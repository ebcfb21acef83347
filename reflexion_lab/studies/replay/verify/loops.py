"""The records of a run against each other: numbers, ends, what was submitted, who was graded when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from reflexion_lab.loop.reflexion import delta
from reflexion_lab.loop.selection import best_of, submitted_at
from reflexion_lab.records import Attempt, Grade, Manifest, TaskResult
from reflexion_lab.studies.replay.verify.finding import Disagreement, Finding, unlike
from reflexion_lab.studies.replay.verify.lines import Lines

T = TypeVar("T")


def loops(lines: Lines, manifest: Manifest, attempts: Mapping[str, Sequence[Attempt]]) -> list[Finding]:
    """`attempts`: by task, those that count, in order."""
    results = {result.task_id: result for result in lines.results}
    made = {task: attempts.get(task, ()) for task in results}
    every = sum(map(len, made.values()))
    return [
        _finding("tasks that ended", manifest.n_expected, _ended(lines, manifest, attempts)),
        _finding("attempts", every, _numbered(lines, results, made)),
        _finding("submissions", len(results), _submitted(results, made, manifest)),
        _finding("ends of loops", len(results), _stopped(results, made)),
        _finding("changes between attempts", every, _changed(made)),
        _finding("hidden verdicts", len(lines.grades), _graded(lines, results, made)),
        *_suites(lines, manifest),
    ]


def _finding(name: str, n: int, wrong: Iterable[Disagreement]) -> Finding:
    return Finding(name=name, told=str(n), disagreements=tuple(wrong))


def _ended(lines: Lines, manifest: Manifest, attempts: Mapping[str, Sequence[Attempt]]) -> Iterator[Disagreement]:
    counts = Counter(result.task_id for result in lines.results)
    yield from (unlike(f"{task}, results", n, 1) for task, n in counts.items() if n > 1)
    if len(counts) != manifest.n_expected:
        yield unlike("tasks with a result", len(counts), f"{manifest.n_expected}; an unfinished run goes on by resume=")
    for task in attempts.keys() - counts.keys() if len(counts) == manifest.n_expected else ():
        yield unlike(f"{task}, attempts", len(attempts[task]), "none, since it has no result")


def _numbered(
    lines: Lines, results: Mapping[str, TaskResult], made: Mapping[str, Sequence[Attempt]]
) -> Iterator[Disagreement]:
    last: Counter[str] = Counter()
    for attempt in lines.attempts:
        task = attempt.task_id
        if attempt.number not in (1, last[task] + 1):  # 1: a loop that was broken off begins anew
            yield unlike(f"{task}, attempt after {last[task]}", attempt.number, last[task] + 1)
        last[task] = attempt.number
    for task, found in made.items():
        numbers, n = [attempt.number for attempt in found], results[task].attempts
        if numbers != list(range(1, n + 1)):
            yield unlike(f"{task}, attempts", numbers, f"1 to {n}, as its result says")


def _submitted(
    results: Mapping[str, TaskResult], made: Mapping[str, Sequence[Attempt]], manifest: Manifest
) -> Iterator[Disagreement]:
    for task, found in made.items():
        if not found:
            continue
        expected = {
            "submitted": submitted_at(found).number,
            "best": best_of(found).number,
            "last": found[-1].number,
            "feedback_source": manifest.feedback_source,
        }
        yield from _fields(task, results[task], expected)


def _stopped(results: Mapping[str, TaskResult], made: Mapping[str, Sequence[Attempt]]) -> Iterator[Disagreement]:
    for task, found in made.items():
        for attempt in found:
            where, reason, is_last = f"{task}, attempt {attempt.number}", attempt.stop_reason, attempt is found[-1]
            if bool(reason) != is_last:
                yield unlike(f"{where}, stop_reason", reason or "none", "one" if is_last else "none before the end")
            if reason == "passed" and not attempt.evaluation.passed:
                yield unlike(
                    f"{where}, stop_reason", reason, f"another, its checks ended in {attempt.evaluation.outcome}"
                )
        if found:
            yield from _fields(task, results[task], {"stop_reason": found[-1].stop_reason})


def _changed(made: Mapping[str, Sequence[Attempt]]) -> Iterator[Disagreement]:
    for task, found in made.items():
        for number, attempt in enumerate(found):
            expected = delta(attempt.evaluation, found[:number])
            if attempt.delta != expected:
                yield unlike(f"{task}, attempt {attempt.number}, delta", attempt.delta, expected)


def _graded(
    lines: Lines, results: Mapping[str, TaskResult], made: Mapping[str, Sequence[Attempt]]
) -> Iterator[Disagreement]:
    known = {(task, attempt.number) for task, found in made.items() for attempt in found}
    counts = Counter((grade.task_id, grade.number) for grade in lines.grades)
    yield from (unlike(f"{task}, attempt {number}, grades", n, 1) for (task, number), n in counts.items() if n > 1)
    for task, number in sorted(known - counts.keys()):
        yield unlike(f"{task}, attempt {number}, grades", 0, 1)
    for grade in lines.grades:
        where = f"{grade.task_id}, grade of attempt {grade.number}"
        if (grade.task_id, grade.number) not in known:
            yield unlike(where, "no such attempt", "a grade of one that was made")
        elif grade.sealed is (grade.number == results[grade.task_id].submitted):
            yield unlike(f"{where}, sealed", grade.sealed, not grade.sealed)
        yield from _sound(where, grade)


def _sound(where: str, grade: Grade) -> Iterator[Disagreement]:
    """A pass is all of the tests, and one at least."""
    passed = 0 < grade.checks_total == grade.checks_passed
    if (grade.passed, grade.outcome == "pass") != (passed, passed):
        found = f"passed={grade.passed}, {grade.outcome}"
        yield unlike(where, found, f"passed={passed}, since {grade.checks_passed} of {grade.checks_total} tests passed")
    if not 0 <= grade.checks_in_place <= grade.checks_total:
        yield unlike(f"{where}, checks_in_place", grade.checks_in_place, f"0 to {grade.checks_total}")


def _suites(lines: Lines, manifest: Manifest) -> Iterator[Finding]:
    if not lines.written and manifest.feedback_source != "self_tests":
        return
    tests = {written.task_id: len(written.tests) for written in lines.written}
    wrong = [
        unlike(f"{verdict.task_id}, verdicts on written tests", len(verdict.checks), tests.get(verdict.task_id, 0))
        for verdict in lines.verdicts
        if len(verdict.checks) != tests.get(verdict.task_id, 0)
    ]
    yield _finding("tests by the model", len(tests), wrong)


def _fields(task: str, result: TaskResult, expected: Mapping[str, object]) -> Iterator[Disagreement]:
    for field, value in expected.items():
        if (found := getattr(result, field)) != value:
            yield unlike(f"{task}, {field}", found, value)
