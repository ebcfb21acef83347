"""Accuracy against cost: Pareto front, area under a curve, and two arms at equal mean spending.

Which arm spends more is itself random: an arm that fails more by chance runs longer, spends more, is cut, and fails
more. If verdicts are matched once and then taken as fixed, tests at level 0.05 reject for 6 to 11 % of simulated pairs
of equal arms (60 and 164 tasks, 2 to 5 attempts). Here every bootstrap draw is matched again: 3 to 6 % are rejected,
and the coverage of the intervals is 93 to 94 %.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from reflexion_lab.analysis.stats.bootstrap import are_varied, batches, ends, generator, resampled_sums, weighted_sums
from reflexion_lab.analysis.stats.intervals import EQUIVALENCE, LEVEL, RESAMPLES, TOLERANCE, Estimate, over_tasks
from reflexion_lab.errors import ConfigError
from reflexion_lab.io.arrays import ArrayLike, Floats, Integers, np

Spot = tuple[float, float]
"""A cost, lower is better, and an accuracy, higher is better."""


def front(spots: Sequence[Spot]) -> list[int]:
    """Indices of the Pareto front, cheapest first; of equal spots only the first."""
    best, places = float("-inf"), []
    for place in sorted(range(len(spots)), key=lambda place: (spots[place][0], -spots[place][1], place)):
        if spots[place][1] > best:
            best = spots[place][1]
            places.append(place)
    return places


def hull(spots: Sequence[Spot]) -> list[int]:
    """Indices of the front's upper convex hull, cheapest first (Kapoor et al. 2024, arXiv 2407.01502, section 3).

    Choosing at random between two methods reaches every spot on their line; methods on or below it are dominated.
    """
    places: list[int] = []
    for place in front(spots):
        while len(places) > 1 and _turn(spots[places[-2]], spots[places[-1]], spots[place]) >= 0:
            places.pop()
        places.append(place)
    return places


def _turn(a: Spot, b: Spot, c: Spot) -> float:
    """Negative if the path a, b, c turns right."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def area(curves: ArrayLike) -> Floats:
    """Area under curves by the trapezoidal rule, divided by their width: the mean height.

    The area under the learning curve of Guyon et al. 2011 (JMLR W&CP 16:19-45) on a linear axis of attempts, without
    their rescaling. It is linear in the curve: `bootstrap.interval` and `bootstrap.difference` of the areas of cases
    give the interval of an arm's area and the difference of two. The area of a single attempt is its height. Raises
    ConfigError: no attempt. `curves`: shape (attempts, ...), such as (attempts, tasks, seeds); NaNs propagate. Returns
    shape (...), such as (tasks, seeds).
    """
    heights = np.asarray(curves, float)
    if not heights.ndim or not len(heights):
        raise ConfigError("curves", f"shape {heights.shape}", "(attempts, ...), at least one attempt")
    if len(heights) == 1:
        return np.asarray(heights[0])
    return np.asarray(np.trapezoid(heights, axis=0) / (len(heights) - 1))


def break_even(ratio: float, share: float) -> float:
    """How many times as likely as a draw of the baseline a further attempt must solve to make up its price.

    For the price of a further attempt, the baseline has `ratio` draws. If each solves with probability `share`, one of
    them does with 1 - (1 - share) ** ratio, which the further attempt has to reach (Olausson et al. 2024, arXiv
    2306.09896, compare repair with independent draws at one budget). Raises ConfigError: a value out of range. `ratio`:
    price of a further attempt of the arm over that of the baseline, 0 or more. `share`: share of the baseline's further
    attempts that solve, in [0, 1]. Returns between 1 and `ratio`, its limit for small shares.

    Examples
    --------
    >>> round(break_even(790 / 119, 0.063), 2)
    5.57
    """
    if ratio < 0 or not 0 <= share <= 1:
        raise ConfigError("ratio and share", f"{ratio} and {share}", "a ratio of 0 or more, and a share in [0, 1]")
    return (1 - (1 - share) ** ratio) / share if share else ratio


CAPS = 64
"""Number of candidate caps, quantiles of all spendings. Between two neighbours, verdicts are interpolated."""


class Path(NamedTuple):
    """One case of one arm."""

    cluster: int
    """Index of the cluster of its task, from 0 without gaps (`clusters.places`)."""
    spent: Sequence[float]
    """Cumulative spending at attempt 1, 2, ..."""
    passed: Sequence[bool]
    """Whether the submission passes if the loop is cut there."""


class Equal(NamedTuple):
    """share(second) - share(first) at equal mean spending, in [-1, 1]."""

    estimate: Estimate
    interval_90: tuple[float, float]
    """Ends of the 90 % interval by the same method."""
    p: float
    """Two-sided, at least 1 / (1 + draws). In a family of more than 100 tests, none is thus significant after Holm."""


_KNOWN: dict[bytes, Equal] = {}
"""By digest of the tables: many cells of a grid make the same calls."""
MOST_KNOWN = 10_000


class _Mix(NamedTuple):
    """The two caps around the allowed mean spending; each field has shape (draws, 1). The lowest cap is the minimum."""

    below: Integers
    above: Integers
    share: Floats
    """Position between the two, in [0, 1]."""


