import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflexion_lab.analysis.learning.transitions import (
    TRENDS,
    breakthroughs,
    deltas,
    diminishing_returns,
    errors_removed,
    learning_rate,
    trend,
)

scores = st.lists(st.floats(0, 1), max_size=8)


def test_the_first_delta_is_zero():
    assert deltas([70, 85]) == (0, 15)
    assert deltas([]) == ()


def test_the_learning_rate_is_the_whole_gain_over_all_attempts():
    assert learning_rate([0.2, 0.5, 0.8]) == pytest.approx(0.2)
    assert learning_rate([0.5]) == learning_rate([]) == 0


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([70, 80, 90, 95], "improving"),
        ([0.7, 0.8, 0.9, 0.95], "improving"),
        ([95, 80, 70], "declining"),
        ([70, 71, 70], "steady"),
        ([0.0, 0.0, 0.0], "steady"),
        ([0.5, 0.9, 0.5], "steady"),
        ([70, 95], "insufficient"),
        ([], "insufficient"),
    ],
)
def test_a_trend_needs_three_scores_and_two_percent(found, expected):
    assert trend(found) == expected


@given(scores)
def test_a_trend_read_backwards_is_the_opposite(found):
    opposite = {"improving": "declining", "declining": "improving"}
    assert trend(found) in TRENDS
    assert trend(found[::-1]) == opposite.get(trend(found), trend(found))


def test_fewer_errors_at_the_end_are_a_reduction():
    assert errors_removed([5, 7, 2]) == 3
    assert errors_removed([1, 4]) == -3
    assert errors_removed([]) == 0


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([70, 71, 71.5, 72], True),
        ([0.2, 0.8, 0.9], True),
        ([0.2, 0.8, 0.8], True),
        ([0.2, 0.5, 0.8], False),
        ([0.2, 0.3, 0.8], False),
        ([0.2, 0.8, 0.5], False),  # a relapse is no diminishing return
        ([0.5, 0.5, 0.5], False),
        ([0.2, 0.8], False),
        ([], False),
    ],
)
def test_returns_diminish_when_later_steps_gain_at_most_half_as_much(found, expected):
    assert diminishing_returns(found) is expected


def test_a_breakthrough_beats_every_attempt_before():
    assert breakthroughs([0.2, 0.8, 0.5, 0.6, 0.9]) == (2, 5)
    assert breakthroughs([0.9]) == breakthroughs([]) == ()


@given(scores)
def test_deltas_lead_from_the_first_score_to_the_last(found):
    assert len(deltas(found)) == len(found)
    if found:
        assert found[0] + sum(deltas(found)) == pytest.approx(found[-1])
        assert learning_rate(found) == pytest.approx(sum(deltas(found)) / len(found))
