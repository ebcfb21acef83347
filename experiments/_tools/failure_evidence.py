"""Executed failures as evidence: what each raised, and its class by every set of rules and every text."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from experiments._tools.evidence import CASES, read_rows, write_gzip
from experiments._tools.failing_attempts import Failure, untyped
from experiments._tools.keyword_rules import SYSTEMS, classify_by
from reflexion_lab.agent.reflectors.evidence import classify, classify_evaluation
from reflexion_lab.records import Check, Record

OURS = "lab"
RULES = (OURS, *SYSTEMS)
EVIDENCE = ("traceback", "source lines", "check")
"""A traceback as `exec` leaves it; the same with source lines, which include the failing assert; the lab's own check,
type and message."""
TEXTS = tuple((evidence, typed) for typed in (True, False) for evidence in EVIDENCE)
FIELDS = ("file", "attempt", "model", "problem", "program", "recorded", "raised", "truth", "characters")


class Classified(Record, frozen=True, kw_only=True):
    """An executed failure without its texts."""

    file: str
    attempt: str
    """Run, task and attempt number."""
    model: str
    problem: str
    program: str
    """The first 16 digits of the program's SHA-256."""
    recorded: str
    raised: str
    """As of `Failure`; "" if it passed."""
    truth: str
    characters: int
    """Length of the traceback with source lines, without the type."""
    guesses: dict[str, str]
    """Class by `column`; {} if it passed."""

    @property
    def id(self) -> tuple[str, str]:
        return self.file, self.attempt


def column(evidence: str, typed: bool, rules: str) -> str:
    """Name of the column of a text and a set of rules."""
    return f"{evidence}, {'type' if typed else 'no type'}: {rules}"


COLUMNS = tuple(column(evidence, typed, rules) for evidence, typed in TEXTS for rules in RULES)


def classified(failures: Iterable[Failure]) -> list[Classified]:
    """Every failure as executed, classified by all rules on all texts."""
    return [_classified(failure) for failure in failures]


def _classified(failure: Failure) -> Classified:
    guesses = {}
    for evidence, typed in TEXTS if failure.raised else ():
        for rules, name in _guesses(failure, evidence, typed).items():
            guesses[column(evidence, typed, rules)] = name
    return Classified(
        file=failure.file,
        attempt=failure.sample.id,
        model=failure.model,
        problem=failure.sample.task_id,
        program=hashlib.sha256(failure.sample.program.encode(errors="replace")).hexdigest()[:16],
        recorded=failure.recorded,
        raised=failure.raised,
        truth=failure.truth if failure.raised else "",
        characters=len(untyped(failure.source, failure.raised)),
        guesses=guesses,
    )


def _guesses(failure: Failure, evidence: str, typed: bool) -> dict[str, str]:
    text = evidence_text(failure, evidence, typed)
    # A check carries more than its text: with it, the lab's rules are called as in a run.
    whole = failure.evaluation if evidence == "check" and typed else None
    ours = classify_evaluation(whole)[0] if whole else classify("", text)
    return {OURS: ours} | {name: classify_by(keys, text) for name, keys in SYSTEMS.items()}


def evidence_text(failure: Failure, evidence: str, typed: bool) -> str:
    """The text that the rules read; `evidence` is one of `EVIDENCE`."""
    if evidence != "check":
        text = failure.traceback if evidence == "traceback" else failure.source
        return text if typed else untyped(text, failure.raised)
    check = failure.evaluation and classify_evaluation(failure.evaluation)[1]
    return _check_text(check, typed) if check else ""


def _check_text(check: Check, typed: bool) -> str:
    message = check.message or ("the assertion is false" if check.outcome == "fail" else "")
    if not typed:
        return message
    kind = check.error_type or ("AssertionError" if check.outcome == "fail" else check.outcome)
    return f"{kind}: {message}".removesuffix(": ")


def save_cases(failures: Sequence[Classified], folder: Path) -> Path:
    """Write `CASES`, one line per failure; no program, prompt or message."""
    rows = [
        (*(getattr(failure, name) for name in FIELDS), *(failure.guesses.get(name, "") for name in COLUMNS))
        for failure in failures
    ]
    return write_gzip(folder / CASES, (*FIELDS, *COLUMNS), rows)


def read_cases(folder: Path) -> list[Classified]:
    """The failures that `save_cases` wrote."""
    return [
        Classified(
            **{name: row[name] for name in FIELDS[:-1]},
            characters=int(row["characters"]),
            guesses={name: row[name] for name in COLUMNS if row["raised"]},
        )
        for row in read_rows(folder / CASES)
    ]
