"""Reflections of earlier runs, for the control `shuffled`: words on another task."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path

from reflexion_lab.agent.reflectors.shuffled import EXPECTED, PriorReflection, ShuffledWords
from reflexion_lab.errors import ConfigError, FolderError
from reflexion_lab.io.files import file_digest
from reflexion_lab.records import Manifest
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.runner.folder.manifest import differences

MATCHED = {"model_fingerprint", "reflector_fingerprint", "feedback_source", "benchmark_digest"}
"""Fields that must be equal in a run of the pool and in the run that reads its reflections."""

_AUTHORS = re.compile(r"llm$|fallback:")


class Shuffled(ShuffledWords):
    """`reflector=shuffled`: draws reflections that a model, or its fallback, wrote in earlier runs.

    `pool_runs` says which runs a folder of runs contributes. Each run is read once per process. Runs whose reflections
    are about hidden tests or solutions are rejected. Raises ValueError: a folder of `pool` holds no run, comes from the
    oracle arm, or has no such reflection. `pool`: run folders. `seed`: random seed of the draws.
    """

    reads_runs = True

    def __init__(self, pool: Sequence[str | Path] | str | Path = (), seed: int = 0) -> None:
        folders = tuple(str(run.resolve()) for run in pool_runs(pool, seed))
        if not folders:
            raise ConfigError("reflector.pool", "no folder", "a run folder", EXPECTED)
        super().__init__([reflection for folder in folders for reflection in _reflections_in(folder)], folders, seed)


def pool_runs(
    pool: Sequence[str | Path] | str | Path, seed: int, run: Manifest | None = None, known: Collection[str] = ()
) -> list[Path]:
    """The run folders of `pool`, with folders of runs replaced by runs in them.

    Raises ConfigError: a folder of runs holds no such run. `pool`: run folders, or folders of runs. A folder of runs
    contributes finished runs of arm `reflexion` at `seed`. `run`: the run that reads the reflections. Then a folder
    contributes one run, with the same models, feedback source and benchmark; of several, the run whose config differs
    least, then the oldest. `known`: run ids to take instead if they are in the folder: a resumed run keeps its pool.
    """
    paths: list[Path] = []
    for folder in map(Path, [pool] if isinstance(pool, str | os.PathLike) else pool):
        if not folder.is_dir() or (folder / "manifest.json").exists():
            paths.append(folder)
        elif original := [folder / name for name in known if (folder / name / "manifest.json").is_file()]:
            paths += original
        else:
            paths += _finished_reflexion_runs(folder, seed, run)
    return paths


def pool_digests(
    pool: Sequence[str | Path] | str | Path, seed: int, manifest: Manifest, known: Collection[str]
) -> dict[str, str]:
    """Digests of the attempts of the runs whose reflections the run of `manifest` reads, by run id.

    Raises ConfigError: a run must not be drawn from. `known`: run ids of its original pool.
    """
    runs = pool_runs(pool, seed, manifest, known)
    folders = map(Path, Shuffled(runs, seed).folders)  # raises for a run that must not be drawn from
    return {RunFolder(run).manifest.run_id: file_digest(run / "attempts.jsonl") for run in folders}


def _finished_reflexion_runs(folder: Path, seed: int, run: Manifest | None) -> list[Path]:
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
    mismatches = {path: sorted(MATCHED & {*names}) for path, names in unlike.items()}
    closest = min(unlike, key=lambda path: (len(mismatches[path]), len(unlike[path])))
    if wrong := mismatches[closest]:
        raise ConfigError(
            f"reflector.pool: {folder}: no {expected} matches this run; the closest, {closest.name}, has another "
            f"{', '.join(wrong)}; {EXPECTED}"
        )
    return [closest]


def _authors(first: Manifest, other: Manifest) -> list[str]:
    """`["reflector_fingerprint"]` if the runs' reflections are written by different models, else []."""
    author, of_other = (run.role_fingerprints.get("reflector", run.model_fingerprint) for run in (first, other))
    return ["reflector_fingerprint"] * (author != of_other)


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
