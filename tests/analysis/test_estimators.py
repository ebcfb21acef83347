from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from reflexion_lab.analysis.estimators import curve, paired
from reflexion_lab.analysis.stats.intervals import wilson
from reflexion_lab.loop.selection import submitted_at, verdicts_at
from reflexion_lab.records import Check

verdict = st.tuples(st.sampled_from([-1.0, 0.0, 0.5, 1.0]), st.booleans())
runs = st.dictionaries(st.sampled_from("abcdef"), st.lists(verdict, min_size=1, max_size=4), min_size=1, max_size=6)
with_fixtures = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=80)


def test_the_first_attempt_that_passed_is_submitted(attempt):
    made = [attempt("a", 1, 0.5), attempt("a", 2, 1.0), attempt("a", 3, 1.0)]
    assert submitted_at(made).number == 2


def test_without_a_pass_the_best_is_submitted_and_of_equals_the_earlier(attempt):
    made = [attempt("a", 1, 0.2), attempt("a", 2, 0.5), attempt("a", 3, 0.5), attempt("a", 4, 0.1)]
    assert submitted_at(made).number == 2


@pytest.mark.parametrize(
    ("first", "second", "submitted"),
    [
        # 9 of 10 tests, no type checker; then 5 of 10, types and lint clean
        ({"tests": 9, "reward": 0.929, "confidence": 0.7}, {"tests": 5, "reward": 0.75}, 1),
        # every test, one type error; then 7 of 10 and clean
        ({"tests": 10, "reward": 0.7}, {"tests": 7, "reward": 0.85}, 1),
        # an earlier pass stays, whatever a later one is worth
        ({"tests": 10, "reward": 0.7}, {"tests": 10, "reward": 1.0}, 1),
        ({"tests": 5, "reward": 0.45}, {"tests": 5, "reward": 0.75}, 2),
    ],
)
def test_tests_decide_before_the_reward_what_is_submitted(attempt, first, second, submitted):
    def judged(number, tests, reward, confidence=1.0):
        checks = tuple(Check(name=str(n), outcome="pass" if n < tests else "fail") for n in range(10))
        made = attempt("a", number, reward)
        return replace(
            made,
            evaluation=replace(
                made.evaluation, passed=tests == 10, checks=checks, reward=reward, confidence=confidence
            ),
        )

    assert submitted_at([judged(1, **first), judged(2, **second)]).number == submitted


def test_a_cut_knows_nothing_of_later_attempts(attempt):
    made = [attempt("a", 1, 0.2), attempt("a", 2, 0.5), attempt("a", 3, 1.0)]
    assert [submitted_at(made, t).number for t in (1, 2, 3, 9)] == [1, 2, 3, 3]


def test_a_cut_before_the_first_attempt_is_refused(attempt):
    with pytest.raises(ValueError, match="t: got 0, before which there is no attempt, expected 1 or more"):
        submitted_at([attempt("a", 1, 1.0)], 0)


def test_the_curve_is_what_one_counts_by_hand(records):
    attempts, grades = records(
        {
            "stops early and right": [(1.0, True)],
            "stops early and wrong": [(1.0, False)],
            "repaired": [(0.0, False), (1.0, True)],
            "right, but talked out of it": [(0.5, True), (1.0, False)],
            "tie keeps the earlier": [(0.5, False), (0.5, True), (0.25, False)],
        }
    )
    one, two, three = curve(attempts, grades, 3)
    assert [point.attempt for point in (one, two, three)] == [1, 2, 3]
    assert [point.n for point in (one, two, three)] == [5, 5, 5]
    assert [point.solved for point in (one, two, three)] == [2, 2, 2]
    assert [point.pass_at_1 for point in (one, two, three)] == [0.4, 0.4, 0.4]
    assert [point.any_solved for point in (one, two, three)] == [0.4, 0.8, 0.8]
    assert [point.visible_pass for point in (one, two, three)] == [0.4, 0.8, 0.8]
    assert [point.reward for point in (one, two, three)] == pytest.approx([3 / 5, 4.5 / 5, 4.5 / 5])
    # 20 tokens an attempt of the actor; 7 a reflection, after each of the three, then one, then one failures
    assert [point.tokens_cum for point in (one, two, three)] == [
        5 * 20 + 3 * 7,
        8 * 20 + 4 * 7,
        9 * 20 + 5 * 7,
    ]
    assert (one.low, one.high) == wilson(2, 5)


