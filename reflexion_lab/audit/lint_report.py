"""Findings of a benchmark check as a table, as lines and as JSON; its progress."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from reflexion_lab.analysis.report.cells import line, rate, table
from reflexion_lab.audit.lint_dataset import CHECKS, SIMILAR, Finding, Linted
from reflexion_lab.io.terminal import LOG_EVERY, bar, in_notebook

if TYPE_CHECKING:
    from rich.console import Console

FIRST = 10
"""Findings of one check that are printed."""
IDS = 3
STYLES = {"error": "red", "warning": "yellow", "not checked": "dim"}
"""Worst first."""
WORST = ("error", "warning")
PIPED = 120
"""Columns where there is no terminal."""


def show(linted: Linted, console: Console, all_findings: bool = False) -> None:
    """Print a row per check, the findings and the mutation scores."""
    if not console.is_terminal:
        console.width = PIPED
    columns = ("check", "tasks", "errors", "warnings", "not checked", "first tasks")
    summary = table(f"{linted.benchmark}: {linted.tasks} tasks", *columns)
    summary.columns[-1].justify, summary.columns[-1].no_wrap = "left", False
    for check in CHECKS:
        findings = [finding for finding in linted.findings if finding.check == check]
        counts = Counter(finding.severity for finding in findings)
        numbers = (str(counts[name] or "-") for name in ("error", "warning", "not checked"))
        summary.add_row(check, str(linted.tasks - counts["not checked"]), *numbers, line(_first_ids(findings)))
    console.print(summary)
    for check in CHECKS:
        _show_findings([finding for finding in linted.findings if finding.check == check], console, all_findings)
    for text in figures(linted):
        console.print(line(text), soft_wrap=True)
    word = "error" if linted.errors == 1 else "errors"
    console.print(line(f"{linted.errors} {word}", "bold red" if linted.errors else "bold green"))


def figures(linted: Linted) -> Iterator[str]:
    """The mutation scores, what they leave out, and tasks that are alike."""
    hidden, visible = linted.score("hidden"), linted.score("visible")
    without = Counter(f.detail for f in linted.findings if f.check == "mutants fail" and f.severity == "not checked")
    if hidden.n:
        mutated = sum(trial.mutants > 0 for trial in linted.trials)
        each = f"{hidden.n / mutated:.1f} a task, intervals with tasks as clusters"
        yield f"mutants that the hidden tests fail: {_clustered(rate(hidden, 'mutants'))}; {each}"
    if visible.n:
        yield f"mutants that the visible tests fail: {_clustered(rate(visible, 'mutants'))}"
    for why, count in without.items():
        yield f"no mutants of {count} tasks: {why}"
    if groups := sorted(linted.near_duplicates, key=len, reverse=True):
        clusters = linted.tasks - sum(len(ids) - 1 for ids in groups)
        largest = "; ".join(", ".join(ids[:IDS]) + ", ..." * (len(ids) > IDS) for ids in groups[:IDS])
        yield f"near-duplicate tasks: {linted.tasks} tasks in {clusters} clusters (cosine >= {SIMILAR}): {largest}"


def as_json(linted: Linted, seconds: float) -> dict[str, Any]:
    """Every finding, the counts by check, both scores, survivors by kind of mutant, groups of near-duplicate tasks."""
    counts = {check: Counter[str]() for check in CHECKS}
    for finding in linted.findings:
        counts[finding.check][finding.severity] += 1
    return {
        "benchmark": linted.benchmark,
        "tasks": linted.tasks,
        "errors": linted.errors,
        "checks": {check: dict(by_severity) for check, by_severity in counts.items()},
        "mutation_score": {side: _plain(linted, side) for side in ("hidden", "visible")},
        "survivors_by_kind": Counter(mutant.kind for trial in linted.trials for mutant in trial.survivors),
        "near_duplicates": [list(ids) for ids in linted.near_duplicates],
        "findings": [finding._asdict() for finding in linted.findings],
        "seconds": round(seconds, 3),
    }


@contextmanager
def progress(total: int) -> Iterator[Callable[[], None]]:
    """A function to call after each task: updates a bar in a terminal or notebook, prints lines in a log."""
    is_log = not (sys.stderr.isatty() or in_notebook())
    lock, logged, done = threading.Lock(), time.monotonic(), 0
    with bar(total=total, unit="task", disable=is_log) as tasks:

        def step() -> None:
            nonlocal logged, done
            with lock:
                done += 1
                tasks.update()
                if is_log and time.monotonic() - logged > LOG_EVERY:
                    logged = time.monotonic()
                    print(f"{done}/{total} tasks checked", file=sys.stderr, flush=True)

        yield step


def _show_findings(findings: Sequence[Finding], console: Console, all_findings: bool) -> None:
    ranked = _ranked(findings, tuple(STYLES) if all_findings else WORST)
    listed = ranked if all_findings else ranked[:FIRST]
    for finding in listed:
        text = f"{finding.severity}  {finding.check}  {finding.task_id}  {finding.detail}"
        console.print(line(text, STYLES[finding.severity]), soft_wrap=True)
    if len(listed) < len(ranked):
        console.print(line(f"... and {len(ranked) - len(listed)} more of {findings[0].check}; --all shows them", "dim"))


def _ranked(findings: Sequence[Finding], severities: Sequence[str]) -> list[Finding]:
    """Findings of these severities, worst first."""
    chosen = (finding for finding in findings if finding.severity in severities)
    return sorted(chosen, key=lambda finding: list(STYLES).index(finding.severity))


def _first_ids(findings: Sequence[Finding]) -> str:
    ids = list(dict.fromkeys(finding.task_id for finding in _ranked(findings, WORST)))
    return ", ".join(ids[:IDS]) + (f" and {len(ids) - IDS} more" if len(ids) > IDS else "")


def _plain(linted: Linted, side: Any) -> dict[str, float]:
    import msgspec

    plain: dict[str, float] = msgspec.to_builtins(linted.score(side))
    return plain


def _clustered(text: str) -> str:
    return text.replace("Wilson 95 %", "95 %")
