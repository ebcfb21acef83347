"""Transfer: how often runs read memory of other tasks, and their difference to a baseline.

Within a run, attempts that read wisdom differ from others in more than the reading: they come later in a loop, or on
harder tasks. The effect of wisdom is the paired difference to a baseline run.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from statistics import fmean
from typing import NamedTuple

from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.stats.clusters import Clusters, merged
from reflexion_lab.analysis.stats.estimators import Paired, paired, verdict
from reflexion_lab.analysis.stats.intervals import LEVEL, Rate
from reflexion_lab.errors import FolderError
from reflexion_lab.records import Attempt, Record
from reflexion_lab.runner.folder.folder import folders
from reflexion_lab.runner.folder.manifest import differences

RESAMPLES = 10_000
READ = ("wisdom", "mistakes", "episodes")
"""Items of other loops that actors read."""


class Success(Record, frozen=True, kw_only=True):
    """Success rates of attempts with a verdict; the intervals assume independent attempts."""

    feedback: Rate
    hidden: Rate


class Change(Record, frozen=True, kw_only=True):
    """Mean of paired differences (second minus first), one per task."""

    n: int
    mean: float
    low: float | None
    """95 % percentile bootstrap over clusters (Efron 1979, Annals of Statistics 7:1-26); None for fewer than two."""
    high: float | None


class Against(Record, frozen=True, kw_only=True):
    """Runs with wisdom compared with a baseline on the same tasks and seeds."""

    solved: Paired
    """Hidden verdicts on submissions, baseline first. One pair per task and pair of runs; all pairs of a task, or of
    tasks of one cluster, are one unit of the interval and of p."""
    attempts_to_success: Change
    """Attempts until the submission, of tasks that both solve; negative is sooner."""
    attempts: Change
    """Attempts per loop."""
    lost: tuple[str, ...]
    """Negative transfer: tasks solved only by the baseline in any pair of runs."""
    gained: tuple[str, ...]
    left_out: int
    """Loops without a hidden verdict on either side."""
    differs_in: tuple[str, ...]
    """Other differences between the runs: top-level config keys, data, prompts, weights."""


class _End(NamedTuple):
    """End of one loop."""

    solved: bool
    submitted: int
    attempts: int

    @classmethod
    def by_task(cls, log: Log) -> dict[str, _End]:
        """The ends of tasks with a hidden verdict."""
        excluded = set(log.no_verdict)
        return {
            task_id: cls(grade.passed, attempt.number, len(log.attempts[task_id]))
            for task_id, (attempt, grade) in log.submitted.items()
            if task_id not in excluded
        }


class _Pair(NamedTuple):
    """Loops of one task in the baseline and with wisdom."""

    task_id: str
    number: int
    """Index of the pair of runs."""
    first: _End
    second: _End


class Transfer(Record, frozen=True, kw_only=True):
    """Items that runs read, and success with and without them."""

    runs: int
    tasks: int
    attempts: int
    read: dict[str, Rate]
    """By name in `READ`, the share of attempts that read any; episodes of the own loop do not count."""
    used: Rate | None
    """Share of the known wisdom that at least one attempt read; None if the known wisdom is not given."""
    with_wisdom: Success
    without_wisdom: Success
    against: Against | None = None


def transfer(runs: object, baseline: object = (), known: Collection[str] | None = None, seed: int = 0) -> Transfer:
    """Transfer in `runs`.

    Parameters
    ----------
    runs : object
        A run folder, a pattern, a sweep, or a list of these; see `folder.folders`.
    baseline : object, default ()
        Runs on the same benchmark. Runs are paired by seed and, within a seed, by order; unpaired runs are excluded.
    known : Collection[str] | None, optional
        Ids of all available wisdom.
    seed : int, default 0
        Of the bootstrap.

    Raises
    ------
    FolderError
        A run cannot be read, or runs cannot be paired.
    """
    logs = [Log.read(run) for run in folders(runs)]
    attempts = [attempt for log in logs for attempt in log.every]
    reading = [_read(log.manifest.run_id, attempt) for log in logs for attempt in log.every]
    read = {wisdom_id for attempt in attempts for wisdom_id in attempt.recalled_wisdom}
    baseline_logs = [Log.read(run) for run in folders(baseline)]
    return Transfer(
        runs=len(logs),
        tasks=len({task_id for log in logs for task_id in log.attempts}),
        attempts=len(attempts),
        read={name: Rate.over(name in items for items in reading) for name in READ},
        used=None if known is None else Rate.over(wisdom_id in read for wisdom_id in set(known)),
        with_wisdom=_success(logs, reads=True),
        without_wisdom=_success(logs, reads=False),
        against=_against(logs, baseline_logs, random.Random(f"{seed}:transfer")) if baseline_logs else None,
    )


def _read(run_id: str, attempt: Attempt) -> set[str]:
    """Names in `READ` of the items that the actor read; the Ω window belongs to its own loop and is no transfer."""
    own = f"ep-{run_id}/{attempt.task_id}-"
    others = any(not name.startswith(own) for name in attempt.recalled)
    items = (attempt.recalled_wisdom, attempt.recalled_mistakes, others)
    return {name for name, any_of_it in zip(READ, items, strict=True) if any_of_it}


def _success(logs: Sequence[Log], reads: bool) -> Success:
    chosen = [(log, attempt) for log in logs for attempt in log.every if bool(attempt.recalled_wisdom) == reads]
    return Success(
        feedback=Rate.over(verdict(attempt.evaluation) for _, attempt in chosen),
        hidden=Rate.over(verdict(log.grades.get((attempt.task_id, attempt.number))) for log, attempt in chosen),
    )


def _against(logs: Sequence[Log], baseline: Sequence[Log], rng: random.Random) -> Against:
    runs = _paired_runs(baseline, logs)
    pairs = _pairs(runs)
    clusters = merged(*(log.clusters for log in (*baseline, *logs)))
    units = {(pair.task_id, pair.number): clusters.get(pair.task_id, pair.task_id) for pair in pairs}
    solved_both = [pair for pair in pairs if pair.first.solved and pair.second.solved]
    first = {(pair.task_id, pair.number): pair.first.solved for pair in pairs}
    second = {(pair.task_id, pair.number): pair.second.solved for pair in pairs}
    return Against(
        solved=paired(first, second, units),
        attempts_to_success=_change(
            [(p.task_id, p.second.submitted - p.first.submitted) for p in solved_both], clusters, rng
        ),
        attempts=_change([(p.task_id, p.second.attempts - p.first.attempts) for p in pairs], clusters, rng),
        lost=_names(pair for pair in pairs if pair.first.solved and not pair.second.solved),
        gained=_names(pair for pair in pairs if pair.second.solved and not pair.first.solved),
        left_out=sum(len(log.results) for log in (*logs, *baseline)) - 2 * len(pairs),
        differs_in=tuple(sorted({key for a, b in runs for key in differences(a.manifest, b.manifest)})),
    )


def _paired_runs(first: Sequence[Log], second: Sequence[Log]) -> list[tuple[Log, Log]]:
    """Raises FolderError."""
    by_seed, others = _by_seed(first), _by_seed(second)
    if pairs := [pair for seed in by_seed if seed in others for pair in zip(by_seed[seed], others[seed], strict=False)]:
        return pairs
    seeds, baseline_seeds = (", ".join(map(str, logs)) for logs in (others, by_seed))
    problem = f"runs of seed {seeds} and a baseline of seed {baseline_seeds}"
    raise FolderError("transfer", problem, "both at the same seeds")


def _by_seed(logs: Sequence[Log]) -> dict[int, list[Log]]:
    by_seed: dict[int, list[Log]] = {}
    for log in sorted(logs, key=lambda log: log.manifest.seed):
        by_seed.setdefault(log.manifest.seed, []).append(log)
    return by_seed


def _pairs(runs: Sequence[tuple[Log, Log]]) -> list[_Pair]:
    """Raises FolderError."""
    ends = [(_End.by_task(first), _End.by_task(second)) for first, second in runs]
    pairs = [
        _Pair(task_id, number, first[task_id], second[task_id])
        for number, (first, second) in enumerate(ends)
        for task_id in first
        if task_id in second
    ]
    if not pairs:
        problem = f"no graded task in both {' and '.join(log.manifest.run_id for log in runs[0])}"
        raise FolderError("transfer", problem, "a baseline on the same benchmark", "resume an interrupted run")
    return pairs


def _names(pairs: Iterable[_Pair]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(pair.task_id for pair in pairs))


def _change(differences: Sequence[tuple[str, int]], clusters: Clusters, rng: random.Random) -> Change:
    """Mean of (task id, difference) pairs; a task with several runs counts once, by its mean."""
    import numpy

    by_task: dict[str, list[int]] = {}
    for task_id, difference in differences:
        by_task.setdefault(task_id, []).append(difference)
    by_cluster: dict[str, list[float]] = {}
    for task_id, changes in by_task.items():
        by_cluster.setdefault(clusters.get(task_id, task_id), []).append(fmean(changes))
    n, mean = len(by_task), fmean(change for means in by_cluster.values() for change in means) if by_task else 0.0
    if len(by_cluster) < 2:
        return Change(n=n, mean=mean, low=None, high=None)
    # Clusters have few distinct values, so drawing a count for each equals drawing clusters, and is faster.
    counts = Counter((sum(means), len(means)) for means in by_cluster.values())
    sums, sizes = numpy.array(list(counts), float).T
    shares = [count / len(by_cluster) for count in counts.values()]
    drawn = numpy.random.default_rng(rng.getrandbits(64)).multinomial(len(by_cluster), shares, size=RESAMPLES)
    low, high = numpy.quantile(drawn @ sums / (drawn @ sizes), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Change(n=n, mean=mean, low=float(low), high=float(high))
