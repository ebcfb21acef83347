"""Shared memory stays small: what it holds for an attempt is an index, and a group keeps sums."""

import gc
import tracemalloc
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reflexion_lab.memory.archive import Archive, Shown
from reflexion_lab.memory.lessons.wisdom import Extraction, extract
from reflexion_lab.memory.retrieval.jaccard import Jaccard
from reflexion_lab.records import Episode
from reflexion_lab.storage.in_memory import InMemory
from tests import builders
from tests.memory.test_archive import attempt, learnt, task

BYTES = 2000
"""Of memory for an attempt whose texts have ten times as many."""


def rounds(archive, numbers):
    for number in numbers:
        about = task(f"t{number}", f"sum of list {number}")
        text = f"word{number % 50} " * 4000
        cause = f"the bound of loop {'x' * (number % 300)}y{'z' * (number // 300)} is off"
        failed = replace(attempt(f"t{number}", cause=cause), trajectory=builders.trajectory(text))
        archive.absorb([learnt(about, failed)])


def held():
    """Bytes in use, without those of coverage, which keeps a tracer for every thread that ever started."""
    gc.collect()
    coverage = tracemalloc.Filter(False, "*/coverage/*")
    return sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces([coverage]).traces)


def test_an_attempt_in_shared_memory_takes_an_index_and_not_its_texts():
    archive = Archive(InMemory(), Jaccard, shown=Shown(wisdom=2, mistakes=2, insights=2), max_episodes=100_000)
    tracemalloc.start()
    try:
        rounds(archive, range(1100))  # mistakes and insights are full
        before = held()
        rounds(archive, range(1100, 2100))
        after = held()
    finally:
        tracemalloc.stop()
    assert 0 < (after - before) / 1000 < BYTES
    assert len(archive.buffer) == 2100
    assert len(archive.buffer.by_task("t7")[0].code) > 10 * BYTES


def test_a_store_is_read_without_a_list_of_its_records():
    store = InMemory()
    store.append([builders.episode(episode_id=f"ep-{n}", session_id=f"s{n}", code="x" * 20_000) for n in range(3000)])
    tracemalloc.start()
    try:
        archive = Archive(store, Jaccard, max_episodes=100_000)
        beginning = archive.begin()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (beginning.episodes, beginning.newest_episode, len(archive.buffer)) == (3000, "ep-2999", 3000)
    assert peak < 3000 * 20_000 / 2


EPISODES = st.lists(
    st.builds(
        lambda number, about, change, confidence: (number, about, change, confidence), st.integers(0, 40),
        st.sampled_from("abcd"), st.sampled_from(["", "look", "think", "wait"]), st.sampled_from([0.1, 0.5, 0.9]),
    ),
    min_size=2,
    max_size=25,
)  # fmt: skip


@given(EPISODES)
def test_wisdom_without_a_task_is_that_of_the_others(drawn):
    episodes = [
        builders.episode(
            episode_id=f"ep-{place}",
            task_id=about,
            passed=False,
            reflection=builders.reflection(root_cause=f"Bound {number} off", what_to_change=change, confidence=sure),
        )
        for place, (number, about, change, sure) in enumerate(drawn)
    ]
    whole = Extraction()
    whole.add(episodes)
    (entry,) = whole.wisdom
    assert whole.without(entry, "e") == entry
    for left_out in {episode.task_id for episode in episodes}:
        others = [episode for episode in episodes if episode.task_id != left_out]
        without = whole.without(entry, left_out)
        if len(others) < 2:
            assert without is None
            continue
        (expected,) = extract(others)
        assert (without.pattern, without.frequency, without.tasks) == (expected.pattern, len(others), expected.tasks)
        assert (without.advice, without.impact) == (best_advice(others), pytest.approx(expected.impact, abs=1e-12))


def best_advice(episodes: list[Episode]) -> str:
    """Of the first task among those with the most confident advice."""
    by_task = defaultdict(list)
    for episode in episodes:
        if episode.reflection.what_to_change:
            by_task[episode.task_id].append(episode.reflection)
    order = dict.fromkeys(episode.task_id for episode in episodes)
    best = [max(by_task[name], key=lambda each: each.confidence) for name in order if name in by_task]
    return max(best, key=lambda each: each.confidence).what_to_change if best else ""
