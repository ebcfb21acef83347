"""Transfer: how often a run read what other tasks had taught, and whether its tasks fared better for it.

Within a run, attempts that read wisdom differ from those that did not in more than the reading: they come later in a
loop, or on harder tasks. What wisdom is worth is said by the comparison with a baseline run alone, task by task.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from statistics import fmean
from typing import NamedTuple

from reflexion_lab.analysis.estimators import Paired, paired
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.stats.intervals import LEVEL, Rate
from reflexion_lab.errors import FolderError
from reflexion_lab.records import UNKNOWN, Attempt, Record
from reflexion_lab.runner.folder.folder import folders
from reflexion_lab.runner.folder.manifest import differences

RESAMPLES = 10_000
READ = ("wisdom", "mistakes", "episodes")
"""What actors read of other loops."""


class Success(Record, frozen=True, kw_only=True):
    """Attempts that passed; those at one task are not independent of each other."""

    feedback: Rate
    """By the feedback tests, of the attempts that have a verdict of theirs."""
    hidden: Rate
    """By the hidden tests, likewise."""


class Change(Record, frozen=True, kw_only=True):
    """The mean of paired differences, second minus first, one a task."""

    n: int
    mean: float
    low: float | None
    """95 % percentile bootstrap over tasks (Efron 1979, Annals of Statistics 7:1-26); None for fewer than two."""
    high: float | None


class Against(Record, frozen=True, kw_only=True):
    """Runs with wisdom against a baseline's on the same tasks and seeds."""

    solved: Paired
    """Hidden verdicts on submissions; the baseline is the first. One pair a task and a pair of runs: pairs of one task
    are not independent."""
    attempts_to_success: Change
    """Attempts until the submission that solves a task, of tasks that both solve; below 0 is sooner. Tasks that one
    side alone solves stand in `solved`.
    """
    attempts: Change
    """Attempts made, whether or not they solved the task."""
    lost: tuple[str, ...]
    """Negative transfer: tasks that the baseline solves in a pair of runs, and the run with wisdom does not."""
    gained: tuple[str, ...]
    left_out: int
    """Ends of loops without a hidden verdict, or without a partner that has one on the other side."""
    differs_in: tuple[str, ...]
    """Names of what else tells the runs apart: top-level config keys, data, prompts, weights."""


class _End(NamedTuple):
    """How one loop ended."""

    solved: bool
    submitted: int
    attempts: int

    @classmethod
    def by_task(cls, log: Log) -> dict[str, _End]:
        """Of the tasks that have a hidden verdict."""
        left_out = set(log.no_verdict)
        return {
            task_id: cls(grade.passed, attempt.number, len(log.attempts[task_id]))
            for task_id, (attempt, grade) in log.submitted.items()
            if task_id not in left_out
        }


class _Pair(NamedTuple):
    """A task's loop in the baseline and with wisdom."""

    task_id: str
    number: int
    """Of the pair of runs."""
    first: _End
    second: _End

    @property
    def name(self) -> str:
        return f"{self.number}:{self.task_id}"


class Transfer(Record, frozen=True, kw_only=True):
    """What runs read, and what came of it."""

    runs: int
    tasks: int
    attempts: int
    read: dict[str, Rate]
    """By name in `READ`, the share of attempts whose actor read any; episodes of its own loop do not count."""
    used: Rate | None
    """Share of the wisdom known that at least one attempt read; None where nobody said what is known."""
    with_wisdom: Success
    without_wisdom: Success
    against: Against | None = None


