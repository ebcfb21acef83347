"""What an import prints: every run with its feedback source, its figures, and what in the record differs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reflexion_lab.analysis.estimators import Point
from reflexion_lab.analysis.report.cells import interval, line, table
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.stats.intervals import Rate
from reflexion_lab.runner.folder.folder import RunFolder

if TYPE_CHECKING:
    from rich.console import Console

    from reflexion_lab.audit.import_account import Account
    from reflexion_lab.audit.import_runs import Imported


def show(imported: Sequence[Imported], console: Console) -> None:
    """The table of runs, then their remarks and exclusions."""
    runs = table(
        "Recorded runs, executed here",
        "run",
        "feedback",
        "tasks",
        "attempts",
        "first",
        "submitted",
        "source's",
        names=2,
    )
    for number, run in enumerate(imported, 1):
        log = Log.read(RunFolder(run.folder))
        ends: list[Point | None] = [*log.points] or [None]
        source = run.account.source_pass
        first, last = (Rate.of(end.solved, end.n) if end else Rate.of(0, 0) for end in (ends[0], ends[-1]))
        fed = "oracle: UPPER BOUND" if log.manifest.feedback_source == "oracle" else log.manifest.feedback_source
        shares = f"{100 * first.share:.1f}", _share(last), f"{100 * source.share:.1f}" if source.n else "-"
        runs.add_row(str(number), line(fed), f"{run.account.tasks}", f"{run.account.attempts}", *shares)
    console.print(runs)
    console.print(
        line(
            "Tasks in % that pass the hidden tests here, Wilson 95 %: attempt 1; what our rule submits (pass@1); "
            "what the source says it submitted."
        )
    )
    for number, run in enumerate(imported, 1):
        console.print(line(f"{number}: {run.folder}"))
        for remark in (*remarks(run.account), *(f"left out: {place}: {why}" for place, why in run.account.excluded)):
            console.print(line(f"   {remark}"))
    existing = sum(not run.is_new for run in imported)
    if existing:
        console.print(line(f"{existing} of {len(imported)} were there already and are kept as they are"))


def remarks(account: Account) -> Iterable[str]:
    """What a reader of the run has to know, one remark each."""
    for name, verdicts in (("feedback", account.feedback), ("hidden", account.hidden)):
        if verdicts.compared > verdicts.agree:
            what = f"{verdicts.ours_alone} pass here alone, {verdicts.recorded_alone} in the record alone"
            yield f"{verdicts.agree} of {verdicts.compared} {name} verdicts as recorded; {what}"
    counted = {
        "loops went on after an attempt that passes its feedback tests here": account.went_on,
        "loops ended early, on an attempt that fails its feedback tests here": account.ended_early,
        "attempts without a program in the record; they fail": len(account.without_program),
        "tasks without a recorded feedback test": account.without_feedback,
        "tasks whose feedback tests hold a hidden one": account.overlapping,
        "tasks of the benchmark are not in the record": len(account.absent),
        "tasks of which the source submitted another attempt than our rule": account.submissions_differ,
        "tasks of which the source submitted no recorded attempt": list(account.submitted_by_source.values()).count(
            None
        ),
    }
    yield from (f"{count} {what}" for what, count in counted.items() if count)
    if account.same_as:
        yield f"the very same attempts as {account.same_as}: one run under two names"


def harness_errors(folder: Path) -> int:
    """Verdicts of a run that the harness spoilt."""
    log = Log.read(RunFolder(folder))
    spoilt = sum(attempt.evaluation.outcome == "harness_error" for attempt in log.every)
    return spoilt + sum(grade.outcome == "harness_error" for grade in log.grades.values())


def _share(rate: Rate) -> str:
    return f"{100 * rate.share:.1f} {interval(rate.low, rate.high)}"
