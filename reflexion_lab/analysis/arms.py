"""Arms: the runs of one method over its seeds, the units of a comparison."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from reflexion_lab.analysis import metrics
from reflexion_lab.analysis.learning.checkpoints import ITEMS, Matrix, checkpoints, matrix, stream_ids
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.stats import clusters
from reflexion_lab.analysis.stats.bootstrap import FEWEST, interval
from reflexion_lab.analysis.stats.intervals import Estimate, Rate
from reflexion_lab.errors import DataError
from reflexion_lab.loop.selection import submitted_at
from reflexion_lab.records import Attempt, Grade
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.runner.folder.manifest import DATA, settings

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

SEEDED = ("seed", "benchmark.load.seed", "reflector.pool", "study")
"""Config keys in which the runs of one arm may differ, like every key that ends in `.seed`."""
NO_LOGS: Mapping[str, Sequence[Log]] = {}
WILSON = "Wilson"
BOOTSTRAP = f"bootstrap over tasks at these seeds (Wilson, discounted, where fewer than {FEWEST} ever passed or failed)"


class Case(NamedTuple):
    """One task at one seed, the unit that is paired between arms. The cases of a cluster of tasks are one cluster."""

    seed: int
    task_id: str


class Arm:
    """The finished runs of one method, at most one per seed; of runs with a split the test tasks alone.

    Parameters
    ----------
    label : str
        Name in tables and figures.
    logs : Sequence[Log]
        Runs with every attempt graded.
    shared : str, default ""
        For captions: what a short label leaves out (`shared_words`).
    frozen : Mapping[str, Sequence[Log]], optional
        By the id of a run of `logs`, runs with its memory, frozen: the checkpoints of `memory`.

    Raises
    ------
    DataError
        Two runs of one seed; several feedback sources; a run that is unfinished, ungraded, or without any hidden
        verdict.
    """

    def __init__(
        self, label: str, logs: Sequence[Log], shared: str = "", frozen: Mapping[str, Sequence[Log]] = NO_LOGS
    ) -> None:
        self.label = label
        self.shared = shared
        self.whole = tuple(sorted(logs, key=lambda log: log.manifest.seed))
        """Its runs with the train tasks of a split benchmark."""
        self.frozen = {name: frozen[name] for log in self.whole if frozen.get(name := log.manifest.run_id)}
        if not self.whole:
            raise DataError(f"arm {label}", "no run", "at least one")
        for log in (*self.whole, *self.checkpoints):
            _check_finished(log)
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

    @cached_property
    def memory(self) -> Matrix | None:
        """What its memory gains, keeps and loses over the stream; None without frozen runs."""
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
        """Clusters of `tasks`."""
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
        return {
            case: self.grades[case][submitted_at(attempts, t).number].passed for case, attempts in self.judged.items()
        }

    def share(self, verdicts: Mapping[Case, bool], seed: int = 0) -> Estimate:
        """Share of `verdicts` that passed, with an interval by `share_method`; `seed` is that of the bootstrap."""
        if self.share_method != WILSON:
            return interval(self.by_cluster(verdicts), seed)
        rate = Rate.over(verdicts.values())
        return Estimate(value=rate.share, low=rate.low, high=rate.high)

    @property
    def share_method(self) -> str:
        if clusters.are_shared(self.tasks, self.clusters):
            return BOOTSTRAP.replace("tasks", "clusters")
        return WILSON if len(self.seeds) == 1 else BOOTSTRAP

    def by_cluster(self, values: Mapping[Case, float]) -> NDArray[float64]:
        """Values of cases as an array for `stats.bootstrap`: a row per cluster, padded with NaN."""
        return clusters.by_cluster(((case.task_id, value) for case, value in values.items()), self.clusters)

    def outcomes(self, verdicts: Mapping[Case, bool], tasks: Sequence[str] | None = None) -> NDArray[float64]:
        """`verdicts` as an array of 0 and 1 with a row per task (by default this arm's) and a column per seed; NaN for
        a case without a verdict.
        """
        import numpy as np

        rows = {task_id: row for row, task_id in enumerate(tasks or self.tasks)}
        columns = {seed: column for column, seed in enumerate(self.seeds)}
        array = np.full((len(rows), len(columns)), np.nan)
        for case, passed in verdicts.items():
            if case.task_id in rows:
                array[rows[case.task_id], columns[case.seed]] = passed
        return array


def arms(
    runs: Iterable[Path | str | RunFolder],
    by: Sequence[str] = (),
    frozen: Literal["checkpoints", "arms"] = "checkpoints",
) -> list[Arm]:
    """Group runs into arms, in order of appearance.

    Runs with the same `arm` that differ in a config key are separate arms, named with it: `reflexion recall.omega=3`.

    Parameters
    ----------
    by : Sequence[str], default ()
        Dotted config keys to name arms by, instead of the keys in which they differ.
    frozen : {'checkpoints', 'arms'}, default "checkpoints"
        Whether runs with the frozen memory of another of `runs` are checkpoints of its arm (see
        `checkpoints.checkpoints`) or arms; they are arms if `by` names a key of `memory.shared.items`.

    Raises
    ------
    FolderError
        Not a run folder.
    DataError
        As `Arm`.
    """
    folders = [run if isinstance(run, RunFolder) else RunFolder.existing(run) for run in runs]
    texts: bool | Literal["digests"] = "digests" if metrics.are_the_labs() else True
    logs = [Log.read(folder, texts) for folder in folders]
    are_arms = frozen == "arms" or any(key.startswith(ITEMS) for key in by)
    by_stream = {} if are_arms else checkpoints(logs, stream_ids(folders))
    set_aside = {log.manifest.run_id for members in by_stream.values() for log in members}
    by_name: dict[str, list[Log]] = {}
    for log in logs:
        if log.manifest.run_id not in set_aside:
            by_name.setdefault(log.arm, []).append(log)
    keys = (*by, *[f"{ITEMS}.frozen"] * any(key.startswith(ITEMS) for key in by))  # a stream's after is null, too
    return [arm for name, members in by_name.items() for arm in _split(name, members, keys, by_stream)]


SYMBOLS = {"recall.omega": "Ω", "loop.max_attempts": "a", "temperature": "T"}
"""Short names of config keys in the names of arms."""


def short_names(labels: Sequence[str]) -> dict[str, str]:
    """Short names of arms by label: `reflexion recall.omega=3 loop.max_attempts=4` becomes `reflexion Ω3 a4`, without
    the words that all labels share (`Ω3 a4` where every arm is a `reflexion`). Labels stay where short names collide.
    """
    words = {label: _words(label) for label in labels}
    keys, common = _short_keys(labels), _common_words(labels)
    short = {
        label: " ".join(_short_word(word, keys) for word in [word for word in parts if word not in common] or parts)
        for label, parts in words.items()
    }
    return short if len(set(short.values())) == len(short) else {label: label for label in labels}


def shared_words(labels: Sequence[str]) -> str:
    """What `short_names` leaves out, to be written once: `All arms: reflexion; Ω: recall.omega, a: loop.max_attempts.`;
    "" if it leaves out nothing.
    """
    if all(name == label for label, name in short_names(labels).items()):
        return ""
    keys = _short_keys(labels)
    common = " ".join(_short_word(word, keys) for word in _common_words(labels))
    symbols = ", ".join(f"{name}: {key}" for key, name in keys.items() if name != key)
    return "; ".join(part for part in (f"All arms: {common}" * bool(common), symbols) if part) + "."


def _words(label: str) -> list[str]:
    """The name of an arm, then its settings, whose values may hold spaces."""
    return re.split(r" (?=[\w.@/]+=)", label)


def _common_words(labels: Sequence[str]) -> list[str]:
    words = [_words(label) for label in labels]
    return [word for word in words[0] if all(word in parts for parts in words)] if len(set(labels)) > 1 else []


def _short_keys(labels: Sequence[str]) -> dict[str, str]:
    """Short names of the config keys in `labels`; a key that shares its last part with another keeps all parts."""
    words = [word for label in labels for word in _words(label)[1:]]
    keys = dict.fromkeys(word.partition("=")[0] for word in words)
    ends = Counter(key.rpartition(".")[2] for key in keys)
    last = {key: key.rpartition(".")[2] for key in keys}
    return {key: SYMBOLS.get(key, last[key] if ends[last[key]] == 1 else key) for key in keys}


def _short_word(word: str, keys: Mapping[str, str]) -> str:
    key, is_setting, value = word.partition("=")
    return f"{keys.get(key, key)}{'' if key in SYMBOLS else is_setting}{value}"


def _split(name: str, logs: Sequence[Log], by: Sequence[str], frozen: Mapping[str, Sequence[Log]]) -> list[Arm]:
    configs = [settings(log.manifest.config) for log in logs]
    keys = by or _distinguishing_keys(
        [{key: value for key, value in config.items() if not _is_path_only(key, logs)} for config in configs]
    )
    groups: dict[str, list[Log]] = {}
    for log, config in zip(logs, configs, strict=True):
        label = " ".join((name, *(f"{key}={config.get(key)}" for key in keys)))
        groups.setdefault(label, []).append(log)
    return [Arm(label, members, frozen=frozen) for label, members in groups.items()]


def _distinguishing_keys(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The keys besides seeds in which the configs differ. If single keys distinguish all of them, the one with the
    shortest values.
    """
    keys = sorted({key for config in configs for key in config if key not in SEEDED and not key.endswith(".seed")})
    values = {key: [repr(config.get(key)) for config in configs] for key in ["seed", *keys]}
    seeds = values.pop("seed")  # benchmark.order=${seed} repeats it
    values = {key: texts for key, texts in values.items() if len(set(texts)) > 1 and texts != seeds}
    kinds = len(set(zip(*values.values(), strict=True)))
    sufficient = [key for key, texts in values.items() if len(set(texts)) == kinds]
    return [min(sufficient, key=lambda key: len("".join(values[key])))] if sufficient else list(values)


def _is_path_only(key: str, logs: Sequence[Log]) -> bool:
    """Whether the key is a path to what fingerprints identify as the same model, embedder or data."""
    if key == DATA:
        return len({log.manifest.benchmark_digest for log in logs}) == 1
    if key == "embedder.path":
        embedders = [log.manifest.config.get("embedder") for log in logs]
        return all(isinstance(embedder, Mapping) and "fingerprint" in embedder for embedder in embedders)
    models = {repr((log.manifest.model_fingerprint, log.manifest.role_fingerprints)) for log in logs}
    return len(models) == 1 and key.startswith(("model.", "roles.")) and key.endswith(".path")


def _check_finished(log: Log) -> None:
    run, finished, expected = f"run {log.manifest.run_id}", len(log.results), log.manifest.n_expected
    if finished != expected:
        raise DataError(run, f"{finished} of {expected} tasks", "all of them", "finish it with resume=")
    if not log.is_graded:
        raise DataError(run, "attempts without a hidden verdict", "all of them graded", "finish it with resume=")
    if len(log.no_verdict) == len(log.attempts):
        first = log.no_verdict[0]
        problem = f"no task with a hidden verdict ({first}: {log.grades[first, 1].outcome})"
        raise DataError(run, problem, "hidden tests in the benchmark's tasks")


def _check_alike(label: str, logs: Sequence[Log]) -> None:
    """`logs` are sorted by seed."""
    for log, following in pairwise(logs):
        seed, runs = log.manifest.seed, f"{log.manifest.run_id} and {following.manifest.run_id}"
        if seed == following.manifest.seed:
            raise DataError(f"arm {label}", f"two runs of seed {seed}, {runs}", "one per seed")
    if len(sources := {log.manifest.feedback_source for log in logs}) > 1:
        raise DataError(f"arm {label}", f"feedback sources {', '.join(sorted(sources))}", "one")
