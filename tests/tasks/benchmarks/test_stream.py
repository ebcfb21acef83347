"""The stream: its order, its passes, and its split, whose test tasks teach nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflexion_lab.errors import ConfigError
from reflexion_lab.memory.archive import Archive, Rounds
from reflexion_lab.memory.retrieval.jaccard import Jaccard
from reflexion_lab.records import Episode, Task, identity
from reflexion_lab.storage.in_memory import InMemory
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark
from reflexion_lab.tasks.benchmarks.similar import repeated
from reflexion_lab.tasks.benchmarks.stream import Split, overlap, stream
from tests.builders import attempt

NAMES = "sort the numbers", "count the vowels", "reverse a string", "find the root", "merge two lists", "parse a date"


def benchmark(n=12, per_cluster=2):
    tasks = (
        Task(
            task_id=f"own/{i}",
            prompt=f"def f{i}(x):\n    # {NAMES[i // per_cluster % 6]}",
            entry_point=f"f{i}",
            cluster=f"c{i // per_cluster}" if i // per_cluster else "",
        )
        for i in range(n)
    )
    return Benchmark("own", tuple(tasks))


def ids(tasks):
    return [task.loop_id for task in tasks]


def test_null_keeps_the_order_and_a_number_shuffles_by_it_alone_but_within_no_cluster():
    whole = benchmark()
    assert stream(whole) == whole
    orders = {order: tuple(ids(stream(whole, order=order))) for order in range(10)}
    assert len(set(orders.values())) == 10 and all(set(order) == set(ids(whole)) for order in orders.values())
    assert orders[3] == tuple(ids(stream(benchmark(), order=3)))
    assert stream(whole, order=3).digest == whole.digest
    whole = benchmark(12, per_cluster=4)
    for order in range(5):
        shuffled = stream(whole, order=order)
        for cluster in {task.cluster_id for task in whole}:
            own = [[task.task_id for task in tasks if task.cluster_id == cluster] for tasks in (whole, shuffled)]
            assert own[0] == own[1]


def test_later_passes_repeat_the_train_tasks_under_ids_and_clusters_that_lead_back():
    whole = stream(benchmark(4), passes=3, split=Split(folds=2))
    test = [task_id for task_id in ids(benchmark(4)) if task_id in whole.held_out]
    train = [task_id for task_id in ids(benchmark(4)) if task_id not in whole.held_out]
    assert ids(whole) == [*train, *(f"{i}@pass2" for i in train), *(f"{i}@pass3" for i in train), *test]
    assert all(task.cluster_id == benchmark(4)[task.task_id].cluster_id for task in whole)
    assert identity("own/1@2@pass3") == ("own/1@2", 3)
    assert all(identity(task.loop_id) == (task.task_id, task.repetition) for task in whole)


@given(n=st.integers(4, 30), per_cluster=st.integers(1, 2), folds=st.integers(2, 4), seed=st.integers(0, 99))
def test_folds_are_a_partition_into_whole_clusters(n, per_cluster, folds, seed):
    whole = benchmark(n, per_cluster)
    n_clusters = len({task.cluster_id for task in whole})
    if n_clusters < folds:
        return
    sides = [Split(folds=folds, fold=fold, seed=seed).ids(whole)["test"] for fold in range(folds)]
    assert sorted(task_id for side in sides for task_id in side) == sorted(ids(whole))
    of_side = [{whole[task_id].cluster_id for task_id in side} for side in sides]
    assert sum(map(len, of_side)) == n_clusters
    assert max(map(len, of_side)) - min(map(len, of_side)) <= 1


def test_validation_has_clusters_of_its_own_and_each_part_leaves_the_other_out():
    whole = benchmark(40)
    shares = {"test": 0.25, "validation": 0.25}
    runs = {part: stream(whole, split=Split(**shares, part=part)) for part in ("test", "validation")}
    sides = {part: {task.cluster_id for task in run if task.task_id in run.held_out} for part, run in runs.items()}
    train = [{task.cluster_id for task in run if task.task_id not in run.held_out} for run in runs.values()]
    assert train[0] == train[1]
    assert [len(side) for side in (*sides.values(), train[0])] == [5, 5, 11]
    assert not sides["test"] & sides["validation"] and not train[0] & (sides["test"] | sides["validation"])
    assert runs["test"].held_out == stream(whole, split=Split(test=0.25)).held_out
    for split in (Split(test=0.25, part="validation"), Split(test=0.25, validation=0.001)):
        with pytest.raises(ConfigError, match="0 for validation"):
            split.ids(whole)


def test_a_share_is_of_clusters_and_no_split_depends_on_the_order():
    whole = benchmark(40)
    split = Split(test=0.25)
    assert len({whole[task_id].cluster_id for task_id in split.ids(whole)["test"]}) == round(21 / 4)
    assert stream(whole, order=1, split=split).held_out == stream(whole, split=split).held_out
    assert Split(test=0.25, seed=1).ids(whole)["test"] != split.ids(whole)["test"]


@pytest.mark.parametrize(("options", "message"), [
    ({"split": Split()}, "benchmark.split: got both or none"),
    ({"split": Split(test=0.5, folds=2)}, "benchmark.split: got both or none"),
    ({"split": Split(test=0.01)}, "0 of 7 clusters for the test"),
    ({"split": Split(test=1.0)}, "7 of 7 clusters for the test"),
    ({"split": Split(folds=2, fold=2)}, "benchmark.split.fold: got 2, expected 0 to 1"),
    ({"passes": 0}, "passes: got 0, expected 1 or more"),
])  # fmt: skip
def test_an_impossible_stream_is_refused_by_its_key(options, message):
    with pytest.raises(ConfigError, match=message):
        stream(benchmark(), **options)


def test_ids_that_look_like_a_later_pass_are_refused():
    whole = Benchmark("own", (Task(task_id="a@pass2", prompt="", entry_point="f"),))
    for passes in (1, 2):  # memory would take it for the second pass of task a
        with pytest.raises(ConfigError, match="task_id: got 'a@pass2'"):
            stream(whole, passes=passes)


def test_near_duplicates_across_the_split_and_repetitions_of_other_clusters_are_counted():
    pair = benchmark(12, per_cluster=1)  # tasks 6 to 11 have the texts of 0 to 5
    split = next(s for s in (Split(test=0.5, seed=n) for n in range(9)) if _twins(s.ids(pair)["test"]) > 0)
    line = overlap(stream(pair, split=split, passes=2))
    assert line.startswith("split: 6 train tasks in 6 clusters and 6 test tasks in 6 clusters; ")
    assert f"among these: {_twins(split.ids(pair)['test'])} (cosine >= 0.7), such as own/" in line
    pairs = repeated(benchmark(12, per_cluster=1).tasks)
    assert [(pair.later, pair.earlier) for pair in pairs] == [(f"own/{n + 6}", f"own/{n}") for n in range(6)]
    assert repeated(benchmark(12)[2:].tasks) == []  # the equal ones share a cluster
    assert repeated([]) == []


def _twins(test):
    """Test tasks whose equal is a train task."""
    return sum(f"own/{(int(task_id[4:]) + 6) % 12}" not in test for task_id in test)


def test_rounds_never_mix_the_sides_and_test_tasks_teach_nothing():
    whole = stream(benchmark(7, per_cluster=1), split=Split(test=0.3))
    archive = Archive(InMemory(), Jaccard)
    rounds = Rounds(archive, 2, "run", "arm", frozen=whole.held_out)
    of_rounds = rounds.of(list(whole))
    assert [len(part) for part in of_rounds] == [2, 2, 1, 2]
    for part in of_rounds:
        assert len({task.task_id in whole.held_out for task in part}) == 1
        for task in part:
            rounds.finished(task, [attempt(task_id=task.task_id)])
        rounds.end(part)
    learnt = {episode.task_id for episode in archive.store.read(Episode)}
    assert learnt == set(ids(whole)) - whole.held_out


@pytest.mark.parametrize(("same_task", "recalled"), [(False, []), (True, ["ep-run/own/0-1"])])
def test_an_attempt_of_an_earlier_pass_counts_as_one_at_the_same_task(same_task, recalled):
    first, again = stream(benchmark(1), passes=2)
    archive = Archive(InMemory(), Jaccard, same_task=same_task)
    rounds = Rounds(archive, 1, "run", "arm")
    rounds.finished(first, [attempt(task_id=first.task_id)])
    rounds.end([first])
    assert [episode.episode_id for episode in archive.similar(again, (), 3, 0.0)] == recalled
    assert [episode.episode_id for episode in archive.past(again)] == recalled
