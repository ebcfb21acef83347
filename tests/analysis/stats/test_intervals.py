import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflexion_lab.analysis.stats.intervals import (
    Rate,
    agreement,
    mcnemar,
    over_tasks,
    paired_difference,
    score_limit,
    wilson,
)

counts = st.integers(0, 200).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
tables = st.tuples(*[st.integers(0, 40)] * 4)


@given(counts.filter(lambda kn: kn[1] > 0), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_wilson_agrees_with_scipy(kn, level):
    from scipy.stats import binomtest

    k, n = kn
    other = binomtest(k, n).proportion_ci(confidence_level=level, method="wilson")
    low, high = wilson(k, n, level)
    assert (low, high) == pytest.approx((other.low, other.high), abs=1e-9)
    assert 0 <= low <= k / n <= high <= 1


def test_wilson_of_nothing_is_everything_and_mcnemar_survives_counts_beyond_floats():
    assert wilson(0, 0) == (0.0, 1.0)
    assert Rate.over([None]) == Rate.of(0, 0) == Rate(k=0, n=0, share=0.0, low=0.0, high=1.0)
    assert mcnemar(2000, 2000) == pytest.approx(1.0)
    assert 0 < mcnemar(900, 1100) < 1e-4


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda: wilson(-1, 3), "k: "), (lambda: wilson(4, 3), "k: "), (lambda: wilson(1, 2, 0.0), "level: "),
        (lambda: wilson(1, 2, 1.0), "level: "), (lambda: wilson(1, 2, 95), "level: "),
        (lambda: mcnemar(-1, 2), "discordant pairs"),
    ],
)  # fmt: skip
def test_counts_and_levels_out_of_range_are_refused(work, message):
    with pytest.raises(ValueError, match=message):
        work()


@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_agrees_with_the_binomial_test(b, c):
    from scipy.stats import binomtest

    expected = binomtest(b, b + c, 0.5).pvalue if b + c else 1.0
    assert mcnemar(b, c) == pytest.approx(expected, rel=1e-9)


@given(tables.filter(lambda table: sum(table) > 1), st.sampled_from([0.3, 0.577, 1.0]))
def test_the_interval_over_tasks_is_a_t_interval_with_pairs_added(table, scale):
    """Every task stands twenty times, each side of the added pairs thirteen: 1.3 pairs, half a task to each side."""
    from scipy.stats import t as student

    means = [0.0] * (table[0] + table[3]) + [-1.0] * table[1] + [1.0] * table[2]
    tasks, repeated = len(means), [*means * 20, *[scale, -scale] * 13]
    clusters = len(repeated) / 20
    centre, spread = np.mean(repeated), np.var(repeated, ddof=0) * clusters / (clusters - 1)
    half = student.ppf(0.975, tasks - 1) * math.sqrt(spread / clusters)
    expected = max(-1.0, centre - half), min(1.0, centre + half)
    assert over_tasks(means, scale) == pytest.approx(expected, abs=1e-9)
    if scale == 1.0:
        assert paired_difference(*table) == over_tasks(means)


@pytest.mark.parametrize("tasks", [0, 1])
def test_fewer_than_two_tasks_say_nothing(tasks):
    assert over_tasks([0.5] * tasks) == (-1.0, 1.0)


def test_one_task_more_that_differs_moves_the_width_without_a_step():
    widths = [high - low for low, high in (paired_difference(30 - k, k, 0, 30) for k in range(13))]
    steps = np.diff(widths)
    assert (steps > 0).all()
    assert steps.max() < 0.03


def test_agreement_is_1_for_equal_seeds_root_n_for_independent_and_by_hand_for_three_tasks():
    rng = np.random.default_rng(1)
    alike = np.repeat(rng.choice([-1.0, 0.0, 1.0], (2000, 1)), 4, axis=1)
    assert agreement(alike) == 1.0
    assert agreement(rng.choice([-1.0, 0.0, 1.0], (2000, 4))) == pytest.approx(0.5, abs=0.02)
    assert agreement(alike[:, :1]) == agreement(np.zeros((5, 3))) == agreement([[1.0, 0.0]]) == 1.0
    # Variances within 0.5, 0 and 0.5; of the means 0.5, 1 and -0.5 it is 7/12: r = (7/12 - 1/6) / (5/12 + 1/3).
    correlation = (7 / 12 - 1 / 6) / (5 / 12 + 1 / 3)
    cases = [[0.0, 1.0, math.nan], [1.0, 1.0, math.nan], [0.0, -1.0, math.nan], [math.nan] * 3]
    assert agreement(cases) == pytest.approx(math.sqrt((1 + correlation) / 2))


@pytest.mark.parametrize("tasks", [30, 100])
def test_a_true_difference_at_the_margin_is_seldom_equivalent(tasks):
    """All discordant tasks go one way, the worst case: the 90 % interval alone errs in 12 to 13 %."""
    from scipy.stats import binom

    wins = np.arange(tasks + 1)
    ends = [over_tasks([1.0] * w + [0.0] * (tasks - w), level=0.9) for w in wins]
    limits = np.array([score_limit(abs(low + high) / 2, tasks) for low, high in ends])
    highs = np.array([high for _, high in ends])
    margins = np.arange(0.02, 0.3, 0.005)
    alone, both = (
        max(binom.pmf(wins, tasks, margin)[limit < margin].sum() for margin in margins)
        for limit in (highs, np.maximum(highs, limits))
    )
    assert alone > 0.1
    assert both < 0.075
