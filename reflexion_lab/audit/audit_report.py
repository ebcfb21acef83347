"""Results of audits as tables and lines, for terminal and notebook."""

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
"""Maximum number of ids in a finding."""
WORD = {True: "pass", False: "fail", None: "none"}


class Printed(Record, frozen=True):
    """The result of a log in its paper."""

    label: str
    percent: float | None = None
    """Percentage in the paper; None if there is none."""


def show(audits: Sequence[Audit], console: Console) -> None:
    """Print one row per file, every disagreement with its cause, other findings, and harness errors in red."""
    console.print(as_table(overview(audits)))
    for audit in audits:
        lines = [*_differing(audit), *(f"- {line}" for line in findings(audit))]
        if lines:
            console.print("\n".join([visible(audit.name), *lines, ""]), markup=False, highlight=False, soft_wrap=True)
    for line in (harness_line(audit) for audit in audits if audit.harness_errors):
        console.print(line, style="bold white on red", markup=False, highlight=False, soft_wrap=True)


def _differing(audit: Audit) -> Iterator[str]:
    """Disagreements as lines, since causes are too long for a column."""
    if audit.disagreements:
        yield f"- {len(audit.disagreements)} of {audit.compared} logged verdicts differ:"
    for verdict in audit.disagreements:
        outcomes = f"logged {WORD[verdict.sample.logged]}, re-executed {verdict.outcome}"
        yield visible(f"    {verdict.sample.id}: {outcomes}: {why(verdict)}").replace("\n", " ")


def overview(audits: Sequence[Audit]) -> Sheet:
    """Logged and re-executed pass rates, one row per file."""
    columns = ("log", "n", "logged", "re-executed", "%", "95 % interval", "agree", "kappa")
    rows = tuple(
        (
            audit.name.removesuffix(".gz").removesuffix(".jsonl"),
            str(audit.n),
            f"{audit.logged_rate.k}/{audit.logged_rate.n}",
            f"{audit.rate.k}/{audit.rate.n}",
            f"{100 * audit.rate.share:.1f}",
            interval(audit.rate.low, audit.rate.high),
            f"{audit.agree}/{audit.compared}",
            "—" if audit.kappa is None else f"{audit.kappa:.3f}",
        )
        for audit in audits
    )
    errors = sum(audit.harness_errors for audit in audits)
    caption = "Passes. Re-executed: each program in its own namespace; Wilson interval. Kappa: agreement beyond "
    caption += f"chance (Cohen). Harness errors: {errors}."
    return Sheet(title="Logged and re-executed", columns=columns, rows=rows, caption=caption)


def against_paper(printed: Mapping[str, Printed], audits: Mapping[str, Audit]) -> Sheet:
    """Pass rates of the paper, its logs, and our execution, one row per audit."""
    columns = ("method and benchmark", "paper, %", "log", "log, %", "re-executed", "re-executed, %", "95 % interval")
    rows = tuple(
        (
            printed[key].label,
            "—" if printed[key].percent is None else f"{printed[key].percent:.1f}",
            f"{audit.logged_rate.k}/{audit.logged_rate.n}",
            f"{100 * audit.logged_rate.share:.1f}",
            f"{audit.rate.k}/{audit.rate.n}",
            f"{100 * audit.rate.share:.1f}",
            interval(audit.rate.low, audit.rate.high),
        )
        for key, audit in audits.items()
    )
    caption = (
        "Shares of tasks. Re-executed: every stored program with its log's own test, in its own namespace. Wilson."
    )
    return Sheet(title="The paper, its logs, and its programs", columns=columns, rows=rows, caption=caption)


def disagreements(audit: Audit) -> Sheet:
    """Every sample whose logged verdict differs from ours, with the cause."""
    rows = tuple((v.sample.id, WORD[v.sample.logged], WORD[v.passed], v.outcome, why(v)) for v in audit.disagreements)
    title = f"{audit.name}: {len(rows)} of {audit.compared} logged verdicts differ"
    return Sheet(title=title, columns=("id", "logged", "re-executed", "outcome", "cause"), rows=rows, names=5)


def findings(audit: Audit) -> Iterator[str]:
    """Other findings in a log, one sentence each."""
    leaks = audit.leaks
    if sources := Counter(v.leaked_from for v in audit.verdicts if v.leaked_from):
        named = ", ".join(f"{source} ({count})" for source, count in sources.most_common(NAMED))
        reason = "shared namespace: logged verdicts that only hold after an earlier program"
        yield f"{reason}: {sources.total()}, after {named}"
    if imports := sum("usual imports" in verdict.cause for verdict in audit.verdicts):
        yield f"imports: logged passes that only hold with the usual imports: {imports}"
    if forgeable := sum(verdict.passed and verdict.in_place for verdict in audit.verdicts):
        yield f"judged in the candidate's process: {forgeable} of {audit.rate.k} passes, which it could forge"
    if leaks.missing:
        yield f"missing rows: {len(leaks.missing)}: {_named(leaks.missing)}"
    if leaks.repeated:
        yield f"repeated rows: {len(leaks.repeated)}: {_named(leaks.repeated)}"
    if leaks.unstored:
        yield f"solved without a stored program: {len(leaks.unstored)}: {_named(leaks.unstored)}"
    if leaks.shown_hidden:
        share = f"{leaks.shown_hidden} of {leaks.shown} asserts in feedback ({leaks.shown_hidden / leaks.shown:.0%})"
        beyond = f"{leaks.shown_beyond_prompt} of them, in {leaks.samples_beyond_prompt} samples, are not in the prompt"
        yield f"hidden tests as feedback: {share} are also hidden asserts; {beyond}"


def as_json(audits: Sequence[Audit], seconds: float) -> dict[str, Any]:
    """The object of `--json`, over all files; ids include the file name if there are several."""
    rows = [
        {
            "id": f"{audit.name}:{verdict.sample.id}" if len(audits) > 1 else verdict.sample.id,
            "logged": verdict.sample.logged,
            "verdict": verdict.passed,
            "outcome": verdict.outcome,
            "detail": "; ".join(filter(None, (verdict.detail, verdict.cause))),
        }
        for audit in audits
        for verdict in audit.disagreements
    ]
    return {
        "n": sum(audit.n for audit in audits),
        "logged_pass": sum(audit.logged_rate.k for audit in audits),
        "pass": sum(audit.rate.k for audit in audits),
        "agree": sum(audit.agree for audit in audits),
        "kappa": {audit.name: audit.kappa for audit in audits},
        "disagree": rows,
        "harness_errors": sum(audit.harness_errors for audit in audits),
        "seconds": round(seconds, 3),
    }


def why(verdict: Verdict) -> str:
    """Detail and cause of a verdict."""
    return "; ".join(filter(None, (verdict.detail, verdict.cause)))


def harness_line(audit: Audit) -> str:
    """Warning about samples without a verdict after a harness error."""
    first = next(verdict for verdict in audit.verdicts if verdict.broken)
    where = f"{audit.name}: HARNESS ERRORS: {audit.harness_errors} samples have no verdict"
    return visible(f"{where}; the first is {first.sample.id}: {first.detail}; run `reflexion-lab doctor`")


def _named(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - NAMED} more" if len(ids) > NAMED else ""
    return ", ".join(map(visible, ids[:NAMED])) + more
