from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import ConvexHull

from reflexion_lab.analysis.stats.matching import front, hull

spots = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=15)


@settings(deadline=None)
@given(spots)
def test_the_front_is_what_no_other_spot_beats(found):
    kept = front(found)
    best = {found[place] for place in kept}
    assert best == {
        (cost, height)
        for cost, height in found
        if not any((c <= cost and h > height) or (c < cost and h >= height) for c, h in found)
    }
    assert len(best) == len(kept)
    assert [found[place][0] for place in kept] == sorted(cost for cost, _ in best)


@settings(deadline=None)
@given(spots)
def test_every_spot_lies_on_or_below_the_hull(found):
    corners = [found[place] for place in hull(found)]
    assert {*hull(found)} <= {*front(found)}
    for cost, height in found:
        for (c0, h0), (c1, h1) in pairwise(corners):
            if c0 <= cost <= c1:
                assert height <= h0 + (h1 - h0) * (cost - c0) / (c1 - c0) + 1e-9
        assert height <= corners[-1][1]


@settings(deadline=None)
@given(spots)
def test_the_hull_is_the_upper_left_of_scipys(found):
    low, high = min(cost for cost, _ in found), max(height for _, height in found)
    closed = [*found, (low - 1, -1), (31, -1), (31, high)]  # what a front allows: dearer, or worse
    corners = {closed[place] for place in ConvexHull(closed).vertices} & set(found)
    ours = [found[place] for place in hull(found)]
    start = ours[0]
    assert {*ours} >= {spot for spot in corners if spot in {found[place] for place in front(found)}}
    assert start == max((spot for spot in found if spot[0] == low), key=lambda spot: spot[1])


def test_a_dominated_spot_a_spot_below_the_line_and_a_twin_are_left_out():
    found = [(1, 0.5), (3, 0.6), (2, 0.55), (5, 0.9), (6, 0.8), (1, 0.5)]
    assert front(found) == [0, 2, 1, 3]
    assert hull(found) == [0, 3]


def test_spots_on_one_line_leave_its_ends():
    assert hull([(0, 0.0), (1, 0.5), (2, 1.0)]) == [0, 2]


@pytest.mark.parametrize("work", [front, hull])
def test_nothing_has_no_front(work):
    assert work([]) == []
