"""Arms: the runs of one method over its seeds, the units of a comparison."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from reflexion_lab.analysis.learning.checkpoints import Matrix, matrix
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.stats import clusters
from reflexion_lab.analysis.stats.bootstrap import rate
from reflexion_lab.analysis.stats.estimators import Confusion, feedback_confusion
from reflexion_lab.analysis.stats.intervals import PAIRED, WILSON, Estimate, Rate
from reflexion_lab.analysis.stats.permutation import mean_pass_at_k
from reflexion_lab.errors import DataError
from reflexion_lab.io.arrays import Floats, np
from reflexion_lab.loop.selection import submitted_at
from reflexion_lab.records import Attempt, Grade, Usage
from reflexion_lab.runner.folder.manifest import settings, value_at

DRAW = "loop.first_draw"
NO_LOGS: Mapping[str, Sequence[Log]] = {}


class Case(NamedTuple):
    """One task at one seed, the unit that is paired between arms. The cases of a cluster of tasks are one cluster."""

    seed: int
    task_id: str


class Arm:
    """The finished runs of one method, at most one per seed; of runs with a split the test tasks alone.

    `label`: name in tables and figures. `logs`: runs with every attempt graded. `shared`: for captions: what a short
    label leaves out (`shared_words`). `frozen`: by the id of a run of `logs`, runs with its memory, frozen: the
    checkpoints of `memory`. Raises DataError: two runs of one seed; several feedback sources; a run that is unfinished,
    ungraded, or without any hidden verdict.
    """

    def __init__(
        self, label: str, logs: Sequence[Log], shared: str = "", frozen: Mapping[str, Sequence[Log]] = NO_LOGS
    ) -> None:
        self.label = label
        self.shared = shared
        self.whole = tuple(sorted(logs, key=lambda log: log.manifest.seed))
        """The arm's runs with the train tasks of a split benchmark."""
        self.frozen = {name: frozen[name] for log in self.whole if frozen.get(name := log.manifest.run_id)}
        if not self.whole:
            raise DataError(f"arm {label}", "no run", "at least one")
        for log in (*self.whole, *self.checkpoints):
            check_finished(log)
        self.train = sum(len(log.results) - len(log.headline.results) for log in self.whole)
        """Train cases of a split benchmark, which only `memory` counts."""
        self.logs = tuple(log.headline for log in self.whole)
        _check_alike(label, self.logs)

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(log.manifest.seed for log in self.logs)

    @property
    def feedback_source(self) -> str:
        return self.logs[0].manifest.feedback_source

    @property
    def is_upper_bound(self) -> bool:
        """Whether hidden tests or solutions reached its loops, so that its shares are not pass@1."""
        return any(log.is_upper_bound for log in self.logs)

    @property
    def study(self) -> str:
        """The registered study of all of its runs; "" for none, or if a run deviates."""
        return self.logs[0].study if len({(log.study, log.manifest.study_digest) for log in self.logs}) == 1 else ""

    @property
    def models(self) -> dict[str, tuple[str, ...]]:
        """Fingerprints by role; several if its runs differ."""
        names: dict[str, dict[str, None]] = {}
        for run in (log.manifest for log in self.logs):
            for role, fingerprint in {"actor": run.model_fingerprint, **run.role_fingerprints}.items():
                names.setdefault(role, {})[fingerprint] = None
        return {role: tuple(fingerprints) for role, fingerprints in names.items()}

    @property
    def run_ids(self) -> tuple[str, ...]:
        """By seed; several of a run over shards, with commas."""
        return tuple(", ".join(log.run_ids) for log in self.logs)

    @property
    def shards(self) -> tuple[str, ...]:
        """Runs that lack a shard, such as `3 of 4 shards at seed 0`."""
        return tuple(f"{log.shards} at seed {log.manifest.seed}" for log in self.logs if log.lacks_shards)

    @cached_property
    def calls(self) -> str:
        """Digest of every prompt and reply of its actor, by case and attempt; "" if texts were not stored."""
        calls = [
            (case, [([message.content for message in t.messages], t.reply, *(step.reply for step in t.steps))
                    for t in (attempt.trajectory for attempt in attempts)])
            for case, attempts in sorted(self.attempts.items())
        ]  # fmt: skip
        is_kept = any(prompts for _, attempts in calls for prompts, *_ in attempts)
        return hashlib.sha256(repr(calls).encode(errors="replace")).hexdigest() if is_kept else ""

    def is_again(self, other: Arm) -> bool:
        """Whether it differs from `other` in its name and all draws alone, by `loop.first_draw`: an A/A comparison."""
        configs = [(log.manifest.config, twin.manifest.config)
                   for log in self.logs for twin in other.logs if log.manifest.seed == twin.manifest.seed]  # fmt: skip
        if all(value_at(own, DRAW) == value_at(its, DRAW) for own, its in configs):
            return False
        pairs = [(settings(own), settings(its)) for own, its in configs]
        differing = {key for own, its in pairs for key in own.keys() | its.keys() if own.get(key) != its.get(key)}
        # an attempt may take many draws
        are_apart = all(abs(own.get(DRAW, 0) - its.get(DRAW, 0)) >= 1000 for own, its in pairs)
        return self.models == other.models and DRAW in differing <= {DRAW, "arm"} and are_apart

    @cached_property
    def reflections(self) -> dict[str, int]:
        """By source, those with words, and those that failed without any."""
        every = (attempt.reflection for attempt, _ in self.graded)
        return dict(Counter(reflection.source for reflection in every if reflection and reflection.is_told))

    @cached_property
    def memory(self) -> Matrix | None:
        """Gains, retention and losses of its memory over the stream; None without frozen runs."""
        return matrix((log, self.frozen.get(log.manifest.run_id, ())) for log in self.whole) if self.frozen else None

    @property
    def checkpoints(self) -> list[Log]:
        """The runs with frozen memory, each once."""
        return list({log.manifest.run_id: log for frozen in self.frozen.values() for log in frozen}.values())

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
        return {
            Case(log.manifest.seed, task_id): grades
            for log in self.logs
            for task_id, grades in log.grades_by_task.items()
        }

    @property
    def graded(self) -> list[tuple[Attempt, Grade]]:
        """Every attempt with its hidden verdict."""
        return [
            (attempt, self.grades[case][attempt.number])
            for case, attempts in self.attempts.items()
            for attempt in attempts
        ]

    @cached_property
    def usage(self) -> Usage:
        """Of all roles, including written tests, curators and cached calls."""
        overhead = (usage for log in self.logs for usage in log.overhead.values())
        own = (usage for attempt, _ in self.graded for usage in attempt.usage.values())
        return sum((*overhead, *own), Usage())

    @cached_property
    def feedback(self) -> Confusion:
        """Feedback verdicts against hidden ones, on all attempts."""
        return feedback_confusion(self.graded, self.clusters)

    @property
    def tasks(self) -> list[str]:
        """Sorted ids of the tasks of `judged`: the rows of `outcomes`."""
        return sorted({case.task_id for case in self.judged})

    @cached_property
    def clusters(self) -> dict[str, str]:
        """Cluster by task, without tasks that stand alone: the units of intervals and tests."""
        return clusters.merged(*(log.clusters for log in self.logs))

    @property
    def n_clusters(self) -> int:
        return clusters.count(self.tasks, self.clusters)

    @property
    def longest(self) -> int:
        """Number of attempts of the longest loop."""
        return max(len(attempts) for attempts in self.attempts.values())

    @property
    def max_attempts(self) -> int:
        """Attempts that each of its loops was allowed; `longest` where no config says it."""
        return min((log.max_attempts for log in self.logs if log.max_attempts is not None), default=self.longest)

    @cached_property
    def no_verdict(self) -> tuple[Case, ...]:
        """Sorted cases without a hidden verdict; no rate counts them."""
        return tuple(sorted(Case(log.manifest.seed, task_id) for log in self.logs for task_id in log.no_verdict))

    @property
    def judged(self) -> dict[Case, list[Attempt]]:
        """`attempts` without the cases of `no_verdict`."""
        excluded = set(self.no_verdict)
        return {case: attempts for case, attempts in self.attempts.items() if case not in excluded}

    def verdicts(self, t: int | None = None) -> dict[Case, bool]:
        """By case of `judged`, the hidden verdict on the submission of the loop, cut at attempt `t` if given."""
        return {case: self.grades[case][submitted_at(own, t).number].passed for case, own in self.judged.items()}

    def share(self, verdicts: Mapping[Case, bool]) -> Rate:
        """Share of `verdicts` that passed, with an interval by `share_method`."""
        return rate(((case.task_id, passed) for case, passed in verdicts.items()), self.clusters)

    def pass_at(self, k: int) -> Estimate:
        """pass@k; the first attempts of its seeds are the independent draws of a task.

        Raises ConfigError: `k` is below 1, or a task has fewer draws.
        """
        draws: dict[str, list[bool]] = {}
        for case, passed in self.verdicts(1).items():
            draws.setdefault(case.task_id, []).append(passed)
        samples, places = [(len(own), sum(own)) for own in draws.values()], clusters.places(draws, self.clusters)
        return mean_pass_at_k(samples, k, clusters=[places[task_id] for task_id in draws])

    @property
    def share_method(self) -> str:
        units = clusters.units(self.tasks, self.clusters)
        return WILSON if self.n_clusters == len(self.judged) else PAIRED.replace("tasks", units)

    def by_cluster(self, values: Mapping[Case, float]) -> Floats:
        """Values of cases as an array for `stats.bootstrap`: a row per cluster, padded with NaN."""
        return clusters.by_cluster(((case.task_id, value) for case, value in values.items()), self.clusters)

    def outcomes(self, verdicts: Mapping[Case, bool], tasks: Sequence[str] | None = None) -> Floats:
        """`verdicts` as 0 and 1: a row per task (default: this arm's), a column per seed; NaN: a case without one."""
        rows = {task_id: row for row, task_id in enumerate(tasks or self.tasks)}
        columns = {seed: column for column, seed in enumerate(self.seeds)}
        array = np.full((len(rows), len(columns)), np.nan)
        for case, passed in verdicts.items():
            if case.task_id in rows:
                array[rows[case.task_id], columns[case.seed]] = passed
        return array


