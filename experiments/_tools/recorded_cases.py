"""`python -m experiments._tools.recorded_cases RUN...`: the evidence of imported runs, without their texts.

`cases.csv.gz` holds the columns of `comparison.cases` and the verdicts of the record; `runs.csv` a line per run.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from experiments._tools import output
from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.comparison.cases import load_cases, save_cases
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.audit.import_account import Account
from reflexion_lab.audit.importing import Recording, read_recordings
from reflexion_lab.cli.place import out_folder
from reflexion_lab.errors import ConfigError
from reflexion_lab.io.files import content
from reflexion_lab.records import Record
from reflexion_lab.runner.folder.folder import RunFolder

RUNS, CASES = "runs.csv", "cases.csv.gz"
RECORDED = ("feedback_recorded", "hidden_recorded", "by_source")
"""Columns beside those of `comparison.cases`: verdicts of the record, 1, 0 or "" for none; 1 for the attempt that the
source submitted.
"""


class Run(Record, frozen=True, kw_only=True):
    """One imported run, a line of `runs.csv`."""

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
    """The runs that `write_cases` wrote to `folder`.

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
        raise ConfigError(folder, repr(problem), f"{RUNS} and {CASES} of `experiments._tools.recorded_cases`") from None
    logs = {(arm.label, log.manifest.seed): log for arm in load_cases(folder / CASES) for log in arm.logs}
    return [Evidence(run=run, log=logs[run.arm, run.seed], recorded=recorded[run.arm, run.seed]) for run in runs]


def write_cases(folders: Sequence[Path], transcripts: Path, out: Path) -> list[Path]:
    """Write a line per run folder of `reflexion-lab import`, and a line per attempt.

    Parameters
    ----------
    transcripts : Path
        Folder of the imported files, whose recorded verdicts are read.
    """
    evidence = list(_evidence(folders, transcripts))
    arms: dict[str, list[Log]] = {}
    for each in evidence:
        arms.setdefault(each.run.arm, []).append(each.log)
    recorded = {(each.run.arm, each.run.seed): each.recorded for each in evidence}
    text = io.StringIO(newline="")
    with tempfile.TemporaryDirectory() as folder:
        path = save_cases(Path(folder) / "cases.csv", [Arm(name, logs) for name, logs in arms.items()])
        with path.open(newline="") as file:
            reader = csv.DictReader(file)
            writer = csv.DictWriter(text, [*(reader.fieldnames or ()), *RECORDED], lineterminator="\n")
            writer.writeheader()
            for row in reader:
                verdicts = recorded[row["arm"], int(row["seed"])][row["task"], int(row["attempt"])]
                writer.writerow(row | dict(zip(RECORDED, verdicts, strict=True)))
    (out / CASES).write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))
    runs = output.write_csv(out / RUNS, [msgspec.structs.asdict(each.run) for each in evidence])
    return [runs, out / CASES]


def _evidence(folders: Sequence[Path], transcripts: Path) -> Iterator[Evidence]:
    recordings: dict[str, dict[tuple[str, str], Recording]] = {}
    for folder in folders:
        log = Log.read(RunFolder.existing(folder), texts=False)
        account = msgspec.json.decode(content(folder / "recorded.json", "an imported run"), type=Account)
        if account.file not in recordings:
            read = read_recordings([transcripts / account.file])
            recordings[account.file] = {(each.strategy, each.run): each for each in read}
        recording = recordings[account.file][account.strategy, account.run]
        yield Evidence(run=_run(log, account), log=log, recorded=_recorded(log, account, recording))


def _run(log: Log, account: Account) -> Run:
    config: Mapping[str, Any] = log.manifest.config
    return Run(
        arm=log.manifest.run_id.removeprefix("recorded-").removesuffix(f"-s{log.manifest.seed}"),
        seed=log.manifest.seed,
        method=log.arm,
        variant=config["recorded"]["variant"],
        strategy=account.strategy,
        source=account.source,
        file=account.file,
        excluded=len(account.excluded),
        overlapping=account.overlapping,
        max_attempts=config["loop"]["max_attempts"],
        same_as=account.same_as,
    )


def _recorded(log: Log, account: Account, recording: Recording) -> dict[tuple[str, int], tuple[str, ...]]:
    """Values of `RECORDED` by task and attempt."""
    config: Mapping[str, Any] = log.manifest.config["recorded"]  # type: ignore[assignment]
    is_own = config["hidden_tests"] == "own" or not recording.has_tests
    field = f"{'own' if is_own else 'he'}_{'lenient' if config['lenient'] else 'pass'}"

    def text(verdict: bool | None) -> str:
        return "" if verdict is None else str(int(verdict))

    return {
        (loop.task_id, step.number): (
            text(step.passed_feedback),
            text(step.verdict(field)),
            "1" if account.submitted_by_source[loop.task_id] == step.number else "",
        )
        for loop in recording.loops
        if loop.task_id in log.attempts
        for step in loop.steps
    }


def main(argv: Sequence[str] | None = None) -> int:
    return output.run(parser(), _main, argv)


def parser() -> argparse.ArgumentParser:
    top = output.script_parser("recorded_cases", "facts of the runs that `reflexion-lab import` wrote, without texts")
    top.add_argument("runs", metavar="RUN", nargs="+", type=Path, help="run folders")
    top.add_argument(
        "--transcripts", metavar="DIR", type=Path, default=".", help="folder of the imported files; default: ."
    )
    top.add_argument("--out", metavar="DIR", default=".", help=f"write {RUNS} and {CASES} there; default: .")
    return top


def _main(options: argparse.Namespace) -> int:
    output.print_written(write_cases(options.runs, options.transcripts, out_folder(options.out)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
