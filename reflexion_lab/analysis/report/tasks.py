"""What became of each task of a run, in a line: its result, and its attempts as marks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from reflexion_lab.analysis.report.pieces import WORDS
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.loop.selection import submitted_at
from reflexion_lab.records import UNKNOWN, Attempt, Grade

RESULTS = {
    "damaged": "right at attempt 1, wrong as submitted",
    "not solved": "wrong at attempt 1, and as submitted",
    "wrong": "wrong as submitted; attempt 1 has no hidden verdict",
    "repaired": "wrong at attempt 1, right as submitted",
    "right": "right as submitted; attempt 1 has no hidden verdict",
    "solved at once": "right at attempt 1, and as submitted",
    "not graded": "what was submitted has no hidden verdict that says anything",
}
"""By the hidden tests; the worst first."""
_RESULT = {(True, False): "damaged", (False, False): "not solved", (None, False): "wrong", (False, True): "repaired",
           (None, True): "right", (True, True): "solved at once"}  # fmt: skip


class TaskLine(NamedTuple):
    """A task that has ended."""

    task_id: str
    result: str
    """One of `RESULTS`."""
    marks: tuple[tuple[str, bool | None], ...]
    """Its attempts in order, neighbours of one verdict together: ✓ or ✗ by the hidden tests, ? without a verdict."""
    attempts: int
    submitted: int
    solved_at: int
    """The attempt that was submitted, where it passes the hidden tests; else 0."""
    failures: tuple[str, ...]
    """How attempts failed, in words, by shown and hidden tests."""
    categories: tuple[str, ...]
    """Failure classes that its reflections name."""


def task_lines(log: Log) -> list[TaskLine]:
    """The hardest first: by result, then by attempts, then by name, numbers by their value."""
    order = list(RESULTS)
    lines = [_line(task_id, attempts, log) for task_id, attempts in log.attempts.items()]
    return sorted(lines, key=lambda task: (order.index(task.result), -task.attempts, natural(task.task_id)))


def natural(name: str) -> list[tuple[int, str]]:
    """What names are sorted by: HumanEval/9 comes before HumanEval/10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]{1,18})", name)]


def _line(task_id: str, attempts: list[Attempt], log: Log) -> TaskLine:
    grades = [log.grades.get((task_id, attempt.number)) for attempt in attempts]
    submitted = submitted_at(attempts)
    verdicts = [_verdict(grade) for grade in grades]
    final = verdicts[attempts.index(submitted)]
    return TaskLine(
        task_id=task_id,
        result="not graded" if final is None else _RESULT[verdicts[0], final],
        marks=tuple(_marks(verdicts)),
        attempts=len(attempts),
        submitted=submitted.number,
        solved_at=submitted.number if final else 0,
        failures=tuple(dict.fromkeys(_failures(attempts, grades))),
        categories=tuple(dict.fromkeys(a.reflection.category for a in attempts if a.reflection)),
    )


def _verdict(grade: Grade | None) -> bool | None:
    """None: there is no hidden verdict, or one that says nothing of the program."""
    return None if grade is None or grade.outcome in UNKNOWN else grade.passed


def _marks(verdicts: list[bool | None]) -> Iterator[tuple[str, bool | None]]:
    for verdict, same in groupby(verdicts):
        yield ("?" if verdict is None else "✓" if verdict else "✗") * len(list(same)), verdict


def _failures(attempts: list[Attempt], grades: list[Grade | None]) -> Iterator[str]:
    outcomes = [attempt.evaluation.outcome for attempt in attempts]
    for outcome in (*outcomes, *(grade.outcome for grade in grades if grade)):
        if outcome != "pass":
            yield WORDS.get(outcome, outcome)
