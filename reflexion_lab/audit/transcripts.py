"""Rows of a log, their tasks, and transcripts: one JSON object per problem and run, with its attempts in order.

Shared by audits and the studies of recorded runs. Errors name file, line and field. Nothing is executed here.
"""

from __future__ import annotations

import codecs
import contextlib
import functools
import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from reflexion_lab.errors import DataError
from reflexion_lab.io.files import content, unpacked
from reflexion_lab.records import Record, Task
from reflexion_lab.tasks.benchmarks.humaneval import helpers, hidden_checks, humaneval, whole_check
from reflexion_lab.text.replies.syntax import UNPARSABLE, Parser


class Row(Record, frozen=True, kw_only=True):
    """One JSON object of a file."""

    file: str
    line: int
    fields: dict[str, Any]
    tasks: Mapping[str, Task] = {}
    """Tasks from elsewhere, by id in lower case."""

    def text(self, name: str, default: str | None = None) -> str:
        """Text of a field; `default` if missing or null. Raises DataError: no text, or missing without a default."""
        value: object = self.fields.get(name)
        value = default if value is None else value
        if not isinstance(value, str):
            raise self.wrong(name, "nothing" if value is None else repr(value)[:60], "text")
        return value

    def verdict(self, name: str) -> bool | None:
        """True, False, or None if the field is missing or null."""
        value = self.fields.get(name)
        if value is not None and not isinstance(value, bool):
            raise self.wrong(name, repr(value)[:60], "true, false or null")
        return value

    def wrong(self, name: str, got: str, expected: str) -> DataError:
        return DataError(f"{self.file}, line {self.line}, field {name}", got, expected)


def read_rows(path: Path, tasks: Mapping[str, Task] | None = None) -> Iterator[Row]:
    """The objects of a `.jsonl` file, gzipped or not, with `tasks`; blank lines are skipped. Raises DataError: the file
    cannot be read or unpacked, or a line is not a JSON object.
    """
    text = unpacked(path, content(path, "rows of a log (.jsonl, .jsonl.gz)")).removeprefix(codecs.BOM_UTF8)
    for number, line in enumerate(text.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError) as problem:
            reason = str(problem)[:120]
            raise DataError(f"{path}, line {number}", f"no JSON ({reason})", "one JSON object per line") from None
        if not isinstance(fields, dict):
            raise DataError(f"{path}, line {number}", f"a {type(fields).__name__}", "one JSON object per line")
        yield Row(file=str(path), line=number, fields=fields, tasks=tasks or {})


def task_of(row: Row, task_id: str) -> Task:
    """The task of `row.tasks`, else the row's own prompt, test and entry point; if one is missing, HumanEval's task
    with that id. Raises ValueError: there is none.
    """
    if given := row.tasks.get(task_id.casefold()):
        return given
    own = [name for name in ("prompt", "test", "entry_point") if isinstance(row.fields.get(name), str)]
    if len(own) == 3:
        entry_point, test = row.text("entry_point"), row.text("test")
        if not entry_point.isidentifier():
            raise row.wrong("entry_point", repr(entry_point)[:60], "the name of a function")
        checks = _checks(test, entry_point)
        prompt, setup = row.text("prompt"), ""
        with contextlib.suppress(*UNPARSABLE):  # a prompt in prose
            setup = helpers(prompt, entry_point, test)
        return Task(task_id=task_id, prompt=prompt, entry_point=entry_point, hidden_tests=checks, setup=setup)
    known = human_eval_tasks().get(task_id)
    if known is None:
        expected = "a HumanEval task, `prompt`, `test` and `entry_point` in the row, or --benchmark FILE"
        raise row.wrong("task_id", repr(task_id)[:60], expected)
    if "test" not in own:
        return known
    return replace(known, hidden_tests=_checks(row.text("test"), known.entry_point))


@functools.cache
def human_eval_tasks() -> dict[str, Task]:
    return {task.task_id: task for task in humaneval()}


