"""The evidence of `trials`, without names and texts: outcomes of environments, and retries that repeat themselves."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from experiments._tools import output
from experiments.recorded_runs_compared.trials import Trials
from reflexion_lab.audit.leaks import Retries
from reflexion_lab.errors import ConfigError

ENVIRONMENTS, RETRIES = "environments.csv", "retries.csv"


def write_cases(trials: Sequence[Trials], folder: Path) -> list[Path]:
    """Write one line per run and environment: its number within the world, the run's trials, and the one that solved
    it; and one per trial with recorded transcripts. A file without lines is left out.
    """
    files = {ENVIRONMENTS: list(_environments(trials)), RETRIES: list(_retries(trials))}
    return [output.write_csv(folder / name, rows) for name, rows in files.items() if rows]


def _retries(trials: Sequence[Trials]) -> Iterator[dict[str, object]]:
    for run in trials:
        for trial, retries in enumerate(run.retries, run.start + 1):
            counts = {"retries": retries.n, "identical": retries.identical}
            yield {"world": run.world, "run": run.name, "trial": trial} | counts


def _environments(trials: Sequence[Trials]) -> Iterator[dict[str, object]]:
    names: dict[str, dict[str, int]] = {}
    for run in trials:
        numbers = names.setdefault(run.world, {})
        for name, solved in run.solved.items():
            number = numbers.setdefault(name, len(numbers) + 1)
            row = {"world": run.world, "run": run.name, "environment": number, "trials": len(solved)}
            yield row | {"solved_at": solved.index(True) + 1 if any(solved) else ""}


def read_cases(folder: Path) -> list[Trials]:
    """The runs that `write_cases` wrote to `folder`, with numbers for names.

    Raises
    ------
    ConfigError
        A file has other columns, or that of the environments is missing.
    """
    runs: dict[tuple[str, str], dict[str, tuple[bool, ...]]] = {}
    retries: dict[tuple[str, str], list[Retries]] = {}
    try:
        for row in _lines(folder / ENVIRONMENTS):
            trials, solved_at = int(row["trials"]), int(row["solved_at"] or int(row["trials"]) + 1)
            solved = tuple(trial >= solved_at for trial in range(1, trials + 1))
            runs.setdefault((row["world"], row["run"]), {})[row["environment"]] = solved
        for row in _lines(folder / RETRIES) if (folder / RETRIES).exists() else ():
            counts = Retries(n=int(row["retries"]), identical=int(row["identical"]))
            retries.setdefault((row["world"], row["run"]), []).append(counts)
    except (OSError, KeyError, ValueError) as problem:
        raise ConfigError(folder, repr(problem), "the files that `trials --out` writes") from None
    return [
        Trials(world=run[0], name=run[1], solved=solved, retries=tuple(retries.get(run, ())))
        for run, solved in runs.items()
    ]


def _lines(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
