"""Recorded replies through parser and extractor: what gets through, and whether the program that comes out of a reply
earns the verdict that its log holds.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from experiments._tools.parsing_causes import cause_of
from experiments._tools.replies import Reply, Words, recorded
from reflexion_lab.agent.reflectors.fields import LABELS, ParseError, parse_fields
from reflexion_lab.audit.audit import LIMITS, PATIENT, execute
from reflexion_lab.errors import ConfigError, DataError
from reflexion_lab.records import Record
from reflexion_lab.runner.progress import in_notebook
from reflexion_lab.tasks.sandbox.sandbox import Sandbox
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

    Raises:
        OSError, ValueError: a file cannot be read as transcripts, or none holds a reflection or a completion.
    """
    start = time.monotonic()
    for path in paths:
        if not Path(path).is_file():
            raise DataError(path, "no file", "a transcript (.jsonl, .jsonl.gz)")
    found = [one for path in map(Path, paths) for one in recorded(path, limit)]
    if not found:
        where = "" if limit is None else f" in the first {limit} rows"
        expected = "transcripts whose `attempts` hold `reflection` or `raw`"
        raise ConfigError(", ".join(map(str, paths)) or "files", f"no reply{where}", expected)
    words = [parsed(one) for one in found if isinstance(one, Words)]
    replies = [extracted(one) for one in found if isinstance(one, Reply)]
    told, executed = _executed(replies, workers or os.cpu_count() or 1, quiet)
    return Parsing(
        sources=tuple(Path(path).name for path in paths),
        words=tuple(words),
        replies=tuple(told),
        executed=executed,
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
        said = parse_fields(form(dict.fromkeys(LABELS[:3], text) | {LABELS[3]: "0.5"}))
    except ParseError:
        return False
    return said.root_cause == said.what_went_wrong == said.what_to_change == text


def _lines(values: Mapping[str, str]) -> str:
    return "\n".join(f"{label}: {value}" for label, value in values.items())


def _executed(replies: list[Reply], workers: int, quiet: bool) -> tuple[list[Reply], int]:
    """With verdicts, and a cause where they differ from the log; and how many different programs there were."""
    from tqdm.auto import tqdm

    distinct = {_key(reply): reply.sample(reply.program) for reply in replies}
    hidden = quiet or not (sys.stderr.isatty() or in_notebook())
    with Sandbox(LIMITS, servers=workers) as sandbox, ThreadPoolExecutor(workers) as pool:
        run = partial(execute, sandbox)
        bar = tqdm(pool.map(run, distinct.values()), total=len(distinct), unit="program", disable=hidden, leave=False)
        verdicts = dict(zip(distinct, bar, strict=True))
        with Sandbox(PATIENT, servers=1) as alone:
            verdicts |= {
                key: execute(alone, distinct[key]) for key, one in verdicts.items() if one.outcome == "timeout"
            }
        judged = [replace(reply, verdict=verdicts[_key(reply)]) for reply in replies]
        told = list(
            pool.map(lambda reply: replace(reply, cause=cause_of(reply, run)) if reply.differs else reply, judged)
        )
    return told, len(distinct)


def _key(reply: Reply) -> tuple[object, ...]:
    return reply.program, reply.task.task_id, reply.task.hidden_tests
