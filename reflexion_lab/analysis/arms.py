"""Arms: the runs of one method over its seeds, put together. Comparisons are made of arms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.stats.bootstrap import FEWEST, interval
from reflexion_lab.analysis.stats.intervals import Estimate, Rate
from reflexion_lab.errors import DataError
from reflexion_lab.loop.selection import submitted_at
from reflexion_lab.records import Attempt, Grade
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.runner.folder.manifest import DATA, measured

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

SEEDED = ("seed", "benchmark.load.seed", "reflector.pool", "study")
"""Config keys in which the runs of one arm may differ, and every key that ends in `.seed`."""


WILSON = "Wilson"
BOOTSTRAP = f"bootstrap over tasks at these seeds (Wilson, discounted, where fewer than {FEWEST} ever passed or failed)"


class Case(NamedTuple):
    """One task at one seed: what is paired between arms. Cases of one task are one cluster."""

    seed: int
    task_id: str


class Arm:
    """The finished runs of one method, at most one a seed.

    Parameters
    ----------
    label : str
        How tables and figures name it.
    logs : Sequence[Log]
        Every attempt graded.

    Raises
    ------
    DataError
        Two runs of one seed; a run that is not finished or not graded, or has no hidden verdict at all;
        several feedback sources.
    """

    def __init__(self, label: str, logs: Sequence[Log]) -> None:
        self.label = label
        self.logs = tuple(sorted(logs, key=lambda log: log.manifest.seed))
        if not self.logs:
            raise DataError(f"arm {label}", "no run", "one at least")
        for log in self.logs:
            _check_finished(log)
        _check_alike(label, self.logs)

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(log.manifest.seed for log in self.logs)

    @property
    def feedback_source(self) -> str:
        return self.logs[0].manifest.feedback_source

    @property
    def is_upper_bound(self) -> bool:
        """Hidden tests or solutions reached its loops: none of its figures is a pass@1."""
        return any(log.is_upper_bound for log in self.logs)

    @cached_property
    def attempts(self) -> dict[Case, list[Attempt]]:
        return {
            Case(log.manifest.seed, task_id): attempts
            for log in self.logs
            for task_id, attempts in log.attempts.items()
        }

    @cached_property
    def grades(self) -> dict[Case, dict[int, Grade]]:
        """Hidden verdicts by case, then by attempt number."""
        by_case: dict[Case, dict[int, Grade]] = {}
        for log in self.logs:
            for (task_id, number), grade in log.grades.items():
                by_case.setdefault(Case(log.manifest.seed, task_id), {})[number] = grade
        return by_case

    @property
    def tasks(self) -> list[str]:
        """Distinct ids of `judged` tasks, sorted: the clusters, and the rows of `outcomes`."""
        return sorted({case.task_id for case in self.judged})

    @property
    def longest(self) -> int:
        """Attempts of the longest loop."""
        return max(len(attempts) for attempts in self.attempts.values())

    @cached_property
    def no_verdict(self) -> tuple[Case, ...]:
        """Cases on which the hidden tests say nothing, sorted; they are in no rate's n."""
        return tuple(sorted(Case(log.manifest.seed, task_id) for log in self.logs for task_id in log.no_verdict))

    @property
    def judged(self) -> dict[Case, list[Attempt]]:
        """`attempts` without the cases of `no_verdict`."""
        left_out = set(self.no_verdict)
        return {case: attempts for case, attempts in self.attempts.items() if case not in left_out}

    def verdicts(self, t: int | None = None) -> dict[Case, bool]:
        """By case of `judged`, the hidden verdict on what would have been submitted had the loop been cut at attempt
        `t`.
        """
        return {
            case: self.grades[case][submitted_at(attempts, t).number].passed for case, attempts in self.judged.items()
        }

    def share(self, verdicts: Mapping[Case, bool], seed: int = 0) -> Estimate:
        """The share of `verdicts` that passed, with its interval by `share_method`; `seed` is that of the bootstrap."""
        if len(self.seeds) > 1:
            return interval(self.outcomes(verdicts), seed)
        rate = Rate.of(sum(verdicts.values()), len(verdicts))
        return Estimate(value=rate.share, low=rate.low, high=rate.high)

    @property
    def share_method(self) -> str:
        return WILSON if len(self.seeds) == 1 else BOOTSTRAP

    def outcomes(self, verdicts: Mapping[Case, bool], tasks: Sequence[str] | None = None) -> NDArray[float64]:
        """`verdicts` as an array of 0 and 1, shape (tasks, seeds), rows by `tasks` (default: this arm's), columns by
        `seeds`; not a number where a case has none.
        """
        import numpy as np

        rows = {task_id: row for row, task_id in enumerate(tasks or self.tasks)}
        columns = {seed: column for column, seed in enumerate(self.seeds)}
        array = np.full((len(rows), len(columns)), np.nan)
        for case, passed in verdicts.items():
            if case.task_id in rows:
                array[rows[case.task_id], columns[case.seed]] = passed
        return array


