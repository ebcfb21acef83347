"""The posterior of a paired difference against closed forms of the Dirichlet distribution."""

from __future__ import annotations

import numpy as np
import pytest

from reflexion_lab.analysis.stats.bayes import posterior
from reflexion_lab.analysis.stats.bootstrap import difference
from reflexion_lab.analysis.stats.intervals import agreement


@pytest.mark.parametrize(("won", "lost", "same"), [(8, 1, 51), (0, 0, 20), (3, 3, 100), (0, 5, 10)])
def test_with_one_seed_the_probability_is_that_of_a_uniform_prior_on_wins(won, lost, same):
    """Tasks that do not differ cancel: P(difference > 0) is that of Beta(1 + won, 1 + lost) above one half."""
    from scipy.stats import beta

    result = posterior([[1.0]] * won + [[-1.0]] * lost + [[0.0]] * same, draws=100_000)
    assert result.greater == pytest.approx(beta.sf(0.5, 1 + won, 1 + lost), abs=0.006)


def test_mean_and_variance_are_those_of_a_dirichlet_distribution():
    rng = np.random.default_rng(3)
    cases = rng.choice([-1.0, 0.0, 1.0], (40, 3), p=[0.1, 0.7, 0.2])
    scale = agreement(cases)
    places = np.concatenate([cases.mean(axis=1), [-scale, scale]])
    mean = places.sum() / 42
    error = np.sqrt(((places**2).sum() / 42 - mean**2) / 43)
    result = posterior(cases, draws=100_000)
    assert result.estimate.value == pytest.approx(mean, abs=0.001)
    assert (result.estimate.high - result.estimate.low) / (2 * 1.96) == pytest.approx(error, rel=0.03)


def test_the_credible_interval_is_about_as_wide_as_the_interval():
    rng = np.random.default_rng(4)
    first, second = (rng.random((100, 3)) < 0.5).astype(float), (rng.random((100, 3)) < 0.6).astype(float)
    estimate, result = difference(first, second), posterior(second - first)
    widths = [it.high - it.low for it in (estimate, result.estimate)]
    assert widths[1] == pytest.approx(widths[0], rel=0.15)


def test_the_posterior_is_the_same_again_and_has_a_share_within_the_margin():
    cases = np.zeros((60, 1))
    assert posterior(cases, 0.1) == posterior(cases, 0.1)
    assert posterior(cases).within is None
    narrow, wide = posterior(cases, 0.01).within, posterior(cases, 0.1).within
    assert 0 < narrow < wide <= 1
    assert posterior(cases).estimate.low < 0 < posterior(cases).estimate.high


def test_no_draws_are_refused_and_one_is_enough():
    assert posterior([[1.0]], draws=1).greater in (0.0, 1.0)
    with pytest.raises(ValueError, match="draws: got 0, expected 1 or more"):
        posterior([[1.0]], draws=0)
