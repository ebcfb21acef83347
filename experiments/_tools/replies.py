"""Recorded reflections and completions, processed by the lab's parser and extractor.

The program extracted from each completion is executed; if its verdict differs from the log's, variants of the program
are executed to find the cause.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from reflexion_lab.agent.reflectors.fields import LABELS, ParseError, parse_fields
from reflexion_lab.audit.samples import IMPORTS, Sample
from reflexion_lab.audit.stored_programs import StoredPrograms, counter, never
from reflexion_lab.audit.transcripts import Step, read_transcripts
from reflexion_lab.audit.verdicts import Verdict, execute
from reflexion_lab.errors import ConfigError, DataError
from reflexion_lab.protocols import Sandbox
from reflexion_lab.records import Record, Task
from reflexion_lab.text.replies.extract import extract

CAUSES = {
    "own asserts": "the program fails its own asserts, which come with it in the log; the extractor leaves them out",
    "helper": "a function that it needs stands in another block; the log has the one block alone",
    "last definition": "the reply defines its function more than once: the log has the first, the extractor the last",
    "prompt": "it needs what the task's prompt defines, which the extractor puts in front",
    "imports": "it needs a module that the usual imports bring; neither its reply nor the task's prompt imports it",
    "time": "it passes, and takes longer than the seconds that logs were made with",
    "harness": "the very program that the log judged earns the other verdict here",
    "unexplained": "no variant of the program says why",
}
"""Causes of a verdict other than the log's."""


class Words(Record, frozen=True, kw_only=True):
    """A recorded reflection, and the parser's result."""

    model: str
    task_id: str
    text: str
    parsed: bool = False
    problem: str = ""
    """What the parser misses, so that rules have to replace it; "" if it read the fields."""
    kept: bool = False
    """Whether the text comes back unchanged when it is written as labelled lines and as JSON."""
    crash: str = ""
    """An exception other than ParseError, which would be a bug."""


class Reply(Record, frozen=True, kw_only=True):
    """A recorded completion, the program extracted from it, and both verdicts."""

    model: str
    text: str
    task: Task
    """With the row's own tests as hidden tests."""
    recorded: str
    """The program that its log judged."""
    logged: bool
    """The log's verdict on it."""
    lenient: bool
    """The same with the usual imports."""
    definitions: int
    """Definitions of the task's function in the reply."""
    program: str = ""
    rule: str = ""
    """Rule of the extraction, as `Extraction.rule`."""
    crash: str = ""
    """An exception of the extractor, which would be a bug."""
    verdict: Verdict | None = None
    """None before execution."""
    cause: str = ""
    """Cause of a verdict other than the log's, one of `CAUSES`; "" if they agree."""

    @property
    def task_id(self) -> str:
        return self.task.task_id

    def sample(self, program: str) -> Sample:
        """`program` as a solution of the task."""
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
        """Whether the program defines the task's function with a body."""
        return bool(self.program) and not {"unparsed", "stub", "undefined"} & set(self.rule.split("+"))

    @property
    def passed(self) -> bool:
        return self.verdict is not None and self.verdict.passed

    @property
    def broken(self) -> bool:
        """Whether the harness failed, so there is no verdict."""
        return self.verdict is None or self.verdict.broken

    @property
    def differs(self) -> bool:
        return not self.broken and self.passed != self.logged


class Parsing(Record, frozen=True, kw_only=True):
    """All reflections and completions of some files, processed, in their order."""

    words: tuple[Words, ...]
    replies: tuple[Reply, ...]
    seconds: float

    @property
    def executed(self) -> int:
        """Number of distinct programs."""
        return len(set(map(_key, self.replies)))


def parse_recorded(
    paths: Sequence[Path | str], *, limit: int | None = None, workers: int | None = None, quiet: bool = False
) -> Parsing:
    """Parse every reflection, and extract and execute every completion in transcripts (`.jsonl`, gzipped or not).

    Parameters
    ----------
    limit : int, optional
        Maximum number of rows per file.

    Raises OSError, ValueError: a file cannot be read as transcripts, or none has a reflection or a completion.
    """
    start = time.monotonic()
    for path in paths:
        if not Path(path).is_file():
            raise DataError(path, "no such file", "a transcript (.jsonl, .jsonl.gz)")
    records = [record for path in map(Path, paths) for record in recorded(path, limit)]
    if not records:
        where = "" if limit is None else f" in the first {limit} rows"
        names = ", ".join(map(str, paths)) or "no file"
        raise ConfigError(names, f"no reply{where}", "transcripts whose `attempts` hold `reflection` or `raw`")
    words = [parsed(record) for record in records if isinstance(record, Words)]
    replies = [extracted(record) for record in records if isinstance(record, Reply)]
    return Parsing(
        words=tuple(words), replies=tuple(_executed(replies, workers, quiet)), seconds=time.monotonic() - start
    )


