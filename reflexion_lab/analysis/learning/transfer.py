"""Transfer: how often runs read memory of other tasks, and their difference to a baseline.

Within a run, attempts that read wisdom differ from others in more than the reading: they come later in a loop, or on
harder tasks. The effect of wisdom is the paired difference to a baseline run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from statistics import fmean
from typing import NamedTuple

from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.stats.bootstrap import DRAWS, ends, generator, rate, resampled_sums
from reflexion_lab.analysis.stats.clusters import Clusters, merged, units
from reflexion_lab.analysis.stats.estimators import Paired, paired, verdict
from reflexion_lab.analysis.stats.intervals import Rate
from reflexion_lab.analysis.summary import kinds_read
from reflexion_lab.errors import FolderError
from reflexion_lab.io.arrays import np
from reflexion_lab.records import Record
from reflexion_lab.runner.folder.folder import folders, readable
from reflexion_lab.runner.folder.manifest import differences


class Success(Record, frozen=True, kw_only=True):
    """Success rates of attempts with a verdict."""

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
    units: str
    """Units of the interval and of p: tasks, or clusters."""
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


class Transfer(Record, frozen=True, kw_only=True):
    """Items that runs read, and success with and without them."""

    runs: int
    tasks: int
    attempts: int
    read: dict[str, Rate]
    """By kind of item, the share of attempts that read any; episodes of the own loop do not count."""
    used: Rate | None
    """Share of the known wisdom that at least one attempt read; None if the known wisdom is not given."""
    with_wisdom: Success
    without_wisdom: Success
    against: Against | None = None


class _End(NamedTuple):
    """End of one loop with a hidden verdict."""

    solved: bool
    submitted: int
    attempts: int


def transfer(runs: object, baseline: object = (), known: Collection[str] | None = None, seed: int = 0) -> Transfer:
    """Transfer in `runs`, by their folders, patterns or sweeps.

    `baseline`: runs on the same benchmark, paired by seed and, within a seed, by order; unpaired runs are excluded.
    `known`: ids of all available wisdom. Raises FolderError: a run cannot be read, or runs cannot be paired.
    """
    logs, baseline_logs = (readable(folders(each), Log.read) for each in (runs, baseline))
    attempts = [attempt for log in logs for attempt in log.every]
    reads = [kinds_read(log, attempt) for log in logs for attempt in log.every]
    read = {wisdom_id for attempt in attempts for wisdom_id in attempt.recalled_wisdom}
    clusters = merged(*(log.clusters for log in logs))
    return Transfer(
        runs=len(logs),
        tasks=len({task_id for log in logs for task_id in log.attempts}),
        attempts=len(attempts),
        read={
            kind: rate(((a.task_id, each[kind]) for a, each in zip(attempts, reads, strict=True)), clusters)
            for kind in ("wisdom", "mistakes", "episodes")
        }
        | {"items": rate(((a.task_id, bool(a.recalled_items)) for a in attempts), clusters)},
        used=None if known is None else Rate.over(wisdom_id in read for wisdom_id in set(known)),
        with_wisdom=_success(logs, reads=True),
        without_wisdom=_success(logs, reads=False),
        against=_against(baseline_logs, logs, seed) if baseline_logs else None,
    )


def _success(logs: Sequence[Log], reads: bool) -> Success:
    chosen = [(log, attempt) for log in logs for attempt in log.every if bool(attempt.recalled_wisdom) == reads]
    clusters = merged(*(log.clusters for log in logs))
    return Success(
        feedback=rate(((attempt.task_id, verdict(attempt.evaluation)) for _, attempt in chosen), clusters),
        hidden=rate(((a.task_id, verdict(log.grades.get((a.task_id, a.number)))) for log, a in chosen), clusters),
    )


def _against(baseline: Sequence[Log], logs: Sequence[Log], seed: int) -> Against:
    runs = _paired_runs(baseline, logs)
    pairs = {
        (task_id, number): (first[task_id], second[task_id])
        for number, (first, second) in enumerate((_ends(first), _ends(second)) for first, second in runs)
        for task_id in first
        if task_id in second
    }
    if not pairs:
        problem = f"no graded task in both {' and '.join(log.manifest.run_id for log in runs[0])}"
        raise FolderError("transfer", problem, "a baseline on the same benchmark", "resume an interrupted run")
    clusters = merged(*(log.clusters for log in (*baseline, *logs)))
    first, second = ({case: pair[side].solved for case, pair in pairs.items()} for side in (0, 1))
    sooner = [(case[0], b.submitted - a.submitted) for case, (a, b) in pairs.items() if a.solved and b.solved]
    return Against(
        solved=paired(first, second, {case: clusters.get(case[0], case[0]) for case in pairs}),
        units=units((task_id for task_id, _ in pairs), clusters),
        attempts_to_success=_change(sooner, clusters, seed),
        attempts=_change([(case[0], b.attempts - a.attempts) for case, (a, b) in pairs.items()], clusters, seed),
        lost=tuple(dict.fromkeys(case[0] for case in pairs if first[case] and not second[case])),
        gained=tuple(dict.fromkeys(case[0] for case in pairs if second[case] and not first[case])),
        left_out=sum(len(log.results) for log in (*logs, *baseline)) - 2 * len(pairs),
        differs_in=tuple(sorted({key for a, b in runs for key in differences(a.manifest, b.manifest)})),
    )


def _paired_runs(baseline: Sequence[Log], logs: Sequence[Log]) -> list[tuple[Log, Log]]:
    seeds, baseline_seeds = (sorted({log.manifest.seed for log in side}) for side in (logs, baseline))
    pairs: list[tuple[Log, Log]] = []
    for seed in seeds:
        first, second = ([log for log in side if log.manifest.seed == seed] for side in (baseline, logs))
        pairs += zip(first, second, strict=False)
    if not pairs:
        with_wisdom, without = (", ".join(map(str, each)) for each in (seeds, baseline_seeds))
        problem = f"runs of seed {with_wisdom} and a baseline of seed {without}"
        raise FolderError("transfer", problem, "both at the same seeds")
    return pairs


def _ends(log: Log) -> dict[str, _End]:
    excluded = set(log.no_verdict)
    return {
        task_id: _End(grade.passed, attempt.number, len(log.attempts[task_id]))
        for task_id, (attempt, grade) in log.submitted.items()
        if task_id not in excluded
    }


def _change(differences: Sequence[tuple[str, int]], clusters: Clusters, seed: int) -> Change:
    """Mean of (task id, difference) pairs; a task with several runs counts once, by its mean."""
    by_task: dict[str, list[int]] = defaultdict(list)
    for task_id, difference in differences:
        by_task[task_id].append(difference)
    by_cluster: dict[str, list[float]] = defaultdict(list)
    for task_id, changes in by_task.items():
        by_cluster[clusters.get(task_id, task_id)].append(fmean(changes))
    rows = np.array([(sum(means), len(means)) for means in by_cluster.values()], float).reshape(-1, 2)
    mean = float(rows[:, 0].sum() / max(1, len(by_task)))
    if len(rows) < 2:
        return Change(n=len(by_task), mean=mean, low=None, high=None)
    sums, sizes = resampled_sums(rows, generator(seed, "transfer"), DRAWS).T
    low, high = ends(sums / sizes)
    return Change(n=len(by_task), mean=mean, low=low, high=high)
