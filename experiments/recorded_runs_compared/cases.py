"""The evidence of recorded runs: `cases.csv.gz` has the columns of `comparison.cases` and the verdicts of the record, a
line per attempt; `runs.csv` has a line per run. `execution` writes both.
"""

from __future__ import annotations

import csv
import gzip
import io
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from reflexion_lab.analysis.comparison.cases import load_cases
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Record

RUNS, CASES = "runs.csv", "cases.csv.gz"
RECORDED = ("feedback_recorded", "hidden_recorded", "by_source")
"""Columns beside those of `comparison.cases`: verdicts of the record, 1, 0 or "" for none; 1 for the attempt that the
source submitted.
"""
COMPARED = "benediktstroebl/agent-evals"
"""Source of the runs that are compared, with the hidden tests of HumanEval; the others have tests of their own."""


class Run(Record, frozen=True, kw_only=True):
    """One run, a line of `runs.csv`."""

    arm: str
    """Name of its arm in `cases.csv.gz`."""
    seed: int
    """Number of the run in its source."""
    method: str
    variant: str
    strategy: str
    source: str
    file: str
    excluded: int
    """Rows of the file that were left out."""
    overlapping: int
    """Tasks with a feedback test that is also a hidden test."""
    max_attempts: int
    """Attempts of the longest loop of the arm."""
    same_as: str
    """An earlier run with identical attempts; "" if there is none."""

    @property
    def is_compared(self) -> bool:
        return self.source.startswith(COMPARED)


class Case(NamedTuple):
    """One attempt: its outcomes here, and in the record."""

    task: str
    attempt: int
    program: bool
    feedback: str
    hidden: str
    feedback_recorded: str
    hidden_recorded: str
    by_source: str


class Evidence(Record, frozen=True, kw_only=True, dict=True):
    """A run with its attempts."""

    run: Run
    log: Log
    recorded: dict[tuple[str, int], tuple[str, ...]]
    """Values of `RECORDED` by task and attempt."""

    @cached_property
    def by_task(self) -> dict[str, list[Case]]:
        """Attempts by task, in order."""
        return {
            task: [
                Case(
                    task,
                    attempt.number,
                    bool(attempt.trajectory.solution),
                    attempt.evaluation.outcome,
                    self.log.grades[task, attempt.number].outcome,
                    *self.recorded[task, attempt.number],
                )
                for attempt in attempts
            ]
            for task, attempts in self.log.attempts.items()
        }

    @property
    def cases(self) -> list[Case]:
        return [case for own in self.by_task.values() for case in own]

    def cut(self, attempts: int | None) -> Log:
        """Its records with loops of at most `attempts` attempts."""
        kept = {task: own[:attempts] for task, own in self.log.attempts.items()}
        grades = {(task, a.number): self.log.grades[task, a.number] for task, own in kept.items() for a in own}
        return replace(self.log, attempts=kept, grades=grades)


def read_cases(folder: Path) -> list[Evidence]:
    """The runs that `execution` wrote to `folder`.

    Raises
    ------
    ConfigError, DataError
        A file is missing, has other columns, or a value is not of its kind.
    """
    try:
        with (folder / RUNS).open(encoding="utf-8", newline="") as file:
            runs = [msgspec.convert(row, Run, strict=False) for row in csv.DictReader(file)]
        recorded: dict[tuple[str, int], dict[tuple[str, int], tuple[str, ...]]] = {}
        for row in csv.DictReader(io.StringIO(gzip.decompress((folder / CASES).read_bytes()).decode(), newline="")):
            verdicts = recorded.setdefault((row["arm"], int(row["seed"])), {})
            verdicts[row["task"], int(row["attempt"])] = tuple(row[name] for name in RECORDED)
    except (OSError, KeyError, ValueError) as problem:
        raise ConfigError(folder, repr(problem), f"{RUNS} and {CASES} of `execution`") from None
    logs = {(arm.label, log.manifest.seed): log for arm in load_cases(folder / CASES) for log in arm.logs}
    return [Evidence(run=run, log=logs[run.arm, run.seed], recorded=recorded[run.arm, run.seed]) for run in runs]
