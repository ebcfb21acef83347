"""Transcripts of other systems: one JSON object per problem and run, with its attempts in order.

Audits, imports and the studies in `experiments/_tools` read them here, so a field means the same to all of them.
Nothing is executed or parsed as Python here but the lines of a recorded feedback.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from reflexion_lab.audit.known_tasks import task_of
from reflexion_lab.audit.rows import Row, read_rows
from reflexion_lab.records import Task
from reflexion_lab.text.replies.syntax import Parser


class Feedback(NamedTuple):
    """The tests that an attempt passed, and those that it failed, as far as its record lists them."""

    passing: tuple[str, ...] = ()
    failing: tuple[str, ...] = ()

    @classmethod
    def of(cls, recorded: Any) -> Feedback:
        """From one of three forms: text under two headings, as the Reflexion paper's system wrote it; a list of the
        failing asserts; two lists, computed afterwards.
        """
        if isinstance(recorded, dict):
            lists = (recorded.get(f"recomputed_{side}") or () for side in ("passed", "failed"))
            return cls(*(tuple(map(str, tests)) if isinstance(tests, list) else () for tests in lists))
        if isinstance(recorded, list):
            return cls((), tuple(_without_output(str(test)).strip() for test in recorded))
        tests: dict[str, list[str]] = {"Tested passed:": [], "Tests failed:": []}
        heading = ""
        for line in recorded.splitlines() if isinstance(recorded, str) else ():
            if line.strip() in tests:
                heading = line.strip()
            elif line.strip() and heading:
                listed = tests[heading]
                is_new = line.startswith(("assert", "self.assert"))
                if listed and not is_new and Parser().ran_out(listed[-1]):  # a test over several lines
                    listed[-1] += f"\n{_without_output(line)}"
                else:
                    listed.append(_without_output(line).strip())
        return cls(*map(tuple, tests.values()))


class Step(Row, frozen=True, kw_only=True):
    """One attempt of a transcript."""

    number: int
    """From 1."""

    @property
    def code(self) -> str:
        """The program that its log judged; "" where only the reply is recorded."""
        return self.text("code", "")

    @property
    def raw(self) -> str:
        """The model's reply; "" where that is not recorded."""
        return self.text("raw", "")

    @property
    def reflection(self) -> str:
        return self.text("reflection", "")

    @property
    def feedback(self) -> Feedback:
        return Feedback.of(self.fields.get("feedback"))

    @property
    def passed_feedback(self) -> bool | None:
        """Whether it passed its feedback tests, as recorded; None where that is not."""
        if isinstance(passed := self.fields.get("visible_pass"), bool):
            return passed
        passing, failing = self.feedback
        if isinstance(self.fields.get("feedback"), list):  # of failing tests alone
            return not failing
        return not failing if passing or failing else None


class Transcript(Row, frozen=True, kw_only=True):
    """What one run recorded of one problem."""

    steps: tuple[Step, ...]
    """Its attempts, oldest first."""

    @classmethod
    def of(cls, row: Row) -> Transcript:
        """Raises DataError: its `attempts` are no list of objects."""
        attempts = row.fields.get("attempts")
        if not isinstance(attempts, list) or not all(isinstance(attempt, dict) for attempt in attempts):
            got = repr(attempts)[:60] if "attempts" in row.fields else "nothing"
            raise row.wrong("attempts", got, "a list of objects, one an attempt")
        steps = (Step(file=row.file, line=row.line, fields=fields, number=n) for n, fields in enumerate(attempts, 1))
        return cls(file=row.file, line=row.line, fields=row.fields, steps=tuple(steps))

    @property
    def task_id(self) -> str:
        """Raises DataError: it has none."""
        has_problem = self.fields.get("problem") or not self.fields.get("task_id")
        return self.text("problem" if has_problem else "task_id")

    @property
    def task(self) -> Task:
        """The problem, with the row's own tests or HumanEval's. Raises DataError: it has neither."""
        return task_of(self, self.task_id)

    @property
    def run(self) -> str:
        return self.text("run", "")

    @property
    def tests(self) -> tuple[str, ...]:
        """The tests that the row names, else all that the feedback on its attempts holds, as they first come."""
        visible = self.fields.get("visible_tests")
        if isinstance(visible, list):
            return tuple(map(str, visible))
        return tuple(dict.fromkeys(test for step in self.steps for tests in step.feedback for test in tests))


def read_transcripts(path: Path, limit: int | None = None) -> Iterator[Transcript]:
    """Every row of a file, or the first `limit`.

    Raises
    ------
    DataError
        The file cannot be read, or a row is no transcript.
    """
    return map(Transcript.of, islice(read_rows(path), limit))


def _without_output(line: str) -> str:
    """A test without the output that the feedback wrote behind it."""
    return re.split(r" # (?:output:|Real Execution Output:)", line)[0].rstrip()
