"""Findings of a benchmark check as a table, lines and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import asdict
from rich.console import Console

from reflexion_lab.analysis.report.cells import interval, line, listed, table
from reflexion_lab.analysis.stats.intervals import Rate
from reflexion_lab.audit.lint_dataset import CHECKS, Finding, Linted
from reflexion_lab.tasks.benchmarks.similar import SIMILAR
from reflexion_lab.text.shorten import number_of

FIRST = 10
"""Maximum number of printed findings per check."""
IDS = 3
STYLES = {"error": "red", "warning": "yellow", "not checked": "dim"}
"""Worst first."""
WORST = ("error", "warning")
PIPED = 120
"""Width of the table without a terminal, in characters."""


def show(linted: Linted, console: Console, all_findings: bool = False) -> None:
    """Print one row per check, the findings and the mutation scores."""
    if not console.is_terminal:
        console.width = PIPED
    columns = ("check", "tasks", "errors", "warnings", "not checked", "first tasks")
    summary = table(f"{linted.benchmark}: {number_of(linted.tasks, 'task')}", *columns)
    summary.columns[-1].justify, summary.columns[-1].no_wrap = "left", False
    by_check = {check: [finding for finding in linted.findings if finding.check == check] for check in CHECKS}
    for check, findings in by_check.items():
        counts = Counter(finding.severity for finding in findings)
        numbers = (str(counts[name] or "-") for name in ("error", "warning", "not checked"))
        first = listed(dict.fromkeys(finding.task_id for finding in _ranked(findings, WORST)), IDS)
        summary.add_row(check, str(linted.tasks - counts["not checked"]), *numbers, line(first))
    console.print(summary)
    for check, findings in by_check.items():
        ranked = _ranked(findings, tuple(STYLES) if all_findings else WORST)
        printed = ranked if all_findings else ranked[:FIRST]
        for finding in printed:
            text = f"{finding.severity}  {check}  {finding.task_id}  {finding.detail}"
            console.print(line(text, STYLES[finding.severity]), soft_wrap=True)
        if len(printed) < len(ranked):
            console.print(line(f"... and {len(ranked) - len(printed)} more of {check}; --all shows them", "dim"))
    for text in figures(linted):
        console.print(line(text), soft_wrap=True)
    console.print(line(number_of(linted.errors, "error"), "bold red" if linted.errors else "bold green"))


def figures(linted: Linted) -> Iterator[str]:
    """Mutation scores, tasks without mutants, and near-duplicate tasks."""
    hidden, visible = linted.score("hidden"), linted.score("visible")
    unmutated = Counter(f.detail for f in linted.findings if f.check == "mutants fail" and f.severity == "not checked")
    if hidden.n:
        mutated = sum(trial.mutants > 0 for trial in linted.trials)
        each = f"{hidden.n / mutated:.1f} per task, intervals with tasks as clusters"
        yield f"mutants that fail the hidden tests: {_share(hidden)}; {each}"
    if visible.n:
        yield f"mutants that fail the visible tests: {_share(visible)}"
    for reason, count in unmutated.items():
        yield f"no mutants of {number_of(count, 'task')}: {reason}"
    if groups := sorted(linted.near_duplicates, key=len, reverse=True):
        clusters = linted.tasks - sum(len(ids) - 1 for ids in groups)
        largest = "; ".join(", ".join(ids[:IDS]) + ", ..." * (len(ids) > IDS) for ids in groups[:IDS])
        yield f"near-duplicate tasks: {linted.tasks} tasks in {clusters} clusters (cosine >= {SIMILAR}): {largest}"


def as_json(linted: Linted, seconds: float) -> dict[str, Any]:
    """The object of `--json`: findings, counts, mutation scores, survivors, near-duplicate tasks."""
    counts = {check: Counter[str]() for check in CHECKS}
    for finding in linted.findings:
        counts[finding.check][finding.severity] += 1
    return {
        "benchmark": linted.benchmark,
        "tasks": linted.tasks,
        "errors": linted.errors,
        "checks": {check: dict(by_severity) for check, by_severity in counts.items()},
        "mutation_score": {"hidden": asdict(linted.score("hidden")), "visible": asdict(linted.score("visible"))},
        "survivors_by_kind": Counter(mutant.kind for trial in linted.trials for mutant in trial.survivors),
        "near_duplicates": [list(ids) for ids in linted.near_duplicates],
        "findings": [finding._asdict() for finding in linted.findings],
        "seconds": round(seconds, 3),
    }


def _ranked(findings: Sequence[Finding], severities: Sequence[str]) -> list[Finding]:
    """Findings of these severities, worst first."""
    chosen = (finding for finding in findings if finding.severity in severities)
    return sorted(chosen, key=lambda finding: list(STYLES).index(finding.severity))


def _share(score: Rate) -> str:
    share = f"{100 * score.share:.1f} % {interval(score.low, score.high)}"
    return f"{share} ({score.k} of {score.n} mutants, 95 %)"
