"""Random effects over studies against statsmodels, and how often the intervals cover the truth."""

from __future__ import annotations

import math

import numpy as np
import pytest

from reflexion_lab.analysis.stats.meta import pooled


@pytest.mark.parametrize(("studies", "seed"), [(3, 1), (5, 5), (12, 7)])
def test_the_model_is_that_of_statsmodels(studies, seed):
    from scipy.stats import t
    from statsmodels.stats.meta_analysis import combine_effects

    rng = np.random.default_rng(seed)
    errors = rng.uniform(0.02, 0.06, studies)
    effects = rng.normal(0.05, 0.12, studies) + rng.normal(0, errors)
    # From other starts, and near the last digit, statsmodels' iteration may overshoot below 0; then it returns 0.
    other = combine_effects(effects, errors**2, method_re="iterated", use_t=True, atol=1e-6, tau2_start=0.002)
    result = pooled(effects, errors)
    assert result.between**2 == pytest.approx(other.tau2, abs=1e-6)
    assert result.estimate.value == pytest.approx(other.mean_effect_re, abs=1e-6)
    assert result.weights == pytest.approx(other.weights_rel_re, abs=1e-6)
    assert result.heterogeneity == pytest.approx(other.i2, abs=1e-9)
    factor = max(1.0, other.scale_hksj_re)
    error = other.sd_eff_w_re * math.sqrt(factor)
    half = t.ppf(0.975, studies - 1) * error
    assert result.estimate.high - result.estimate.low == pytest.approx(2 * half, abs=1e-5)
    reach = t.ppf(0.975, studies - 2) * math.sqrt(other.tau2 + error**2)
    assert result.prediction == pytest.approx((other.mean_effect_re - reach, other.mean_effect_re + reach), abs=1e-5)


def test_equal_effects_have_no_variance_between_studies():
    result = pooled([0.1, 0.1, 0.1], [0.02, 0.04, 0.03])
    assert (result.between, result.heterogeneity) == (0.0, 0.0)
    assert result.estimate.value == pytest.approx(0.1)
    assert result.estimate.low < 0.1 < result.estimate.high


def test_the_mean_and_the_next_study_are_covered():
    rng, covered = np.random.default_rng(9), [0, 0]
    for _ in range(400):
        errors = rng.uniform(0.02, 0.05, 6)
        result = pooled(rng.normal(0.05, 0.06, 6) + rng.normal(0, errors), errors)
        covered[0] += result.estimate.low <= 0.05 <= result.estimate.high
        covered[1] += result.prediction[0] <= rng.normal(0.05, 0.06) <= result.prediction[1]
    assert all(0.92 * 400 < count < 0.995 * 400 for count in covered)


def test_two_studies_have_a_mean_and_no_prediction():
    assert pooled([0.1, 0.3], [0.05, 0.05]).prediction is None


@pytest.mark.parametrize(
    ("effects", "errors", "message"),
    [([0.1], [0.1], "studies: got 1 effects"), ([0.1, 0.2], [0.1], "1 errors"), ([0.1, 0.2], [0.1, 0.0], "errors")],
)
def test_what_cannot_be_pooled_is_refused(effects, errors, message):
    with pytest.raises(ValueError, match=message):
        pooled(effects, errors)
