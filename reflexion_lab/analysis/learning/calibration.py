"""Is confidence worth believing? Forecasts of a success against what happened.

Forecasts about one task are not independent: the interval of the Brier score takes the task as the unit; those of the
bins, and what chance would give, take the forecast.

Brier score and bins are those of `sklearn.metrics.brier_score_loss` and `sklearn.calibration.calibration_curve`, to
which the tests hold them. They are computed here, since every run's summary needs them, and importing
`sklearn.metrics` takes 1.7 s where these few sums take milliseconds; the bins also need their counts.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from reflexion_lab.analysis.stats.intervals import LEVEL, RESAMPLES, Estimate, Rate, clustered, resampled
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Record

NO_FORECAST = "forecasts: got none, expected at least one"
FEWEST = 10
"""Tasks that the bootstrap needs, as in `effect`."""


class Forecast(NamedTuple):
    """A probability that was named for a success, and whether it came."""

    task_id: str
    confidence: float
    """In [0, 1]."""
    came_true: bool


class Bin(Record, frozen=True, kw_only=True):
    """Forecasts in (low, high]; in the lowest bin in [low, high]."""

    low: float
    high: float
    confidence: float
    """Their mean."""
    came_true: Rate


class Calibration(Record, frozen=True, kw_only=True):
    """Forecasts against what happened. Brier score = reliability - resolution + uncertainty + within."""

    n: int
    tasks: int
    came_true: Rate
    confidence: float
    """Mean of the forecasts; above `came_true` is too sure."""
    brier: Estimate
    """Mean of (forecast - outcome)², in [0, 1], lower is better (Brier 1950, Monthly Weather Review 78:1-3)."""
    reliability: float
    """Mean squared distance of a bin's forecasts from its outcomes; 0 is best (Murphy 1973, Journal of Applied
    Meteorology 12:595-600, equation 10), over `bins`."""
    resolution: float
    """Mean squared distance of a bin's outcomes from all outcomes; higher is better."""
    uncertainty: float
    """s (1 - s) of the share s that came true: the Brier score of naming s every time."""
    within: float
    """What the bins hide: 0 where all forecasts of a bin are equal (Stephenson et al. 2008, Weather and Forecasting
    23:752-757)."""
    error: float
    """Expected calibration error: mean distance of a bin's forecasts from its outcomes, in [0, 1] (Naeini et al. 2015,
    AAAI 29). Never below 0, hence biased upwards where n is small: read it beside `error_by_chance`."""
    error_by_chance: float
    """What 95 of 100 perfectly calibrated forecasters would stay within, with these very forecasts (consistency
    resampling: Bröcker and Smith 2007, Weather and Forecasting 22:651-661)."""
    bins: tuple[Bin, ...]
    """Lowest first; empty ones are left out."""


def equal_width(bins: int = 10) -> tuple[float, ...]:
    """Edges of bins of one width, from 0 to 1. Raises ConfigError for fewer than one bin."""
    return tuple(i / _checked(bins) for i in range(bins + 1))


def calibration(forecasts: Sequence[Forecast], edges: Sequence[float] = (), seed: int = 0) -> Calibration:
    """All figures of `forecasts`.

    Parameters
    ----------
    edges : Sequence[float], default ()
        Of the bins, ascending, from the lowest forecast or below to the highest or above; by default ten of
        equal width.
    seed : int, default 0
        Of the bootstrap over tasks, and of what chance would give.

    Raises
    ------
    ConfigError
        There is no forecast, or one lies outside [0, 1] or outside the bins.
    """
    edges = tuple(edges) or equal_width()
    bins = _bins(forecasts, edges)
    brier, came_true = (
        _brier(forecasts, seed),
        Rate.of(sum(forecast.came_true for forecast in forecasts), len(forecasts)),
    )
    n, share = came_true.n, came_true.share
    reliability = sum(group.came_true.n * (group.confidence - group.came_true.share) ** 2 for group in bins) / n
    resolution = sum(group.came_true.n * (group.came_true.share - share) ** 2 for group in bins) / n
    return Calibration(
        n=n,
        tasks=len({forecast.task_id for forecast in forecasts}),
        came_true=came_true,
        confidence=sum(forecast.confidence for forecast in forecasts) / n,
        brier=brier,
        reliability=reliability,
        resolution=resolution,
        uncertainty=share * (1 - share),
        within=brier.value - (reliability - resolution + share * (1 - share)),
        error=sum(group.came_true.n * abs(group.confidence - group.came_true.share) for group in bins) / n,
        error_by_chance=_by_chance(forecasts, edges, seed),
        bins=bins,
    )


