"""Reflections of earlier runs, for controls: words on another task (shuffled), words of another model (transplant)."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path

from reflexion_lab.agent.reflectors.shuffled import EXPECTED, PriorReflection, ShuffledWords, taken_over
from reflexion_lab.errors import ConfigError, FolderError
from reflexion_lab.records import Attempt, Episode, Manifest, Reflection, Task
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.runner.folder.manifest import differences, file_digest

MATCHED = {"model_fingerprint", "reflector_fingerprint", "feedback_source", "benchmark_digest"}
"""Fields that must be equal in a run of the pool and in the run that reads its reflections."""
MODELS = {"model_fingerprint", "reflector_fingerprint"}
"""Keys of `MATCHED` in which a donor of transplanted words may differ."""

_AUTHORS = re.compile(r"llm$|fallback:")


class Shuffled(ShuffledWords):
    """`reflector=shuffled`: draws reflections that a model, or its fallback, wrote in earlier runs.

    `pool_runs` says which runs a folder of runs contributes. Each run is read once per process. Runs whose reflections
    are about hidden tests or solutions are rejected.

    Parameters
    ----------
    pool
        Run folders.
    seed
        Random seed of the draws.

    Raises
    ------
    ValueError
        A folder of `pool` holds no run, comes from the oracle arm, or has no such reflection.
    """

    reads_runs = True

    def __init__(self, pool: Sequence[str | Path] | str | Path = (), seed: int = 0) -> None:
        folders = tuple(str(run.resolve()) for run in pool_runs(pool, seed))
        if not folders:
            raise ConfigError("reflector.pool", "no folder", "a run folder", EXPECTED)
        super().__init__([reflection for folder in folders for reflection in _reflections_in(folder)], folders, seed)


class Transplant:
    """`reflector=transplant`: the words of another run on the same task, after the first failed attempt. No model call.

    The retry reads only the texts of the donor's reflection on its own first failed attempt: cause, symptom, change,
    actions, lessons and insight. It reads neither the donor's program nor its checks, verdicts or reply; program and
    checks in the prompt are this run's. After later attempts, and where the donor did not fail, there are no words.

    Parameters
    ----------
    pool
        The donor's run folder, or one for each seed; or a folder of runs (see `pool_runs`), whose run of this seed may
        be another model's.
    seed
        Seed of this run, which chooses among several donors.

    Raises
    ------
    ConfigError
        No donor, or several for this seed; a donor that may not be drawn from, as of `Shuffled`.
    """

    reads_runs = True
    same_tasks = True

    def __init__(self, pool: Sequence[str | Path] | str | Path = (), seed: int = 0) -> None:
        runs = [run.resolve() for run in pool_runs(pool, seed)]
        donors = runs if len(runs) == 1 else [run for run in runs if RunFolder.existing(run).manifest.seed == seed]
        if len(donors) != 1:
            raise ConfigError("reflector.pool", f"{len(donors)} runs of seed {seed}", "one donor", EXPECTED)
        self.donor = donors[0]
        self._tasks = set(RunFolder.existing(self.donor).attempts)
        words: dict[str, PriorReflection] = {}
        for prior in sorted(_reflections_in(str(self.donor)), key=lambda prior: prior.number):
            words.setdefault(prior.task_id, prior)
        self._words = {task_id: prior.reflection for task_id, prior in words.items() if prior.number == 1}

    def reflect(self, task: Task, attempt: Attempt, episodes: Sequence[Episode]) -> Reflection | None:
        """Raises ConfigError if the donor has no attempt at the task."""
        if task.task_id not in self._tasks:
            raise ConfigError("reflector.pool", f"no attempt at {task.task_id} in {self.donor}", "the same tasks")
        words = self._words.get(task.task_id) if attempt.number == 1 else None
        return words and taken_over(words, attempt, "control:transplant")


def pool_runs(
    pool: Sequence[str | Path] | str | Path,
    seed: int,
    run: Manifest | None = None,
    known: Collection[str] = (),
    *,
    same_tasks: bool = False,
) -> list[Path]:
    """The run folders of `pool`, with folders of runs replaced by runs in them.

    Parameters
    ----------
    pool : Sequence[str | Path] | str | Path
        Run folders, or folders of runs. A folder of runs contributes finished runs of arm `reflexion` at `seed`.
    run : Manifest | None, optional
        The run that reads the reflections. Then a folder contributes one run, with the same models, feedback source
        and benchmark; of several, the run whose config differs least, then the oldest.
    known : Collection[str], default ()
        Run ids to take instead if they are in the folder: a resumed run keeps its original pool.
    same_tasks : bool, default False
        Whether the run reads words on its own tasks (`Transplant`). Then the models may differ, but all matching runs
        of a folder must have one author.

    Raises
    ------
    ConfigError
        A folder of runs holds no such run, or `same_tasks` and those of several authors.
    """
    paths: list[Path] = []
    for folder in map(Path, [pool] if isinstance(pool, str | os.PathLike) else pool):
        if not folder.is_dir() or (folder / "manifest.json").exists():
            paths.append(folder)
        elif original := [folder / name for name in known if (folder / name / "manifest.json").is_file()]:
            paths += original
        else:
            paths += _finished_reflexion_runs(folder, seed, run, MATCHED - MODELS if same_tasks else MATCHED)
    return paths


def pool_digests(
    pool: Sequence[str | Path] | str | Path,
    seed: int,
    manifest: Manifest,
    known: Collection[str],
    *,
    same_tasks: bool = False,
) -> dict[str, str]:
    """Digests of the attempts of the runs whose reflections the run of `manifest` reads, by run id.

    Parameters
    ----------
    known : Collection[str]
        Run ids of its original pool.
    same_tasks : bool, default False
        As of `pool_runs`.

    Raises
    ------
    ConfigError
        A run must not be drawn from; with `same_tasks`, the donor has other tasks.
    """
    runs = pool_runs(pool, seed, manifest, known, same_tasks=same_tasks)
    folders = map(Path, Shuffled(runs, seed).folders)  # raises for a run that must not be drawn from
    if same_tasks:
        _check_tasks(Transplant(runs, seed).donor, manifest)
    return {RunFolder(run).manifest.run_id: file_digest(run / "attempts.jsonl") for run in folders}


def _check_tasks(donor: Path, run: Manifest) -> None:
    """Raises ConfigError if the donor has other tasks, even under the same ids."""
    digest = RunFolder(donor).manifest.benchmark_digest
    if digest != run.benchmark_digest:
        raise ConfigError(
            "reflector.pool", f"other tasks in {donor}, digest {digest}", f"those of this run, {run.benchmark_digest}"
        )


def _finished_reflexion_runs(
    folder: Path, seed: int, run: Manifest | None, matched: Collection[str] = frozenset(MATCHED)
) -> list[Path]:
    runs, expected = [], f"finished run of arm reflexion at seed {seed}"
    for path in sorted(folder.glob("[!.]*/manifest.json")):
        folder_of_run = RunFolder(path.parent)
        manifest = folder_of_run.manifest
        is_meant = (manifest.config.get("arm"), manifest.seed) == ("reflexion", seed)
        if is_meant and len(folder_of_run.results) == manifest.n_expected:
            runs.append((path.parent, manifest))
    if not runs:
        raise ConfigError("reflector.pool", f"{folder} without a {expected}", "such a run", EXPECTED)
    if run is None:
        return list({manifest.benchmark_digest: path for path, manifest in reversed(runs)}.values())[::-1]
    unlike = {path: differences(manifest, run) + _authors(manifest, run) for path, manifest in runs}
    mismatches = {path: sorted({*matched} & {*names}) for path, names in unlike.items()}
    closest = min(unlike, key=lambda path: (len(mismatches[path]), len(unlike[path])))
    if wrong := mismatches[closest]:
        raise ConfigError(
            f"reflector.pool: {folder}: no {expected} matches this run; the closest, {closest.name}, has another "
            f"{', '.join(wrong)}; {EXPECTED}"
        )
    authors = {_author(manifest) for path, manifest in runs if not mismatches[path]}
    if len(authors) > 1:
        raise ConfigError(
            "reflector.pool", f"{folder} with runs of {', '.join(sorted(authors))}", "one donor", EXPECTED
        )
    return [closest]


def _author(run: Manifest) -> str:
    """Fingerprint of the model that writes the reflections."""
    return run.role_fingerprints.get("reflector", run.model_fingerprint)


def _authors(first: Manifest, other: Manifest) -> list[str]:
    """`["reflector_fingerprint"]` if the runs' reflections are written by different models, else []."""
    return ["reflector_fingerprint"] * (_author(first) != _author(other))


@cache
def _reflections_in(folder: str) -> tuple[PriorReflection, ...]:
    try:
        run = RunFolder.existing(folder)
        if run.manifest.is_upper_bound:
            raise FolderError(folder, f"words of a loop that was shown {run.manifest.leak}", "another run's")
        attempts = [attempt for by_task in run.attempts.values() for attempt in by_task]
        failures = [attempt for attempt in attempts if not attempt.evaluation.passed]
    except FolderError as problem:
        raise ConfigError(f"reflector.pool: {problem}", hint=EXPECTED) from None
    reflections = [
        PriorReflection(failure.task_id, failure.number, failure.reflection)
        for failure in failures
        if failure.reflection
    ]
    by_models = tuple(item for item in reflections if _AUTHORS.match(item.reflection.source) and any(item.texts))
    if not by_models:
        raise ConfigError(
            "reflector.pool", f"{folder} without a reflection by a model or its fallback", "at least one", EXPECTED
        )
    return by_models
