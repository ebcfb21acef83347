"""Recall: what is shown, in which order, and within which budget."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reflexion_lab.memory.episodic import NothingKnown
from reflexion_lab.memory.recall import Similar, Window, WindowThenSimilar, packed, words
from reflexion_lab.records import Task
from reflexion_lab.text.shorten import estimated
from tests import builders

TASK = Task(task_id="t", prompt="", entry_point="f")


def episode(number, code="x", task_id="t"):
    return builders.episode(
        number, episode_id=f"{task_id}{number}", task_id=task_id, code=code, test_results="", reflection=None
    )


class Others(NothingKnown):
    """Three loops' episodes, the nearest first."""

    def __init__(self):
        self.asked = []

    def similar(self, task, own, k, min_score, outcome="any"):
        self.asked.append((task.task_id, len(own), k, min_score))
        return [episode(1, task_id=name) for name in "xyz"][:k]


def ids(recollection):
    return [episode.episode_id for episode in recollection.episodes]


def test_the_window_tells_its_omega():
    recollection = Window("dynamic").select([episode(n) for n in range(1, 6)], TASK, NothingKnown())
    assert (ids(recollection), recollection.omega) == (["t5"], 1)


def test_the_adaptive_window_begins_where_the_other_loops_left_it():
    known = NothingKnown()
    known.omega = 2
    own = [episode(1)]  # a failure of reward 0: one more
    assert Window("adaptive").select(own, TASK, known).omega == 3


def test_the_nearest_stands_last():
    assert ids(Similar(k=2).select([], TASK, Others())) == ["y1", "x1"]
    assert ids(Similar(k=0).select([], TASK, Others())) == []


def test_the_search_gets_the_threshold_and_the_loops_episodes():
    known = Others()
    Similar(k=2, min_score=0.5).select([episode(1)], TASK, known)
    assert known.asked == [("t", 1, 2, 0.5)]


def test_other_loops_come_before_the_tasks_own():
    recollection = WindowThenSimilar(omega=1, k=2).select([episode(1), episode(2)], TASK, Others())
    assert (ids(recollection), recollection.omega) == (["y1", "x1", "t2"], 1)


def test_each_of_the_two_has_a_budget_of_its_own():
    own = [episode(1, code="cccc " * 10)]
    assert ids(WindowThenSimilar(k=1, max_tokens=10).select(own, TASK, Others())) == ["x1", "t1"]
    assert ids(WindowThenSimilar(k=1, max_tokens=9).select(own, TASK, Others())) == ["x1"]


def test_of_another_tasks_episode_its_task_counts_too():
    class Described(Others):
        def similar(self, task, own, k, min_score, outcome="any"):
            return [replace(episode(1, code="", task_id="x"), task_description="dddd " * 100)]

    assert ids(Similar(max_tokens=100).select([], TASK, Described())) == ["x1"]
    assert ids(Similar(max_tokens=99).select([], TASK, Described())) == []


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Similar(k=-1), r"Similar\.k: got -1"),
        (lambda: Similar(min_score=1.5), r"Similar\.min_score: got 1\.5"),
        (lambda: Window(max_tokens=-1), r"Window\.max_tokens: got -1"),
        (lambda: WindowThenSimilar(omega=-2), r"WindowThenSimilar\.omega: got -2"),
    ],
)
def test_an_impossible_value_is_named(make, said):
    with pytest.raises(ValueError, match=said):
        make()


def test_without_a_bound_the_whole_window_is_shown():
    own = [episode(number, code="x" * 5000) for number in (1, 2, 3)]
    assert ids(Window("all").select(own, TASK, Others())) == ["t1", "t2", "t3"]
    assert ids(Similar(k=2).select(own, TASK, Others())) == ["y1", "x1"]


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
