"""Recorded words and completions, out of transcripts: what models answered, before anything was made of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from reflexion_lab.audit.audit import Verdict
from reflexion_lab.audit.known_tasks import task_of
from reflexion_lab.audit.rows import Row, read_rows
from reflexion_lab.audit.samples import Sample
from reflexion_lab.records import Record, Task


class Words(Record, frozen=True, kw_only=True):
    """A recorded reflection, and what the parser says of it."""

    model: str
    task_id: str
    text: str
    parsed: bool = False
    problem: str = ""
    """What the parser misses, so that rules have to step in; "" where it read the fields."""
    kept: bool = False
    """Whether its text comes back whole when it is written in form: as labelled lines, and as JSON."""
    crash: str = ""
    """An exception that is no ParseError; "" as it should be."""


class Reply(Record, frozen=True, kw_only=True):
    """A recorded completion, the program that was made of it here, and both verdicts."""

    model: str
    text: str
    task: Task
    """Its hidden tests are the row's own."""
    recorded: str
    """The program that its log judged."""
    logged: bool
    """The log's verdict on it."""
    lenient: bool
    """The same with the usual imports."""
    program: str = ""
    rule: str = ""
    """How `program` was found, as `Extraction.rule`."""
    crash: str = ""
    """An exception out of the extractor; "" as it should be."""
    verdict: Verdict | None = None
    """None before it was executed."""
    cause: str = ""
    """Why ours is not the log's verdict, one of `CAUSES`; "" where it is."""

    @property
    def task_id(self) -> str:
        return self.task.task_id

    def sample(self, program: str) -> Sample:
        """Any program as an answer to the same task."""
        return Sample(
            id=self.task.task_id,
            task_id=self.task.task_id,
            entry_point=self.task.entry_point,
            prompt=self.task.prompt,
            program=program,
            tests=self.task.hidden_tests,
            setup=self.task.setup,
            logged=self.logged,
        )

    @property
    def usable(self) -> bool:
        """Whether the program defines the task's function, and gives it a body."""
        return bool(self.program) and not {"unparsed", "stub", "undefined"} & set(self.rule.split("+"))

    @property
    def passed(self) -> bool:
        return self.verdict is not None and self.verdict.passed

    @property
    def broken(self) -> bool:
        """No verdict at all: the harness failed."""
        return self.verdict is None or self.verdict.broken

    @property
    def differs(self) -> bool:
        return not self.broken and self.passed != self.logged


def recorded(path: Path, limit: int | None = None) -> Iterator[Words | Reply]:
    """Every reflection and every completion of a transcript, as they were recorded.

    `limit`: of the first so many rows.

    Raises:
        OSError, ValueError: the file cannot be read as a transcript.
    """
    for count, row in enumerate(read_rows(path)):
        if limit is not None and count >= limit:
            return
        attempts = row.fields.get("attempts")
        if not isinstance(attempts, list) or not all(isinstance(attempt, dict) for attempt in attempts):
            raise row.wrong("attempts", repr(attempts)[:60], "a list of objects, one an attempt")
        for step in (replace(row, fields=attempt) for attempt in attempts):
            model = step.text("model", row.text("model", "unknown"))
            if words := step.text("reflection", ""):
                yield Words(model=model, task_id=row.text("problem"), text=words)
            if "raw" in step.fields:
                yield _reply(row, step, model)


def _reply(row: Row, step: Row, model: str) -> Reply:
    """The log judged `code`, or, without one, the completion behind the prompt."""
    task, text, logged = task_of(row, row.text("problem")), step.text("raw"), step.verdict("own_pass")
    if logged is None:
        raise step.wrong("own_pass", "nothing", "true or false")
    lenient = step.verdict("own_lenient")
    judged = step.text("code", "") or task.prompt + text
    return Reply(
        model=model,
        text=text,
        task=task,
        recorded=judged,
        logged=logged,
        lenient=logged if lenient is None else lenient,
    )
