"""Accuracy against cost: which methods are worth their price."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reflexion_lab.errors import ConfigError

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import ArrayLike, NDArray

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


def area(curves: ArrayLike) -> NDArray[float64]:
    """Area by trapezoids from attempt 1 to the last, over its width: the mean height, in [0, 1] where the curve is.

    The area under the learning curve of Guyon et al. 2011 (JMLR W&CP 16:19-45), on a linear axis of attempts and
    without their rescaling to chance and perfection. It is linear in the curve: the area of each case's own curve, put
    into `bootstrap.interval`, has an interval, and the areas of two arms, into `bootstrap.difference`, have a
    difference. A curve of one attempt is its own area.

    Parameters
    ----------
    curves : ArrayLike
        Shape (attempts, ...), such as (attempts, tasks, seeds); not a number stays so.

    Returns
    -------
    NDArray[float64]
        Shape (...), such as (tasks, seeds).

    Raises
    ------
    ConfigError
        No attempt.
    """
    import numpy as np

    heights = np.asarray(curves, float)
    if not heights.ndim or not len(heights):
        raise ConfigError("curves", f"shape {heights.shape}", "(attempts, ...), one attempt at least")
    if len(heights) == 1:
        return np.asarray(heights[0])
    return np.asarray(np.trapezoid(heights, axis=0) / (len(heights) - 1))
