"""Accuracy against cost: the Pareto front, the area under a curve, and two arms at equal mean spending.

Which of two arms is costlier, and by how much, is luck as well: an arm that happens to fail more goes on longer, spends
more, is cut for it, and fails more. Verdicts matched once, and compared as if they had been given, differ at the level
of 0.05 in 6 to 11 of 100 simulated pairs of equal arms (60 and 164 tasks, 2 to 5 attempts). Here every draw is matched
anew: 3 to 6 of 100 then do, and the intervals hold the truth in 93 to 94.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from reflexion_lab.analysis.stats.bootstrap import (
    CLOSE,
    are_varied,
    batches,
    difference,
    ends,
    generator,
    resampled_sums,
    weighted_sums,
)
from reflexion_lab.analysis.stats.intervals import RESAMPLES, Estimate
from reflexion_lab.errors import ConfigError

if TYPE_CHECKING:
    from numpy import float64, int64
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


CAPS = 64
"""Caps that are tried, quantiles of all spendings; between two neighbours a coin decides for each case."""


class Path(NamedTuple):
    """One case of one arm."""

    task: int
    """Its row, from 0 without gaps; cases of one task are one cluster."""
    spent: Sequence[float]
    """What it has spent when attempt 1, 2, ... is submitted, rising."""
    passed: Sequence[bool]
    """Whether what is submitted then passes."""


class Equal(NamedTuple):
    """share(second) - share(first) at equal mean spending, in [-1, 1]."""

    estimate: Estimate
    p: float
    """Two-sided, of "the arms could change places at any task"; never below 1 / (1 + draws), which leaves nothing
    below 0.05 in a family of 100 such tests."""


class _Mix(NamedTuple):
    """Between which two caps, and how far, the mean has reached what may be spent; each of shape (draws, 1). At the
    lowest cap where even that costs more.
    """

    below: NDArray[int64]
    above: NDArray[int64]
    share: NDArray[float64]


def equal(first: Sequence[Path], second: Sequence[Path], seed: int = 0, draws: int = RESAMPLES) -> Equal:
    """Cases of the costlier arm are capped where their mean spending is the cheaper arm's; attempt 1 always counts.

    The interval is the bootstrap over tasks (`bootstrap`), each draw matched anew. p is by the arms changing places at
    tasks (`permutation.sign_flip`), matched anew, too; of random flips: (1 + as extreme) / (1 + draws) (Davison and
    Hinkley 1997, Bootstrap Methods and their Application, equation 4.25).

    Parameters
    ----------
    first, second : Sequence[Path]
        The same cases in the same order.

    Raises
    ------
    ConfigError
        Other cases, or none.
    """
    import numpy as np

    if not first or [path.task for path in first] != [path.task for path in second]:
        raise ConfigError("first and second", f"{len(first)} and {len(second)} cases", "the same, one at least")
    caps = np.quantile(np.concatenate([path.spent for path in (*first, *second)]), np.linspace(0, 1, CAPS))
    cases = np.bincount([path.task for path in first])[:, None].astype(float)
    first_table, second_table = _table(first, caps, len(cases)), _table(second, caps, len(cases))
    rows = np.hstack([first_table, second_table, cases])
    value = float(_differences(rows.sum(axis=0)[None])[0])
    extreme = np.abs(_flipped(first_table, second_table, float(cases.sum()), seed, draws)) >= abs(value) - CLOSE
    low, high = _ends(rows, seed, draws)
    return Equal(
        estimate=Estimate(value=value, low=min(low, value), high=max(high, value)),
        p=float((1 + extreme.sum()) / (1 + draws)),
    )


def _ends(rows: NDArray[float64], seed: int, draws: int) -> tuple[float, float]:
    """Where the cut sides differ on too few tasks, or on all alike, what `bootstrap.difference` has there.

    Not the jackknife, which covers 88 % where the arms spend alike: the cheaper one changes there.
    """
    import numpy as np

    at_one, at_other = _mixes(rows.sum(axis=0)[None])
    _, first, _, second = np.split(rows[:, :-1] / rows[:, -1:], 4, axis=1)
    first_shares, second_shares = (
        np.clip(_mixed(sums, at)[:, None], 0, 1) for sums, at in ((first, at_one), (second, at_other))
    )
    if are_varied(second_shares - first_shares):
        return ends(_differences(resampled_sums(rows, generator(seed, "tasks"), draws)))
    estimate = difference(first_shares, second_shares)
    return estimate.low, estimate.high


def _table(paths: Sequence[Path], caps: NDArray[float64], tasks: int) -> NDArray[float64]:
    """Of each task, what its cases have spent at each cap, then how many of them pass; shape (tasks, 2 caps)."""
    import numpy as np

    table = np.zeros((tasks, 2, len(caps)))
    for task, spent, passed in paths:
        reached = np.maximum(np.searchsorted(spent, caps, side="right"), 1) - 1
        table[task] += np.asarray(spent, float)[reached], np.asarray(passed, float)[reached]
    return table.reshape(tasks, -1)


def _flipped(
    first: NDArray[float64], second: NDArray[float64], cases: float, seed: int, draws: int
) -> NDArray[float64]:
    """The differences where the arms have changed places at random tasks."""
    import numpy as np

    rng, flipped = generator(seed, "flips"), []
    for size in batches(draws, len(first) + 4 * CAPS):
        swapped = weighted_sums(rng.integers(0, 2, size=(size, len(first))).astype(float), second - first)
        sums = first.sum(axis=0) + swapped, second.sum(axis=0) - swapped, np.full((size, 1), cases)
        flipped.append(_differences(np.hstack(sums)))
    return np.concatenate(flipped)


def _differences(sums: NDArray[float64]) -> NDArray[float64]:
    """Of rows of sums over tasks (both tables, then the cases): the differences at equal spending, shape (draws,)."""
    import numpy as np

    _, first, _, second = np.split(sums[:, :-1] / sums[:, -1:], 4, axis=1)
    at_one, at_other = _mixes(sums)
    return np.asarray(_mixed(second, at_other) - _mixed(first, at_one))


def _mixes(sums: NDArray[float64]) -> tuple[_Mix, _Mix]:
    """Where either side stands once both spend what the cheaper one does."""
    import numpy as np

    first, _, second, _ = np.split(sums[:, :-1] / sums[:, -1:], 4, axis=1)
    most = np.minimum(first[:, -1:], second[:, -1:])
    return _mix(first, most), _mix(second, most)


def _mix(spent: NDArray[float64], most: NDArray[float64]) -> _Mix:
    import numpy as np

    below = np.maximum((spent <= most + CLOSE).sum(axis=1, keepdims=True) - 1, 0)
    above = np.minimum(below + 1, spent.shape[1] - 1)
    low, high = np.take_along_axis(spent, below, axis=1), np.take_along_axis(spent, above, axis=1)
    share = np.divide(most - low, high - low, out=np.zeros_like(most), where=high > low)
    return _Mix(below, above, np.clip(share, 0, 1))


def _mixed(passed: NDArray[float64], at: _Mix) -> NDArray[float64]:
    import numpy as np

    low, high = np.take_along_axis(passed, at.below, axis=1), np.take_along_axis(passed, at.above, axis=1)
    return np.asarray((low + at.share * (high - low))[:, 0])
