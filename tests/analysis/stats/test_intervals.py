from __future__ import annotations

import math
import random

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


def test_wilson_ends_are_exact():
    assert wilson(0, 10)[0] == 0.0
    assert wilson(10, 10)[1] == 1.0


def test_the_published_headline_gets_its_published_interval():
    low, high = wilson(150, 164)
    assert (round(100 * low, 1), round(100 * high, 1)) == (86.2, 94.8)


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


def test_mcnemar_of_no_discordant_pair_is_one():
    assert mcnemar(0, 0) == 1.0


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


@given(tables)
def test_paired_difference_changes_sign_when_the_sides_change_places(table):
    n11, n10, n01, n00 = table
    low, high = paired_difference(n11, n10, n01, n00)
    assert paired_difference(n11, n01, n10, n00) == pytest.approx((-high, -low), abs=1e-12)


@given(tables.filter(any))
def test_paired_difference_holds_its_difference(table):
    _, n10, n01, _ = table
    low, high = paired_difference(*table)
    assert -1 - 1e-9 <= low <= (n01 - n10) / sum(table) + 1e-12
    assert (n01 - n10) / sum(table) - 1e-12 <= high <= 1 + 1e-9


def test_agreement_on_every_task_still_leaves_a_width():
    low, high = paired_difference(5, 0, 0, 5)
    assert low < 0 < high


@pytest.mark.parametrize(("share", "n"), [(0.1, 20), (0.5, 20), (0.9, 164)])
def test_wilson_covers_about_as_often_as_it_says(share, n):
    random_ = random.Random(f"0:wilson:{share}:{n}")
    drawn = [sum(random_.random() < share for _ in range(n)) for _ in range(1500)]
    covered = sum(low <= share <= high for low, high in (wilson(k, n) for k in drawn))
    assert 0.92 <= covered / len(drawn) <= 0.98


def test_paired_difference_covers_about_as_often_as_it_says():
    random_ = random.Random("0:paired")
    weights, n, rounds = (0.55, 0.03, 0.12, 0.30), 100, 1000
    covered = 0
    for _ in range(rounds):
        cells = random_.choices(range(4), weights, k=n)
        low, high = paired_difference(*(cells.count(cell) for cell in range(4)))
        covered += low <= 0.09 <= high
    assert 0.93 <= covered / rounds <= 0.98
