"""Intervals over tasks: against another implementation, where nothing varies, and how often they hold the truth."""

import math
from itertools import pairwise

import numpy as np
import pytest

from reflexion_lab.analysis.stats import intervals
from reflexion_lab.analysis.stats.bootstrap import MIN_TASKS, difference, interval, ratio
from reflexion_lab.analysis.stats.intervals import PSEUDO_CLUSTERS, Estimate, paired_difference, wilson

ABSENT = math.nan


def drawn(rng, rounds, tasks, seeds, mean, spread):
    """Verdicts of tasks whose chances to pass follow a beta distribution: `spread` 0 makes all tasks alike, 1 sure."""
    chances = rng.beta(mean * (1 / spread - 1), (1 - mean) * (1 / spread - 1), (rounds, tasks, 1))
    return (rng.random((rounds, tasks, seeds)) < chances).astype(float)


def held(truth, estimates):
    return sum(estimate.low <= truth <= estimate.high for estimate in estimates) / len(estimates)


@pytest.mark.parametrize("seeds", [1, 3])
def test_the_interval_agrees_with_scipys_bootstrap_over_tasks(seeds):
    from scipy.stats import bootstrap

    rng = np.random.default_rng(1)
    outcomes = drawn(rng, 1, 120, seeds, 0.6, 0.5)[0]
    other = bootstrap((outcomes.mean(axis=1),), np.mean, n_resamples=20_000, method="percentile", rng=rng)
    estimate = interval(outcomes)
    assert estimate.value == pytest.approx(outcomes.mean())
    assert (estimate.low, estimate.high) == pytest.approx(other.confidence_interval, abs=0.012)


def difference_of_means(first, second, axis):
    return second.mean(axis=axis) - first.mean(axis=axis)


def ratio_of_sums(first, second, axis):
    return first.sum(axis=axis) / second.sum(axis=axis)


def test_differences_and_ratios_agree_with_scipys_bootstrap_of_pairs():
    from scipy.stats import bootstrap

    rng = np.random.default_rng(2)
    options = {"paired": True, "n_resamples": 20_000, "method": "percentile", "rng": rng}
    first, second = drawn(rng, 2, 120, 3, 0.6, 0.5)
    other = bootstrap((first.mean(axis=1), second.mean(axis=1)), difference_of_means, **options)
    estimate = difference(first, second)
    assert estimate.value == pytest.approx(second.mean() - first.mean())
    assert (estimate.low, estimate.high) == pytest.approx(other.confidence_interval, abs=0.015)
    spent, solved = rng.integers(100, 900, 80), rng.integers(0, 4, 80)
    other = bootstrap((spent, solved), ratio_of_sums, **options)
    estimate = ratio(spent, solved, draws=20_000)
    assert estimate.value == pytest.approx(spent.sum() / solved.sum())
    assert (estimate.low, estimate.high) == pytest.approx(other.confidence_interval, rel=0.03)


def test_the_order_of_tasks_and_seeds_changes_nothing_and_fewer_seeds_weigh_less():
    outcomes = drawn(np.random.default_rng(5), 1, 60, 3, 0.5, 0.5)[0]
    assert interval(outcomes[::-1, ::-1]) == interval(outcomes)
    assert difference(outcomes[::-1], 1 - outcomes[::-1]) == difference(outcomes, 1 - outcomes)
    first, second = np.zeros((40, 2)), np.zeros((40, 2))
    second[:6] = 1
    second[:6, 1] = ABSENT
    assert difference(first, second).value == pytest.approx(6 / 74)
    second[:6] = 1
    assert difference(first, second).value == pytest.approx(6 / 40)


def test_absent_cases_weigh_nothing_and_make_no_pair():
    outcomes = drawn(np.random.default_rng(6), 1, 60, 2, 0.5, 0.5)[0]
    padded = np.pad(outcomes, ((0, 5), (0, 1)), constant_values=ABSENT)
    assert interval(padded) == interval(outcomes)
    assert difference(padded, 1 - padded) == difference(outcomes, 1 - outcomes)
    first, second = np.array([[1.0, 0.0], [1.0, ABSENT]]), np.array([[0.0, ABSENT], [1.0, 0.0]])
    assert difference(first, second).value == -0.5


def test_equal_sides_equal_tasks_and_noise_in_the_last_digit_still_leave_a_width():
    outcomes = drawn(np.random.default_rng(7), 1, 40, 3, 0.5, 0.5)[0]
    estimate = difference(outcomes, outcomes)
    assert estimate.low < estimate.value == 0.0 < estimate.high
    estimate = difference(np.ones((20, 2)), np.zeros((20, 2)))
    assert (estimate.value, estimate.low) == (-1, -1)
    assert -1 < estimate.high < -0.7
    estimate = interval(np.tile([1.0, 1.0, 0.0], (12, 1)))
    assert estimate.value == pytest.approx(2 / 3)
    assert estimate.low < 0.6 < 0.7 < estimate.high
    noise = 1.2e-16 * (np.arange(60) % 2)[:, None]
    same = difference(np.full((60, 1), 0.25), 0.75 + noise)
    assert same.high - same.low > 0.05
    nothing = difference(np.full((60, 1), 0.3), 0.3 + 5e-17 + noise)
    assert nothing.low < 0 < nothing.high


