"""Equal spending: what is compared, and that luck in the matching is not taken for a difference."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reflexion_lab.analysis.stats import matching
from reflexion_lab.analysis.stats.matching import Path, area, equal, front, hull
from reflexion_lab.analysis.stats.permutation import sign_flip


def loops(rng, chances, attempts, unit, seeds=1, price=1.0):
    """Loops that end at success, each attempt after the first behind a reflection."""
    paths = []
    for task, chance in enumerate(chances):
        for _ in range(seeds):
            took = np.ones(2 * attempts) if unit == "calls" else rng.integers(100, 400, 2 * attempts) * 1.0
            solved = rng.random(attempts) < chance
            attempts_made = int(solved.argmax()) + 1 if solved.any() else attempts
            spent = np.cumsum(took)[::2][:attempts_made] * price
            paths.append(Path(task, spent.tolist(), solved[:attempts_made].tolist()))
    return paths


def test_equal_arms_do_not_differ_and_changing_sides_changes_the_sign_alone():
    arm = loops(np.random.default_rng(1), np.full(60, 0.4), 4, "tokens")
    finding = equal(arm, arm)
    assert (finding.estimate.value, finding.p) == (0.0, 1.0)
    assert finding.estimate.low < 0 < finding.estimate.high
    rng = np.random.default_rng(2)
    first, second = (loops(rng, np.full(40, chance), 4, "tokens", 2) for chance in (0.3, 0.5))
    forward, backward = equal(first, second), equal(second, first)
    assert forward.estimate.value == pytest.approx(-backward.estimate.value)
    assert forward.estimate.low == pytest.approx(-backward.estimate.high, abs=0.02)
    assert forward.p == pytest.approx(backward.p, abs=0.02)


def test_equal_tables_are_matched_once_and_the_figures_kept_apart_by_seed_and_draws(monkeypatch):
    rng, runs = np.random.default_rng(2), []
    first, second = (loops(rng, np.full(30, chance), 3, "tokens") for chance in (0.3, 0.5))
    monkeypatch.setattr(matching, "_KNOWN", {})
    flipped = matching._flipped
    monkeypatch.setattr(matching, "_flipped", lambda *tables: runs.append(tables[3:]) or flipped(*tables))
    figures = [equal(first, second, seed, draws) for seed, draws in [(0, 60), (0, 60), (1, 60), (0, 70)]]
    assert runs == [(0, 60), (1, 60), (0, 70)]
    assert figures[0] == figures[1]


def test_the_interval_weights_cases_as_the_estimate_does_where_clusters_differ_in_size():
    """One cluster of 30 cases, 6 of them gained, and 30 of one case without a difference; nothing to cut."""
    sizes = [30, *[1] * 30]
    first = [Path(cluster, [1.0], [False]) for cluster, size in enumerate(sizes) for _ in range(size)]
    second = [path._replace(passed=[place < 6]) for place, path in enumerate(first)]
    finding = equal(first, second, draws=50)
    assert finding.estimate.value == pytest.approx(0.1)
    for low, high in (finding.interval_90, (finding.estimate.low, finding.estimate.high)):
        assert low < 0.09 < 0.11 < high


def test_the_dearer_arm_is_cut_between_two_caps_in_proportion():
    """First: one attempt of 1, half of the tasks solved. Second: 1 and then 3, the rest solved by attempt 2."""
    first = [Path(task, [1.0], [task < 10]) for task in range(20)]
    second = [Path(task, [1.0], [True]) if task < 10 else Path(task, [1.0, 4.0], [False, True]) for task in range(20)]
    assert equal(first, second, draws=50).estimate.value == 0.0
    richer = [Path(task, [1.75], [task < 10]) for task in range(20)]  # pays for half of the second attempts
    assert equal(richer, second, draws=50).estimate.value == pytest.approx(0.25)
    richest = [Path(task, [2.5], [task < 10]) for task in range(20)]
    assert equal(richest, second, draws=50).estimate.value == pytest.approx(0.5)


def test_expensive_first_attempts_still_count_and_a_price_of_nothing_is_no_cut():
    cheap = [Path(task, [1.0], [False]) for task in range(20)]
    dear = [Path(task, [5.0, 9.0], [task < 5, True]) for task in range(20)]
    assert equal(cheap, dear, draws=50).estimate.value == pytest.approx(0.25)
    free = [Path(task, [0.0, 0.0], [False, task < 12]) for task in range(30)]
    none = [Path(task, [0.0], [False]) for task in range(30)]
    assert equal(none, free, draws=50).estimate.value == pytest.approx(0.4)


def test_without_a_cut_p_is_that_of_sign_flips():
    """Where every attempt costs the same on both sides, and loops never go on, matching changes nothing."""
    rng = np.random.default_rng(3)
    passed = rng.random((2, 50)) < [[0.4], [0.6]]
    first, second = ([Path(task, [1.0], [bool(passes)]) for task, passes in enumerate(side)] for side in passed)
    expected = sign_flip(passed[0][:, None], passed[1][:, None])
    assert equal(first, second, draws=20_000).p == pytest.approx(expected, abs=0.012)


@pytest.mark.parametrize(("first", "second"), [([], []), ([Path(0, [1.0], [True])], [Path(1, [1.0], [True])])])
def test_other_cases_are_refused(first, second):
    with pytest.raises(ValueError, match="first and second"):
        equal(first, second)


@pytest.mark.parametrize(("unit", "tasks", "attempts", "seeds"), [("calls", 40, 2, 1), ("tokens", 40, 4, 2)])
def test_equal_arms_differ_no_more_often_than_the_level(unit, tasks, attempts, seeds):
    rng = np.random.default_rng(4)
    results = []
    for _ in range(150):
        chances = rng.beta(0.6, 0.6, tasks)
        first, second = (loops(rng, chances, attempts, unit, seeds) for _ in range(2))
        results.append(equal(first, second, draws=150))
    assert np.mean([result.p <= 0.05 for result in results]) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 150)
    assert np.mean([result.estimate.low <= 0 <= result.estimate.high for result in results]) >= 0.90


def test_matched_interval_covers_a_true_difference_at_its_level():
    """The second arm fails never once it goes on, at twice the price. The truth is that of very many tasks."""
    rng = np.random.default_rng(5)

    def arms(tasks):
        chances = rng.beta(1.0, 1.0, tasks)
        return loops(rng, chances, 3, "tokens"), loops(rng, np.sqrt(chances), 3, "tokens", price=2.0)

    truth = equal(*arms(6_000), draws=1).estimate.value
    items = [equal(*arms(60), draws=200).estimate for _ in range(150)]
    assert 0.9 <= np.mean([item.low <= truth <= item.high for item in items]) <= 0.99


def test_an_interval_has_a_width_where_tasks_differ_alike_and_sums_in_their_last_digit():
    first, second = ([Path(task, (1.0,), (passed,)) for task in range(20)] for passed in (True, False))
    finding = equal(first, second).estimate
    assert finding.value == -1
    assert finding.low == -1
    assert -1 < finding.high < -0.7
    # Seed 0 of every task is won at attempt 2: shares are thirds, whose sums differ in their last digit.
    first = [Path(task, (1.0, 2.0), (False, False)) for task in range(25) for _ in range(3)]
    second = [Path(task, (1.0, 2.3), (False, seed == 0)) for task in range(25) for seed in range(3)]
    finding = equal(first, second).estimate
    assert finding.high - finding.low > 0.05


spots = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=15)


@settings(deadline=None)
@given(spots)
def test_the_front_is_what_no_other_spot_beats(spots):
    kept = front(spots)
    best = {spots[place] for place in kept}
    assert best == {
        (cost, height)
        for cost, height in spots
        if not any((c <= cost and h > height) or (c < cost and h >= height) for c, h in spots)
    }
    assert len(best) == len(kept)
    assert [spots[place][0] for place in kept] == sorted(cost for cost, _ in best)


@settings(deadline=None)
@given(spots)
def test_every_spot_lies_on_or_below_the_hull(spots):
    corners = [spots[place] for place in hull(spots)]
    assert {*hull(spots)} <= {*front(spots)}
    for cost, height in spots:
        for (c0, h0), (c1, h1) in pairwise(corners):
            if c0 <= cost <= c1:
                assert height <= h0 + (h1 - h0) * (cost - c0) / (c1 - c0) + 1e-9
        assert height <= corners[-1][1]


@pytest.mark.parametrize(
    ("spots", "on_front", "on_hull"),
    [
        # a dominated spot, one below the line, and a twin are left out
        ([(1, 0.5), (3, 0.6), (2, 0.55), (5, 0.9), (6, 0.8), (1, 0.5)], [0, 2, 1, 3], [0, 3]),
        ([(0, 0.0), (1, 0.5), (2, 1.0)], [0, 1, 2], [0, 2]),
        ([(100, 0.1), (200, 0.4), (300, 0.5), (500, 0.8)], [0, 1, 2, 3], [0, 1, 3]),
        ([(100, 0.3), (300, 0.6), (400, 0.7)], [0, 1, 2], [0, 1, 2]),
        ([], [], []),
    ],
)
def test_front_and_hull_by_hand(spots, on_front, on_hull):
    assert (front(spots), hull(spots)) == (on_front, on_hull)


def test_the_area_is_scipys_over_the_width_one_attempt_its_own_and_an_absent_case_none():
    from scipy.integrate import trapezoid

    curve = [0.5, 0.7, 0.75, 0.75, 0.8]
    assert area(curve) == pytest.approx(trapezoid(curve, [1, 2, 3, 4, 5]) / 4)
    assert area([0.4, 0.4, 0.4]) == pytest.approx(0.4)
    assert area([0.4]) == 0.4
    present, absent = area([[1.0, math.nan], [1.0, math.nan]])
    assert present == 1.0
    assert math.isnan(absent)


@pytest.mark.parametrize("curves", [[], 0.5])
def test_no_attempt_is_refused(curves):
    with pytest.raises(ValueError, match="curves"):
        area(curves)
