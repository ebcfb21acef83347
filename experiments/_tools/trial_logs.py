"""Success by trial of agents that try each environment again: ALFWorld and WebShop in the Reflexion paper's logs.

A log folder holds one file per trial, `env_results_trial_N.json`: a list of `{name, is_success, ...}`, one object per
environment. Solved environments are not tried again; later files repeat their success.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from reflexion_lab.analysis.estimators import Paired, paired
from reflexion_lab.analysis.stats.intervals import Rate
from reflexion_lab.errors import ConfigError
from reflexion_lab.io.files import UNREADABLE, content
from reflexion_lab.records import Record

TRIAL = re.compile(r"env_results_trial_(\d+)\.json")


class Environment(msgspec.Struct, frozen=True):
    """Outcome of one environment in one file."""

    name: str
    is_success: bool


class Trials(Record, frozen=True, kw_only=True):
    """One run of an agent."""

    world: str
    """Parent of the log folder: the kind of environment."""
    name: str
    """Name of the log folder."""
    solved: dict[str, tuple[bool, ...]]
    """By environment, whether it was solved by trial 1, 2, ..."""

    @property
    def label(self) -> str:
        return f"{self.world}/{self.name}"

    @property
    def length(self) -> int:
        """Number of trials."""
        return len(next(iter(self.solved.values())))

    @property
    def curve(self) -> list[Rate]:
        """Share of environments solved by each trial, with Wilson interval."""
        return [Rate.of(sum(self.at(t).values()), len(self.solved)) for t in range(1, self.length + 1)]

    def at(self, trial: int) -> dict[str, bool]:
        """By environment, whether it was solved by the 1-based `trial`, or by the last one if that is earlier."""
        return {name: solved[min(trial, len(solved)) - 1] for name, solved in self.solved.items()}


class Pairing(Record, frozen=True, kw_only=True):
    """Two runs on the same environments, at each trial of both."""

    first: str
    second: str
    same_start: bool
    """Whether all outcomes in trial 1 are equal."""
    by_trial: tuple[Paired, ...]
    """The second against the first: `repaired` counts environments solved only by the second."""


def read_trials(folders: Sequence[Path | str]) -> list[Trials]:
    """Every log folder in or below `folders`, sorted by name.

    Raises ConfigError: there is none; a file is invalid; a trial is missing; the environments of two trials differ; or
    a solved environment is unsolved later.
    """
    trials_read = [trials for folder in folders for trials in _below(Path(folder))]
    if not trials_read:
        raise ConfigError(", ".join(map(str, folders)), "no env_results_trial_N.json", "one per trial")
    return trials_read


def pairings(trials: Sequence[Trials], baseline: str = "base") -> Iterator[Pairing]:
    """Each run against each run whose name begins with `baseline`, if both have the same world and environments and
    more than one trial.
    """
    for first in (run for run in trials if run.name.startswith(baseline)):
        for second in (run for run in trials if run.world == first.world and not run.name.startswith(baseline)):
            if first.solved.keys() == second.solved.keys() and min(first.length, second.length) > 1:
                common = range(1, min(first.length, second.length) + 1)
                yield Pairing(
                    first=first.label,
                    second=second.label,
                    same_start=first.at(1) == second.at(1),
                    by_trial=tuple(paired(first.at(t), second.at(t)) for t in common),
                )


def _below(folder: Path) -> Iterator[Trials]:
    files = {path for path in folder.rglob("env_results_trial_*.json") if TRIAL.fullmatch(path.name)}
    for place in sorted({path.parent for path in files}):
        yield _read(place, {_number(path): path for path in files if path.parent == place})


def _number(path: Path) -> int:
    match = TRIAL.fullmatch(path.name)
    assert match is not None, path
    return int(match[1])


def _read(folder: Path, files: dict[int, Path]) -> Trials:
    if missing := sorted(set(range(max(files) + 1)) - files.keys()):
        raise ConfigError(folder, f"no env_results_trial_{missing[0]}.json", "one for every trial")
    solved: dict[str, list[bool]] = {}
    for trial in range(len(files)):
        path = files[trial]
        outcomes = _outcomes(path)
        if trial and (odd := sorted(outcomes.keys() ^ solved.keys())):
            raise ConfigError(path, f"environment {odd[0]} in one trial alone", "the same in all trials")
        for name, is_success in outcomes.items():
            before = solved.setdefault(name, [])
            if before and before[-1] and not is_success:
                raise ConfigError(path, f"{name} unsolved, which was solved before", "it to stay solved")
            before.append(is_success)
    where = folder.resolve()
    return Trials(world=where.parent.name, name=where.name, solved={name: tuple(has) for name, has in solved.items()})


def _outcomes(path: Path) -> dict[str, bool]:
    try:
        environments = msgspec.json.decode(content(path, "a trial's results"), type=list[Environment])
    except UNREADABLE as problem:
        raise ConfigError(path, problem, "a list of objects with `name` and `is_success`") from None
    outcomes = {environment.name: environment.is_success for environment in environments}
    if len(outcomes) < len(environments) or not outcomes:
        raise ConfigError(path, f"{len(environments)} entries of {len(outcomes)} names", "each once, and one")
    return outcomes
