"""What audits found, as sheets for a terminal and for notebooks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reflexion_lab.analysis.report.cells import interval
from reflexion_lab.analysis.report.sheets import Sheet, as_table
from reflexion_lab.audit.audit import Audit, Verdict
from reflexion_lab.io.terminal_text import visible
from reflexion_lab.records import Record

if TYPE_CHECKING:
    from rich.console import Console

NAMED = 5
"""Ids that a finding spells out."""
WORD = {True: "pass", False: "fail", None: "none"}


class Printed(Record, frozen=True):
    """What a paper says of a log."""

    label: str
    percent: float | None = None
    """The figure in print; None where the log has none."""


def show(audits: Sequence[Audit], console: Console) -> None:
    """Print a line a file, every disagreement with its cause, and what else a log gives away; harness errors loudly."""
    console.print(as_table(overview(audits)))
    for found in audits:
        lines = [*_differing(found), *(f"- {line}" for line in findings(found))]
        if lines:
            console.print("\n".join([visible(found.name), *lines, ""]), markup=False, highlight=False, soft_wrap=True)
    for line in (harness_line(found) for found in audits if found.harness_errors):
        console.print(line, style="bold white on red", markup=False, highlight=False, soft_wrap=True)


def _differing(found: Audit) -> Iterator[str]:
    """Disagreements as lines: causes are too long for a column."""
    if found.disagreements:
        yield f"- {len(found.disagreements)} of {found.compared} logged verdicts are not met:"
    for verdict in found.disagreements:
        words = f"logged {WORD[verdict.sample.logged]}, re-executed {verdict.outcome}"
        yield visible(f"    {verdict.sample.id}: {words}: {why(verdict)}").replace("\n", " ")


def overview(audits: Sequence[Audit]) -> Sheet:
    """Logged against re-executed, one row a file."""
    columns = ("log", "n", "logged", "re-executed", "%", "95 % interval", "agree")
    rows = tuple(
        (
            found.name.removesuffix(".gz").removesuffix(".jsonl"),
            str(found.n),
            f"{found.logged_pass}/{found.logged_rate.n}",
            f"{found.rate.k}/{found.rate.n}",
            f"{100 * found.rate.share:.1f}",
            interval(found.rate.low, found.rate.high),
            f"{found.agree}/{found.compared}",
        )
        for found in audits
    )
    errors = sum(found.harness_errors for found in audits)
    caption = f"Passes. Re-executed: each program in a namespace of its own; Wilson interval. Harness errors: {errors}."
    return Sheet(title="Logged and re-executed", columns=columns, rows=rows, caption=caption)


def against_paper(printed: Mapping[str, Printed], audits: Mapping[str, Audit]) -> Sheet:
    """The paper's figures beside its logs', and beside ours; rows are those of `audits`."""
    columns = ("method and benchmark", "paper, %", "log", "log, %", "re-executed", "re-executed, %", "95 % interval")
    rows = tuple(
        (
            printed[key].label,
            "—" if printed[key].percent is None else f"{printed[key].percent:.1f}",
            f"{found.logged_rate.k}/{found.logged_rate.n}",
            f"{100 * found.logged_rate.share:.1f}",
            f"{found.rate.k}/{found.rate.n}",
            f"{100 * found.rate.share:.1f}",
            interval(found.rate.low, found.rate.high),
        )
        for key, found in audits.items()
    )
    caption = (
        "Shares of tasks. Re-executed: every stored program with its log's own test, in a namespace of its own. Wilson."
    )
    return Sheet(title="The paper, its logs, and its programs", columns=columns, rows=rows, caption=caption)


def disagreements(found: Audit) -> Sheet:
    """Every sample whose logged verdict is not ours, and why."""
    rows = tuple((v.sample.id, WORD[v.sample.logged], WORD[v.passed], v.outcome, why(v)) for v in found.disagreements)
    title = f"{found.name}: {len(rows)} of {found.compared} logged verdicts are not met"
    return Sheet(title=title, columns=("id", "logged", "re-executed", "outcome", "cause"), rows=rows, names=5)


def findings(found: Audit) -> Iterator[str]:
    """What a log gives away beside its verdicts, one sentence a finding."""
    leaks = found.leaks
    if sources := Counter(v.leaked_from for v in found.verdicts if v.leaked_from):
        named = ", ".join(f"{source} ({count})" for source, count in sources.most_common(NAMED))
        told = "shared namespace: logged verdicts that fall alone and hold beside an earlier program"
        yield f"{told}: {sources.total()}, after {named}"
    if imports := sum("usual imports" in verdict.cause for verdict in found.verdicts):
        yield f"imports: logged passes that fall alone and hold with the usual imports: {imports}"
    if forgeable := sum(verdict.passed and verdict.in_place for verdict in found.verdicts):
        yield f"judged in place: {forgeable} of {found.rate.k} passes rest on checks that only run beside the program"
    if leaks.missing:
        yield f"missing rows: {len(leaks.missing)}: {_named(leaks.missing)}"
    if leaks.repeated:
        yield f"repeated rows: {len(leaks.repeated)}: {_named(leaks.repeated)}"
    if leaks.unstored:
        yield f"solved without a stored program: {len(leaks.unstored)}: {_named(leaks.unstored)}"
    if leaks.shown_hidden:
        share = f"{leaks.shown_hidden} of {leaks.shown} asserts that loops saw ({leaks.shown_hidden / leaks.shown:.0%})"
        beyond = f"{leaks.shown_beyond_prompt} of them, in {leaks.samples_beyond_prompt} samples, are not in the prompt"
        yield f"hidden tests as feedback: {share} are hidden asserts too; {beyond}"


def as_json(audits: Sequence[Audit], seconds: float) -> dict[str, Any]:
    """The contract of `--json`, over all files; ids carry the file's name where there are several."""
    rows = [
        {
            "id": f"{found.name}:{verdict.sample.id}" if len(audits) > 1 else verdict.sample.id,
            "logged": verdict.sample.logged,
            "verdict": verdict.passed,
            "outcome": verdict.outcome,
            "detail": "; ".join(filter(None, (verdict.detail, verdict.cause))),
        }
        for found in audits
        for verdict in found.disagreements
    ]
    return {
        "n": sum(found.n for found in audits),
        "logged_pass": sum(found.logged_pass for found in audits),
        "pass": sum(found.rate.k for found in audits),
        "agree": sum(found.agree for found in audits),
        "disagree": rows,
        "harness_errors": sum(found.harness_errors for found in audits),
        "seconds": round(seconds, 3),
    }


def why(verdict: Verdict) -> str:
    """What failed, and what variants of the program say of it."""
    return "; ".join(filter(None, (verdict.detail, verdict.cause)))


def harness_line(found: Audit) -> str:
    """Harness errors, loud: they are no verdicts on anybody's program."""
    first = next(verdict for verdict in found.verdicts if verdict.broken)
    where = f"{found.name}: HARNESS ERRORS: {found.harness_errors} samples have no verdict"
    return visible(f"{where}; the first is {first.sample.id}: {first.detail}; run `reflexion-lab doctor`")


def _named(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - NAMED} more" if len(ids) > NAMED else ""
    return ", ".join(map(visible, ids[:NAMED])) + more
