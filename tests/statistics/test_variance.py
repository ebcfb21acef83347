from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

from reflexion_lab.statistics.variance import Variance, split


def test_the_parts_are_those_of_statsmodels_analysis_of_variance():
    rng = np.random.default_rng(1)
    outcomes = rng.normal(0, 2, (30, 1)) + rng.normal(0, 1, (1, 4)) + rng.normal(0, 0.5, (30, 4))
    rows = [(task, seed, value) for (task, seed), value in np.ndenumerate(outcomes)]
    table = anova_lm(ols("value ~ C(task) + C(seed)", pd.DataFrame(rows, columns=["task", "seed", "value"])).fit())
    squares = table["mean_sq"]
    found = split(outcomes)
    assert found.residual == pytest.approx(squares["Residual"])
    assert found.task == pytest.approx((squares["C(task)"] - squares["Residual"]) / 4)
    assert found.seed == pytest.approx((squares["C(seed)"] - squares["Residual"]) / 30)
    assert found.clipped == ()
    assert sum(found.shares.values()) == pytest.approx(1)


def test_the_parts_are_unbiased():
    rng = np.random.default_rng(2)
    found = [
        split(rng.normal(0, 2, (40, 1)) + rng.normal(0, 1, (1, 6)) + rng.normal(0, 0.5, (40, 6))) for _ in range(800)
    ]
    assert np.mean([one.task for one in found]) == pytest.approx(4, rel=0.05)
    assert np.mean([one.seed for one in found]) == pytest.approx(1, rel=0.1)
    assert np.mean([one.residual for one in found]) == pytest.approx(0.25, rel=0.02)


def test_the_variance_of_the_mean_is_what_repetition_shows():
    rng = np.random.default_rng(3)
    drawn = [rng.normal(0, 2, (40, 1)) + rng.normal(0, 1, (1, 6)) + rng.normal(0, 0.5, (40, 6)) for _ in range(1500)]
    assert np.mean([split(one).of_the_mean for one in drawn]) == pytest.approx(
        np.var([d.mean() for d in drawn]), rel=0.1
    )


def test_sure_tasks_are_all_of_the_variance():
    found = split([[1, 1, 1], [0, 0, 0], [1, 1, 1], [0, 0, 0]])
    assert found.shares == {"task": 1.0, "seed": 0.0, "residual": 0.0}


def test_seeds_without_an_effect_of_their_own_are_clipped_and_said_to_be():
    found = split([[1, 0], [0, 1], [1, 0], [0, 1]])
    assert (found.task, found.seed) == (0.0, 0.0)
    assert found.clipped == ("task", "seed")
    assert found.residual > 0


def test_nothing_that_varies_has_no_shares():
    assert split([[1, 1], [1, 1]]).shares == {"task": 0.0, "seed": 0.0, "residual": 0.0}


def test_tasks_that_lack_a_seed_are_left_out_and_counted():
    whole = [[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]]
    found = split([*whole, [1.0, float("nan")]])
    own = split(whole)
    assert found == Variance(
        tasks=3, seeds=2, left_out=1, task=own.task, seed=own.seed, residual=own.residual, clipped=own.clipped
    )


@pytest.mark.parametrize("outcomes", [[[1.0], [0.0]], [[1.0, 0.0]], [[1.0, float("nan")], [0.0, 1.0]]])
def test_one_seed_or_one_task_cannot_be_split(outcomes):
    assert split(outcomes) is None


def test_what_is_no_table_is_refused():
    with pytest.raises(ValueError, match="outcomes"):
        split([1.0, 0.0])
