from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import permutation_test

from reflexion_lab.analysis.stats.intervals import mcnemar
from reflexion_lab.analysis.stats.permutation import sign_flip

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
    assert sign_flip(first, second) == pytest.approx(np.mean([one >= abs(sums.sum()) for one in every]))


def flips(n):
    return itertools.product((-1, 1), repeat=n)


def test_it_agrees_with_scipys_permutations_of_pairs():
    rng = np.random.default_rng(1)
    first, second = rng.random((12, 3)) < 0.4, rng.random((12, 3)) < 0.6
    other = permutation_test(
        (first.sum(axis=1), second.sum(axis=1)),
        lambda one, two, axis: (two - one).sum(axis=axis),
        permutation_type="samples",
        n_resamples=np.inf,
        vectorized=True,
    )
    assert sign_flip(first, second) == pytest.approx(other.pvalue)


def test_changing_sides_changes_nothing_and_nothing_discordant_is_one():
    rng = np.random.default_rng(2)
    first, second = rng.random((50, 3)) < 0.4, rng.random((50, 3)) < 0.6
    assert sign_flip(first, second) == sign_flip(second, first) < 1
    assert sign_flip(first, first) == 1.0


def test_seeds_of_one_task_are_one_piece_of_evidence():
    """Five tasks won at each of three seeds are five wins, of which McNemar says 0.06, and not fifteen."""
    first, second = np.zeros((20, 3)), np.zeros((20, 3))
    second[:5] = 1
    assert sign_flip(first, second) == pytest.approx(mcnemar(0, 5))
    assert mcnemar(0, 15) < 0.001


def test_many_tasks_are_no_burden():
    rng = np.random.default_rng(3)
    first, second = rng.random((5_000, 3)) < 0.5, rng.random((5_000, 3)) < 0.502
    assert 0 < sign_flip(first, second) <= 1


@pytest.mark.parametrize("tasks", [20, 164])
def test_it_finds_what_is_not_there_no_more_often_than_it_says(tasks):
    rng = np.random.default_rng(4)
    chances = rng.beta(0.5, 0.5, (1500, tasks, 1))
    first, second = (rng.random((1500, tasks, 3)) < chances for _ in range(2))
    found = [sign_flip(one, two) for one, two in zip(first, second, strict=True)]
    for level in (0.05, 0.2):
        assert np.mean(np.array(found) <= level) <= level + 3 * math.sqrt(level * (1 - level) / 1500)
    assert np.mean(np.array(found) <= 0.2) > 0.1


@pytest.mark.parametrize(("first", "second"), [([[1.0]], [[1.0], [0.0]]), ([1.0], [0.0]), ([[0.5]], [[1.0]])])
def test_what_is_no_pair_of_verdicts_is_refused(first, second):
    with pytest.raises(ValueError, match="first and second"):
        sign_flip(first, second)
