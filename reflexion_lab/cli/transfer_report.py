"""The transfer report as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reflexion_lab.analysis.learning.transfer import Against, Change, Success, Transfer
from reflexion_lab.analysis.report.cells import interval, rate

NAMED = 20
"""Maximum number of tasks listed by name."""


def lines(transfer: Transfer) -> Iterator[str]:
    yield f"Transfer: {transfer.runs} runs, {transfer.tasks} tasks, {transfer.attempts} attempts"
    for name, share in transfer.read.items():
        whose = " of other loops" if name == "episodes" else ""
        yield f"  attempts whose actor read {name}{whose}: {rate(share, 'attempts')}"
    if transfer.used:
        yield f"  wisdom that anybody read: {rate(transfer.used, 'entries')}"
    yield from _success("with wisdom", transfer.with_wisdom)
    yield from _success("without wisdom", transfer.without_wisdom)
    yield "  (attempts of one task are not independent; those with wisdom differ in more than the reading)"
    if transfer.against:
        yield from _against(transfer.against)


def _success(which: str, success: Success) -> Iterator[str]:
    if success.feedback.n:
        yield f"  {which}, feedback tests passed: {rate(success.feedback, 'attempts')}"
    if success.hidden.n:
        yield f"  {which}, hidden tests passed: {rate(success.hidden, 'attempts')}"


def _against(comparison: Against) -> Iterator[str]:
    solved = comparison.solved
    yield f"Against the baseline, {solved.n} pairs of loops, {comparison.left_out} loops without a partner left out"
    points = f"{100 * solved.difference:+.1f} points {interval(solved.low, solved.high, signed=True)}"
    pairs = f"{solved.repaired} gained, {solved.damaged} lost; p = {solved.p:.2g}, McNemar's exact test"
    yield f"  solved: {points} (paired, Newcombe 95 %; {pairs})"
    yield f"  attempts until solved, where both solve: {_change(comparison.attempts_to_success)}"
    yield f"  attempts made: {_change(comparison.attempts)}"
    yield f"  negative transfer, solved without and not with: {_named(comparison.lost)}"
    yield f"  gained, solved with and not without: {_named(comparison.gained)}"
    yield f"  the runs differ in: {', '.join(comparison.differs_in) or 'nothing'}"


def _change(change: Change) -> str:
    if change.low is None or change.high is None:
        return f"{change.mean:+.2f} (n = {change.n}, too few for an interval)" if change.n else "no such task"
    ends = interval(change.low, change.high, digits=2, scale=1, signed=True)
    return f"{change.mean:+.2f} {ends} (n = {change.n} tasks, bootstrap 95 %)"


def _named(tasks: Sequence[str]) -> str:
    more = f" and {len(tasks) - NAMED} more" if len(tasks) > NAMED else ""
    return f"{len(tasks)}: {', '.join(tasks[:NAMED])}{more}" if tasks else "none"
