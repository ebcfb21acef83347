from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from reflexion_lab.analysis.stats.intervals import mcnemar
from reflexion_lab.analysis.stats.power import minimum_detectable, needed, power_of


@pytest.mark.parametrize(
    ("discordant", "split"), [(16, (13, 3)), (33, (23, 10)), (6, (6, 0)), (5, None), (1, None), (0, None)]
)
def test_the_published_splits(discordant, split):
    """Of HumanEval's 164 tasks, 16 discordant pairs must split 13 : 3 (6.1 points), and 33 of them 23 : 10 (7.9)."""
    assert needed(discordant) == split


@settings(deadline=None)
@given(st.integers(0, 300), st.sampled_from([0.001, 0.01, 0.05, 0.2]))
def test_the_split_is_the_least_that_is_significant(discordant, alpha):
    split = needed(discordant, alpha)
    if split is None:
        assert mcnemar(discordant, 0) > alpha
        return
    wins, losses = split
    assert wins + losses == discordant
    assert mcnemar(wins, losses) <= alpha
    assert 2 * (losses + 1) > discordant or mcnemar(wins - 1, losses + 1) > alpha


@pytest.mark.parametrize(
    ("n", "discordant", "difference"), [(20, 0.5, 0.3), (164, 0.2, 0.08), (60, 1.0, 0.4), (9, 0.3, 0.0)]
)
def test_the_power_is_what_enumeration_says(n, discordant, difference):
    pairs, wins = np.mgrid[: n + 1, : n + 1]
    p_values = np.minimum(1, 2 * binom.sf(wins - 1, pairs, 0.5))
    found = (wins <= pairs) & (2 * wins > pairs) & (p_values <= 0.05)
    chances = binom.pmf(pairs, n, discordant) * binom.pmf(wins, pairs, (1 + difference / discordant) / 2)
    expected = chances[found].sum()
    assert power_of(n, discordant, difference) == pytest.approx(expected, rel=1e-9)


def test_where_too_few_pairs_differ_nothing_can_be_found():
    assert minimum_detectable(5, 1.0) is None
    assert minimum_detectable(164, 0.02) is None


@pytest.mark.parametrize(
    ("work", "field"),
    [
        (lambda: needed(-1), "discordant"),
        (lambda: needed(5, 1.0), "alpha"),
        (lambda: minimum_detectable(0, 0.5), "n: got 0"),
        (lambda: minimum_detectable(10, 0.0), "discordant"),
        (lambda: minimum_detectable(10, 1.1), "discordant"),
        (lambda: minimum_detectable(10, 0.5, power=1.0), "power"),
        (lambda: power_of(10, 0.1, 0.2), "difference"),
    ],
)
def test_what_is_out_of_range_is_refused(work, field):
    with pytest.raises(ValueError, match=field):
        work()


@pytest.mark.parametrize(("n", "discordant"), [(164, 0.1), (164, 0.2), (60, 0.3), (500, 0.05)])
@pytest.mark.parametrize("power", [0.5, 0.8])
def test_the_least_difference_has_just_the_power(n, discordant, power):
    least = minimum_detectable(n, discordant, power)
    assert 0 < least <= discordant
    assert power_of(n, discordant, least) >= power > power_of(n, discordant, least - 1e-5)
