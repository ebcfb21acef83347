"""`python -m experiments._tools.recorded_cases RUN...`: facts of imported runs, without their texts, as `runs.csv` and
`cases.csv`.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from experiments._tools import output
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.audit.import_account import Account
from reflexion_lab.audit.import_records import NO_MEMORY
from reflexion_lab.audit.importing import Recording, read_recordings
from reflexion_lab.cli.place import out_folder
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import (
    Attempt,
    Check,
    Evaluation,
    Grade,
    Manifest,
    Record,
    Reflection,
    TaskResult,
    Trajectory,
    Usage,
)
from reflexion_lab.runner.folder.folder import RunFolder

RUNS, CASES = "runs.csv", "cases.csv"
Line = TypeVar("Line", bound=Record)
PROGRAM = "-"
"""Stands for a program."""


class Run(Record, frozen=True, kw_only=True):
    """One imported run, a line of `runs.csv`."""

    run: int
    """Number of the run in `cases.csv`."""
    name: str
    arm: str
    variant: str
    seed: int
    """Number of the run in its source."""
    strategy: str
    source: str
    file: str
    benchmark: str
    benchmark_digest: str
    feedback_source: str
    tasks: int
    excluded: int
    """Rows of the file that were left out."""
    absent: int
    """Tasks of the benchmark that are not in the run."""
    overlapping: int
    """Tasks with a feedback test that is also a hidden test."""
    max_attempts: int
    """Attempts of the longest loop."""
    calls_known: int
    """1 if the calls of an attempt are known."""
    same_as: str
    """An earlier run with identical attempts; "" if there is none."""


class Case(Record, frozen=True, kw_only=True):
    """One attempt, a line of `cases.csv`. Recorded verdicts are 1, 0 or "" for none."""

    run: int
    task: str
    attempt: int
    program: int
    """0 if the record has no program."""
    feedback: str
    """Outcome of the feedback tests here."""
    tests: int
    passed: int
    """Feedback tests that passed."""
    feedback_recorded: str
    hidden: str
    """Outcome of the hidden tests here."""
    hidden_recorded: str
    reflected: int
    prompt_tokens: int
    completion_tokens: int
    by_source: str
    """1 for the attempt that the source submitted."""


class Evidence(Record, frozen=True, kw_only=True):
    """A run with its lines."""

    run: Run
    cases: tuple[Case, ...]

    @property
    def by_task(self) -> dict[str, list[Case]]:
        """Attempts by task, in order."""
        tasks: dict[str, list[Case]] = {}
        for case in self.cases:
            tasks.setdefault(case.task, []).append(case)
        return tasks

    def log(self, cut: int | None = None) -> Log:
        """Its records without texts, with loops of at most `cut` attempts."""
        attempts = {task: [_attempt(case, self.run) for case in own[:cut]] for task, own in self.by_task.items()}
        grades = (_grade(case) for case in self.cases if cut is None or case.attempt <= cut)
        return Log(
            manifest=_manifest(self.run),
            results={task: _result(task, len(own), self.run) for task, own in attempts.items()},
            attempts=attempts,
            grades={(grade.task_id, grade.number): grade for grade in grades},
            written={},
            suite_verdicts={},
            clusters={},
            torn=0,
        )


def read_cases(folder: Path) -> list[Evidence]:
    """The runs that `write_cases` wrote to `folder`.

    Raises
    ------
    ConfigError
        A file is missing or has other columns.
    """
    runs, by_run = _lines(folder / RUNS, Run), dict[int, list[Case]]()
    for case in _lines(folder / CASES, Case):
        by_run.setdefault(case.run, []).append(case)
    return [Evidence(run=run, cases=tuple(by_run[run.run])) for run in runs]


def _lines(path: Path, kind: type[Line]) -> list[Line]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return [msgspec.convert(row, kind, strict=False) for row in csv.DictReader(file)]
    except (OSError, ValueError) as problem:
        raise ConfigError(path, problem, "the file that `experiments._tools.recorded_cases` writes") from None


def _manifest(run: Run) -> Manifest:
    return Manifest(
        run_id=run.name,
        created_at="",
        seed=run.seed,
        config={"arm": run.arm},
        config_digest="",
        git_commit="",
        dirty=False,
        package_versions={},
        benchmark=run.benchmark,
        benchmark_digest=run.benchmark_digest,
        n_expected=run.tasks,
        prompt_digests={},
        model_fingerprint=run.variant,
        slots=0,
        feedback_source=run.feedback_source,
        isolation=(),
    )


def _attempt(case: Case, run: Run) -> Attempt:
    outcomes = ["pass"] * case.passed + ["fail"] * (case.tests - case.passed)
    usage = Usage(calls=run.calls_known, prompt_tokens=case.prompt_tokens, completion_tokens=case.completion_tokens)
    return Attempt(
        task_id=case.task,
        number=case.attempt,
        recalled=(),
        trajectory=Trajectory(solution=PROGRAM * case.program, strategy=run.strategy, usage=usage),
        evaluation=Evaluation(
            passed=case.feedback == "pass",
            outcome=case.feedback,
            reward=case.passed / case.tests if case.tests else 0.0,
            checks=tuple(Check(name="", outcome=outcome) for outcome in outcomes),
        ),
        reflection=_reflection(case.attempt) if case.reflected else None,
        memory=NO_MEMORY,
    )


def _reflection(attempt: int) -> Reflection:
    return Reflection(
        reflection_id="",
        about_attempt=attempt,
        root_cause="",
        what_went_wrong="",
        what_to_change="",
        confidence=0.0,
        source="recorded",
        usage=Usage(calls=1),
    )


def _grade(case: Case) -> Grade:
    return Grade(
        task_id=case.task,
        number=case.attempt,
        passed=case.hidden == "pass",
        outcome=case.hidden,
        checks_passed=0,
        checks_total=0,
        sealed=True,
    )


def _result(task: str, attempts: int, run: Run) -> TaskResult:
    return TaskResult(
        task_id=task,
        attempts=attempts,
        submitted=attempts,
        best=attempts,
        last=attempts,
        stop_reason="",
        feedback_source=run.feedback_source,
        duration=0.0,
    )


def write_cases(folders: Sequence[Path], transcripts: Path, out: Path) -> list[Path]:
    """Write a line per run folder of `reflexion-lab import`, and a line per attempt.

    Parameters
    ----------
    transcripts : Path
        Folder of the imported files, whose recorded verdicts are read.
    """
    evidence = list(_evidence(folders, transcripts))
    tables: dict[str, Iterable[Record]] = {
        RUNS: (each.run for each in evidence),
        CASES: (case for each in evidence for case in each.cases),
    }
    return [
        output.write_csv(out / name, [msgspec.structs.asdict(row) for row in rows]) for name, rows in tables.items()
    ]


def _evidence(folders: Sequence[Path], transcripts: Path) -> Iterator[Evidence]:
    recordings: dict[str, dict[tuple[str, str], Recording]] = {}
    for number, folder in enumerate(folders, 1):
        account = msgspec.json.decode((folder / "recorded.json").read_bytes(), type=Account)
        log = Log.read(RunFolder.existing(folder), texts=False)
        if account.file not in recordings:
            read = read_recordings([transcripts / account.file])
            recordings[account.file] = {(each.strategy, each.run): each for each in read}
        yield _run(number, log, account, recordings[account.file][account.strategy, account.run])


def _run(number: int, log: Log, account: Account, recording: Recording) -> Evidence:
    config: Mapping[str, Any] = log.manifest.config
    recorded = config["recorded"]
    is_own = recorded["hidden_tests"] == "own" or not recording.has_tests
    verdict = f"{'own' if is_own else 'he'}_{'lenient' if recorded['lenient'] else 'pass'}"
    run = Run(
        run=number,
        name=log.manifest.run_id,
        arm=log.arm,
        variant=recorded["variant"],
        seed=log.manifest.seed,
        strategy=account.strategy,
        source=account.source,
        file=account.file,
        benchmark=log.manifest.benchmark,
        benchmark_digest=log.manifest.benchmark_digest,
        feedback_source=log.manifest.feedback_source,
        tasks=account.tasks,
        excluded=len(account.excluded),
        absent=len(account.absent),
        overlapping=account.overlapping,
        max_attempts=config["loop"]["max_attempts"],
        calls_known=recording.known.calls,
        same_as=account.same_as,
    )
    steps = {(loop.task_id, step.number): step for loop in recording.loops for step in loop.steps}
    return Evidence(
        run=run,
        cases=tuple(
            _case(attempt, run, log, steps[attempt.task_id, attempt.number], verdict, account)
            for task in sorted(log.attempts)
            for attempt in log.attempts[task]
        ),
    )


def _case(attempt: Attempt, run: Run, log: Log, step: Any, verdict: str, account: Account) -> Case:
    tests = [check.outcome for check in attempt.evaluation.checks]
    recorded = {"feedback_recorded": step.passed_feedback, "hidden_recorded": step.verdict(verdict)}
    by_source = account.submitted_by_source[attempt.task_id] == attempt.number
    return Case(
        run=run.run,
        task=attempt.task_id,
        attempt=attempt.number,
        program=int(bool(attempt.trajectory.solution.strip())),
        feedback=attempt.evaluation.outcome,
        tests=len(tests),
        passed=tests.count("pass"),
        **{name: "" if value is None else str(int(value)) for name, value in recorded.items()},
        hidden=log.grades[attempt.task_id, attempt.number].outcome,
        reflected=int(attempt.reflection is not None),
        prompt_tokens=attempt.trajectory.usage.prompt_tokens,
        completion_tokens=attempt.trajectory.usage.completion_tokens,
        by_source="1" if by_source else "",
    )


def main(argv: Sequence[str] | None = None) -> int:
    return output.run(parser(), _main, argv)


def parser() -> argparse.ArgumentParser:
    top = output.script_parser("recorded_cases", "facts of the runs that `reflexion-lab import` wrote, without texts")
    top.add_argument("runs", metavar="RUN", nargs="+", type=Path, help="run folders")
    top.add_argument("--transcripts", metavar="DIR", type=Path, required=True, help="folder of the imported files")
    top.add_argument("--out", metavar="DIR", required=True, help="write runs.csv and cases.csv there")
    return top


def _main(options: argparse.Namespace) -> int:
    output.print_written(write_cases(options.runs, options.transcripts, out_folder(options.out)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
