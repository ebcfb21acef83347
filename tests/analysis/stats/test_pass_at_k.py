from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reflexion_lab.analysis.stats.bootstrap import interval
from reflexion_lab.analysis.stats.permutation import mean_pass_at_k, pass_at_k

samples = st.integers(1, 200).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n)))


@settings(deadline=None)
@given(samples)
def test_it_is_the_numerically_stable_product_of_the_paper(sample):
    n, c, k = sample
    product = 1.0 if n - c < k else 1.0 - np.prod(1.0 - k / np.arange(n - c + 1, n + 1))
    assert pass_at_k(n, c, k) == pytest.approx(product, abs=1e-12)


def test_it_is_the_share_of_all_choices_of_k_draws_that_hold_a_pass():
    draws = [True, True, False, False, False, False, False]
    for k in range(1, 8):
        every = [any(chosen) for chosen in itertools.combinations(draws, k)]
        assert pass_at_k(7, 2, k) == pytest.approx(sum(every) / len(every))


def test_one_draw_is_the_share_and_all_draws_are_any():
    assert pass_at_k(10, 3, 1) == pytest.approx(0.3)
    assert (pass_at_k(10, 1, 10), pass_at_k(10, 0, 10)) == (1.0, 0.0)


def test_it_is_unbiased():
    rng = np.random.default_rng(1)
    found = [pass_at_k(10, int(c), 5) for c in rng.binomial(10, 0.2, 4000)]
    assert np.mean(found) == pytest.approx(1 - 0.8**5, abs=0.015)


@pytest.mark.parametrize(("n", "c", "k"), [(3, 4, 1), (3, -1, 1), (3, 1, 4), (3, 1, 0)])
def test_draws_that_were_not_made_are_refused(n, c, k):
    with pytest.raises(ValueError, match=f"of n = {n}"):
        pass_at_k(n, c, k)


def test_the_mean_is_over_tasks_with_the_interval_of_tasks():
    made = [(10, c) for c in (0, 0, 1, 2, 3, 5, 7, 9, 10, 10)] * 4
    found = mean_pass_at_k(made, 3)
    assert found == interval([[pass_at_k(n, c, 3)] for n, c in made])
    assert found.low < found.value < found.high
    assert found.value == pytest.approx(math.fsum(pass_at_k(n, c, 3) for n, c in made) / 40)


def test_no_task_has_no_mean():
    with pytest.raises(ValueError, match="no case"):
        mean_pass_at_k([], 1)
