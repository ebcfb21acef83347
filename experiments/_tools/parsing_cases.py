"""Facts about recorded replies, without their texts: the evidence of a parsing as `cases.csv` and `reflections.csv`.

Equal numbers of a program or a reply stand for equal texts.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from experiments._tools import output
from experiments._tools.parsing_report import Case
from experiments._tools.replies import Parsing, Reply, Words
from reflexion_lab.audit.verdicts import Verdict
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Task

REPLIES, WORDS = "cases.csv", "reflections.csv"
EMPTY = ""
"""Number of a text without a character."""


def write_cases(parsing: Parsing, folder: Path) -> list[Path]:
    """Write one line per completion and one per reflection; a file without lines is left out."""
    files = {REPLIES: list(_reply_rows(parsing.replies)), WORDS: list(_word_rows(parsing.words))}
    return [output.write_csv(folder / name, rows) for name, rows in files.items() if rows]


def read_cases(folder: Path) -> Parsing:
    """The parsing that `write_cases` wrote: `as_rows`, `draw` and the sheets of `parsing_report` give the same.

    Texts are replaced by their numbers.

    Raises
    ------
    ConfigError
        A file is missing or has other columns.
    """
    replies, words = _lines(folder / REPLIES, _reply), _lines(folder / WORDS, _words)
    return Parsing(words=tuple(words), replies=tuple(replies), seconds=0.0)


def _reply_rows(replies: Sequence[Reply]) -> Iterator[dict[str, object]]:
    texts = _numbers((reply.task_id, reply.text) for reply in replies)
    programs = _numbers((reply.task_id, reply.task.hidden_tests, reply.program) for reply in replies)
    for reply, text, program in zip(replies, texts, programs, strict=True):
        yield {
            "model": reply.model,
            "task": reply.task_id,
            "reply": text,
            "definitions": reply.definitions,
            "rule": reply.rule,
            "program": program if reply.program else EMPTY,
            "crash": reply.crash,
            "logged": int(reply.logged),
            "lenient": int(reply.lenient),
            "outcome": reply.verdict.outcome if reply.verdict else "",
            "cause": reply.cause,
        }


def _reply(row: dict[str, str]) -> Reply:
    task = Task(task_id=row["task"], prompt="", entry_point="")
    reply = Reply(
        model=row["model"],
        text=row["reply"],
        task=task,
        recorded="",
        logged=row["logged"] == "1",
        lenient=row["lenient"] == "1",
        definitions=int(row["definitions"]),
        program=row["program"],
        rule=row["rule"],
        crash=row["crash"],
        cause=row["cause"],
    )
    outcome = row["outcome"]
    verdict = Verdict(sample=reply.sample(reply.program), passed=outcome == "pass", outcome=outcome)
    return replace(reply, verdict=verdict if outcome else None)


def _word_rows(words: Sequence[Words]) -> Iterator[dict[str, object]]:
    for case in words:
        facts = {"parsed": int(case.parsed), "kept": int(case.kept), "problem": case.problem, "crash": case.crash}
        yield {"model": case.model, "task": case.task_id} | facts


def _words(row: dict[str, str]) -> Words:
    facts = {"parsed": row["parsed"] == "1", "kept": row["kept"] == "1"}
    problem, crash = row["problem"], row["crash"]
    return Words(model=row["model"], task_id=row["task"], text="", **facts, problem=problem, crash=crash)


def _numbers(texts: Iterable[object]) -> list[int]:
    """Numbers from 1 on, equal for equal texts."""
    known: dict[object, int] = {}
    return [known.setdefault(text, len(known) + 1) for text in texts]


def _lines(path: Path, case: Callable[[dict[str, str]], Case]) -> list[Case]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return [case(row) for row in csv.DictReader(file)]
    except (OSError, KeyError, ValueError) as problem:
        raise ConfigError(path, repr(problem), "the file that `parsing --out` writes") from None
