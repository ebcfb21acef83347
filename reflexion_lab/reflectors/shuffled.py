"""The control that tells another task's words: are they of use because they are about this one?"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from reflexion_lab.records import Attempt, Episode, Reflection, Task, Usage
from reflexion_lab.reflectors.evidence import classify_evaluation
from reflexion_lab.run_folder import RunFolder, RunFolderError

EXPECTED = "run the reflexion arm first (reflector=llm) and name its run folder"

_AUTHORS = re.compile(r"llm$|fallback:")


class Told(NamedTuple):
    """A reflection of an earlier run."""

    task_id: str
    number: int
    reflection: Reflection

    @property
    def words(self) -> tuple[str, str, str]:
        said = self.reflection
        return said.root_cause, said.what_went_wrong, said.what_to_change


class Shuffled:
    """Draws a reflection on another task from `pool`, run folders of earlier runs, its words unchanged. Costs nothing.

    Only what a model, or its fallback, said of a failure is drawn: at random, by `seed`, task and attempt, from the
    words on attempts of the same number, or, where there are none, of any; no words twice on one task while
    there are others.
    Confidence stays that of its author; the category is that of the evidence at hand.

    A folder that is no run but holds runs stands for the first finished one of arm `reflexion` at this seed on each
    benchmark. The folders are read once a process, when they are first named. A run whose words are about hidden tests
    is refused.

    Raises:
        ValueError: a folder of `pool` is neither, comes from the oracle arm, or holds no such reflection.
    """

    def __init__(self, pool: Sequence[str | Path] | str | Path = (), seed: int = 0) -> None:
        folders = [pool] if isinstance(pool, str | os.PathLike) else pool
        self.folders = tuple(str(run.resolve()) for folder in folders for run in _runs(Path(folder), seed))
        if not self.folders:
            raise ValueError(f"reflector.pool: no folder found; {EXPECTED}")
        self.seed = seed
        self._pool = [told for folder in self.folders for told in _told_in(folder)]
        self._pool.sort(key=lambda told: (told.task_id, told.number))
        self._drawn: set[tuple[str, tuple[str, str, str]]] = set()

    def reflect(self, task: Task, attempt: Attempt, episodes: Sequence[Episode]) -> Reflection:
        """Raises ValueError when the pool holds no words on another task."""
        every = [told for told in self._pool if told.task_id != task.task_id]
        foreign = [told for told in every if _alike(told.task_id, task.task_id)] or every
        if not foreign:
            raise ValueError(
                f"reflector.pool: {', '.join(self.folders)}: no reflection found that is on another task than "
                f"{task.task_id} (attempt {attempt.number}); {EXPECTED}, with more tasks"
            )
        others = [told for told in foreign if (task.task_id, told.words) not in self._drawn] or foreign
        alike = [told for told in others if told.number == attempt.number]
        drawn = random.Random(f"{self.seed}:{task.task_id}:{attempt.number}").choice(alike or others)
        self._drawn.add((task.task_id, drawn.words))
        return replace(
            drawn.reflection,
            reflection_id=f"{task.task_id}#{attempt.number}",
            about_attempt=attempt.number,
            source="control:shuffled",
            category=classify_evaluation(attempt.evaluation)[0],
            flags=(),
            problem="",
            usage=Usage(),
        )


def _runs(folder: Path, seed: int) -> list[Path]:
    """The folder itself if it is a run; else the first finished run of arm `reflexion` on each benchmark in it."""
    if not folder.is_dir() or (folder / "manifest.json").exists():
        return [folder]
    first: dict[str, Path] = {}
    for path in sorted(folder.glob("*/manifest.json")):
        run = RunFolder(path.parent)
        manifest = run.manifest
        is_meant = (manifest.config.get("arm"), manifest.seed) == ("reflexion", seed)
        if is_meant and len(run.results) == manifest.n_expected:
            first.setdefault(manifest.benchmark_digest, path.parent)
    if not first:
        raise ValueError(f"reflector.pool: {folder}: no finished run of arm reflexion at seed {seed} found; {EXPECTED}")
    return list(first.values())


def _alike(one: str, other: str) -> bool:
    """Whether two tasks are of one benchmark, as far as their names tell."""
    return one.partition("/")[0] == other.partition("/")[0]


@cache
def _told_in(folder: str) -> tuple[Told, ...]:
    try:
        run = RunFolder.existing(folder)
        if run.manifest.feedback_source == "oracle":
            raise RunFolderError(f"{folder}: feedback_source oracle found, whose words are about hidden tests")
        failures = [attempt for made in run.attempts.values() for attempt in made if not attempt.evaluation.passed]
    except RunFolderError as problem:
        raise ValueError(f"reflector.pool: {problem}; {EXPECTED}") from None
    told = [Told(failure.task_id, failure.number, failure.reflection) for failure in failures if failure.reflection]
    found = tuple(one for one in told if _AUTHORS.match(one.reflection.source) and any(one.words))
    if not found:
        raise ValueError(f"reflector.pool: {folder}: no reflection by a model or its fallback found; {EXPECTED}")
    return found
