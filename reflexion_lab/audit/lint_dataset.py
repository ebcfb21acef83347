"""Is a benchmark fit to measure with? What its tasks promise, checked task by task, programs in the sandbox.

A benchmark whose canonical solutions fail, whose tests let wrong programs pass, or whose hidden tests are shown to
the loop, yields figures that mean something else than they say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, NamedTuple

from reflexion_lab.analysis.stats.intervals import Rate, clustered
from reflexion_lab.audit.lint_programs import Trial, tried
from reflexion_lab.audit.lint_tasks import disjoint, entry_points, ids, parses, prompts, suites
from reflexion_lab.protocols import Sandbox
from reflexion_lab.records import Task

Severity = Literal["error", "warning", "not checked"]
CHECKS = (
    "ids unique",
    "prompts unique",
    "code parses",
    "tests there",
    "entry point tested",
    "hidden not shown",
    "canonical passes",
    "stub fails",
    "mutants fail",
)
"""What is checked, in the order of the table."""


class Finding(NamedTuple):
    """One thing that is not as it should be, or could not be looked at."""

    check: str
    severity: Severity
    task_id: str
    detail: str


class Linted(NamedTuple):
    """What was found."""

    benchmark: str
    tasks: int
    findings: tuple[Finding, ...]
    """In the order of `CHECKS`, then of the tasks."""
    trials: tuple[Trial, ...]
    """What the programs did, one a task."""

    @property
    def errors(self) -> int:
        return sum(finding.severity == "error" for finding in self.findings)

    def score(self, side: Literal["hidden", "visible"]) -> Rate:
        """The share of mutants that the tests of this side failed; its interval takes tasks as clusters.

        Of the visible side, only mutants of tasks that have visible tests count.
        """
        counted = [trial for trial in self.trials if trial.mutants and (side == "hidden" or trial.sees)]
        total = sum(trial.mutants for trial in counted)
        killed = total - sum(len(trial.survivors) if side == "hidden" else trial.unseen for trial in counted)
        if not total:
            return Rate.of(0, 0)
        low, high = clustered(killed / total, [trial.mutants for trial in counted])
        return Rate(k=killed, n=total, share=killed / total, low=low, high=high)


def lint(
    tasks: Sequence[Task],
    executor: Sandbox,
    *,
    benchmark: str = "",
    mutants: int = 30,
    seed: int = 0,
    workers: int = 1,
    strict: bool = False,
    each: Callable[[], None] = lambda: None,
) -> Linted:
    """Check `tasks`, at most `mutants` mutants of each, drawn by `seed`; `each` is called when a task is done.

    With `strict` a warning is an error.

    Raises
    ------
    HarnessError
        The sandbox is broken.
    """

    def finding(task: Task) -> Trial:
        trial = tried(task, executor, mutants, seed)
        each()
        return trial

    with ThreadPoolExecutor(workers) as pool:
        trials = tuple(pool.map(finding, tasks))
    by_check = {
        "ids unique": ids(tasks),
        "prompts unique": prompts(tasks),
        "code parses": parses(tasks),
        "tests there": suites(tasks),
        "entry point tested": entry_points(tasks),
        "hidden not shown": disjoint(tasks),
    }
    findings = [Finding(check, *row) for check, rows in by_check.items() for row in rows]
    findings += [Finding(*row) for trial in trials for row in trial.said]
    if strict:
        findings = [
            finding._replace(severity="error") if finding.severity == "warning" else finding for finding in findings
        ]
    findings.sort(key=lambda finding: CHECKS.index(finding.check))
    return Linted(benchmark, len(tasks), tuple(findings), trials)
