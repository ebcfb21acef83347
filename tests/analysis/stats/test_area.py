from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import trapezoid

from reflexion_lab.analysis.stats.matching import area


def test_the_area_is_scipys_over_the_width():
    curve = [0.5, 0.7, 0.75, 0.75, 0.8]
    assert area(curve) == pytest.approx(trapezoid(curve, [1, 2, 3, 4, 5]) / 4)


def test_a_flat_curve_is_as_high_as_its_area_and_one_attempt_is_its_own():
    assert area([0.4, 0.4, 0.4]) == pytest.approx(0.4)
    assert area([0.4]) == 0.4


def test_the_mean_area_of_cases_is_the_area_of_the_mean_curve():
    curves = (np.random.default_rng(1).random((5, 20, 3)) < 0.5).astype(float)
    assert area(curves).shape == (20, 3)
    assert area(curves).mean() == pytest.approx(float(area(curves.mean(axis=(1, 2)))))


def test_sooner_is_higher():
    assert area([0.5, 0.9, 0.9]) > area([0.5, 0.5, 0.9])


def test_an_absent_case_stays_absent():
    found = area([[1.0, math.nan], [1.0, math.nan]])
    assert found[0] == 1.0
    assert math.isnan(found[1])


@pytest.mark.parametrize("curves", [[], 0.5])
def test_no_attempt_is_refused(curves):
    with pytest.raises(ValueError, match="curves"):
        area(curves)
