"""Ω: how many of a task's newest episodes are shown."""

from collections import Counter

import pytest
from msgspec.structs import replace

from reflexion_lab.memory.recall import adapted, omega_for
from reflexion_lab.records import Task
from reflexion_lab.tasks.benchmarks.basics import basics
from reflexion_lab.tasks.benchmarks.humaneval import humaneval
from tests import builders


def task(*tags):
    return Task(task_id="t", prompt="", entry_point="f", tags=tags)


def episode(number=1, *, passed=False, reward=0.6, category="", kind="unit_tests"):
    return builders.episode(
        number, reflection=builders.reflection(about_attempt=number, category=category) if category else None,
        passed=passed, reward=reward, metadata={"verification_type": kind},
    )  # fmt: skip


def of_kind(*kinds):
    return [episode(kind=kind) for kind in kinds]


def of_categories(names):
    return [episode(category=name.strip()) for name in names]


@pytest.mark.parametrize(
    ("omega", "own", "about", "expected"),
    [
        *((omega, [episode()] * 4, task(), n) for omega, n in ((0, 0), (7, 7), ("all", 4), ("simple", 1))),
        ("maximum", [episode()] * 4, task(), 10),
        *(
            ("by_complexity", [], task("lists", tag), n)
            for tag, n in (("simple", 1), ("moderate", 3), ("complex", 5), ("maximum", 10), ("", 1))
        ),
        *(
            ("by_complexity", [], replace(task(), prompt="word " * words), n)
            for words, n in ((45, 1), (46, 3), (72, 3), (73, 5))
        ),
        *(
            ("by_verification_type", of_kind("manual_review", kind), task(), n)
            for kind, n in (("unit_tests", 1), ("type_check", 1), ("lint", 1), ("integration", 3), ("combined", 3))
        ),
        ("by_verification_type", of_kind("manual_review"), task(), 5),
        ("by_verification_type", of_kind("trajectory"), task(), 3),  # an unknown type
        ("by_verification_type", [], task(), 3),
        *(
            ("dynamic", of_categories(names), task(), n)
            for names, n in (("", 1), ("ab", 1), ("aab", 1), ("ab  ", 1), ("abc", 3), ("abcdd", 3), ("abcde", 5))
        ),
        ("dynamic", of_categories("abcdef"), task(), 5),
    ],
)
def test_a_rule_gives_its_omega(omega, own, about, expected):
    assert omega_for(omega, own, about) == expected


@pytest.mark.parametrize(
    ("rewards", "omega"), [([0.6], 3), ([0.6, 0.6], 3), ([0.6, 0.6, 0.6], 4), ([0.6] * 4, 5), ([0.4], 4), ([0.5], 3)]
)
def test_adaptive_widens_after_three_failures_or_a_poor_one(rewards, omega):
    assert adapted(3, [episode(n, reward=reward) for n, reward in enumerate(rewards, 1)]) == omega


def test_adaptive_narrows_after_an_easy_success_within_1_and_10_and_not_by_an_unknown_verdict():
    for number, omega in ((1, 2), (2, 2), (3, 3)):
        assert adapted(3, [episode(number, passed=True, reward=1.0)]) == omega
    assert adapted(10, [episode(reward=0.0)] * 5) == 10
    assert adapted(1, [episode(1, passed=True, reward=1.0)]) == 1
    untold = [replace(episode(n, reward=0.0), metadata={"outcome": "no_tests"}) for n in (1, 2, 3)]
    assert adapted(3, untold) == 3


def test_tasks_of_humaneval_and_basics_are_of_all_sizes():
    sizes = Counter(omega_for("by_complexity", [], task) for task in humaneval())
    assert sizes.keys() == {1, 3, 5}
    assert min(sizes.values()) > 50
    sizes = {omega_for("by_complexity", [], task) for task in basics(0, 40)}
    assert sizes == {1, 3, 5}
