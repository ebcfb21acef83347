"""A part of a benchmark, for one of several runs that are pooled as one."""

from __future__ import annotations

import heapq
import re
from collections import Counter
from dataclasses import replace

from reflexion_lab.errors import ConfigError
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark


def shard(benchmark: Benchmark, which: object) -> Benchmark:
    """Part `I/N` of the tasks, in their order. Clusters are dealt out, the largest first, to the smallest part.

    Raises ConfigError: `which` is no such part, or there are fewer clusters than parts.
    """
    match = re.fullmatch("(0|[1-9][0-9]{0,5})/([1-9][0-9]{0,5})", str(which))
    own, n = map(int, match.groups()) if match else (0, 0)
    if own >= n:
        raise ConfigError("benchmark.shard", which, "I/N with 0 <= I < N")
    sizes = Counter(task.cluster_id for task in benchmark)
    if n > len(sizes):
        raise ConfigError("benchmark.shard", which, f"at most {len(sizes)} shards, one per cluster of tasks")
    dealt, parts = set(), [(0, number) for number in range(n)]
    for cluster, size in sorted(sizes.items(), key=lambda item: (-item[1], item[0])):
        n_tasks, number = parts[0]
        heapq.heapreplace(parts, (n_tasks + size, number))
        if number == own:
            dealt.add(cluster)
    return replace(benchmark, tasks=tuple(task for task in benchmark if task.cluster_id in dealt))
