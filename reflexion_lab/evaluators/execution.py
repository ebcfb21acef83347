"""What a child of the sandbox reported, read with suspicion."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from msgspec.structs import replace

from reflexion_lab.evaluators.harness import OUT_OF_MEMORY
from reflexion_lab.records import Check, Record

ADDRESS = re.compile(r"(?<= at )0x[0-9a-f]{6,16}\b")


class Execution(Record, frozen=True, kw_only=True):
    """What came of one program: one check per test, aligned with them."""

    checks: tuple[Check, ...]
    output: str
    seconds: float


def entries(report: bytes, nonce: str) -> list[list[object]]:
    """The lines that carry the nonce; anything else in the report was not written by the harness."""
    mark = nonce.encode() + b" "
    found = []
    for line in report.split(b"\n"):
        if line.startswith(mark):
            try:
                found.append(json.loads(line[len(mark) :]))
            except ValueError:
                continue
    return found


def ending(status: int, over: bool) -> tuple[str, str]:
    """Outcome and message for the checks that a child never reported."""
    if over:
        return "timeout", "the time was over before this check ended"
    if status == OUT_OF_MEMORY:
        return "memory", "the memory limit was reached"
    how = f"signal {-status}" if status < 0 else f"exit code {status}"
    return "early_exit", f"the process ended ({how}) before this check did"


def read_checks(sources: Sequence[str], told: list[list[object]], unreported: tuple[str, str]) -> tuple[Check, ...]:
    """One check per source; a later, shorter entry explains an earlier failure."""
    names = [" ".join(source.split())[:200] for source in sources]
    found: dict[int, Check] = {}
    for entry in told:
        match entry:
            case [int(i), str(outcome), str(kind), str(message), int(line), float(seconds)] if 0 <= i < len(names):
                said = {"error_type": readable(kind), "message": readable(message)}
                found[i] = Check(name=names[i], outcome=outcome, line=line, seconds=seconds, **said)
            case [int(i), str(message)] if i in found and not found[i].message:
                found[i] = replace(found[i], message=readable(message))
    outcome, message = unreported
    missing = [Check(name=name, outcome=outcome, message=message) for name in names]
    return tuple(found.get(i, check) for i, check in enumerate(missing))


def readable(text: str) -> str:
    """What a candidate wrote, fit for files and for prompts that come out the same in every run.

    Lone surrogates, which no file can hold, become `?`; addresses of objects, which differ from run to run, are cut.
    """
    return ADDRESS.sub("0x…", text.encode(errors="replace").decode())
