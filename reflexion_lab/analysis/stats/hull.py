"""Accuracy against cost: which methods are worth their price."""

from __future__ import annotations

from collections.abc import Sequence

Spot = tuple[float, float]
"""A cost, lower is better, and an accuracy, higher is better."""


def front(spots: Sequence[Spot]) -> list[int]:
    """Places of the Pareto front, cheapest first: no other is as cheap and better, or cheaper and as good.

    Of equal spots the first stands for all.
    """
    best, places = float("-inf"), []
    for place in sorted(range(len(spots)), key=lambda place: (spots[place][0], -spots[place][1], place)):
        if spots[place][1] > best:
            best = spots[place][1]
            places.append(place)
    return places


def hull(spots: Sequence[Spot]) -> list[int]:
    """Places of the front's upper convex hull, cheapest first (Kapoor et al. 2024, arXiv 2407.01502, section 3).

    Who runs one of two methods by the toss of a coin reaches every spot on the line between them: what lies on or below
    that line is not worth its price.
    """
    places: list[int] = []
    for place in front(spots):
        while len(places) > 1 and _turn(spots[places[-2]], spots[places[-1]], spots[place]) >= 0:
            places.pop()
        places.append(place)
    return places


def _turn(a: Spot, b: Spot, c: Spot) -> float:
    """Below 0 where the way from a over b to c turns right."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
