"""Outcomes of agents' environments, without names and texts: the evidence of `trials`, as `environments.csv`."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from experiments._tools import output
from experiments._tools.trial_logs import Trials
from reflexion_lab.errors import ConfigError

FILE = "environments.csv"


def write_cases(trials: Sequence[Trials], folder: Path) -> Path:
    """Write one line per run and environment: its number within the world, the run's trials, and the one that solved
    it.
    """
    return output.write_csv(folder / FILE, list(_rows(trials)))


def _rows(trials: Sequence[Trials]) -> Iterator[dict[str, object]]:
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
        The file is missing or has other columns.
    """
    path = folder / FILE
    runs: dict[tuple[str, str], dict[str, tuple[bool, ...]]] = {}
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                trials, solved_at = int(row["trials"]), int(row["solved_at"] or int(row["trials"]) + 1)
                solved = tuple(trial >= solved_at for trial in range(1, trials + 1))
                runs.setdefault((row["world"], row["run"]), {})[row["environment"]] = solved
    except (OSError, KeyError, ValueError) as problem:
        raise ConfigError(path, repr(problem), "the file that `trials --out` writes") from None
    return [Trials(world=world, name=name, solved=solved) for (world, name), solved in runs.items()]
