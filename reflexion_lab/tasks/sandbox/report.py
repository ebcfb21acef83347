"""Reports of sandbox children, read as untrusted input."""

from __future__ import annotations

import ast
import contextlib
import json
import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from reflexion_lab.records import Check
from reflexion_lab.tasks.sandbox.apart import Prepared, judge
from reflexion_lab.tasks.sandbox.harness import OUT_OF_MEMORY
from reflexion_lab.tasks.sandbox.server import Reported
from reflexion_lab.tasks.sandbox.values import Decoder, Unreadable

ADDRESS = re.compile(r"(?<= at )0x[0-9a-f]{6,16}\b")
ENDINGS = ("error", "early_exit", "memory")
"""Outcomes that a child may report for any check; in-place checks may also report `pass` and `fail`."""
UNDECIDED = ("Unreadable", "TypeError")
"""Errors of comparisons of placeholders for the program's own objects."""
LONGEST = 500
"""Maximal characters of a text from a child."""
LINES = 1_000_000


class Read(NamedTuple):
    checks: list[Check | None]
    """One per check, in order; None for checks that the child did not start."""
    undecided: set[int]
    """Checks whose reported values do not decide the comparison."""


def read_checks(prepared: Sequence[Prepared], reported: Reported) -> Read:
    """The result of each check; the first unreported check gets the outcome of the child."""
    results: dict[int, Check] = {}
    judged: set[int] = set()
    undecided: set[int] = set()
    decoder = Decoder()
    for entry in entries(reported.report, reported.nonce):
        match entry:
            case [int(i), list(values), float(seconds)] if 0 <= i < len(prepared) and i not in judged:
                if (test := prepared[i].test) is not None:
                    judged.add(i)
                    results[i], is_undecided = _judged(prepared[i], test, values, decoder, seconds)
                    if is_undecided:
                        undecided.add(i)
            case [int(i), *fields] if 0 <= i < len(prepared):
                if check := _told(prepared[i], fields, results.get(i)):
                    results[i] = check
                    undecided.discard(i)
    first = next((i for i in range(len(prepared)) if i not in results), 0)
    if prepared and first not in results:
        outcome, message = ending(reported.status, reported.over)
        results[first] = Check(name=prepared[first].name, outcome=outcome, message=message, mode=prepared[first].mode)
    return Read([results.get(i) for i in range(len(prepared))], undecided)


def _judged(
    prepared: Prepared, test: ast.expr, values: list[Any], decoder: Decoder, seconds: float
) -> tuple[Check, bool]:
    """The verdict on the computed values, and whether the check must be judged in place."""
    name, mode = prepared.name, prepared.mode
    try:
        verdict = judge(test, decoder.decode(*values))
    except Unreadable as problem:
        message = readable(str(problem))
        return Check(name=name, outcome="error", error_type="Unreadable", message=message, mode=mode), False
    if verdict.outcome == "pass":
        return Check(name=name, outcome="pass", mode=mode, seconds=finite(seconds)), False
    check = Check(
        name=name,
        outcome=verdict.outcome,
        mode=mode,
        expected=readable(verdict.expected),
        actual=readable(verdict.actual),
        error_type=readable(verdict.error_type),
        message=readable(verdict.message),
        seconds=finite(seconds),
    )
    return check, verdict.outcome == "error" and verdict.error_type in UNDECIDED


def _told(prepared: Prepared, fields: list[Any], before: Check | None) -> Check | None:
    """A check as reported by a child; None where the child may not report it."""
    outcomes = ENDINGS if prepared.test is not None else ("pass", "fail", *ENDINGS)
    match fields:
        case [str(outcome), str(kind), str(message), int(line), float(seconds)] if outcome in outcomes:
            error = {"error_type": readable(kind), "message": readable(message)}
            line, seconds = min(max(int(line), 0), LINES), finite(seconds)  # `True` is an int too
            return Check(name=prepared.name, outcome=outcome, mode=prepared.mode, line=line, seconds=seconds, **error)
        case [str(expected), str(actual)] if before and before.outcome == "fail" and prepared.test is None:
            sides = {"expected": readable(expected), "actual": readable(actual)}
            message = before.message or f"expected {sides['expected']}, got {sides['actual']}"
            return replace(before, message=message, **sides)
    return None


def read_values(reported: Reported, calls: int) -> list[list[Any]]:
    """The values of each call, [] for a call without a report."""
    values_by_call: list[list[Any]] = [[] for _ in range(calls)]
    decoder = Decoder()
    for entry in entries(reported.report, reported.nonce):
        match entry:
            case [int(i), list(values), float(_)] if 0 <= i < calls:
                with contextlib.suppress(Unreadable):
                    values_by_call[i] = decoder.decode(*values)
    return values_by_call


def finite(seconds: float) -> float:
    """`seconds` as measured by a child; 0.0 if negative, infinite or NaN."""
    return seconds if 0.0 <= seconds < math.inf else 0.0


def entries(report: bytes, nonce: str) -> list[list[object]]:
    """The lines that carry the nonce; anything else in the report was not written by the harness."""
    mark = nonce.encode() + b" "
    lines = [line[len(mark) :] for line in report.split(b"\n") if line.startswith(mark)]
    try:
        parsed: list[list[object]] = json.loads(b"[%b]" % b",".join(lines))
        return parsed
    except (ValueError, RecursionError):  # a candidate's own lines
        return [entry for line in lines if (entry := _parsed(line))]


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def ending(status: int, over: bool) -> tuple[str, str]:
    """Outcome and message for the checks that a child never reported."""
    if over:
        return "timeout", "the time was over before this check ended"
    if status == OUT_OF_MEMORY:
        return "memory", "the memory limit was reached"
    how = f"signal {-status}" if status < 0 else f"exit code {status}"
    return "early_exit", f"the process ended ({how}) before this check did"


def readable(text: str, limit: int = LONGEST) -> str:
    """A candidate's text, capped, safe for files, and reproducible in prompts.

    Lone surrogates, which no file can hold, become `?`; addresses of objects, which differ from run to run, are cut.
    """
    text = text[:limit]
    if not text.isascii():
        text = text.encode(errors="replace").decode()
    return ADDRESS.sub("0x…", text) if " at 0x" in text else text
