"""Recall: what is shown, in which order, and within which budget."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reflexion_lab.memory.episodic import NoSharedMemory
from reflexion_lab.memory.recall import Similar, Window, WindowThenSimilar, packed, words
from reflexion_lab.records import Task
from reflexion_lab.text.shorten import estimated
from tests import builders

TASK = Task(task_id="t", prompt="", entry_point="f")


def episode(number, code="x", task_id="t"):
    return builders.episode(
        number, episode_id=f"{task_id}{number}", task_id=task_id, code=code, test_results="", reflection=None
    )


class Others(NoSharedMemory):
    """Three loops' episodes, the nearest first."""

    def __init__(self):
        self.queries = []

    def similar(self, task, own, k, min_score, outcome="any"):
        self.queries.append((task.task_id, len(own), k, min_score))
        return [episode(1, task_id=name) for name in "xyz"][:k]


def ids(recollection):
    return [episode.episode_id for episode in recollection.episodes]


OWN = [episode(n) for n in range(1, 6)]
LONG = [episode(n, code="x" * 5000) for n in (1, 2, 3)]


@pytest.mark.parametrize(
    ("policy", "own", "expected", "omega"),
    [
        (Window("dynamic"), OWN, ["t5"], 1), (Window("all"), LONG, ["t1", "t2", "t3"], 3),
        (Similar(k=2), LONG, ["y1", "x1"], None),  # the nearest last
        (Similar(k=0), [], [], None), (WindowThenSimilar(omega=1, k=2), OWN[:2], ["y1", "x1", "t2"], 1),
    ],
)  # fmt: skip
def test_a_policy_selects_and_orders_episodes(policy, own, expected, omega):
    recollection = policy.select(own, TASK, Others())
    assert (ids(recollection), recollection.omega) == (expected, omega)


def test_the_adaptive_window_starts_from_the_shared_omega():
    shared = NoSharedMemory()
    shared.omega = 2
    assert Window("adaptive").select([episode(1)], TASK, shared).omega == 3  # a failure of reward 0: one more


def test_the_search_gets_the_threshold_and_the_loops_episodes():
    shared = Others()
    Similar(k=2, min_score=0.5).select([episode(1)], TASK, shared)
    assert shared.queries == [("t", 1, 2, 0.5)]


def test_each_of_the_two_has_a_budget_of_its_own_and_of_anothers_episode_its_task_counts_too():
    own = [episode(1, code="cccc " * 10)]
    assert ids(WindowThenSimilar(k=1, max_tokens=10).select(own, TASK, Others())) == ["x1", "t1"]
    assert ids(WindowThenSimilar(k=1, max_tokens=9).select(own, TASK, Others())) == ["x1"]

    class Described(Others):
        def similar(self, task, own, k, min_score, outcome="any"):
            return [replace(episode(1, code="", task_id="x"), task_description="dddd " * 100)]

    assert ids(Similar(max_tokens=100).select([], TASK, Described())) == ["x1"]
    assert ids(Similar(max_tokens=99).select([], TASK, Described())) == []


@given(st.lists(st.integers(0, 60), max_size=12), st.integers(0, 60))
def test_packing_keeps_order_and_budget_and_takes_the_newest_that_fit(sizes, budget):
    own = [episode(number, code="x" * size) for number, size in enumerate(sizes)]
    before = list(own)
    chosen = packed(own, budget)
    assert own == before
    assert chosen == [kept for kept in own if kept in chosen]
    left = budget
    for kept in reversed(own):
        fits = estimated(words(kept)) <= left
        assert (kept in chosen) == fits
        left -= estimated(words(kept)) if fits else 0