def test_one_seed_and_several_that_agree_have_the_interval_of_the_paired_table():
    first = np.array([[1.0]] * 20 + [[0.0]] * 20)
    second = first.copy()
    second[18:23] = 1 - second[18:23]  # two lost, three won
    assert difference(first, second) == Estimate(value=1 / 40, **ends(paired_difference(18, 2, 3, 17)))
    first, second = np.zeros((40, 3)), np.zeros((40, 3))
    second[:4] = 1
    estimate = difference(first, second)
    assert (estimate.low, estimate.high) == pytest.approx(paired_difference(0, 0, 4, 36))


@pytest.mark.parametrize("passed", [0, 3, 25, 40])
def test_single_cases_have_wilsons_interval(passed):
    outcomes = np.array([[1.0]] * passed + [[0.0]] * (40 - passed))
    assert interval(outcomes) == Estimate(value=passed / 40, **ends(wilson(passed, 40)))


def test_a_share_is_half_of_one_more_than_a_difference_but_for_what_is_added(monkeypatch):
    monkeypatch.setattr(intervals, "PSEUDO_PAIRS", PSEUDO_CLUSTERS)
    outcomes = drawn(np.random.default_rng(9), 1, 30, 3, 0.5, 0.5)[0]
    wins, losses = difference(1 - outcomes, outcomes).low, difference(1 - outcomes, outcomes).high
    estimate = interval(outcomes)
    assert (estimate.low, estimate.high) == pytest.approx(((1 + wins) / 2, (1 + losses) / 2))


def test_the_width_has_no_step_in_clusters_or_in_tasks_that_ever_passed():
    clusters = [np.tile([1.0] * 18 + [0.0] * 7, (n, 1)) for n in (8, 9, 10, 11)]
    ever = [np.zeros((60, 5)) for _ in range(4)]
    for few, outcomes in enumerate(ever, start=8):
        outcomes[:few, 0] = 1
    for designs in (clusters, ever):
        widths = [estimate.high - estimate.low for estimate in map(interval, designs)]
        assert all(0.85 < later / earlier < 1.15 for earlier, later in pairwise(widths)), widths


@pytest.mark.parametrize("tasks", [1, 2, MIN_TASKS - 1, MIN_TASKS, 3 * MIN_TASKS])
@pytest.mark.parametrize("seeds", [1, 2])
def test_no_interval_is_without_width_and_all_hold_their_value(tasks, seeds):
    for outcomes in drawn(np.random.default_rng(8), 5, tasks, seeds, 0.6, 0.9):
        for estimate in (interval(outcomes),):
            assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1
            assert estimate.low < estimate.high


def ends(pair):
    return {"low": pair[0], "high": pair[1]}


def test_ratio_without_data_is_none_and_of_one_task_is_unbounded():
    assert ratio([3.0, 4.0], [0.0, 0.0]) is None
    value = ratio([10.0] * 20, [1.0] + [0.0] * 19)
    assert (value.value, value.high) == (200.0, math.inf)
    assert 0 < value.low < 200


@pytest.mark.parametrize(
    ("work", "field"),
    [
        (lambda: interval([1.0, 0.0]), "outcomes"), (lambda: interval([[ABSENT]]), "no case"),
        (lambda: interval([[2.0]]), "outside"), (lambda: difference([[1.0]], [[1.0], [0.0]]), "second"),
        (lambda: difference([[1.0, ABSENT]], [[ABSENT, 1.0]]), "no case"),
        (lambda: ratio([1.0], [-1.0]), "denominators"), (lambda: ratio([1.0, 2.0], [1.0]), "denominators"),
    ],
)  # fmt: skip
def test_arrays_of_other_shapes_or_values_are_refused(work, field):
    with pytest.raises(ValueError, match=field):
        work()


@pytest.mark.parametrize(
    ("tasks", "seeds", "mean", "spread", "least"),
    [
        (164, 1, 0.98, 0.3, 0.925),  # 3 failures: percentiles alone hold 87 %
        (164, 3, 0.8, 0.6, 0.93),
        (60, 3, 0.5, 0.6, 0.93),
        (30, 3, 0.3, 0.3, 0.92),
        (20, 3, 0.8, 0.6, 0.95),
        (10, 3, 0.5, 0.6, 0.95),
        (60, 9, 0.25, 0.2, 0.93),  # repairs: several failures of a task at three seeds
        (10, 25, 0.7, 0.1, 0.93),
        (6, 5, 0.02, 0.5, 0.93),
    ],
)
def test_the_interval_holds_the_truth_about_as_often_as_it_says(tasks, seeds, mean, spread, least):
    outcomes = drawn(np.random.default_rng(12), 500, tasks, seeds, mean, spread)
    assert held(mean, [interval(outcome) for outcome in outcomes]) >= least


@pytest.mark.parametrize(
    ("tasks", "seeds", "contested", "gain", "least"),
    [(164, 1, 0.1, 0.05, 0.92), (164, 3, 0.2, 0.05, 0.92), (40, 1, 0.6, 0.0, 0.91), (20, 3, 0.4, 0.1, 0.95)],
)
def test_the_difference_holds_the_truth_about_as_often_as_it_says(tasks, seeds, contested, gain, least):
    """Contested tasks are solved by chance on either side, more often on the second; the others alike by both."""
    rng = np.random.default_rng(13)
    shape = (500, tasks, seeds)
    is_contested, is_easy = rng.random((500, tasks, 1)) < contested, rng.random((500, tasks, 1)) < 0.6
    first = np.where(is_contested, rng.random(shape) < 0.5, is_easy).astype(float)
    second = np.where(is_contested, rng.random(shape) < 0.5 + gain / contested, is_easy).astype(float)
    items = [difference(a, b) for a, b in zip(first, second, strict=True)]
    assert held(gain, items) >= least