def recorded(path: Path, limit: int | None = None) -> Iterator[Words | Reply]:
    """Every reflection and completion in the rows of a transcript, unprocessed.

    Raises OSError, ValueError: the file cannot be read as a transcript.
    """
    for row in read_transcripts(path, limit):
        for step in row.steps:
            model = step.text("model", row.text("model", "unknown"))
            if step.reflection:
                yield Words(model=model, task_id=row.task_id, text=step.reflection)
            if "raw" in step.fields:
                yield _reply(replace(row.task, setup=""), step, model)  # as the harness of the log ran it


def _reply(task: Task, step: Step, model: str) -> Reply:
    """The log judged `code`, or without one the completion behind the prompt."""
    text, logged = step.text("raw"), step.verdict("own_pass")
    if logged is None:
        raise step.wrong("own_pass", "nothing", "true or false")
    lenient = step.verdict("own_lenient")
    return Reply(
        model=model,
        text=text,
        task=task,
        recorded=step.code or task.prompt + text,
        logged=logged,
        lenient=logged if lenient is None else lenient,
        definitions=_definitions(text, task.entry_point),
    )


def _definitions(text: str, name: str) -> int:
    return len(re.findall(rf"^[ \t]*(?:async[ \t]+)?def[ \t]+{re.escape(name)}\b", text, re.MULTILINE))


def parsed(words: Words) -> Words:
    """`words` with the parser's result."""
    try:
        kept = all(_comes_back(" ".join(words.text.split()), form) for form in (_lines, json.dumps))
        words = replace(words, kept=kept)
        parse_fields(words.text)
    except ParseError as problem:
        return replace(words, problem=str(problem).partition(";")[0])
    except Exception as problem:
        return replace(words, crash=f"{type(problem).__name__}: {problem}")
    return replace(words, parsed=True)


def _comes_back(text: str, form: Callable[[Mapping[str, str]], str]) -> bool:
    """Whether the parser reads `text` back from each of the three text fields in this form."""
    try:
        fields = parse_fields(form(dict.fromkeys(LABELS[:3], text) | {LABELS[3]: "0.5"}))
    except ParseError:
        return False
    return fields.root_cause == fields.what_went_wrong == fields.what_to_change == text


def _lines(values: Mapping[str, str]) -> str:
    return "\n".join(f"{label}: {value}" for label, value in values.items())


def extracted(reply: Reply) -> Reply:
    """`reply` with the extractor's program."""
    try:
        program, rule = extract(reply.text, reply.task.public)
    except Exception as problem:
        return replace(reply, rule="crash", crash=f"{type(problem).__name__}: {problem}")
    return replace(reply, program=program, rule=rule)


def _executed(replies: list[Reply], workers: int | None, quiet: bool) -> list[Reply]:
    """`replies` with verdicts and causes."""
    with StoredPrograms(workers) as programs, counter("replies", "program", len(replies), quiet) as bar:

        def verdict(sandbox: Sandbox, reply: Reply) -> Verdict:
            return execute(sandbox, reply.sample(reply.program))

        def explained(sandbox: Sandbox, reply: Reply) -> Reply:
            return replace(reply, cause=_cause(reply, partial(execute, sandbox))) if reply.differs else reply

        verdicts = programs.map(verdict, replies, key=_key, each=lambda _: bar.update())
        judged = [replace(reply, verdict=verdict) for reply, verdict in zip(replies, verdicts, strict=True)]
        return programs.map(explained, judged, again=never)


def _key(reply: Reply) -> tuple[object, ...]:
    return reply.program, reply.task.task_id, reply.task.hidden_tests


def _cause(reply: Reply, run: Callable[[Sample], Verdict]) -> str:
    """One of `CAUSES`, for a reply whose verdict differs from the log's; `run` executes a sample."""
    task = reply.task.public
    if reply.passed and run(reply.sample(reply.program)).outcome == "timeout":  # it passed with more time
        return "time"
    if run(reply.sample(reply.recorded)).passed != reply.logged:
        helped = reply.logged and run(reply.sample(IMPORTS + reply.program)).passed
        return "imports" if helped else "harness"
    alone = extract(f"```python\n{reply.recorded}\n```", task)
    if run(reply.sample(alone.program)).passed == reply.passed:  # the log's program, changed only by the extractor
        return "own asserts" if "usage" in alone.rule else "prompt"
    if "joined" in reply.rule:
        return "helper"
    return "last definition" if reply.definitions > 1 else "unexplained"
