"""Repairs, damage and trends by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reflexion_lab.analysis.arms import Case
from reflexion_lab.analysis.learning.transitions import (
    breakthroughs,
    diminishing_returns,
    ends,
    errors_removed,
    learning_rate,
    reactions,
    transitions,
    trend,
)
from reflexion_lab.analysis.stats.intervals import of_clusters
from reflexion_lab.records import Check

R, W = True, False


def counts(moves):
    return moves.cc, moves.cw, moves.wc, moves.ww


HISTORIES = {
    "ended at once": [(1.0, R)], "repaired": [(0.0, W), (1.0, R)], "damaged": [(0.5, R), (1.0, W)],
    "damaged, and never submitted": [(0.5, R), (0.2, W), (0.1, W)], "never right": [(0.0, W), (0.0, W), (0.0, W)],
    "rejected, and right all along": [(0.3, R), (0.2, R), (0.1, R)],
}  # fmt: skip


def test_programs_move_as_counted_by_hand(make_arm):
    rates = transitions(make_arm(HISTORIES))
    second, third = rates.programs
    assert (second.attempt, third.attempt) == (2, 3)
    assert (counts(second), counts(third)) == ((1, 2, 1, 1), (1, 0, 0, 2))
    assert (second.n, second.tasks) == (5, 5)
    assert (second.repair.value, second.damage.value, second.gain.value) == (1 / 2, 2 / 3, -1 / 5)
    assert (second.repair.low, second.repair.high) == of_clusters([0, 1], [1, 1])
    assert (second.damage.low, second.damage.high) == of_clusters([1, 1, 0], [1, 1, 1])


def test_the_ends_are_over_all_loops_and_gain_what_the_curve_gains(make_arm):
    arm = make_arm(HISTORIES, {**HISTORIES, "damaged": [(1.0, R)]})
    assert (ends(arm).n, counts(ends(arm))) == (12, (7, 1, 2, 2))
    first, last = arm.verdicts(1), arm.verdicts()
    assert ends(arm).gain.value == pytest.approx((sum(last.values()) - sum(first.values())) / 12)


def test_several_moves_of_a_task_are_no_more_than_a_task_worth(make_arm):
    stubborn = {f"t{i}": [(0.0, W)] * 5 for i in range(8)}
    moves = ends(make_arm(stubborn, stubborn))
    assert moves.ww == 16
    assert (moves.repair.low, moves.repair.high) == of_clusters([0] * 8, [2] * 8)


def reacting(programs, values):
    """Rewrites attempt n of a loop: the n-th program, and the n-th value in a check that it failed."""

    def change(attempt):
        check = Check(name="assert f() == 1", outcome="fail", actual=values[attempt.number - 1])
        trajectory = replace(attempt.trajectory, solution=programs[attempt.number - 1])
        evaluation = replace(attempt.evaluation, passed=False, outcome="fail", checks=(check,))
        return replace(attempt, trajectory=trajectory, evaluation=evaluation)

    return change


def test_reactions_to_feedback_by_hand(make_arm):
    loops = {f"t{i}": [(0.0, W)] * 4 for i in range(5)}
    arm = make_arm(loops, change=reacting(["a", "a \n\n", "b", "c"], ["2", "2", "2", "3"]))
    uptake, resistance = reactions(arm.attempts.values())
    assert (uptake.k, uptake.n, resistance.k, resistance.n) == (5, 15, 5, 15)
    deaf = reactions(make_arm(loops, change=reacting("aaaa", "2222")).attempts.values())
    assert (deaf.uptake.value, deaf.resistance.value) == (0, 1)


def test_loops_that_end_at_once_have_no_moves_no_rates_and_no_failure_to_react_to(make_arm):
    arm = make_arm({"a": [(1.0, R)], "b": [(1.0, W)]})
    assert transitions(arm).programs == ()
    assert counts(ends(arm)) == (1, 0, 0, 1)
    (moves,) = transitions(make_arm({"a": [(0.0, R), (1.0, R)]})).programs
    assert (moves.repair, moves.damage.value, moves.gain.value) == (None, 0, 0)
    assert reactions(make_arm({"a": [(1.0, R), (0.0, W)]}).attempts.values()) == (None, None)


def test_a_verdict_that_the_harness_spoilt_is_no_move(make_arm):
    arm = make_arm(HISTORIES)
    for case, number in ((Case(0, "damaged"), 2), (Case(0, "never right"), 3)):
        arm.grades[case][number] = replace(arm.grades[case][number], outcome="harness_error", passed=False)
    rates = transitions(arm)
    assert counts(rates.programs[0]) == (1, 1, 1, 1)
    assert [program.unknown for program in rates.programs] == [1, 1]
    assert ends(arm).unknown == 1


def test_an_upper_bound_says_so(make_arm):
    rates = transitions(make_arm(HISTORIES, feedback_source="oracle"))
    assert (rates.arm, rates.feedback_source, rates.is_upper_bound) == ("reflexion", "oracle", True)


@pytest.mark.parametrize(
    ("measure", "values", "expected"),
    [
        # Needs three scores, and two percent.
        (trend, [70, 80, 90, 95], "improving"), (trend, [0.7, 0.8, 0.9, 0.95], "improving"),
        (trend, [95, 80, 70], "declining"), (trend, [70, 71, 70], "steady"), (trend, [0.0, 0.0, 0.0], "steady"),
        (trend, [0.5, 0.9, 0.5], "steady"), (trend, [70, 95], "insufficient"), (trend, [], "insufficient"),
        # Later steps gain at most half as much; a relapse, the sixth here, is no diminishing return.
        (diminishing_returns, [70, 71, 71.5, 72], True), (diminishing_returns, [0.2, 0.8, 0.9], True),
        (diminishing_returns, [0.2, 0.8, 0.8], True), (diminishing_returns, [0.2, 0.5, 0.8], False),
        (diminishing_returns, [0.2, 0.3, 0.8], False), (diminishing_returns, [0.2, 0.8, 0.5], False),
        (diminishing_returns, [0.5, 0.5, 0.5], False), (diminishing_returns, [0.2, 0.8], False),
        (diminishing_returns, [], False),
        (learning_rate, [0.2, 0.5, 0.8], 0.2), (learning_rate, [0.5], 0), (learning_rate, [], 0),
        (errors_removed, [5, 7, 2], 3), (errors_removed, [1, 4], -3), (errors_removed, [], 0),
        (breakthroughs, [0.2, 0.8, 0.5, 0.6, 0.9], (2, 5)), (breakthroughs, [0.9], ()), (breakthroughs, [], ()),
    ],
)  # fmt: skip
def test_measures_of_a_loop_by_hand(measure, values, expected):
    got = measure(values)
    assert got is expected if isinstance(expected, bool) else got == pytest.approx(expected)


@given(st.lists(st.floats(0, 1), max_size=8))
def test_a_trend_read_backwards_is_the_opposite(scores):
    opposite = {"improving": "declining", "declining": "improving"}
    assert trend(scores) in {"steady", "insufficient", *opposite}
    assert trend(scores[::-1]) == opposite.get(trend(scores), trend(scores))
