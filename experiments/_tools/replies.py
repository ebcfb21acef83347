"""Recorded words and completions, out of transcripts: what models answered, before anything was made of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from reflexion_lab.audit.audit import Verdict
from reflexion_lab.audit.samples import Sample
from reflexion_lab.audit.transcripts import Step, read_transcripts
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

    Raises
    ------
    OSError, ValueError
        The file cannot be read as a transcript.
    """
    for row in read_transcripts(path, limit):
        for step in row.steps:
            model = step.text("model", row.text("model", "unknown"))
            if step.reflection:
                yield Words(model=model, task_id=row.task_id, text=step.reflection)
            if "raw" in step.fields:
                yield _reply(row.task, step, model)


def _reply(task: Task, step: Step, model: str) -> Reply:
    """The log judged `code`, or, without one, the completion behind the prompt."""
    text, logged = step.text("raw"), step.verdict("own_pass")
    if logged is None:
        raise step.wrong("own_pass", "nothing", "true or false")
    lenient = step.verdict("own_lenient")
    judged = step.code or task.prompt + text
    return Reply(
        model=model,
        text=text,
        task=task,
        recorded=judged,
        logged=logged,
        lenient=logged if lenient is None else lenient,
    )