def test_a_curve_goes_on_flat_where_every_loop_has_ended(records):
    attempts, grades = records({"a": [(0.0, False), (1.0, True)]})
    _, two, three = curve(attempts, grades, 3)
    assert three.attempt == 3
    assert (three.solved, three.tokens_cum) == (two.solved, two.tokens_cum)


def test_no_task_makes_no_curve():
    assert curve({}, {}, 3) == []


def test_a_curve_of_no_attempts_is_refused(records):
    with pytest.raises(ValueError, match="n_attempts: got 0"):
        curve(*records({"a": [(1.0, True)]}), 0)


def test_a_curve_names_the_attempt_that_lacks_a_grade(records):
    attempts, grades = records({"a": [(0.0, False), (1.0, True)]})
    del grades["a", 1]
    with pytest.raises(ValueError, match="task a, attempt 1: got no hidden verdict"):
        curve(attempts, grades, 2)


@with_fixtures
@given(verdicts=runs)
def test_what_is_seen_so_far_never_shrinks(records, verdicts):
    points = curve(*records(verdicts), 5)
    for figure in ("any_solved", "tokens_cum"):
        values = [getattr(point, figure) for point in points]
        assert values == sorted(values), figure
    for figure in ("visible_pass", "reward"):  # n grows where an attempt without a feedback verdict was submitted first
        sums = [round((getattr(point, figure) or 0) * point.n_feedback, 9) for point in points]
        assert sums == sorted(sums), figure


@with_fixtures
@given(verdicts=runs)
def test_pass_at_1_never_exceeds_the_pick_of_an_oracle(records, verdicts):
    for point in curve(*records(verdicts), 5):
        assert 0 <= point.low <= point.pass_at_1 <= point.any_solved <= 1
        assert point.pass_at_1 <= point.high <= 1


@with_fixtures
@given(verdicts=runs)
def test_with_the_hidden_tests_as_feedback_pass_at_1_is_the_visible_pass(records, verdicts):
    oracle = {task_id: [(reward, reward == 1) for reward, _ in made] for task_id, made in verdicts.items()}
    for point in curve(*records(oracle), 5):
        assert point.pass_at_1 == point.any_solved
        assert point.visible_pass == (point.pass_at_1 if point.n_feedback == point.n else point.visible_pass)


def test_the_last_point_is_what_was_submitted(records):
    attempts, grades = records({"a": [(0.5, True), (0.5, False)], "b": [(0.0, False), (1.0, True)]})
    assert verdicts_at(attempts, grades) == verdicts_at(attempts, grades, 2) == {"a": True, "b": True}


def test_paired_counts_repairs_and_damage():
    first = {"a": True, "b": True, "c": False, "d": False, "e": False}
    second = {"e": True, "d": True, "c": False, "b": False, "a": True}
    pair = paired(first, second)
    assert (pair.n, pair.both, pair.damaged, pair.repaired, pair.neither) == (5, 1, 1, 2, 1)
    assert pair.difference == pytest.approx(0.2)
    assert pair.low < pair.difference < pair.high
    assert pair.p == 1.0


def test_paired_refuses_other_tasks():
    with pytest.raises(ValueError, match="b, c: got one verdict"):
        paired({"a": True, "b": True}, {"a": True, "c": True})


def test_paired_of_nothing_knows_nothing():
    pair = paired({}, {})
    assert (pair.difference, pair.low, pair.high, pair.p) == (0.0, -1.0, 1.0, 1.0)
