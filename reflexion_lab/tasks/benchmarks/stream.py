"""A benchmark as a stream: its order, its passes, and a split into train and test tasks by cluster."""

from __future__ import annotations

import random
import re
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import msgspec

from reflexion_lab.errors import ConfigError
from reflexion_lab.limits import Count, Positive, Share, validated
from reflexion_lab.records import PASS, Record, Task
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark
from reflexion_lab.tasks.benchmarks.similar import SIMILAR, nearest


class Split(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A draw of test clusters: a share of them, or one fold of several; no cluster is on both sides.

    ExpeL (Zhao et al. 2024, arXiv 2308.10144) takes two folds with seed 42: lessons of one are tested on the other.
    """

    test: Share | None = None
    """Share of the clusters."""
    folds: Annotated[int, msgspec.Meta(ge=2)] | None = None
    fold: Count = 0
    """The fold of the test tasks, from 0; the others are for training."""
    seed: int = 42

    def test_ids(self, benchmark: Benchmark) -> frozenset[str]:
        """Ids of the test tasks.

        Raises
        ------
        ConfigError
            Not one of `test` and `folds`, no such fold, or one side without a cluster.
        """
        if (self.test is None) == (self.folds is None):
            raise ConfigError(
                "benchmark.split", "both or none of test and folds", "{test: 0.25} or {folds: 2, fold: 0}"
            )
        if self.fold >= (self.folds or 1):
            raise ConfigError("benchmark.split.fold", self.fold, f"0 to {(self.folds or 1) - 1}")
        clusters = sorted({task.cluster_id for task in benchmark})
        random.Random(f"{self.seed}:{benchmark.name}:split").shuffle(clusters)
        chosen = (
            clusters[self.fold :: self.folds] if self.folds else clusters[: round(len(clusters) * (self.test or 0))]
        )
        if not 0 < len(chosen) < len(clusters):
            got = f"{len(chosen)} of {len(clusters)} clusters for the test"
            raise ConfigError("benchmark.split", got, "at least one cluster on each side")
        return frozenset(task.task_id for task in benchmark if task.cluster_id in set(chosen))


@validated
def stream(
    benchmark: Benchmark, *, order: int | None = None, passes: Positive = 1, split: Split | None = None
) -> Benchmark:
    """The tasks in the order in which they arrive: `passes` over the train tasks, then the test tasks once.

    Parameters
    ----------
    order : int | None, optional
        Seed of a shuffle, which keeps the order within a cluster: later tasks may build on earlier ones. None keeps
        the order of the benchmark.
    passes : int, default 1
        In pass p > 1 a task has the id `ID@p`, and the cluster of the first pass.

    Raises
    ------
    ConfigError
        As `Split.test_ids`, or an id ends like one of a later pass.
    """
    tasks = list(benchmark)
    if order is not None:
        tasks = _shuffled(tasks, random.Random(f"{order}:{benchmark.name}:order"))
    test = split.test_ids(benchmark) if split else frozenset()
    if passes > 1 and (like_pass := [task.task_id for task in tasks if re.search(PASS, task.task_id)]):
        raise ConfigError(
            "benchmark.passes", f"{passes} with a task {like_pass[0]!r}", "ids that do not end in @NUMBER"
        )
    train = [task for task in tasks if task.task_id not in test]
    repeated = [_again(task, number) for number in range(1, passes + 1) for task in train]
    return replace(benchmark, tasks=(*repeated, *(task for task in tasks if task.task_id in test)), test=test)


def _shuffled(tasks: Sequence[Task], rng: random.Random) -> list[Task]:
    """The clusters take random places; the tasks of each stand there in their order."""
    clusters = [task.cluster_id for task in tasks]
    rng.shuffle(clusters)
    waiting: dict[str, deque[Task]] = {}
    for task in tasks:
        waiting.setdefault(task.cluster_id, deque()).append(task)
    return [waiting[cluster].popleft() for cluster in clusters]


def _again(task: Task, number: int) -> Task:
    """`task` in pass `number`."""
    if number == 1:
        return task
    return msgspec.structs.replace(task, task_id=f"{task.task_id}@{number}", cluster=task.cluster_id)


def overlap(benchmark: Benchmark) -> str:
    """Sizes of a split, and near-duplicates between its sides, in one line."""
    train, test = (
        [task for task in benchmark if (task.task_id in benchmark.test) == side and not re.search(PASS, task.task_id)]
        for side in (False, True)
    )
    near = [pair for pair in nearest(train, test) if pair.similarity >= SIMILAR]
    sizes = " and ".join(
        f"{len(side)} {name} tasks in {len({task.cluster_id for task in side})} clusters"
        for name, side in (("train", train), ("test", test))
    )
    example = f", such as {near[0].later} of {near[0].earlier}" if near else ""
    return f"split: {sizes}; near-duplicates of train tasks in the test: {len(near)} (cosine >= {SIMILAR}){example}"
