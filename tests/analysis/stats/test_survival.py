from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reflexion_lab.analysis.stats.intervals import wilson
from reflexion_lab.analysis.stats.survival import kaplan_meier

cases = st.lists(st.tuples(st.integers(1, 6), st.booleans()), min_size=1, max_size=40)

few = settings(deadline=None, max_examples=25)  # lifelines takes its time


@few
@given(cases)
def test_curve_median_and_restricted_mean_are_those_of_lifelines(cases):
    from lifelines import KaplanMeierFitter
    from lifelines.utils import restricted_mean_survival_time

    attempts, solved = zip(*cases, strict=True)
    ours, other, longest = kaplan_meier(attempts, solved), KaplanMeierFitter().fit(attempts, solved), max(attempts)
    for step in ours.steps:
        share = other.predict(step.attempt)
        assert step.unsolved.value == pytest.approx(share)
        if 0 < step.unsolved.value < 1:
            low, high = other.confidence_interval_.loc[: step.attempt].iloc[-1]
            assert (step.unsolved.low, step.unsolved.high) == pytest.approx((low, high))
    shares = other.survival_function_["KM_estimate"]
    median = shares.index[shares <= 0.5 + 1e-9].min()  # its own median misses shares that are a hair off
    assert ours.median == (None if np.isnan(median) else median)
    assert ours.mean_attempts.value == pytest.approx(restricted_mean_survival_time(other, t=longest))
    assert 1 <= ours.mean_attempts.low <= ours.mean_attempts.value <= ours.mean_attempts.high <= longest


@few
@given(cases)
def test_the_numbers_at_risk_add_up(cases):
    steps = kaplan_meier(*zip(*cases, strict=True)).steps
    assert steps[0].at_risk == len(cases)
    assert sum(step.solved + step.censored for step in steps) == len(cases)
    for before, after in pairwise(steps):
        assert after.at_risk == before.at_risk - before.solved - before.censored


def test_nothing_or_everything_solved_leaves_a_width():
    curve = kaplan_meier([4] * 20, [False] * 20)
    assert curve.median is None
    assert all((step.unsolved.low, step.unsolved.high) == (wilson(20, 20)[0], 1.0) for step in curve.steps)
    assert curve.mean_attempts.low < curve.mean_attempts.value == 4
    assert kaplan_meier([1] * 19 + [3], [True] * 19 + [False]).steps[0].unsolved.high > 0.05
    assert kaplan_meier([1] * 20, [True] * 20).steps[0].unsolved.high == wilson(0, 20)[1]


def test_seeds_of_a_task_are_worth_one_case():
    """Cases that stand three times have the interval of a third as many."""
    attempts, solved = [1, 2, 3, 3, 2, 1, 3, 3], [True, True, True, False, True, True, False, False]
    once, thrice = kaplan_meier(attempts, solved), kaplan_meier(attempts * 3, solved * 3, [*range(8)] * 3)
    assert (thrice.n, thrice.clusters) == (24, 8)
    for ours, other in zip(thrice.steps, once.steps, strict=True):
        assert (ours.unsolved.low, ours.unsolved.high) == pytest.approx((other.unsolved.low, other.unsolved.high))
    assert thrice.mean_attempts.low == pytest.approx(once.mean_attempts.low)


@pytest.mark.parametrize(
    ("attempts", "solved", "tasks"),
    [([], [], None), ([1], [True, False], None), ([1], [True], []), ([0], [True], None)],
)
def test_what_are_no_cases_is_refused(attempts, solved, tasks):
    with pytest.raises(ValueError, match="attempts"):
        kaplan_meier(attempts, solved, tasks)


def test_the_intervals_hold_the_truth_about_as_often_as_they_say():
    """Each attempt solves 3 in 10; a quarter of the loops are cut short by chance."""
    rng = np.random.default_rng(1)
    rounds, n, longest = 1000, 60, 5
    solves = rng.geometric(0.3, (rounds, n))
    ends = np.minimum(
        longest, np.where(rng.random((rounds, n)) < 0.25, rng.integers(1, longest + 1, (rounds, n)), longest)
    )
    items = [kaplan_meier(np.minimum(s, e).tolist(), (s <= e).tolist()) for s, e in zip(solves, ends, strict=True)]
    for attempt in range(1, longest + 1):
        shares = [item.steps[attempt - 1].unsolved for item in items]
        assert 0.925 <= np.mean([share.low <= 0.7**attempt <= share.high for share in shares]) <= 0.97
    mean = sum(0.7**t for t in range(longest))
    assert 0.925 <= np.mean([item.mean_attempts.low <= mean <= item.mean_attempts.high for item in items]) <= 0.97
