"""Results of audits as tables and lines, for terminal and notebook."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reflexion_lab.analysis.report.cells import interval
from reflexion_lab.analysis.report.sheets import Sheet, as_table
from reflexion_lab.analysis.stats.intervals import Rate
from reflexion_lab.audit.audit import Audit, Unread, agreement
from reflexion_lab.audit.causes import CAUSES
from reflexion_lab.audit.outcomes import Outcomes
from reflexion_lab.audit.outcomes_report import outcome_json, outcome_lines
from reflexion_lab.audit.verdicts import Verdict
from reflexion_lab.io.terminal_text import plain, visible
from reflexion_lab.records import Record
from reflexion_lab.text import shorten

if TYPE_CHECKING:
    from rich.console import Console

NAMED = 5
"""Maximum number of ids in a finding."""
LINES, COLUMNS = 15, 80
"""Size of the first screen."""
UNKNOWN_CAUSE = "unknown"
WORD = {True: "pass", False: "fail", None: "none"}


class Printed(Record, frozen=True):
    """The result of a log in its paper."""

    label: str
    percent: float | None = None
    """Percentage in the paper; None if there is none."""


def show(
    audits: Sequence[Audit],
    console: Console,
    unread: Sequence[Unread] = (),
    outcomes: Sequence[Outcomes] = (),
    details: bool = False,
) -> None:
    """Print the answer on one screen; with `details` also a row per file, every disagreement, and other findings.

    Harness errors are printed in red.
    """
    for text in summary(audits, unread, outcomes):
        console.print(text, markup=False, highlight=False, soft_wrap=True)
    if details:
        console.print(as_table(overview(audits)))
        for audit in audits:
            lines = [*_differing(audit), *(f"- {line}" for line in findings(audit))]
            if lines:
                text = "\n".join([visible(audit.name), *lines, ""])
                console.print(text, markup=False, highlight=False, soft_wrap=True)
        for file in unread:
            console.print(visible(f"not read: {plain(file.problem)}"), markup=False, highlight=False, soft_wrap=True)
    for line in (harness_line(audit) for audit in audits if audit.harness_errors):
        console.print(line, style="bold white on red", markup=False, highlight=False, soft_wrap=True)


def summary(audits: Sequence[Audit], unread: Sequence[Unread] = (), outcomes: Sequence[Outcomes] = ()) -> list[str]:
    """The answer in at most `LINES` lines of `COLUMNS` columns: agreement, pass rates, causes, unreadable files."""
    lines = _answer(audits) if audits else []
    lines += [line for log in outcomes for line in outcome_lines(log)]
    lines += [f"Not read: {file.name}: {plain(file.problem)}" for file in unread]
    others = sum(1 for audit in audits for _ in findings(audit))
    last = [f"{len(audits)} log{'s' * (len(audits) != 1)}, {others} other findings: --details"] if audits else []
    if len(lines) + len(last) > LINES:
        left = len(lines) - (LINES - len(last) - 1)
        lines = [*lines[:-left], f"and {left} more lines"]
    return [shorten.cut(visible(line, kept=""), COLUMNS) for line in (*lines, *last)]


def _answer(audits: Sequence[Audit]) -> list[str]:
    compared, agree = sum(audit.compared for audit in audits), sum(audit.agree for audit in audits)
    lines = ["No logged verdict to compare"]
    if compared:
        share = agreement(audits)
        percent = f"{100 * share.value:.2f} % {interval(share.low, share.high, digits=2)}"
        lines = [f"Agreement: {agree} of {compared} logged verdicts hold: {percent}"]
    logged, here = _total([audit.logged_rate for audit in audits]), _total([audit.rate for audit in audits])
    lines.append(f"Passes: {logged.k} of {logged.n} logged, {_rate(here)} executed here")
    lines += _causes(audits)
    return lines + [f"Grades itself: {rule}" for rule in _rules(audits)]


def _total(rates: Sequence[Rate]) -> Rate:
    return Rate.of(sum(rate.k for rate in rates), sum(rate.n for rate in rates))


def _rate(rate: Rate) -> str:
    share = f" ({100 * rate.share:.1f} % {interval(rate.low, rate.high)})" if rate.n else ""
    return f"{rate.k} of {rate.n}{share}"


def _counts(audits: Sequence[Audit]) -> Counter[str]:
    return sum((audit.causes for audit in audits), start=Counter[str]())


def _causes(audits: Sequence[Audit]) -> Iterator[str]:
    counts = _counts(audits)
    if counts:
        yield f"Differences by cause, n = {counts.total()}:"
    for cause, count in counts.most_common():
        yield f"{count:>6}  {cause or UNKNOWN_CAUSE:<17} {CAUSES.get(cause, 'no execution shows a cause')}"


def _rules(audits: Sequence[Audit]) -> Iterator[str]:
    """What logged verdicts follow from; of rules on the same verdicts the first."""
    for audit in audits:
        explained: set[tuple[str, ...]] = set()
        for rule in audit.self_graded:
            if rule.wrong not in explained:
                explained.add(rule.wrong)
                where = f" ({_stem(audit)} {rule.run})" if len(audits) > 1 else ""
                yield f"{rule}; {len(rule.wrong)} differ{where}"


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
            _stem(audit),
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
    for rule in audit.self_graded:
        front = f"{rule.run}: " if rule.run else ""
        yield f"grades itself: {front}{rule}; {len(rule.wrong)} differ here: {_named(rule.wrong)}"
    if imports := sum("usual imports" in verdict.evidence for verdict in audit.verdicts):
        yield f"imports: logged passes that only hold with the usual imports: {imports}"
    counts = audit.visible
    if known := audit.n - counts.unknown:
        table = f"both pass {counts.true_positives}, only feedback {counts.false_positives}, "
        table += f"only hidden {counts.false_negatives}, none {counts.true_negatives}"
        yield f"feedback tests and hidden tests, n = {known}: {table}"
    for run, retries in leaks.fixed:
        front = f"{run}: " if run else ""
        yield f"control that cannot change: {front}{retries} retries repeat the program before word for word"
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


def as_json(
    audits: Sequence[Audit], seconds: float, unread: Sequence[Unread] = (), outcomes: Sequence[Outcomes] = ()
) -> dict[str, Any]:
    """The object of `--json`, over all files; ids include the file name if there are several.

    `cause` is one of `causes.CAUSES`, null if none could be shown.
    """
    rows = [
        {
            "id": f"{audit.name}:{verdict.sample.id}" if len(audits) > 1 else verdict.sample.id,
            "logged": verdict.sample.logged,
            "verdict": verdict.passed,
            "outcome": verdict.outcome,
            "cause": verdict.cause or None,
            "detail": why(verdict),
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
        "agreement": _agreement(audits),
        "causes": {cause or UNKNOWN_CAUSE: count for cause, count in _counts(audits).items()},
        "self_graded": {audit.name: [str(rule) for rule in audit.self_graded] for audit in audits if audit.self_graded},
        "outcomes": [outcome_json(log) for log in outcomes],
        "unread": {file.name: file.problem for file in unread},
        "disagree": rows,
        "harness_errors": sum(audit.harness_errors for audit in audits),
        "seconds": round(seconds, 3),
    }


def _agreement(audits: Sequence[Audit]) -> dict[str, float] | None:
    if not any(audit.compared for audit in audits):
        return None
    share = agreement(audits)
    return {"share": share.value, "low": share.low, "high": share.high}


def why(verdict: Verdict) -> str:
    """Detail, cause and evidence of a verdict that differs from the log."""
    return "; ".join(filter(None, (verdict.detail, verdict.cause or UNKNOWN_CAUSE, verdict.evidence)))


def harness_line(audit: Audit) -> str:
    """Warning about samples without a verdict after a harness error."""
    first = next(verdict for verdict in audit.verdicts if verdict.broken)
    where = f"{audit.name}: HARNESS ERRORS: {audit.harness_errors} samples have no verdict"
    return visible(f"{where}; the first is {first.sample.id}: {first.detail}; run `reflexion-lab doctor`")


def _stem(audit: Audit) -> str:
    return audit.name.removesuffix(".gz").removesuffix(".jsonl")


def _named(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - NAMED} more" if len(ids) > NAMED else ""
    return ", ".join(map(visible, ids[:NAMED])) + more
