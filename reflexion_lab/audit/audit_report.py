"""Results of audits as tables and lines, for terminal and notebook."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console

from reflexion_lab.analysis.report.cells import interval, listed
from reflexion_lab.analysis.report.sheets import Sheet, as_table
from reflexion_lab.analysis.stats.bootstrap import rate
from reflexion_lab.audit.audit import Audit, Unread, agreement
from reflexion_lab.audit.causes import CAUSES
from reflexion_lab.audit.outcomes import Outcomes
from reflexion_lab.audit.verdicts import Verdict
from reflexion_lab.io.terminal_text import plain, visible
from reflexion_lab.records import Record
from reflexion_lab.text import shorten

NAMED = 5
"""Maximum number of ids in a finding."""
LINES, COLUMNS = 15, 80
"""Size of the first screen."""
UNKNOWN_CAUSE = "unknown"
WORD = {True: "pass", False: "fail", None: "none"}


class PublishedResult(Record, frozen=True):
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
    say = functools.partial(console.print, markup=False, highlight=False, soft_wrap=True)
    for text in summary(audits, unread, outcomes):
        say(text)
    if details:
        console.print(as_table(overview(audits)))
        for audit in audits:
            lines = [f"- {line}" for line in findings(audit)]
            if differing := audit.disagreements:
                rows = [_differing(verdict) for verdict in differing]
                lines = [f"- {len(differing)} of {audit.compared} logged verdicts differ:", *rows, *lines]
            if lines:
                say("\n".join([visible(audit.name), *lines, ""]))
        for file in unread:
            say(visible(f"not read: {plain(file.problem)}"))
    for line in (harness_line(audit) for audit in audits if audit.harness_errors):
        say(line, style="bold white on red")


def summary(audits: Sequence[Audit], unread: Sequence[Unread] = (), outcomes: Sequence[Outcomes] = ()) -> list[str]:
    """The answer in at most `LINES` lines of `COLUMNS` columns: agreement, pass rates, causes, unreadable files."""
    lines = list(_answer(audits)) if audits else []
    lines += [line for log in outcomes for line in (_outcome_line(log), *(f"  {note}" for note in log.notes))]
    lines += [f"Not read: {file.name}: {plain(file.problem)}" for file in unread]
    others = sum(1 for audit in audits for _ in findings(audit))
    last = [f"{len(audits)} log{'s' * (len(audits) != 1)}, {others} other findings: --details"] if audits else []
    if len(lines) + len(last) > LINES:
        left = len(lines) - (LINES - len(last) - 1)
        lines = [*lines[:-left], f"and {left} more lines"]
    return [shorten.cut(visible(line, kept=""), COLUMNS) for line in (*lines, *last)]


def _answer(audits: Sequence[Audit]) -> Iterator[str]:
    if compared := sum(audit.compared for audit in audits):
        share = agreement(audits)
        percent = f"{100 * share.value:.2f} % {interval(share.low, share.high, digits=2)}"
        yield f"Agreement: {sum(audit.agree for audit in audits)} of {compared} logged verdicts hold: {percent}"
    else:
        yield "No logged verdict to compare"
    verdicts = [verdict for audit in audits for verdict in audit.verdicts]
    logged = [verdict.sample.logged for verdict in verdicts if verdict.sample.logged is not None]
    here = rate((verdict.sample.task_id, verdict.passed) for verdict in verdicts if verdict.is_judged)
    percent = f" ({100 * here.share:.1f} % {interval(here.low, here.high)})" if here.n else ""
    yield f"Passes: {sum(logged)} of {len(logged)} logged, {here.k} of {here.n}{percent} executed here"
    if in_process := sum(verdict.checks_in_process for verdict in verdicts):
        yield f"{in_process} of {sum(verdict.checks for verdict in verdicts)} checks in process: forgeable"
    if empty := {name: why for audit in audits for name, why in audit.vacuous.items()}:
        (name, why), n = next(iter(empty.items())), sum(len(audit.vacuous) for audit in audits)
        yield f"{n} of {len(verdicts)} samples have tests that check nothing, as {name}: {why}"
    if counts := _counts(audits):
        yield f"Differences by cause, n = {counts.total()}:"
    for cause, count in counts.most_common():
        yield f"{count:>6}  {cause or UNKNOWN_CAUSE:<17} {CAUSES.get(cause, 'no execution shows a cause')}"
    for audit in audits:
        rules = {rule.wrong: rule for rule in reversed(audit.self_graded)}  # of rules on the same verdicts the first
        for rule in (rule for rule in audit.self_graded if rules[rule.wrong] is rule):
            where = f" ({_stem(audit)} {rule.run})" if len(audits) > 1 else ""
            yield f"Grades itself: {rule}; {len(rule.wrong)} differ{where}"


def _counts(audits: Sequence[Audit]) -> Counter[str]:
    return sum((audit.causes for audit in audits), start=Counter[str]())


def _differing(verdict: Verdict) -> str:
    """A line, since causes are too long for a column."""
    outcomes = f"logged {WORD[verdict.sample.logged]}, re-executed {verdict.outcome}"
    return visible(f"    {verdict.sample.id}: {outcomes}: {why(verdict)}").replace("\n", " ")


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
    caption = "Passes. Re-executed: each program in its own namespace; 95 % over tasks. Kappa: agreement beyond "
    caption += f"chance (Cohen). Harness errors: {errors}."
    return Sheet(title="Logged and re-executed", columns=columns, rows=rows, caption=caption)


def against_paper(published: Mapping[str, PublishedResult], audits: Mapping[str, Audit]) -> Sheet:
    """Pass rates of the paper, its logs, and our execution, one row per audit."""
    columns = ("method and benchmark", "paper, %", "log", "log, %", "re-executed", "re-executed, %", "95 % interval")
    rows = tuple(
        (
            published[key].label,
            "—" if published[key].percent is None else f"{published[key].percent:.1f}",
            f"{audit.logged_rate.k}/{audit.logged_rate.n}",
            f"{100 * audit.logged_rate.share:.1f}",
            f"{audit.rate.k}/{audit.rate.n}",
            f"{100 * audit.rate.share:.1f}",
            interval(audit.rate.low, audit.rate.high),
        )
        for key, audit in audits.items()
    )
    caption = "Shares of tasks. Re-executed: every stored program with its log's own test, in its own namespace."
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
    share = agreement(audits) if any(audit.compared for audit in audits) else None
    return {
        "n": sum(audit.n for audit in audits),
        "logged_pass": sum(audit.logged_rate.k for audit in audits),
        "pass": sum(audit.rate.k for audit in audits),
        "agree": sum(audit.agree for audit in audits),
        "kappa": {audit.name: audit.kappa for audit in audits},
        "agreement": {"share": share.value, "low": share.low, "high": share.high} if share else None,
        "causes": {cause or UNKNOWN_CAUSE: count for cause, count in _counts(audits).items()},
        "self_graded": {audit.name: [str(rule) for rule in audit.self_graded] for audit in audits if audit.self_graded},
        "vacuous_tests": {audit.name: audit.vacuous for audit in audits if audit.vacuous},
        "outcomes": [_outcome_json(log) for log in outcomes],
        "unread": {file.name: file.problem for file in unread},
        "disagree": rows,
        "harness_errors": sum(audit.harness_errors for audit in audits),
        "seconds": round(seconds, 3),
    }


def _outcome_line(log: Outcomes) -> str:
    share = log.share
    rate = f"{100 * share.value:.1f} % {interval(share.low, share.high)}"
    return f"Logged, not executed: {rate}, n = {log.n}: {log.metric}, {log.name} ({log.format})"


def _outcome_json(log: Outcomes) -> dict[str, Any]:
    share = log.share
    return {
        "name": log.name,
        "format": log.format,
        "metric": log.metric,
        "tasks": len(log.by_task),
        "n": log.n,
        "share": share.value,
        "low": share.low,
        "high": share.high,
        "notes": list(log.notes),
    }


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
    return listed(map(visible, ids), NAMED)