def transfer(runs: object, baseline: object = (), known: Collection[str] | None = None, seed: int = 0) -> Transfer:
    """The report on `runs`.

    Parameters
    ----------
    runs : object
        A run folder, a pattern, a sweep, or a list of these; see `run_folder.folders`.
    baseline : object, default ()
        Runs on the same benchmark, none for no comparison. Runs are paired by seed, those of one seed in the
        order given; a run without a partner is left out.
    known : Collection[str] | None, optional
        Ids of all wisdom that there was to read.
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
    others = [Log.read(run) for run in folders(baseline)]
    return Transfer(
        runs=len(logs),
        tasks=len({task_id for log in logs for task_id in log.attempts}),
        attempts=len(attempts),
        read={name: _share([name in items for items in reading]) for name in READ},
        used=None if known is None else Rate.of(len(read & set(known)), len(set(known))),
        with_wisdom=_success(logs, reads=True),
        without_wisdom=_success(logs, reads=False),
        against=_against(logs, others, random.Random(f"{seed}:transfer")) if others else None,
    )


def _read(run_id: str, attempt: Attempt) -> set[str]:
    """Names in `READ` of what the actor read; the Ω window, of its own loop, is no transfer."""
    own = f"ep-{run_id}/{attempt.task_id}-"
    others = any(not name.startswith(own) for name in attempt.recalled)
    items = (attempt.recalled_wisdom, attempt.recalled_mistakes, others)
    return {name for name, any_of_it in zip(READ, items, strict=True) if any_of_it}


def _success(logs: Sequence[Log], reads: bool) -> Success:
    chosen = [(log, attempt) for log in logs for attempt in log.every if bool(attempt.recalled_wisdom) == reads]
    grades = [log.grades.get((attempt.task_id, attempt.number)) for log, attempt in chosen]
    return Success(
        feedback=_share([a.evaluation.passed for _, a in chosen if a.evaluation.outcome not in UNKNOWN]),
        hidden=_share([grade.passed for grade in grades if grade and grade.outcome not in UNKNOWN]),
    )


def _share(outcomes: Sequence[bool]) -> Rate:
    return Rate.of(sum(outcomes), len(outcomes))


def _against(logs: Sequence[Log], baseline: Sequence[Log], rng: random.Random) -> Against:
    runs = _paired_runs(baseline, logs)
    pairs = _pairs(runs)
    solved_both = [pair for pair in pairs if pair.first.solved and pair.second.solved]
    verdicts = paired(
        {pair.name: pair.first.solved for pair in pairs}, {pair.name: pair.second.solved for pair in pairs}
    )
    return Against(
        solved=verdicts,
        attempts_to_success=_change([(p.task_id, p.second.submitted - p.first.submitted) for p in solved_both], rng),
        attempts=_change([(p.task_id, p.second.attempts - p.first.attempts) for p in pairs], rng),
        lost=_names(pair for pair in pairs if pair.first.solved and not pair.second.solved),
        gained=_names(pair for pair in pairs if pair.second.solved and not pair.first.solved),
        left_out=sum(len(log.results) for log in (*logs, *baseline)) - 2 * len(pairs),
        differs_in=tuple(sorted({key for one, partner in runs for key in differences(one.manifest, partner.manifest)})),
    )


def _paired_runs(first: Sequence[Log], second: Sequence[Log]) -> list[tuple[Log, Log]]:
    """Raises FolderError."""
    ours, theirs = _by_seed(first), _by_seed(second)
    if pairs := [pair for seed in ours if seed in theirs for pair in zip(ours[seed], theirs[seed], strict=False)]:
        return pairs
    raise FolderError(
        "transfer",
        f"runs of seed {', '.join(map(str, theirs))} and a baseline of seed {', '.join(map(str, ours))}",
        "both at the same seeds",
    )


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
        raise FolderError(
            "transfer",
            f"no graded task in both {' and '.join(log.manifest.run_id for log in runs[0])}",
            "a baseline on the same benchmark",
            "was one of them cut off? Resume it",
        )
    return pairs


def _names(pairs: Iterable[_Pair]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(pair.task_id for pair in pairs))


def _change(differences: Sequence[tuple[str, int]], rng: random.Random) -> Change:
    """Of task ids with differences, several a task where there were several runs: a task counts once, by its mean."""
    import numpy

    by_task: dict[str, list[int]] = {}
    for task_id, difference in differences:
        by_task.setdefault(task_id, []).append(difference)
    counts = Counter(fmean(changes) for changes in by_task.values())
    n, mean = len(by_task), fmean(counts.elements()) if counts else 0.0
    if n < 2:
        return Change(n=n, mean=mean, low=None, high=None)
    # Differences take few values: to draw how often each comes is to draw the tasks.
    shares, values = [count / n for count in counts.values()], numpy.array(list(counts))
    drawn = numpy.random.default_rng(rng.getrandbits(64)).multinomial(n, shares, size=RESAMPLES) @ values / n
    low, high = numpy.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Change(n=n, mean=mean, low=float(low), high=float(high))
