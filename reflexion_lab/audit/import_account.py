"""The account of an import: `recorded.json` beside the run folder, and the table that an import prints."""

from __future__ import annotations

import ast
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reflexion_lab.analysis.estimators import Point
from reflexion_lab.analysis.report.cells import interval, line, table
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.stats.intervals import Rate
from reflexion_lab.audit.importing import Recording
from reflexion_lab.audit.transcripts import Transcript
from reflexion_lab.loop.selection import submitted_at
from reflexion_lab.records import UNKNOWN, Attempt, Grade, Record, Task
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.tasks.benchmarks.rows import repeated

if TYPE_CHECKING:
    from rich.console import Console

    from reflexion_lab.audit.import_runs import Imported


class Agreement(Record, frozen=True, kw_only=True):
    """Recorded verdicts on attempts beside ours."""

    compared: int
    """Attempts with both."""
    agree: int
    ours_alone: int
    """Passes here that were recorded as failures."""
    recorded_alone: int
    """Passes in the record that fail here."""
    differing: tuple[str, ...] = ()
    """`task/attempt`, each that differs."""


class Account(Record, frozen=True, kw_only=True):
    """One recorded run: what was taken, what was not, and how the record compares with what was executed here."""

    file: str
    source: str
    model: str
    models: tuple[str, ...]
    strategy: str
    run: str
    tasks: int
    attempts: int
    reflections: int
    excluded: tuple[tuple[str, str], ...]
    """Rows that could not be used, and why."""
    absent: tuple[str, ...]
    """Tasks of the benchmark that the run does not hold."""
    without_program: tuple[str, ...]
    """Attempts (`task/number`) without a program in the record: kept, and failing."""
    without_feedback: int
    """Tasks of which no feedback test is recorded, where the loop had feedback."""
    overlapping: int
    """Tasks that have a feedback test that is a hidden one, too."""
    went_on: int
    """Loops with an attempt after one that passes its feedback tests here."""
    ended_early: int
    """Loops that are shorter than the longest, and whose last attempt fails its feedback tests here."""
    feedback: Agreement
    hidden: Agreement
    submitted_by_source: dict[str, int | None]
    """By task, the number of the attempt that the source names as its solution; None where it names none."""
    submissions_differ: int
    """Tasks of which the source submitted another attempt than our rule does."""
    source_pass: Rate
    """Hidden verdicts, ours, on what the source submitted."""
    logged_solved: int
    """Tasks that the source's own log counts as solved."""
    same_as: str = ""
    """An earlier run of this import with the very same attempts; "" for none."""


def account(
    recording: Recording,
    attempts_by_task: Mapping[str, Sequence[Attempt]],
    grades: Mapping[tuple[str, int], Grade],
    *,
    tasks: Sequence[str],
    overlapping: int,
    excluded: Sequence[tuple[str, str]],
    verdict: str,
    same_as: str,
) -> Account:
    """The account of `recording`.

    Parameters
    ----------
    attempts_by_task : mapping
        The attempts of each task.
    tasks : sequence of str
        All of the benchmark's.
    excluded : sequence of tuple[str, str]
        Rows that were left out, beyond those that could not be read.
    verdict : str
        The field of an attempt that holds the recorded verdict of the same hidden tests.
    """
    loops = [loop for loop in recording.loops if loop.task_id in attempts_by_task]
    chosen = {loop.task_id: submitted_by_source(loop) for loop in loops}
    ours = {task_id: submitted_at(attempts).number for task_id, attempts in attempts_by_task.items()}
    named = {task_id: number for task_id, number in chosen.items() if number is not None}
    judged = [passed for case in named.items() if (passed := _hidden(grades[case])) is not None]
    every = [attempt for attempts in attempts_by_task.values() for attempt in attempts]
    ended_early = sum(attempts[-1].stop_reason == "recorded_end" for attempts in attempts_by_task.values())
    steps = [step for loop in loops for step in loop.steps]
    without = [f"{a.task_id}/{a.number}" for a in every if not a.trajectory.solution.strip()]
    has_loop = recording.known.feedback_source != "none"
    return Account(
        file=recording.file,
        source=recording.source,
        model=recording.model,
        models=recording.models,
        strategy=recording.strategy,
        run=recording.run,
        tasks=len(attempts_by_task),
        attempts=len(every),
        reflections=sum(attempt.reflection is not None for attempt in every),
        excluded=(*recording.excluded, *excluded),
        absent=tuple(task_id for task_id in tasks if task_id not in attempts_by_task),
        without_program=tuple(without),
        without_feedback=sum(not loop.tests for loop in loops) if has_loop else 0,
        overlapping=overlapping,
        went_on=sum(any(a.evaluation.passed for a in attempts[:-1]) for attempts in attempts_by_task.values()),
        ended_early=ended_early if has_loop else 0,
        feedback=agreement(every, [step.passed_feedback for step in steps], [_feedback(a) for a in every]),
        hidden=agreement(
            every, [s.verdict(verdict) for s in steps], [_hidden(grades[a.task_id, a.number]) for a in every]
        ),
        submitted_by_source=chosen,
        submissions_differ=sum(ours[task_id] != number for task_id, number in named.items()),
        source_pass=Rate.of(sum(map(bool, judged)), len(judged)),
        logged_solved=sum(loop.fields.get("logged_is_solved") is True for loop in loops),
        same_as=same_as,
    )


def agreement(every: Sequence[Attempt], recorded: Sequence[bool | None], ours: Sequence[bool | None]) -> Agreement:
    """Of three lists in the same order; None is no verdict."""
    pairs = list(zip(every, recorded, ours, strict=True))
    both = [(attempt, was, now) for attempt, was, now in pairs if was is not None and now is not None]
    counted = Counter((was, now) for _, was, now in both)
    return Agreement(
        compared=len(both),
        agree=counted[True, True] + counted[False, False],
        ours_alone=counted[False, True],
        recorded_alone=counted[True, False],
        differing=tuple(f"{attempt.task_id}/{attempt.number}" for attempt, was, now in both if was != now),
    )


def submitted_by_source(loop: Transcript) -> int | None:
    """The attempt that the source took for its solution, 1-based.

    A row that names none and holds no solution of its own took its last one. A solution that is no attempt's text is
    None.
    """
    fields = loop.fields
    if "solution_is_attempt" not in fields and "solution" not in fields:
        return len(loop.steps)
    number = fields.get("solution_is_attempt")
    if isinstance(number, int) and 0 <= number < len(loop.steps):
        return number + 1
    if not isinstance(solution := fields.get("solution"), str):
        return None
    return next((step.number for step in loop.steps if step.code.strip() == solution.strip()), None)


def _feedback(attempt: Attempt) -> bool | None:
    """Our feedback verdict, where there was something to run."""
    return None if attempt.evaluation.outcome in UNKNOWN else attempt.evaluation.passed


def _hidden(grade: Grade) -> bool | None:
    return None if grade.outcome in UNKNOWN else grade.passed


def overlaps(loop: Transcript, task: Task) -> bool:
    """Whether a feedback test of the loop is a hidden test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tests of strangers hold "\d"
        return bool(repeated((test for test in loop.tests if _is_python(test)), task.hidden_tests, task.entry_point))


def _is_python(test: str) -> bool:
    try:
        ast.parse(test)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return True


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
        fed = log.manifest.feedback_source + ": UPPER BOUND" * log.is_upper_bound
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
