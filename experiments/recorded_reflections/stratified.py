"""Difference of two shares over strata, with an interval over clusters.

Mantel-Haenszel weights (Greenland and Robins 1985, Biometrics 41:55-68) compare within strata alone: models that differ
in both shares do not make a difference. The interval deletes one cluster at a time (jackknife).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from reflexion_lab.analysis.stats.intervals import Estimate, t_quantile

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray


class Outcome(NamedTuple):
    """One case."""

    cluster: str
    stratum: str
    flag: bool
    passed: bool


def counts(outcomes: Sequence[Outcome]) -> NDArray[float64]:
    """Cases that passed and all cases, shape (clusters, strata, 2 flags, 2)."""
    import numpy as np

    clusters, strata = (
        {name: place for place, name in enumerate(sorted({outcome[field] for outcome in outcomes}))} for field in (0, 1)
    )
    table = np.zeros((len(clusters), len(strata), 2, 2))
    for cluster, stratum, flag, passed in outcomes:
        table[clusters[cluster], strata[stratum], int(flag)] += passed, 1
    return table


def difference(table: NDArray[float64]) -> NDArray[float64]:
    """Share with the flag - share without, shape (...); NaN if no stratum has both flags.

    `table`: shape (..., strata, 2 flags, 2).
    """
    import numpy as np

    passed, cases = table[..., 0], table[..., 1]
    without, with_ = cases[..., 0], cases[..., 1]
    with np.errstate(invalid="ignore", divide="ignore"):
        weights = np.nan_to_num(with_ * without / (with_ + without))
        shares = np.nan_to_num(passed / cases)
        return np.asarray((weights * (shares[..., 1] - shares[..., 0])).sum(axis=-1) / weights.sum(axis=-1))


def without_each(table: NDArray[float64]) -> NDArray[float64]:
    """The difference without each cluster in turn. `table`: shape (..., clusters, strata, 2 flags, 2)."""
    return difference(table.sum(axis=-4)[..., None, :, :, :] - table)


def error_of(left_out: NDArray[float64]) -> NDArray[float64]:
    """The jackknife's standard error. `left_out`: a statistic without each cluster, shape (..., clusters)."""
    import numpy as np

    n = left_out.shape[-1]
    squares = (left_out - left_out.mean(axis=-1, keepdims=True)) ** 2
    return np.asarray(np.sqrt((n - 1) / n * squares.sum(axis=-1)))


def jackknife(table: NDArray[float64]) -> tuple[NDArray[float64], NDArray[float64]]:
    """The difference and its standard error. `table`: shape (..., clusters, strata, 2 flags, 2)."""
    return difference(table.sum(axis=-4)), error_of(without_each(table))


def stratified(outcomes: Sequence[Outcome]) -> tuple[Estimate, float] | None:
    """The difference with its 95 % interval, and its two-sided p; None without a stratum of both flags, or without a
    standard error.
    """
    if not outcomes:
        return None
    table = counts(outcomes)
    value, error = map(float, jackknife(table))
    return _with_interval(value, error, len(table), 1.0) if error > 0 else None


def of_two_flags(first: Sequence[Outcome], second: Sequence[Outcome]) -> tuple[Estimate, float] | None:
    """The difference by the second flag - that by the first, as `stratified`; deleting a cluster deletes it from both.

    `first`, `second`: the same cases, with one flag and with the other.
    """
    assert [each._replace(flag=False) for each in first] == [each._replace(flag=False) for each in second], "same cases"
    if not first:
        return None
    tables = [counts(outcomes) for outcomes in (first, second)]
    values = [float(difference(table.sum(axis=0))) for table in tables]
    error = float(error_of(without_each(tables[1]) - without_each(tables[0])))
    return _with_interval(values[1] - values[0], error, len(tables[0]), 2.0) if error > 0 else None


def _with_interval(value: float, error: float, clusters: int, most: float) -> tuple[Estimate, float]:
    """Student's t with one degree of freedom less than clusters; `most`: the greatest possible absolute value."""
    from scipy.special import stdtr

    half = t_quantile(clusters - 1) * error
    estimate = Estimate.of(value, max(-most, value - half), min(most, value + half))
    return estimate, float(2 * stdtr(clusters - 1, -abs(value) / error))
