"""What a child of the sandbox reported, read with suspicion."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from reflexion_lab.evaluators.apart import Prepared, judge
from reflexion_lab.evaluators.harness import OUT_OF_MEMORY
from reflexion_lab.evaluators.server import Reported
from reflexion_lab.evaluators.values import Decoder, Unreadable
from reflexion_lab.records import Check

ADDRESS = re.compile(r"(?<= at )0x[0-9a-f]{6,16}\b")
ENDINGS = ("error", "early_exit", "memory")
"""Outcomes that a child may tell of a check; of one in place also `pass` and `fail`, of one apart only its values."""
LONGEST = 500
"""Characters of a text from a child."""


def read_checks(sources: Sequence[str], prepared: Sequence[Prepared], reported: Reported) -> tuple[Check, ...]:
    """One check per source, in their order; what was not reported ended as the child did."""
    outcome, message = ending(reported.status, reported.over)
    checks = [
        Check(name=" ".join(source.split())[:200], outcome=outcome, message=message, mode=check.mode)
        for source, check in zip(sources, prepared, strict=True)
    ]
    decoder, judged = Decoder(), set()
    for entry in entries(reported.report, reported.nonce):
        match entry:
            case [int(i), list(values), float(seconds)] if 0 <= i < len(checks) and i not in judged:
                if (test := prepared[i].test) is not None:
                    judged.add(i)
                    checks[i] = _judged(checks[i], test, values, decoder, seconds)
            case [int(i), *told] if 0 <= i < len(checks):
                checks[i] = _told(checks[i], told)
    return tuple(checks)


def _judged(check: Check, test: ast.expr, values: list[Any], decoder: Decoder, seconds: float) -> Check:
    """`check` with the verdict on what the candidate computed."""
    try:
        verdict = judge(test, [decoder.decode(value) for value in values])
    except Unreadable as problem:
        return replace(check, outcome="error", error_type="Unreadable", message=str(problem))
    if verdict.outcome == "pass":
        return replace(check, outcome="pass", message="", seconds=finite(seconds))
    said = {field: readable(text) for field, text in verdict._asdict().items()}
    return replace(check, seconds=finite(seconds), **said)


def _told(check: Check, told: list[Any]) -> Check:
    """`check` with what its child says of it, as far as it may."""
    outcomes = ENDINGS if check.mode == "apart" else ("pass", "fail", *ENDINGS)
    match told:
        case [str(outcome), str(kind), str(message), int(line), float(seconds)] if outcome in outcomes:
            said = {"error_type": readable(kind), "message": readable(message)}
            return replace(check, outcome=outcome, line=line, seconds=finite(seconds), **said)
        case [str(expected), str(actual)] if check.mode == "in_place" and check.outcome == "fail":
            sides = {"expected": readable(expected), "actual": readable(actual)}
            message = check.message or f"expected {sides['expected']}, got {sides['actual']}"
            return replace(check, message=message, **sides)
    return check


def read_values(reported: Reported, calls: int) -> list[list[Any]]:
    """The values of each call that came back, [] for one that did not."""
    found: list[list[Any]] = [[] for _ in range(calls)]
    decoder = Decoder()
    for entry in entries(reported.report, reported.nonce):
        match entry:
            case [int(i), list(values), float(_)] if 0 <= i < calls:
                found[i] = [decoder.decode(value) for value in values]
    return found


def finite(seconds: float) -> float:
    """What a child measured, or 0.0 for what no clock says."""
    return seconds if 0.0 <= seconds < math.inf else 0.0


def entries(report: bytes, nonce: str) -> list[list[object]]:
    """The lines that carry the nonce; anything else in the report was not written by the harness."""
    mark = nonce.encode() + b" "
    lines = [line[len(mark) :] for line in report.split(b"\n") if line.startswith(mark)]
    try:
        found: list[list[object]] = json.loads(b"[%b]" % b",".join(lines))
        return found
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
    """What a candidate wrote, capped, fit for files and for prompts that come out the same in every run.

    Lone surrogates, which no file can hold, become `?`; addresses of objects, which differ from run to run, are cut.
    """
    text = text[:limit]
    if not text.isascii():
        text = text.encode(errors="replace").decode()
    return ADDRESS.sub("0x…", text) if " at 0x" in text else text
