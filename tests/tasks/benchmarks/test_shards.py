"""A benchmark in shards: no task is lost or twice, no cluster is cut, sizes are even."""

from collections import Counter

import pytest

from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Task
from reflexion_lab.tasks.benchmarks.basics import basics
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark
from reflexion_lab.tasks.benchmarks.shards import shard


def task(task_id, cluster):
    tests = ("assert f(1) == 1",)
    return Task(task_id=task_id, prompt="def f(x):\n", entry_point="f", hidden_tests=tests, cluster=cluster)


def of_clusters(sizes):
    names = [(name, number) for name, size in sizes.items() for number in range(size)]
    names.sort(key=lambda pair: pair[1])  # the clusters are interleaved
    return Benchmark(name="own", tasks=tuple(task(f"{name}/{number}", name) for name, number in names))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7])
def test_shards_are_the_benchmark_in_its_order_with_whole_clusters(n):
    whole = of_clusters({"a": 5, "b": 1, "c": 4, "d": 4, "e": 2, "f": 1, "g": 3})
    parts = [shard(whole, f"{number}/{n}") for number in range(n)]
    place = {task.task_id: number for number, task in enumerate(whole)}
    assert sorted(place[task.task_id] for part in parts for task in part) == list(range(len(whole)))
    assert all(sorted(part, key=lambda task: place[task.task_id]) == list(part) for part in parts)
    homes = Counter(cluster for part in parts for cluster in {task.cluster_id for task in part})
    assert set(homes.values()) == {1}
    assert max(map(len, parts)) - min(map(len, parts)) <= 5
    assert {part.digest for part in parts} == {whole.digest}


def test_the_largest_cluster_goes_first_to_the_emptiest_shard_and_lone_tasks_are_dealt_evenly():
    whole = of_clusters({"b": 2, "a": 2, "z": 3, "c": 1})
    assert [{task.cluster_id for task in shard(whole, f"{number}/2")} for number in (0, 1)] == [{"z", "c"}, {"a", "b"}]
    whole = Benchmark("basics", tuple(basics(n=40)))
    assert [len(shard(whole, f"{number}/4")) for number in range(4)] == [10] * 4


@pytest.mark.parametrize("which", ["4/4", "-1/4", "1", 3, "a/b", "0/0", "1/2/3", "0 / 4", "٠/4", "00/4", "1/04", True])
def test_what_is_no_shard_is_refused(which):
    with pytest.raises(ConfigError) as caught:
        shard(Benchmark("basics", tuple(basics(n=8))), which)
    assert str(caught.value) == f"benchmark.shard: got {which}, expected I/N with 0 <= I < N"


def test_an_empty_shard_is_refused():
    with pytest.raises(ConfigError, match="got 2/3, expected at most 2 shards, one per cluster of tasks"):
        shard(of_clusters({"a": 5, "b": 1}), "2/3")
