"""Figures of calibration against scikit-learn, by hand and by simulation."""

import random

import numpy as np
import pytest

from reflexion_lab.analysis.learning.calibration import Forecast, calibration
from reflexion_lab.analysis.stats.intervals import wilson


def forecasts(*pairs):
    """Forecasts, each about a task of its own."""
    return [Forecast(f"t{number}", confidence, bool(came)) for number, (confidence, came) in enumerate(pairs)]


def drawn(seed: int, n: int, values=None, shift: float = 0.0):
    rng = random.Random(seed)
    confidences = [rng.choice(values) if values else rng.random() for _ in range(n)]
    return forecasts(*((c, rng.random() < min(1, max(0, c + shift))) for c in confidences))


def arrays(forecasts):
    return np.array([f.came_true for f in forecasts]), np.array([f.confidence for f in forecasts])


@pytest.mark.parametrize("values", [None, (0.0, 0.1, 0.3, 0.6, 0.7, 0.8, 0.9, 1.0)])
def test_brier_score_and_bins_are_scikit_learns(values):
    from sklearn.calibration import calibration_curve  # a second of every process that collects
    from sklearn.metrics import brier_score_loss

    for seed in range(6):
        forecasts = drawn(seed, 80, values)
        result = calibration(forecasts)
        shares, confidences = calibration_curve(*arrays(forecasts), n_bins=10)
        assert result.brier.value == pytest.approx(brier_score_loss(*arrays(forecasts)), abs=1e-12)
        assert [group.came_true.share for group in result.bins] == pytest.approx(list(shares)), seed
        assert [group.confidence for group in result.bins] == pytest.approx(list(confidences)), seed
        assert sum(group.came_true.n for group in result.bins) == 80


def test_figures_by_hand():
    """Four of 0.8, of which two come true; one of 0.2, which does not."""
    result = calibration(forecasts((0.8, 1), (0.8, 1), (0.8, 0), (0.8, 0), (0.2, 0)))
    assert (result.n, result.tasks, result.came_true.k, result.confidence) == (5, 5, 2, pytest.approx(0.68))
    assert result.brier.value == pytest.approx((2 * 0.04 + 2 * 0.64 + 0.04) / 5)
    assert result.uncertainty == pytest.approx(0.4 * 0.6)
    assert result.error == pytest.approx((4 * 0.3 + 0.2) / 5)
    assert [(bin_.low, bin_.high, bin_.came_true.n) for bin_ in result.bins] == [(0.1, 0.2, 1), (0.7, 0.8, 4)]
    assert (result.bins[1].came_true.low, result.bins[1].came_true.high) == wilson(2, 4)


def test_few_tasks_of_either_outcome_are_no_certainty_and_the_seed_alone_decides_the_interval():
    fifty = drawn(1, 50)
    assert calibration(fifty) == calibration(fifty)
    assert calibration(fifty).brier.low != calibration(fifty, seed=1).brier.low
    result = calibration(forecasts((0.9, 1), *[(0.9, 0)] * 8)).brier
    assert result.low == pytest.approx(min(0.01 * share + 0.81 * (1 - share) for share in wilson(1, 9)))


def test_the_interval_holds_the_truth_as_often_as_it_says():
    """60 tasks of two forecasts each, which the task shifts; of 200 runs, 0.95 has a standard error of 0.015."""
    rng, values, shifts = random.Random(5), (0.2, 0.5, 0.8), (-0.3, 0.1)
    chances = [(value, min(1, max(0, value + shift))) for value in values for shift in shifts]
    truth = sum(p * (1 - value) ** 2 + (1 - p) * value**2 for value, p in chances) / 6
    held = 0
    for run in range(200):
        tasks = [(str(task), rng.choice(shifts)) for task in range(60)]
        pairs = [(task, rng.choice(values), shift) for task, shift in tasks for _ in range(2)]
        result = calibration(
            [Forecast(task, value, rng.random() < value + shift) for task, value, shift in pairs], seed=run
        )
        held += result.brier.low <= truth <= result.brier.high
    assert 0.90 <= held / 200 <= 0.99


@pytest.mark.parametrize(("confidence", "came"), [(0.7, 0), (0.7, 1), (0.0, 0), (1.0, 1)])
def test_outcomes_that_are_all_alike_are_no_certainty(confidence, came):
    single, twelve, often = (
        calibration([Forecast(f"t{number % tasks}", confidence, bool(came)) for number in range(n)]).brier
        for n, tasks in ((1, 1), (12, 12), (120, 12))
    )
    assert single.value == pytest.approx((confidence - came) ** 2) == pytest.approx(twelve.value)
    ends = [(confidence - 1) ** 2 * share + confidence**2 * (1 - share) for share in wilson(12 * came, 12)]
    assert (twelve.low, twelve.high) == pytest.approx((min(ends), max(ends)))
    assert (often.low, often.high) == pytest.approx((twelve.low, twelve.high), abs=0.04)
    assert single.high - single.low > twelve.high - twelve.low > 0.1 * abs(1 - 2 * confidence)


LEVELS = tuple(level / 20 for level in range(1, 20))


def test_chance_error_separates_calibrated_from_overconfident():
    calibrated = [calibration(drawn(seed, 120, LEVELS)) for seed in range(200)]
    assert 0.01 <= sum(result.error > result.error_by_chance for result in calibrated) / 200 <= 0.10
    too_sure = [calibration(drawn(seed, 120, LEVELS, shift=-0.3)) for seed in range(20)]
    assert all(result.error > result.error_by_chance for result in too_sure)


def test_impossible_forecasts_are_refused():
    with pytest.raises(ValueError, match="got none"):
        calibration([])
    with pytest.raises(ValueError, match=r"confidence at t0: got 1.5"):
        calibration(forecasts((1.5, 1)))