def equal(first: Sequence[Path], second: Sequence[Path], seed: int = 0, draws: int = RESAMPLES) -> Equal:
    """Difference with the more expensive arm capped to the mean spending of the cheaper; attempt 1 is never cut.

    The interval is the bootstrap over tasks with every draw matched again. The p-value is that of a sign-flip test
    (`permutation.sign_flip`) with random flips, also matched again: (1 + number as extreme) / (1 + draws) (Davison and
    Hinkley 1997, Bootstrap Methods and their Application, equation 4.25). Raises ConfigError: different cases, or none.
    `first`, `second`: the same cases in the same order.
    """
    if not first or [path.cluster for path in first] != [path.cluster for path in second]:
        raise ConfigError("first and second", f"{len(first)} and {len(second)} cases", "the same, at least one")
    caps = np.quantile(np.concatenate([path.spent for path in (*first, *second)]), np.linspace(0, 1, CAPS))
    cases = np.bincount([path.cluster for path in first])[:, None].astype(float)
    first_table, second_table = _table(first, caps, len(cases)), _table(second, caps, len(cases))
    rows = np.hstack([first_table, second_table, cases])
    digest = hashlib.sha256(rows.tobytes() + f"{seed} {draws}".encode()).digest()
    if digest not in _KNOWN:
        value = float(_differences(*_sides(rows.sum(axis=0)[None]))[0])
        drawn = _flipped(first_table, second_table, float(cases.sum()), seed, draws)
        extreme = np.abs(drawn) >= abs(value) - TOLERANCE
        (low, high), narrower = _ends(rows, seed, draws)
        p = float((1 + extreme.sum()) / (1 + draws))
        if len(_KNOWN) >= MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[digest] = Equal(estimate=Estimate.of(value, low, high), interval_90=narrower, p=p)
    return _KNOWN[digest]


def _ends(rows: Floats, seed: int, draws: int) -> list[tuple[float, float]]:
    """Ends of the bootstrap interval at 95 % and at 90 %, or those of `intervals.over_tasks` if too few tasks differ
    (`bootstrap.are_varied`).

    A jackknife would have a coverage of 88 % where the arms spend alike, since the cheaper arm then changes.
    """
    total = rows.sum(axis=0)[None]
    spent, _, other_spent, _ = np.split(total[:, :-1] / total[:, -1:], 4, axis=1)
    mixes = _mixes(spent, other_spent)
    _, first, _, second = np.split(rows[:, :-1] / rows[:, -1:], 4, axis=1)
    first_shares, second_shares = (
        np.clip(_mixed(passed, mix)[:, None], 0, 1) for passed, mix in zip((first, second), mixes, strict=True)
    )
    if are_varied(second_shares - first_shares):
        drawn = _differences(*_sides(resampled_sums(rows, generator(seed, "tasks"), draws)))
        return [ends(drawn, level) for level in (LEVEL, EQUIVALENCE)]
    gaps, sizes = (second_shares - first_shares)[:, 0], rows[:, -1] / rows[:, -1].mean()
    value = float((gaps * sizes).mean())
    linear = value + (gaps - value) * sizes  # a case has the same weight in a large cluster, as in the estimate
    return [over_tasks(linear, level=level) for level in (LEVEL, EQUIVALENCE)]


def _table(paths: Sequence[Path], caps: Floats, clusters: int) -> Floats:
    """By cluster, the spending of its cases at each cap and the number that pass; shape (clusters, 2 * caps)."""
    table = np.zeros((clusters, 2, len(caps)))
    for cluster, spent, passed in paths:
        reached = np.maximum(np.searchsorted(spent, caps, side="right"), 1) - 1
        table[cluster] += np.asarray(spent, float)[reached], np.asarray(passed, float)[reached]
    return table.reshape(clusters, -1)


def _flipped(first: Floats, second: Floats, cases: float, seed: int, draws: int) -> Floats:
    """Differences after swapping the arms at random tasks."""
    rng, flipped = generator(seed, "flips"), []
    for size in batches(draws, len(first) + 4 * CAPS):
        swapped = weighted_sums(rng.integers(0, 2, size=(size, len(first))).astype(float), second - first)
        flipped.append(_differences(first.sum(axis=0) + swapped, second.sum(axis=0) - swapped, cases))
    return np.concatenate(flipped)


def _sides(sums: Floats) -> list[Floats]:
    """Sums over tasks of both tables, and the number of cases."""
    return np.split(sums, (2 * CAPS, 4 * CAPS), axis=1)


def _differences(first: Floats, second: Floats, cases: Floats | float) -> Floats:
    """Differences at equal spending, shape (draws,), from sums over tasks."""
    spent, passed = np.split(first / cases, 2, axis=1)
    other_spent, other_passed = np.split(second / cases, 2, axis=1)
    mix, other_mix = _mixes(spent, other_spent)
    return np.asarray(_mixed(other_passed, other_mix) - _mixed(passed, mix))


def _mixes(first: Floats, second: Floats) -> tuple[_Mix, _Mix]:
    """The caps of both sides at the spending of the cheaper one, from mean spendings."""
    budget = np.minimum(first[:, -1:], second[:, -1:])
    return _mix(first, budget), _mix(second, budget)


def _mix(spent: Floats, budget: Floats) -> _Mix:
    below = np.maximum((spent <= budget + TOLERANCE).sum(axis=1, keepdims=True) - 1, 0)
    above = np.minimum(below + 1, spent.shape[1] - 1)
    low, high = np.take_along_axis(spent, below, axis=1), np.take_along_axis(spent, above, axis=1)
    share = np.divide(budget - low, high - low, out=np.zeros_like(budget), where=high > low)
    return _Mix(below, above, np.clip(share, 0, 1))


def _mixed(passed: Floats, mix: _Mix) -> Floats:
    """The number or share that passes, interpolated between two caps."""
    low, high = np.take_along_axis(passed, mix.below, axis=1), np.take_along_axis(passed, mix.above, axis=1)
    return np.asarray((low + mix.share * (high - low))[:, 0])
