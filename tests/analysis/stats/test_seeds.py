"""Intervals that hold for other seeds: mean squares against statsmodels, and how often they cover the truth."""

import math

import numpy as np
import pytest

from reflexion_lab.analysis.stats.intervals import adjusted, agreement, over_tasks
from reflexion_lab.analysis.stats.seeds import by_seed, widened


def drawn(rng, tasks, seeds, shift):
    """Differences of two arms, one of which gains `shift` (a standard deviation) on all tasks of a seed alike."""
    rates = rng.beta(1, 1, (tasks, 1))
    luck, fresh = rng.random((tasks, seeds)), rng.random((tasks, seeds))
    other = np.where(rng.random((tasks, seeds)) < 0.8, luck, fresh)
    return (other < rates + rng.normal(0, shift, seeds)).astype(float) - (luck < rates)


def over_seeds(cases):
    return widened(over_tasks(cases.mean(axis=1), agreement(cases)), cases)


@pytest.mark.parametrize("level", [0.9, 0.95])
def test_variance_and_degrees_of_freedom_are_those_of_a_two_way_anova(level):
    import pandas as pd
    from scipy.stats import t
    from statsmodels.formula.api import ols
    from statsmodels.stats.anova import anova_lm

    cases = drawn(np.random.default_rng(2), 40, 4, 0.2)
    frame = pd.DataFrame(
        [{"task": task, "seed": seed, "value": cases[task, seed]} for task in range(40) for seed in range(4)]
    )
    squares = anova_lm(ols("value ~ C(task) + C(seed)", frame).fit())["mean_sq"]
    of_seeds, of_rest = squares["C(seed)"] / 160, squares["Residual"] / 160
    centre, error = adjusted(cases.mean(axis=1), agreement(cases))
    variance = error**2 + of_seeds - of_rest
    freedom = variance**2 / (error**4 / 39 + of_seeds**2 / 3 + of_rest**2 / 117)
    half = t.ppf((1 + level) / 2, freedom) * math.sqrt(variance)
    interval = over_tasks(cases.mean(axis=1), agreement(cases), level)
    assert widened(interval, cases, level) == pytest.approx((centre - half, centre + half), abs=1e-9)


def test_it_covers_the_truth_where_seeds_shift_an_arm_and_the_interval_over_tasks_does_not():
    rng, truth, covered = np.random.default_rng(5), [], {"tasks": 0, "seeds": 0}
    truth = np.mean([drawn(rng, 200, 20, 0.06).mean() for _ in range(400)])
    for _ in range(300):
        cases = drawn(rng, 100, 5, 0.06)
        low, high = over_tasks(cases.mean(axis=1), agreement(cases))
        covered["tasks"] += low <= truth <= high
        low, high = over_seeds(cases)
        covered["seeds"] += low <= truth <= high
    assert covered["tasks"] < 0.88 * 300
    assert covered["seeds"] > 0.92 * 300


def test_it_is_never_narrower_and_keeps_its_centre():
    rng = np.random.default_rng(7)
    for shift in (0.0, 0.1):
        cases = drawn(rng, 60, 3, shift)
        low, high = over_tasks(cases.mean(axis=1), agreement(cases))
        wider = over_seeds(cases)
        assert wider[0] <= low < high <= wider[1]
        assert sum(wider) == pytest.approx(low + high)


@pytest.mark.parametrize(
    ("cases", "message"),
    [
        (np.zeros((9, 2)), "seeds: got 2, expected 3 or more"),
        ([[0, math.nan, 0], [math.nan, 1, 0], [1, 0, math.nan]], "tasks: got 0 at all seeds"),
    ],
)
def test_too_few_seeds_or_tasks_are_refused(cases, message):
    with pytest.raises(ValueError, match=message):
        widened((-0.1, 0.1), cases)


def test_a_cluster_contributes_by_its_tasks_and_the_mean_stays_that_of_the_cases():
    cases = [("a", 0, 1.0), ("b", 0, 1.0), ("c", 0, 0.0), ("d", 0, 0.0), ("a", 1, 1.0), ("d", 1, 1.0)]
    contributions = by_seed(cases, {"a": "large", "b": "large", "c": "large"})
    # The mean is 2/3, over 3/2 cases a cell: 2/3 + (2 - 3 * 2/3) / (3/2), 2/3 + (0 - 2/3) / (3/2) and so on.
    assert contributions == pytest.approx(np.array([[2 / 3, 8 / 9], [2 / 9, 8 / 9]]))
    assert contributions.mean() == pytest.approx(2 / 3)