def check_finished(log: Log, folder: Path | str = "FOLDER") -> None:
    """Raises DataError: the run in `folder` is unfinished, or without any hidden verdict."""
    names = [Path(shard).name for shard in log.unfinished] or [log.manifest.run_id]
    run, finished, expected = f"unfinished run {', '.join(names)}", len(log.results), log.manifest.n_expected
    resume = f"finish it with the same command and resume={log.unfinished[0] if log.unfinished else folder}"
    if finished != expected:
        torn = f", and {log.torn} torn line{'s' * (log.torn > 1)}" * bool(log.torn)
        raise DataError(run, f"{finished} of {expected} tasks{torn}", "all of them", resume)
    if not log.is_graded:
        raise DataError(run, "attempts without a hidden verdict", "all of them graded", resume)
    if len(log.no_verdict) == len(log.attempts):
        first = log.no_verdict[0]
        problem = f"no task with a hidden verdict ({first}: {log.grades[first, 1].outcome})"
        raise DataError(f"run {log.manifest.run_id}", problem, "hidden tests in the benchmark's tasks")


def _check_alike(label: str, logs: Sequence[Log]) -> None:
    """`logs` are sorted by seed."""
    for log, following in pairwise(logs):
        seed, runs = log.manifest.seed, f"{log.manifest.run_id} and {following.manifest.run_id}"
        if seed == following.manifest.seed:
            hint = "--by names arms by the keys in which they differ, --where KEY=VALUE takes some of the runs"
            raise DataError(f"arm {label}", f"two runs of seed {seed}, {runs}", "one per seed", hint)
    if len(sources := {log.manifest.feedback_source for log in logs}) > 1:
        raise DataError(f"arm {label}", f"feedback sources {', '.join(sorted(sources))}", "one")