def arms(runs: Iterable[Path | str | RunFolder], by: Sequence[str] = ()) -> list[Arm]:
    """The runs grouped into arms, in the order in which they first come.

    Runs of one `arm` that differ in a swept key are arms of their own, named with it: `reflexion recall.omega=3`.

    Parameters
    ----------
    by : Sequence[str], default ()
        Dotted config keys to name arms by, instead of those in which they are found to differ.

    Raises
    ------
    FolderError
        A folder is none.
    DataError
        As `Arm`.
    """
    logs = [Log.read(run if isinstance(run, RunFolder) else RunFolder.existing(run)) for run in runs]
    named: dict[str, list[Log]] = {}
    for log in logs:
        named.setdefault(log.arm, []).append(log)
    return [arm for name, members in named.items() for arm in _split(name, members, by)]


def flat(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and values of a config; lists are values."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _split(name: str, logs: Sequence[Log], by: Sequence[str]) -> list[Arm]:
    configs = [dict(flat(measured(log.manifest.config))) for log in logs]
    keys = by or _distinguishing_keys(
        [{key: value for key, value in config.items() if not _is_place(key, logs)} for config in configs]
    )
    groups: dict[str, list[Log]] = {}
    for log, config in zip(logs, configs, strict=True):
        label = " ".join((name, *(f"{key}={config.get(key)}" for key in keys)))
        groups.setdefault(label, []).append(log)
    return [Arm(label, members) for label, members in groups.items()]


def _distinguishing_keys(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The keys in which the configs differ but for the seed; the one with the shortest values where it tells as much as
    all of them.
    """
    keys = [key for key in sorted({key for config in configs for key in config}) if not _is_seed(key)]
    values = {key: [repr(config.get(key)) for config in configs] for key in keys}
    values = {key: texts for key, texts in values.items() if len(set(texts)) > 1}
    kinds = len(set(zip(*values.values(), strict=True)))
    enough = [key for key, texts in values.items() if len(set(texts)) == kinds]
    return [min(enough, key=lambda key: len("".join(values[key])))] if enough else list(values)


def _is_place(key: str, logs: Sequence[Log]) -> bool:
    """Where a model or the tasks lie, if fingerprints say that they are one. Replays have each a recording."""
    if key == DATA:
        return len({log.manifest.benchmark_digest for log in logs}) == 1
    if key == "embedder.path":
        return all("fingerprint" in _embedder(log) for log in logs)
    alike = len({repr((log.manifest.model_fingerprint, log.manifest.role_fingerprints)) for log in logs}) == 1
    return alike and key.startswith(("model.", "roles.")) and key.endswith(".path")


def _embedder(log: Log) -> Mapping[str, Any]:
    config = log.manifest.config.get("embedder")
    return config if isinstance(config, Mapping) else {}


def _is_seed(key: str) -> bool:
    return key in SEEDED or key.endswith(".seed")


def _check_finished(log: Log) -> None:
    manifest = log.manifest
    if len(log.results) != manifest.n_expected:
        raise DataError(
            f"run {manifest.run_id}",
            f"{len(log.results)} of {manifest.n_expected} tasks",
            "all of them",
            "finish it with resume=",
        )
    if not log.is_graded:
        raise DataError(
            f"run {manifest.run_id}",
            "attempts without a hidden verdict",
            "all of them graded",
            "finish it with resume=",
        )
    if len(log.no_verdict) == len(log.attempts):
        raise DataError(
            f"run {manifest.run_id}",
            f"no task with a hidden verdict ({log.no_verdict[0]}: {log.grades[log.no_verdict[0], 1].outcome})",
            "hidden tests in the benchmark's tasks",
        )


def _check_alike(label: str, logs: Sequence[Log]) -> None:
    by_seed: dict[int, str] = {}
    for log in logs:
        manifest = log.manifest
        if other := by_seed.get(manifest.seed):
            raise DataError(
                f"arm {label}", f"two runs of seed {manifest.seed}, {other} and {manifest.run_id}", "one a seed"
            )
        by_seed[manifest.seed] = manifest.run_id
    if len(sources := {log.manifest.feedback_source for log in logs}) > 1:
        raise DataError(f"arm {label}", f"feedback sources {', '.join(sorted(sources))}", "one")
