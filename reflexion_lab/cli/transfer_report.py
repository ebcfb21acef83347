"""The transfer report as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reflexion_lab.analysis.learning.transfer import Against, Change, Success, Transfer
from reflexion_lab.analysis.report.cells import rate

NAMED = 20
"""Tasks that are spelt out."""


def lines(found: Transfer) -> Iterator[str]:
    yield f"Transfer: {found.runs} runs, {found.tasks} tasks, {found.attempts} attempts"
    for name, share in found.read.items():
        whose = " of other loops" if name == "episodes" else ""
        yield f"  attempts whose actor read {name}{whose}: {rate(share, 'attempts')}"
    if found.used:
        yield f"  wisdom that anybody read: {rate(found.used, 'entries')}"
    yield from _success("with wisdom", found.with_wisdom)
    yield from _success("without wisdom", found.without_wisdom)
    yield "  (attempts of one task are not independent; those with wisdom differ in more than the reading)"
    if found.against:
        yield from _against(found.against)


def _success(which: str, success: Success) -> Iterator[str]:
    if success.feedback.n:
        yield f"  {which}, feedback tests passed: {rate(success.feedback, 'attempts')}"
    if success.hidden.n:
        yield f"  {which}, hidden tests passed: {rate(success.hidden, 'attempts')}"


def _against(found: Against) -> Iterator[str]:
    solved = found.solved
    yield f"Against the baseline, {solved.n} pairs of loops, {found.left_out} loops without a partner left out"
    points = f"{100 * solved.difference:+.1f} points [{100 * solved.low:+.1f}, {100 * solved.high:+.1f}]"
    pairs = f"{solved.repaired} gained, {solved.damaged} lost; p = {solved.p:.2g}, McNemar's exact test"
    yield f"  solved: {points} (paired, Newcombe 95 %; {pairs})"
    yield f"  attempts until solved, where both solve: {_change(found.attempts_to_success)}"
    yield f"  attempts made: {_change(found.attempts)}"
    yield f"  negative transfer, solved without and not with: {_named(found.lost)}"
    yield f"  gained, solved with and not without: {_named(found.gained)}"
    yield f"  the runs differ in: {', '.join(found.differs_in) or 'nothing'}"


def _change(found: Change) -> str:
    if found.low is None or found.high is None:
        return f"{found.mean:+.2f} (n = {found.n}, too few for an interval)" if found.n else "no such task"
    return f"{found.mean:+.2f} [{found.low:+.2f}, {found.high:+.2f}] (n = {found.n} tasks, bootstrap 95 %)"


def _named(tasks: Sequence[str]) -> str:
    more = f" and {len(tasks) - NAMED} more" if len(tasks) > NAMED else ""
    return f"{len(tasks)}: {', '.join(tasks[:NAMED])}{more}" if tasks else "none"
