"""Recorded replies through parser and extractor: what gets through, and whether the program that comes out of a reply
earns the verdict that its log holds.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from experiments._tools.parsing_causes import cause_of
from experiments._tools.replies import Reply, Words, recorded
from reflexion_lab.agent.reflectors.fields import LABELS, ParseError, parse_fields
from reflexion_lab.audit.audit import Verdict, execute
from reflexion_lab.audit.stored_programs import StoredPrograms, counter, never
from reflexion_lab.errors import ConfigError, DataError
from reflexion_lab.protocols import Sandbox
from reflexion_lab.records import Record
from reflexion_lab.text.replies.extract import extract


class Parsing(Record, frozen=True, kw_only=True):
    """What became of everything recorded in some files, in their order."""

    sources: tuple[str, ...]
    """The files' names."""
    words: tuple[Words, ...]
    replies: tuple[Reply, ...]
    executed: int
    """Different programs that were run; equal ones run once."""
    seconds: float


def parse_recorded(
    paths: Sequence[Path | str], *, limit: int | None = None, workers: int | None = None, quiet: bool = False
) -> Parsing:
    """Parse every reflection and extract and execute every completion in transcripts (`.jsonl`, gzipped or not).

    `limit`: only the first so many rows of each file. A time-out is believed after a second, longer try, alone.

    Raises
    ------
    OSError, ValueError
        A file cannot be read as transcripts, or none holds a reflection or a completion.
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
        sources=tuple(Path(path).name for path in paths),
        words=tuple(words),
        replies=tuple(_executed(replies, workers, quiet)),
        executed=len(set(map(_key, replies))),
        seconds=time.monotonic() - start,
    )


def parsed(words: Words) -> Words:
    """With what the parser says of it."""
    try:
        kept = all(_comes_back(" ".join(words.text.split()), form) for form in (_lines, json.dumps))
        words = replace(words, kept=kept)
        parse_fields(words.text)
    except ParseError as problem:
        return replace(words, problem=str(problem).partition(";")[0])
    except Exception as problem:
        return replace(words, crash=f"{type(problem).__name__}: {problem}")
    return replace(words, parsed=True)


def extracted(reply: Reply) -> Reply:
    """With the program that the extractor finds."""
    try:
        program, rule = extract(reply.text, reply.task.public)
    except Exception as problem:
        return replace(reply, rule="crash", crash=f"{type(problem).__name__}: {problem}")
    return replace(reply, program=program, rule=rule)


def _comes_back(text: str, form: Callable[[Mapping[str, str]], str]) -> bool:
    """Whether the parser reads `text` as each of the three texts, once a model has put it in form."""
    try:
        fields = parse_fields(form(dict.fromkeys(LABELS[:3], text) | {LABELS[3]: "0.5"}))
    except ParseError:
        return False
    return fields.root_cause == fields.what_went_wrong == fields.what_to_change == text


def _lines(values: Mapping[str, str]) -> str:
    return "\n".join(f"{label}: {value}" for label, value in values.items())


def _executed(replies: list[Reply], workers: int | None, quiet: bool) -> list[Reply]:
    """With verdicts, and a cause where they differ from the log."""
    with StoredPrograms(workers) as programs, counter("replies", "program", len(replies), quiet) as bar:

        def verdict(sandbox: Sandbox, reply: Reply) -> Verdict:
            return execute(sandbox, reply.sample(reply.program))

        def explained(sandbox: Sandbox, reply: Reply) -> Reply:
            return replace(reply, cause=cause_of(reply, partial(execute, sandbox))) if reply.differs else reply

        verdicts = programs.map(verdict, replies, key=_key, each=lambda _: bar.update())
        judged = [replace(reply, verdict=verdict) for reply, verdict in zip(replies, verdicts, strict=True)]
        return programs.map(explained, judged, again=never)


def _key(reply: Reply) -> tuple[object, ...]:
    return reply.program, reply.task.task_id, reply.task.hidden_tests
