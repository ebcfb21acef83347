"""What the rows of `frames` are made of: a run, its loops, their attempts, and the parts of these."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.stats.intervals import Rate
from reflexion_lab.loop.selection import submitted_at
from reflexion_lab.records import UNKNOWN, Attempt, Grade, TaskResult, Usage
from reflexion_lab.runner.folder.folder import RunFolder

SOURCE = re.compile(r"(?:ep|mistake)-(?:(?P<run>\d{8}-\d{6}-\d{6}-[^/]+-s\d+)/)?(?P<task>.+)-(?P<last>\w+)")
"""An id in memory: its run, left out where tasks know nothing of each other; its task; an attempt or a digest."""


class Loop:
    """One task's loop in one run, which has ended."""

    def __init__(self, run: Run, result: TaskResult) -> None:
        self.run = run
        self.result = result
        self.head = run.log.manifest.run_id, run.arm, run.log.manifest.seed, result.task_id
        self.attempts: Sequence[Attempt] = run.log.attempts[result.task_id]
        grades = (run.log.grades.get((result.task_id, attempt.number)) for attempt in self.attempts)
        self.grades: list[Grade | None] = list(grades)
        self.usages = [attempt.usage for attempt in self.attempts]
        self.spent = [sum(usage.values(), Usage()) for usage in self.usages]
        written = run.log.written.get(result.task_id)
        self.before = written.usage if written else Usage()
        """Spent on tests that the model wrote before the first attempt."""
        self.so_far = list(itertools.accumulate(self.spent, initial=self.before))[1:]

    @property
    def rewards(self) -> list[float]:
        return [attempt.evaluation.reward for attempt in self.attempts]

    @property
    def errors(self) -> list[int]:
        """Failing feedback checks, by attempt."""
        return [len(attempt.evaluation.failures) for attempt in self.attempts]

    @property
    def loop(self) -> Loop:
        """Itself, so that a loop may be asked like its parts."""
        return self

    @cached_property
    def submitted(self) -> int:
        """The place of what was submitted among the attempts, from 0."""
        return self.attempts.index(submitted_at(self.attempts))

    @property
    def any_solved(self) -> bool | None:
        """Whether any attempt passes the hidden tests; None until all have a hidden verdict."""
        passed = [grade.passed for grade in self.grades if grade and grade.outcome not in UNKNOWN]
        return any(passed) if len(passed) == len(self.grades) else None


class Run:
    """A run folder, read."""

    def __init__(self, folder: RunFolder) -> None:
        self.path: Path = folder.path
        self.log = Log.read(folder)
        self.loops = [Loop(self, result) for result in self.log.results.values()]
        self.usage = sum((loop.so_far[-1] for loop in self.loops), Usage())

    @property
    def arm(self) -> str:
        return self.log.arm

    @property
    def is_upper_bound(self) -> bool:
        return self.log.is_upper_bound

    @cached_property
    def solved(self) -> Rate | None:
        """Hidden verdicts on what was submitted; None until the run is finished, and without any verdict."""
        grades = {loop.result.task_id: loop.grades[loop.submitted] for loop in self.loops}
        verdicts = [grade.passed for grade in grades.values() if grade and grade.task_id not in self.log.no_verdict]
        is_finished = len(grades) == self.log.manifest.n_expected and all(grades.values())
        return Rate.of(sum(verdicts), len(verdicts)) if is_finished and verdicts else None


class Made(NamedTuple):
    """An attempt in its loop."""

    loop: Loop
    place: int
    """From 0."""
    number: int
    attempt: Attempt
    grade: Grade | None
    spent: Usage
    so_far: Usage


class Part(NamedTuple):
    """A check, a reflection or something recalled."""

    loop: Loop
    number: int
    place: int
    """From 1."""
    of: Any


class Recalled(NamedTuple):
    """Something that memory gave an attempt, and where it was from as far as its id says."""

    kind: str
    name: str
    was_read: bool
    run: str | None
    task: str | None
    number: int | None


def attempts(loops: Iterable[Loop]) -> Iterator[Made]:
    for loop in loops:
        for place, attempt in enumerate(loop.attempts):
            spent, so_far = loop.spent[place], loop.so_far[place]
            yield Made(loop, place, attempt.number, attempt, loop.grades[place], spent, so_far)


def checks(rows: Iterable[Made]) -> Iterator[Part]:
    for row in rows:
        for place, check in enumerate(row.attempt.evaluation.checks, 1):
            yield Part(row.loop, row.number, place, check)


def reflections(rows: Iterable[Made]) -> Iterator[Part]:
    for row in rows:
        if row.attempt.reflection:
            yield Part(row.loop, row.number, 1, row.attempt.reflection)


def memories(rows: Iterable[Made]) -> Iterator[Part]:
    for row in rows:
        attempt, own = row.attempt, row.loop.run.log.manifest.run_id
        kinds = {"episode": attempt.recalled, "wisdom": attempt.recalled_wisdom, "mistake": attempt.recalled_mistakes}
        left_out = attempt.trajectory.left_out
        recalled = [(kind, name, name not in left_out) for kind, names in kinds.items() for name in names]
        for place, (kind, name, was_read) in enumerate(recalled, 1):
            yield Part(row.loop, row.number, place, Recalled(kind, name, was_read, *_source(name, own)))


def _source(name: str, own: str) -> tuple[str | None, str | None, int | None]:
    """Run, task and attempt; a name without a run is of the run `own`."""
    match = SOURCE.fullmatch(name.replace(f"-{own}/", "-", 1))
    if not match:
        return None, None, None
    number = int(match["last"]) if name.startswith("ep-") and match["last"].isdecimal() else None
    return match["run"] or own, match["task"], number