@functools.cache
def _checks(test: str, entry_point: str) -> tuple[str, ...]:
    """The test, split into its asserts; whole if it cannot be split.

    Also whole if the function under test is called `check`: the test then calls itself, and no program can pass.
    """
    try:
        checks = hidden_checks(test)
    except (LookupError, SyntaxError, StopIteration, ValueError, RecursionError, MemoryError):
        checks = ()
    calls_itself = entry_point == "check" or any(re.search(r"\bcheck\(", check) for check in checks)
    if not test.strip() or (checks and not calls_itself):
        return checks
    return (whole_check(test, entry_point),)


class Feedback(NamedTuple):
    """The recorded feedback of an attempt: tests it passed and tests it failed."""

    passing: tuple[str, ...] = ()
    failing: tuple[str, ...] = ()

    @classmethod
    def of(cls, recorded: Any) -> Feedback:
        """From one of three forms: text with two headings, as of the Reflexion paper's system; a list of failing
        asserts; two lists, computed afterwards.
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
                if listed and not is_new and Parser().is_incomplete(listed[-1]):  # a test of several lines
                    listed[-1] += f"\n{_without_output(line)}"
                else:
                    listed.append(_without_output(line).strip())
        return cls(*map(tuple, tests.values()))


class Step(Row, frozen=True, kw_only=True):
    number: int
    """From 1."""

    @property
    def code(self) -> str:
        """The program that its log judged; "" if only the reply is recorded."""
        return self.text("code", "")

    @property
    def raw(self) -> str:
        """The model's reply; "" if not recorded."""
        return self.text("raw", "")

    @property
    def reflection(self) -> str:
        return self.text("reflection", "")

    @property
    def feedback(self) -> Feedback:
        return Feedback.of(self.fields.get("feedback"))

    @property
    def passed_feedback(self) -> bool | None:
        """Whether it passed its feedback tests; None if not recorded."""
        if isinstance(passed := self.fields.get("visible_pass"), bool):
            return passed
        passing, failing = self.feedback
        if isinstance(self.fields.get("feedback"), list):  # of failing tests
            return not failing
        return not failing if passing or failing else None


class Transcript(Row, frozen=True, kw_only=True):
    """The record of one problem in one run."""

    steps: tuple[Step, ...]
    """Attempts, oldest first."""

    @classmethod
    def of(cls, row: Row) -> Transcript:
        """Raises DataError: `attempts` is not a list of objects."""
        attempts = row.fields.get("attempts")
        if not isinstance(attempts, list) or not all(isinstance(attempt, dict) for attempt in attempts):
            got = repr(attempts)[:60] if "attempts" in row.fields else "nothing"
            raise row.wrong("attempts", got, "a list of objects, one per attempt")
        steps = (Step(file=row.file, line=row.line, fields=fields, number=n) for n, fields in enumerate(attempts, 1))
        return cls(file=row.file, line=row.line, fields=row.fields, tasks=row.tasks, steps=tuple(steps))

    @property
    def task_id(self) -> str:
        """Raises DataError: there is none."""
        has_problem = self.fields.get("problem") or not self.fields.get("task_id")
        return self.text("problem" if has_problem else "task_id")

    @property
    def task(self) -> Task:
        """The problem, with the row's own tests or HumanEval's. Raises DataError: there are none."""
        return task_of(self, self.task_id)

    @property
    def run(self) -> str:
        return self.text("run", "")

    @property
    def tests(self) -> tuple[str, ...]:
        """The row's visible tests, else all tests in the feedback on its attempts, in order of appearance."""
        visible = self.fields.get("visible_tests")
        if isinstance(visible, list):
            return tuple(map(str, visible))
        return tuple(dict.fromkeys(test for step in self.steps for tests in step.feedback for test in tests))


def read_transcripts(path: Path, limit: int | None = None) -> Iterator[Transcript]:
    """Rows of a file, or the first `limit`. Raises DataError: the file cannot be read, or a row is no transcript."""
    return map(Transcript.of, islice(read_rows(path), limit))


def _without_output(line: str) -> str:
    """A test without the output that follows it in feedback."""
    return re.split(r" # (?:output:|Real Execution Output:)", line)[0].rstrip()
