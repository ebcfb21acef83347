"""pass@t of repair trees against enumeration, Olausson's resampling, and simulated trees of known rates."""

import random
from itertools import combinations, product
from math import comb, exp, lgamma, sqrt
from statistics import fmean

import numpy as np
import pytest

from reflexion_lab.analysis.stats.trees import Program, curves, oracle_stop, pass_at, tokens_of_program
from reflexion_lab.errors import DataError

DRAW, WORDS, REPAIR = 100.0, 30.0, 150.0


def tree(rng, n_p, n_r, first=0.3, repair=0.3, rejected=1.0, price=REPAIR):
    """`first`, `repair`: P(a draw, a repair passes); `rejected`: P(a wrong draw fails its feedback)."""
    programs = []
    for _ in range(n_p):
        passed = rng.random() < first
        is_repaired = not passed and rng.random() < rejected
        repairs = [(rng.random() < repair, price + rng.choice((-50, 50))) for _ in range(n_r)]
        programs.append(Program(passed, is_repaired, DRAW, WORDS, repairs if is_repaired else ()))
    return programs


def result(subset, repairs):
    """Verdict and tokens of a subtree: these programs, with these repairs of each."""
    passed = any(each.passed for each in subset) or any(ok for own in repairs for ok, _ in own)
    words = sum(each.reflection for each, own in zip(subset, repairs, strict=True) if own)
    return passed, sum(each.tokens for each in subset) + words + sum(tokens for own in repairs for _, tokens in own)


def test_the_closed_form_equals_the_enumeration_of_all_subtrees():
    rng = random.Random(0)
    for _ in range(200):
        n_p, n_r = rng.randint(1, 4), rng.randint(1, 3)
        programs = tree(rng, n_p, n_r, rejected=0.8)
        for k, n in product(range(1, n_p + 1), range(n_r + 1)):
            results = [
                (fmean(ok for ok, _ in every), fmean(tokens for _, tokens in every))
                for subset in combinations(programs, k)
                for every in [[result(subset, own) for own in product(*(combinations(each.repairs, n) if each.repairs
                                                                       else [()] for each in subset))]]
            ]  # fmt: skip
            assert pass_at(programs, n)[k] == pytest.approx(fmean(ok for ok, _ in results), abs=1e-12)
            expected = fmean(tokens for _, tokens in results)
            assert k * tokens_of_program(programs, n) == pytest.approx(expected, rel=1e-12)


@pytest.mark.slow
def test_pass_at_t_equals_olaussons_resampling_at_every_spot_of_the_grid():
    rng = random.Random(1)
    trees = [tree(rng, 10, 5, rng.betavariate(0.5, 2), rng.betavariate(0.5, 2), 0.8) for _ in range(40)]
    for n_p, n_r in product((1, 2, 5, 10), (1, 2, 3, 4, 5)):
        drawn = np.zeros((1000, 2))
        for place, programs in product(range(len(drawn)), trees):
            subset = rng.sample(programs, n_p)
            drawn[place] += result(subset, [rng.sample(each.repairs, n_r if each.repairs else 0) for each in subset])
        exact = sum(pass_at(programs, n_r)[n_p] for programs in trees)
        tokens = n_p * sum(tokens_of_program(programs, n_r) for programs in trees)
        errors = drawn.std(axis=0) / sqrt(len(drawn))
        assert (np.abs(drawn.mean(axis=0) - (exact, tokens)) <= 3 * errors + 1e-9).all(), (n_p, n_r)


def test_without_repairs_it_is_pass_at_k_without_reflection_and_a_tree_that_was_cut_is_refused():
    programs = tree(random.Random(2), 10, 3)
    c = sum(each.passed for each in programs)
    assert pass_at(programs, 0)[1:] == pytest.approx([1 - comb(10 - c, k) / comb(10, k) for k in range(1, 11)])
    assert tokens_of_program(programs, 0) == DRAW
    programs = tree(random.Random(3), 3, 2, first=0)
    assert pass_at(programs, 2).shape == (4,)
    with pytest.raises(DataError, match="got a failed program with 2 repairs, as of a tree that was cut, expected 3"):
        pass_at(programs, 3)


def test_a_stop_on_hidden_tests_pays_up_to_the_first_pass():
    def program(passed, *repairs):
        return Program(passed, not passed, 10, 1, [(ok, 5) for ok in repairs])

    assert oracle_stop([program(False, False, True), program(True)]) == (True, 10 + 1 + 5 + 5)
    assert oracle_stop([program(False, False, False), program(True)]) == (True, 10 + 1 + 5 + 5 + 10)
    assert oracle_stop([program(False, False), program(False, False)]) == (False, 2 * (10 + 1 + 5))
    rejects = Program(False, False, 10, 0)
    assert oracle_stop([rejects, program(True)]) == (True, 20)


def failing(a, b, n):
    """E[(1 - p) ** n] of a beta distribution."""
    return exp(lgamma(b + n) - lgamma(b) + lgamma(a + b) - lgamma(a + b + n))


