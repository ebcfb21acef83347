"""Tasks grouped into clusters: those of one template, family or repository are no independent units.

Wherever an interval or a test needs independent units, these are clusters. All cases of a cluster, of all its tasks and
seeds, are resampled, flipped or averaged together; a task that stands alone is a cluster of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from reflexion_lab.io.arrays import Floats, np

Clusters = Mapping[Any, str]
"""Cluster by task, or by another unit such as a pair of runs of a task; a unit that is absent stands alone."""
ALONE: Clusters = {}
"""Every task stands alone."""


def places(tasks: Iterable[Any], clusters: Clusters) -> dict[Any, int]:
    """Index of the cluster of each task, from 0 without gaps, in the order of the smallest task of each cluster.

    For tasks that stand alone this is their sorted order, whatever their clusters are called.
    """
    numbers: dict[str, int] = {}
    return {task: numbers.setdefault(clusters.get(task, task), len(numbers)) for task in sorted(set(tasks))}


def count(tasks: Iterable[Any], clusters: Clusters) -> int:
    """Number of clusters of these tasks."""
    return len({clusters.get(task, task) for task in tasks})


def are_shared(tasks: Iterable[Any], clusters: Clusters) -> bool:
    """Whether two of these tasks have the same cluster."""
    names = set(tasks)
    return count(names, clusters) < len(names)


def units(tasks: Iterable[Any], clusters: Clusters) -> str:
    """Name of the units of an interval over these tasks."""
    return "clusters" if are_shared(tasks, clusters) else "tasks"


def by_cluster(outcomes: Iterable[tuple[Any, float]], clusters: Clusters) -> Floats:
    """Outcomes of cases as an array for `bootstrap`: a row per cluster (`places`), padded with NaN.

    `outcomes`: task and outcome of each case. The same cases in the same order give the same places.
    """
    cases = list(outcomes)
    place_of = places((task for task, _ in cases), clusters)
    rows: list[list[float]] = [[] for _ in range(max(place_of.values(), default=-1) + 1)]
    for task, outcome in cases:
        rows[place_of[task]].append(outcome)
    array = np.full((len(rows), max(map(len, rows), default=0)), np.nan)
    for place, row in enumerate(rows):
        array[place, : len(row)] = row
    return array


def merged(*mappings: Clusters) -> dict[str, str]:
    """Clusters of several runs."""
    return {task: cluster for mapping in mappings for task, cluster in mapping.items() if cluster != task}
