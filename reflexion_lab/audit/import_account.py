"""The account of an import: `recorded.json` in the run folder, and the printed table."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

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


class Agreement(Record, frozen=True, kw_only=True):
    """Agreement of recorded verdicts with ours."""

    compared: int
    """Attempts with both."""
    agree: int
    ours_alone: int
    """Passes here, failures in the record."""
    recorded_alone: int
    """Failures here, passes in the record."""
    differing: tuple[str, ...] = ()
    """`task/attempt` of each difference."""


class Account(Record, frozen=True, kw_only=True):
    """One recorded run: its content, what was left out, and its agreement with the execution here."""

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
    """Rows that could not be used, with reasons."""
    absent: tuple[str, ...]
    """Tasks of the benchmark that are not in the run."""
    without_program: tuple[str, ...]
    """Attempts (`task/number`) without a program in the record; they fail."""
    without_feedback: int
    """Tasks without a recorded feedback test, if the loop had feedback."""
    overlapping: int
    """Tasks with a feedback test that is also a hidden test."""
    went_on: int
    """Loops that continue after an attempt that passes its feedback tests here."""
    ended_early: int
    """Loops shorter than the longest whose last attempt fails its feedback tests here."""
    feedback: Agreement
    hidden: Agreement
    submitted_by_source: dict[str, int | None]
    """By task, the number of the attempt that the source submitted; None if unknown."""
    submissions_differ: int
    """Tasks for which the source submitted another attempt than our rule."""
    source_pass: Rate
    """Our hidden verdicts on the attempts that the source submitted."""
    logged_solved: int
    """Tasks solved according to the source's log."""
    same_as: str = ""
    """Name of an earlier run of this import with identical attempts; "" if there is none."""


class Imported(NamedTuple):
    """A run folder with the account of its import."""

    folder: Path
    account: Account
    is_new: bool
    """False if it had been imported before."""


def account(
    recording: Recording,
    attempts_by_task: Mapping[str, Sequence[Attempt]],
    grades: Mapping[tuple[str, int], Grade],
    *,
    tasks: Sequence[str],
    overlapping: int,
    excluded: Sequence[tuple[str, str]],
    verdict: str,
) -> Account:
    """The account of `recording`.

    Parameters
    ----------
    tasks : sequence of str
        All tasks of the benchmark.
    excluded : sequence of tuple[str, str]
        Excluded rows besides those of the recording.
    verdict : str
        Field of the recorded verdict of the same hidden tests.
    """
    loops = [loop for loop in recording.loops if loop.task_id in attempts_by_task]
    by_source = {loop.task_id: submitted_by_source(loop) for loop in loops}
    ours = {task_id: submitted_at(attempts).number for task_id, attempts in attempts_by_task.items()}
    named = {task_id: number for task_id, number in by_source.items() if number is not None}
    source_passes = [passed for case in named.items() if (passed := _hidden(grades[case])) is not None]
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
        submitted_by_source=by_source,
        submissions_differ=sum(ours[task_id] != number for task_id, number in named.items()),
        source_pass=Rate.of(sum(source_passes), len(source_passes)),
        logged_solved=sum(loop.fields.get("logged_is_solved") is True for loop in loops),
    )


def agreement(every: Sequence[Attempt], recorded: Sequence[bool | None], ours: Sequence[bool | None]) -> Agreement:
    """Agreement of verdicts on `every` attempt; None means no verdict."""
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
    """1-based number of the attempt that the source submitted; None if its solution is not an attempt.

    A row without a solution submitted its last attempt.
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
    return None if attempt.evaluation.outcome in UNKNOWN else attempt.evaluation.passed


def _hidden(grade: Grade) -> bool | None:
    return None if grade.outcome in UNKNOWN else grade.passed


def overlaps(loop: Transcript, task: Task) -> bool:
    """Whether a feedback test of the loop is also a hidden test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as an invalid escape in a test
        return bool(repeated(loop.tests, task.hidden_tests, task.entry_point))


def show(imported: Sequence[Imported], console: Console) -> None:
    """Print the table of runs, then their remarks and exclusions."""
    columns = ("run", "feedback", "tasks", "attempts", "first", "submitted", "source's")
    runs = table("Recorded runs, executed here", *columns, names=2)
    for number, run in enumerate(imported, 1):
        log = Log.read(RunFolder(run.folder))
        rates = [Rate.of(point.solved, point.n) for point in log.points] or [Rate.of(0, 0)]
        first, last, source = rates[0], rates[-1], run.account.source_pass
        feedback = log.manifest.feedback_source + ": UPPER BOUND" * log.is_upper_bound
        submitted = f"{100 * last.share:.1f} {interval(last.low, last.high)}"
        shares = f"{100 * first.share:.1f}", submitted, f"{100 * source.share:.1f}" if source.n else "-"
        runs.add_row(str(number), line(feedback), f"{run.account.tasks}", f"{run.account.attempts}", *shares)
    console.print(runs)
    submissions = "attempt 1; submission by our rule (pass@1); submission by the source"
    console.print(line(f"Tasks in % that pass the hidden tests here, Wilson 95 %: {submissions}."))
    for number, run in enumerate(imported, 1):
        console.print(line(f"{number}: {run.folder}"))
        for remark in (*remarks(run.account), *(f"left out: {place}: {why}" for place, why in run.account.excluded)):
            console.print(line(f"   {remark}"))
    existing = sum(not run.is_new for run in imported)
    if existing:
        console.print(line(f"{existing} of {len(imported)} run folders existed already and are unchanged"))


def remarks(account: Account) -> Iterable[str]:
    """Remarks for a reader of the run."""
    for name, verdicts in (("feedback", account.feedback), ("hidden", account.hidden)):
        if verdicts.compared > verdicts.agree:
            alone = f"{verdicts.ours_alone} pass only here, {verdicts.recorded_alone} only in the record"
            yield f"{verdicts.agree} of {verdicts.compared} {name} verdicts as recorded; {alone}"
    counted = {
        "loops continue after an attempt that passes its feedback tests here": account.went_on,
        "loops end early, with an attempt that fails its feedback tests here": account.ended_early,
        "attempts without a program in the record; they fail": len(account.without_program),
        "tasks without a recorded feedback test": account.without_feedback,
        "tasks with a hidden test among the feedback tests": account.overlapping,
        "tasks of the benchmark are not in the record": len(account.absent),
        "tasks for which the source submitted another attempt than our rule": account.submissions_differ,
        "tasks for which the source submitted no recorded attempt": [*account.submitted_by_source.values()].count(None),
    }
    yield from (f"{count} {remark}" for remark, count in counted.items() if count)
    if account.same_as:
        yield f"identical attempts to {account.same_as}: one run under two names"


def harness_errors(folder: Path) -> int:
    """Number of verdicts of a run lost to a harness error."""
    log = Log.read(RunFolder(folder))
    outcomes = [attempt.evaluation.outcome for attempt in log.every] + [grade.outcome for grade in log.grades.values()]
    return outcomes.count("harness_error")