@pytest.mark.slow
def test_intervals_over_tasks_cover_the_known_values():
    a, b, repair, n_p, n_r, sets = 1, 2, 0.15, 6, 2, 500
    drawn = [1 - failing(a, b, k) for k in range(n_p + 1)]
    passed = 1 - (1 - repair) ** n_r * failing(a, b, 1)
    draws = 1 + failing(a, b, 1) * (WORDS + n_r * REPAIR) / DRAW
    difference = passed - np.interp(draws, range(n_p + 1), drawn)
    even = (np.interp(passed, drawn, range(n_p + 1)) - 1) / (n_r * failing(a, b, 1))
    covered = np.zeros(3)
    for seed in range(sets):
        rng = random.Random(seed)
        trees = [tree(rng, n_p, n_r, rng.betavariate(a, b), repair) for _ in range(60)]
        spot = curves(trees, range(60), [n_r]).spots[0]
        known = (spot.pass_at_t, passed), (spot.difference, difference), (spot.break_even, even)
        covered += [interval.low <= value <= interval.high for interval, value in known]
    assert (covered / sets >= 0.93).all() and (covered / sets <= 0.97).all(), covered / sets


KINDS = (0.5, 0.05), (0.02, 0.3)
"""P(a draw passes), P(a repair passes) of two kinds of tasks: draws soon solve the first, repair alone the second."""


def planted(price, n_p=10, n=600):
    """Curves of simulated trees with one repair, and the analytic ones: draws, repairs, tokens of a program."""
    rng = random.Random(4)
    trees = [tree(rng, n_p, 1, *KINDS[task % 2], price=price) for task in range(n)]
    programs = np.arange(n_p + 1)
    drawn = np.mean([1 - (1 - p) ** programs for p, _ in KINDS], axis=0)
    repaired = np.mean([1 - ((1 - p) * (1 - q)) ** programs for p, q in KINDS], axis=0)
    return curves(trees, range(n), [1]), drawn, repaired, DRAW + fmean(1 - p for p, _ in KINDS) * (WORDS + price)


def test_curves_price_and_crossing_are_where_they_were_planted():
    got, drawn, repaired, tokens = planted(300)
    for spot, known in zip((*got.draws, *got.spots), (*drawn[1:], *repaired[1:]), strict=True):
        assert spot.pass_at_t.low <= known <= spot.pass_at_t.high
    budgets = np.linspace(tokens, 10 * DRAW, 10_000)
    places = np.arange(11)
    gaps = np.interp(budgets, tokens * places, repaired) - np.interp(budgets, DRAW * places, drawn)
    (crossing,) = budgets[np.flatnonzero(np.diff(np.sign(gaps)))]
    estimate, is_ahead = got.crossings[1]
    assert is_ahead and estimate.low < crossing < estimate.high < estimate.low + 300
    assert abs(estimate.value - crossing) < 60
    head = got.headline
    assert (head.programs, head.repairs) == (2, 1) and head.tokens == pytest.approx(2 * tokens, rel=0.01)
    n_repairs = 2 * fmean(1 - p for p, _ in KINDS)
    assert head.break_even.value == np.inf  # ten draws pass less often
    one, even = got.spots[0], (np.interp(repaired[1], drawn, places) - 1) / (n_repairs / 2)
    assert one.break_even.low < even < one.break_even.high < 1.6 * one.break_even.low
    assert (one.difference.value > 0) == (one.price < one.break_even.value)
    assert head.price == pytest.approx((2 * tokens / DRAW - 2) / n_repairs, rel=0.02)
    assert (head.difference.value > 0) == (head.price < head.break_even.value)
    known = repaired[2] - np.interp(2 * tokens, DRAW * places, drawn)
    assert head.difference.low < known < head.difference.high


def test_what_is_worth_it_and_what_never_crosses_is_as_planted():
    cheap, *_ = planted(50, n=200)
    assert cheap.crossings == {1: (None, True)}
    assert all(spot.is_worth_it for spot in cheap.spots if spot.difference and spot.programs > 1)
    rng = random.Random(5)
    useless = curves([tree(rng, 6, 2, repair=0) for _ in range(60)], range(60), [1, 2])
    assert not any(spot.is_worth_it for spot in useless.spots) and useless.crossings[2] == (None, False)
    assert useless.headline.difference.high < 0 and useless.headline.break_even.value == 0
    dear = curves([tree(rng, 2, 1, price=10_000) for _ in range(20)], range(20), [1])
    assert dear.headline == dear.spots[0] and dear.headline.difference is None


def test_all_trees_of_a_cluster_are_one_unit():
    rng = random.Random(6)
    trees = [tree(rng, 5, 2, rng.random(), 0.2) for _ in range(40)]
    alone, again = curves(trees, range(40), [2]), curves(trees * 3, [*range(40)] * 3, [2])
    for one, other in zip((*alone.draws, *alone.spots), (*again.draws, *again.spots), strict=True):
        assert one.pass_at_t.value == pytest.approx(other.pass_at_t.value)
        assert (one.pass_at_t.low, one.pass_at_t.high) == pytest.approx((other.pass_at_t.low, other.pass_at_t.high))
    apart = curves(trees * 3, range(120), [2]).headline
    widths = [spot.difference.high - spot.difference.low for spot in (alone.headline, again.headline, apart)]
    assert widths[0] == pytest.approx(widths[1], rel=0.1) and widths[2] < 0.7 * widths[0]
