import itertools
import math
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reflexion_lab.analysis.stats.bootstrap import interval
from reflexion_lab.analysis.stats.intervals import mcnemar
from reflexion_lab.analysis.stats.permutation import holm, mean_pass_at_k, pass_at_k, sign_flip

verdict = st.sampled_from([0.0, 1.0, math.nan])
tables = st.integers(1, 9).flatmap(lambda tasks: st.lists(st.tuples(*[verdict] * 6), min_size=tasks, max_size=tasks))


def pairs(b, c, both=3):
    """One seed: `b` tasks solved by the first alone, `c` by the second alone."""
    first = [[1.0]] * (b + both) + [[0.0]] * c
    return first, [[0.0]] * b + [[1.0]] * (both + c)


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 40), st.integers(0, 40))
def test_with_one_seed_it_is_mcnemars_exact_test(b, c):
    assert sign_flip(*pairs(b, c)) == pytest.approx(mcnemar(b, c), rel=1e-9)


@settings(deadline=None, max_examples=50)
@given(tables)
def test_it_is_the_share_of_all_flips_that_are_as_extreme(table):
    sides = np.array(table)
    first, second = sides[:, :3], sides[:, 3:]
    sums = np.nansum(second - first, axis=1)
    every = [abs(sum(s * d for s, d in zip(signs, sums, strict=True))) for signs in flips(len(sums))]
    assert sign_flip(first, second) == pytest.approx(np.mean([total >= abs(sums.sum()) for total in every]))


def flips(n):
    return itertools.product((-1, 1), repeat=n)


def test_many_tasks_are_no_burden_and_an_empty_family_is_empty():
    rng = np.random.default_rng(3)
    first, second = rng.random((5_000, 3)) < 0.5, rng.random((5_000, 3)) < 0.502
    assert 0 < sign_flip(first, second) <= 1
    assert holm([]) == []


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda: sign_flip([[1.0]], [[1.0], [0.0]]), "first and second"),
        (lambda: sign_flip([1.0], [0.0]), "first and second"),
        (lambda: sign_flip([[0.5]], [[1.0]]), "first and second"), (lambda: holm([0.5, -0.1]), "p_values"),
        (lambda: holm([0.5, 1.1]), "p_values"), (lambda: holm([0.5, math.nan]), "p_values"),
        (lambda: pass_at_k(3, 4, 1), "of n = 3"), (lambda: pass_at_k(3, -1, 1), "of n = 3"),
        (lambda: pass_at_k(3, 1, 4), "of n = 3"), (lambda: pass_at_k(3, 1, 0), "of n = 3"),
        (lambda: mean_pass_at_k([], 1), "no case"),
    ],
)  # fmt: skip
def test_arguments_out_of_range_are_refused(work, message):
    with pytest.raises(ValueError, match=message):
        work()


families = st.lists(st.floats(0, 1), min_size=1, max_size=12)


@settings(deadline=None, max_examples=40)
@given(families)
def test_holm_agrees_with_statsmodels(p_values):
    from statsmodels.stats.multitest import multipletests  # a second of every process that collects

    with patch("gc.collect"):  # which it calls each time: a second, in a process of many tests
        theirs = multipletests(p_values, method="holm")[1]
    assert holm(p_values) == pytest.approx(theirs)


samples = st.integers(1, 200).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n)))


@settings(deadline=None)
@given(samples)
def test_it_is_the_numerically_stable_product_of_the_paper(sample):
    n, c, k = sample
    product = 1.0 if n - c < k else 1.0 - np.prod(1.0 - k / np.arange(n - c + 1, n + 1))
    assert pass_at_k(n, c, k) == pytest.approx(product, abs=1e-12)


def test_mean_pass_at_k_is_over_tasks_with_the_interval_of_tasks():
    samples = [(10, c) for c in (0, 0, 1, 2, 3, 5, 7, 9, 10, 10)] * 4
    shares = [pass_at_k(n, c, 3) for n, c in samples]
    estimate = mean_pass_at_k(samples, 3)
    assert estimate == interval([[share] for share in shares])
    assert estimate.low < estimate.value < estimate.high
    assert estimate.value == pytest.approx(math.fsum(shares) / 40)
