from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from reflexion_lab.analysis.stats.permutation import holm

families = st.lists(st.floats(0, 1), min_size=1, max_size=12)


@settings(deadline=None, max_examples=40)
@given(families)
def test_holm_agrees_with_statsmodels(p_values):
    from statsmodels.stats.multitest import multipletests  # a second of every process that collects

    with patch("gc.collect"):  # which it calls each time: a second, in a process of many tests
        theirs = multipletests(p_values, method="holm")[1]
    assert holm(p_values) == pytest.approx(theirs)


@settings(deadline=None, max_examples=40)
@given(families)
def test_no_adjusted_value_is_smaller_and_the_order_stays(p_values):
    adjusted = holm(p_values)
    assert all(p <= q <= 1 for p, q in zip(p_values, adjusted, strict=True))
    ranked = [q for _, q in sorted(zip(p_values, adjusted, strict=True))]
    assert ranked == sorted(ranked)


def test_a_family_of_one_stays_and_an_empty_one_is_empty():
    assert holm([0.03]) == [0.03]
    assert holm([]) == []


def test_holms_steps_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_what_is_no_p_value_is_refused(p):
    with pytest.raises(ValueError, match="p_values"):
        holm([0.5, p])


@pytest.mark.parametrize("shared", [0.0, 0.9])
def test_any_false_finding_in_a_family_is_as_rare_as_promised(shared):
    """Eight true null hypotheses, independent or all against one baseline; two more that are false."""
    rng = np.random.default_rng(1)
    noise = np.sqrt(1 - shared) * rng.normal(size=(4000, 10)) + np.sqrt(shared) * rng.normal(size=(4000, 1))
    noise[:, 8:] += 4
    p_values = 2 * norm.sf(np.abs(noise))
    adjusted = np.array([holm(row) for row in p_values])
    assert (adjusted[:, :8].min(axis=1) <= 0.05).mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 4000)
    assert shared or (p_values[:, :8].min(axis=1) <= 0.05).mean() > 0.25  # what it is there for
    assert (adjusted[:, 8:] <= 0.05).mean() > 0.6
