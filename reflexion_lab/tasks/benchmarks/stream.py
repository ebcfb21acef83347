"""A benchmark as a stream: its order, its passes, and a split into train and test tasks by cluster."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal

import msgspec

from reflexion_lab.errors import ConfigError
from reflexion_lab.limits import Count, Positive, Share, validated
from reflexion_lab.records import Record, Task, identity
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark, draw
from reflexion_lab.tasks.benchmarks.similar import SIMILAR, nearest


class Split(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A draw of test clusters: a share of them, or one fold of several; no cluster is on both sides.

    With `validation`, a share of the clusters beside the test is for choosing settings: `part` is what a run holds out,
    and the other part is left out of it. With folds, it is the same for all of them and in none: settings that it chose
    were chosen on the test tasks of no fold.

    ExpeL (Zhao et al. 2024, arXiv 2308.10144) takes two folds with seed 42: lessons of one are tested on the other.
    """

    test: Share | None = None
    """Share of the clusters."""
    validation: Share = 0.0
    """Share of the clusters, disjoint from those of the test, with folds from those of every fold."""
    part: Literal["test", "validation"] = "test"
    folds: Annotated[int, msgspec.Meta(ge=2)] | None = None
    fold: Count = 0
    """The fold of the test tasks, from 0; the others are for training."""
    seed: int = 42

    def ids(self, benchmark: Benchmark) -> dict[str, frozenset[str]]:
        """Ids of the tasks of `test` and `validation`.

        Raises ConfigError: not one of `test` and `folds`, no such fold, or one side without a cluster.
        """
        if (self.test is None) == (self.folds is None):
            raise ConfigError(
                "benchmark.split", "both or none of test and folds", "{test: 0.25} or {folds: 2, fold: 0}"
            )
        if self.fold >= (self.folds or 1):
            raise ConfigError("benchmark.split.fold", self.fold, f"0 to {(self.folds or 1) - 1}")
        ids = {task.cluster_id for task in benchmark}
        clusters = sorted(ids, key=lambda cluster: draw(self.seed, "split", cluster))
        n_test, n_validation = (round(len(clusters) * share) for share in (self.test or 0, self.validation))
        validation = clusters[n_test : n_test + n_validation]  # with folds, the first ones
        rest, n_folds = clusters[n_validation:], self.folds or 1  # folds are neighbours: few move with a cluster more
        first, last = (len(rest) * fold // n_folds for fold in (self.fold, self.fold + 1))
        test = rest[first:last] if self.folds else clusters[:n_test]
        parts = {"test": test, "validation": validation}
        n = {name: len(part) for name, part in parts.items()}
        is_short = not n["test"] or (not n["validation"] and (self.validation or self.part == "validation"))
        if is_short or sum(n.values()) >= len(clusters):
            got = f"{n['test']} of {len(clusters)} clusters for the test, {n['validation']} for validation"
            raise ConfigError("benchmark.split", got, "at least one cluster on each side")
        tasks = [(task.task_id, task.cluster_id) for task in benchmark]
        return {name: frozenset(i for i, cluster in tasks if cluster in part) for name, part in parts.items()}


@validated
def stream(
    benchmark: Benchmark, *, order: int | None = None, passes: Positive = 1, split: Split | None = None
) -> Benchmark:
    """The tasks in the order in which they arrive: `passes` over the train tasks, then the held-out tasks once.

    Raises ConfigError: as `Split.ids`, or an id ends like one of a later pass. `order`: seed of a shuffle, which keeps
    the order within a cluster: later tasks may build on earlier ones. None keeps the order of the benchmark. `passes`:
    in pass P > 1 the records of a task have the id `ID@passP`.
    """
    tasks = list(benchmark)
    if order is not None:
        tasks = _shuffled(tasks, order)
    parts = split.ids(benchmark) if split else {}
    held_out = parts[split.part] if split else frozenset()
    left_out = frozenset[str]().union(*parts.values()) - held_out
    tasks = [task for task in tasks if task.task_id not in left_out]
    if like_pass := [task.task_id for task in tasks if identity(task.task_id)[1] > 1]:
        raise ConfigError("task_id", repr(like_pass[0]), "an id that does not end in @passNUMBER, as later passes do")
    train = [task for task in tasks if task.task_id not in held_out]
    repeated = [msgspec.structs.replace(task, repetition=n) for n in range(1, passes + 1) for task in train]
    tasks = [*repeated, *(task for task in tasks if task.task_id in held_out)]
    return replace(benchmark, tasks=tuple(tasks), held_out=held_out, part=split.part if split else "test")


def _shuffled(tasks: Sequence[Task], seed: int) -> list[Task]:
    """The tasks by `draw`; those of a cluster keep their order."""
    clusters = [task.cluster_id for task in sorted(tasks, key=lambda task: draw(seed, "order", task.task_id))]
    waiting: dict[str, deque[Task]] = {}
    for task in tasks:
        waiting.setdefault(task.cluster_id, deque()).append(task)
    return [waiting[cluster].popleft() for cluster in clusters]


def overlap(benchmark: Benchmark) -> str:
    """Sizes of a split, and near-duplicates between its sides, in one line."""
    first = [task for task in benchmark if task.repetition == 1]
    train, test = (
        [task for task in first if (task.task_id in benchmark.held_out) == is_held_out] for is_held_out in (False, True)
    )
    near = [pair for pair in nearest(train, test) if pair.similarity >= SIMILAR]
    sizes = " and ".join(
        f"{len(side)} {name} tasks in {len({task.cluster_id for task in side})} clusters"
        for name, side in (("train", train), (benchmark.part, test))
    )
    example = f", such as {near[0].later} of {near[0].earlier}" if near else ""
    return f"split: {sizes}; near-duplicates of train tasks among these: {len(near)} (cosine >= {SIMILAR}){example}"
