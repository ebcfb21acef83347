from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from reflexion_lab.analysis.stats.intervals import Rate, mcnemar, paired_difference, wilson

counts = st.integers(0, 200).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
tables = st.tuples(*[st.integers(0, 40)] * 4)


@given(counts.filter(lambda kn: kn[1] > 0), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_wilson_agrees_with_scipy(kn, level):
    k, n = kn
    other = binomtest(k, n).proportion_ci(confidence_level=level, method="wilson")
    assert wilson(k, n, level) == pytest.approx((other.low, other.high), abs=1e-9)


@given(counts)
def test_wilson_holds_its_share_and_stays_in_the_unit_interval(kn):
    k, n = kn
    low, high = wilson(k, n)
    assert 0 <= low <= (k / n if n else 0) <= high <= 1


def test_wilson_of_nothing_is_everything():
    assert wilson(0, 0) == (0.0, 1.0)
    assert Rate.of(0, 0) == Rate(k=0, n=0, share=0.0, low=0.0, high=1.0)


@pytest.mark.parametrize(("k", "n"), [(-1, 3), (4, 3)])
def test_wilson_refuses_more_successes_than_trials(k, n):
    with pytest.raises(ValueError, match="k: "):
        wilson(k, n)


@pytest.mark.parametrize("level", [0.0, 1.0, 95])
def test_wilson_refuses_a_level_outside_the_unit_interval(level):
    with pytest.raises(ValueError, match="level: "):
        wilson(1, 2, level)


@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_agrees_with_the_binomial_test(b, c):
    expected = binomtest(b, b + c, 0.5).pvalue if b + c else 1.0
    assert mcnemar(b, c) == pytest.approx(expected, rel=1e-9)


def test_mcnemar_survives_counts_beyond_floats():
    assert mcnemar(2000, 2000) == pytest.approx(1.0)
    assert 0 < mcnemar(900, 1100) < 1e-4


def test_mcnemar_refuses_negative_counts():
    with pytest.raises(ValueError, match="discordant pairs"):
        mcnemar(-1, 2)


def test_paired_difference_gives_the_published_interval():
    """Cavo et al. 2012, as worked by contingencytables (Fagerland, Lydersen, Laake 2017, chapter 8)."""
    low, high = paired_difference(59, 6, 16, 80)
    assert (round(low, 4), round(high, 4)) == (0.0046, 0.1186)


@given(tables)
def test_paired_difference_agrees_with_a_direct_reading_of_method_10(table):
    e, f, g, h = table
    n = sum(table)
    if not n:
        assert paired_difference(*table) == (-1.0, 1.0)
        return
    first, second = (binomtest(k, n).proportion_ci(method="wilson") for k in (e + f, e + g))
    p1, p2, product = (e + f) / n, (e + g) / n, (e + f) * (g + h) * (e + g) * (f + h)
    numerator = e * h - f * g
    numerator = numerator - n / 2 if numerator > n / 2 else min(numerator, 0)
    phi = numerator / math.sqrt(product) if product else 0.0
    low = (p2 - second.low) ** 2 - 2 * phi * (p2 - second.low) * (first.high - p1) + (first.high - p1) ** 2
    high = (second.high - p2) ** 2 - 2 * phi * (second.high - p2) * (p1 - first.low) + (p1 - first.low) ** 2
    expected = p2 - p1 - math.sqrt(low), p2 - p1 + math.sqrt(high)
    assert paired_difference(*table) == pytest.approx(expected, abs=1e-9)