def _checked(bins: int) -> int:
    if bins < 1:
        raise ConfigError("bins", bins, "1 or more")
    return bins


def _place(confidence: float, edges: Sequence[float]) -> int:
    """The bin of a forecast, from 0."""
    return bisect_left(edges[1:-1], confidence)


def _bins(forecasts: Sequence[Forecast], edges: Sequence[float]) -> tuple[Bin, ...]:
    """Raises ConfigError."""
    if not forecasts:
        raise ConfigError(NO_FORECAST)
    for forecast in forecasts:
        if not max(0, edges[0]) <= forecast.confidence <= min(1, edges[-1]):
            raise ConfigError(
                f"confidence at {forecast.task_id}", forecast.confidence, "a number in [0, 1] that lies in a bin"
            )
    held: dict[int, list[Forecast]] = {}
    for forecast in forecasts:
        held.setdefault(_place(forecast.confidence, edges), []).append(forecast)
    ends = list(pairwise(edges))
    return tuple(
        Bin(
            low=ends[place][0],
            high=ends[place][1],
            confidence=sum(forecast.confidence for forecast in members) / len(members),
            came_true=Rate.of(sum(forecast.came_true for forecast in members), len(members)),
        )
        for place, members in sorted(held.items())
    )


def _brier(forecasts: Sequence[Forecast], seed: int) -> Estimate:
    """With the percentile interval of resampled tasks (Efron and Tibshirani 1993, ch. 13).

    Where there are fewer than `FEWEST` tasks, or all outcomes are alike, there is too little to draw from: the interval
    then reaches at least as far as the score would if, whatever was forecast, as large a share had come true as an end
    of Wilson's interval says, for as many forecasts as their tasks are worth at least (`intervals.effective`).
    """
    import numpy as np

    squares: dict[str, list[float]] = {}
    for forecast in forecasts:
        squares.setdefault(forecast.task_id, []).append((forecast.confidence - forecast.came_true) ** 2)
    sums, counts = (np.array([float(of(values)) for values in squares.values()]) for of in (sum, len))
    drawn, cases = resampled([sums, counts], f"{seed}:calibration")
    low, high = np.quantile(drawn / cases, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    value = float(sums.sum() / counts.sum())
    ends = [float(low), float(high), value]
    share = sum(forecast.came_true for forecast in forecasts) / len(forecasts)
    if len(squares) < FEWEST or share in (0, 1):
        failed, passed = (
            sum((forecast.confidence - came) ** 2 for forecast in forecasts) / len(forecasts) for came in (0, 1)
        )
        ends += [failed + end * (passed - failed) for end in clustered(share, [len(own) for own in squares.values()])]
    return Estimate(value=value, low=min(ends), high=max(ends))


def _by_chance(forecasts: Sequence[Forecast], edges: Sequence[float], seed: int) -> float:
    """The quantile `LEVEL` of the calibration error, were every forecast right about its chances."""
    import numpy as np

    values, counts = np.unique([forecast.confidence for forecast in forecasts], return_counts=True)
    rng = np.random.default_rng(random.Random(f"{seed}:calibration chance").getrandbits(64))
    surplus = rng.binomial(counts, values, size=(RESAMPLES, len(values))) - counts * values
    places = np.array([_place(value, edges) for value in values])
    errors = sum(np.abs(surplus[:, places == place].sum(axis=1)) for place in np.unique(places))
    return float(np.quantile(np.asarray(errors) / counts.sum(), LEVEL))
