"""Ω: how many of a task's newest episodes are shown."""

from collections import Counter

import pytest
from msgspec.structs import replace

from reflexion_lab.memory.recall import Window, adapted, by_verification_type, capacity, dynamic
from reflexion_lab.records import Task
from reflexion_lab.tasks.benchmarks.basics import basics
from reflexion_lab.tasks.benchmarks.humaneval import humaneval
from tests import builders


def task(*tags):
    return Task(task_id="t", prompt="", entry_point="f", tags=tags)


def episode(number=1, *, passed=False, reward=0.6, category="", kind="unit_tests"):
    return builders.episode(
        number,
        reflection=builders.reflection(about_attempt=number, category=category) if category else None,
        passed=passed,
        reward=reward,
        metadata={"verification_type": kind},
    )


@pytest.mark.parametrize(("omega", "shown"), [(0, 0), (7, 7), ("all", 4), ("simple", 1), ("maximum", 10)])
def test_a_fixed_omega_is_what_it_says(omega, shown):
    assert capacity(omega, [episode()] * 4, task()) == shown


@pytest.mark.parametrize(("tag", "shown"), [("simple", 1), ("moderate", 3), ("complex", 5), ("maximum", 10), ("", 1)])
def test_by_complexity_goes_by_the_tasks_tag(tag, shown):
    assert capacity("by_complexity", [], task("lists", tag)) == shown


@pytest.mark.parametrize(
    ("kind", "shown"),
    [("unit_tests", 1), ("type_check", 1), ("lint", 1), ("integration", 3), ("combined", 3), ("manual_review", 5)],
)
def test_by_verification_type_goes_by_the_last_verdict(kind, shown):
    assert by_verification_type([episode(kind="manual_review"), episode(kind=kind)]) == shown


@pytest.mark.parametrize("own", [[], [episode(kind="trajectory")]])
def test_an_unknown_verification_type_shows_three(own):
    assert by_verification_type(own) == 3


@pytest.mark.parametrize(
    ("categories", "shown"),
    [("", 1), ("ab", 1), ("aab", 1), ("abc", 3), ("abcdd", 3), ("abcde", 5), ("abcdef", 5)],
)
def test_dynamic_goes_by_the_number_of_distinct_categories(categories, shown):
    assert dynamic([episode(category=name) for name in categories]) == shown


def test_a_missing_category_counts_for_nothing():
    assert dynamic([episode(category="a"), episode(category="b"), episode(), episode()]) == 1


@pytest.mark.parametrize(
    ("rewards", "omega"),
    [([0.6], 3), ([0.6, 0.6], 3), ([0.6, 0.6, 0.6], 4), ([0.6] * 4, 5), ([0.4], 4), ([0.5], 3)],
)
def test_adaptive_widens_after_the_third_failure_in_a_row_or_a_poor_one(rewards, omega):
    assert adapted(3, [episode(n, reward=reward) for n, reward in enumerate(rewards, 1)]) == omega


@pytest.mark.parametrize(("number", "omega"), [(1, 2), (2, 2), (3, 3)])
def test_adaptive_narrows_after_an_easy_success(number, omega):
    assert adapted(3, [episode(number, passed=True, reward=1.0)]) == omega


def test_adaptive_stays_within_1_and_10():
    assert adapted(10, [episode(reward=0.0)] * 5) == 10
    assert adapted(1, [episode(1, passed=True, reward=1.0)]) == 1


def test_adaptive_goes_on_from_where_the_last_loops_left_it():
    assert capacity("adaptive", [episode(reward=0.0)], task(), adapted_so_far=6) == 7


@pytest.mark.parametrize("omega", [-1, 1.5, "some", True, None])
def test_an_impossible_omega_is_named_with_what_would_do(omega):
    with pytest.raises(ValueError, match=r"Window\.omega: .* expected an int of 0 or more, or one of all"):
        Window(omega)


def test_an_unknown_verdict_does_not_move_the_adaptive_omega():
    untold = [replace(episode(n, reward=0.0), metadata={"outcome": "no_tests"}) for n in (1, 2, 3)]
    assert adapted(3, untold) == 3


@pytest.mark.parametrize(("words", "shown"), [(45, 1), (46, 3), (72, 3), (73, 5)])
def test_without_a_tag_the_length_of_the_prompt_tells_the_complexity(words, shown):
    assert capacity("by_complexity", [], replace(task(), prompt="word " * words)) == shown


def test_tasks_of_humaneval_are_of_all_sizes():
    sizes = Counter(capacity("by_complexity", [], task) for task in humaneval())
    assert sizes.keys() == {1, 3, 5}
    assert min(sizes.values()) > 50


def test_tasks_of_basics_have_a_complexity():
    sizes = {capacity("by_complexity", [], task) for task in basics(0, 40)}
    assert sizes == {1, 3, 5}
