"""Calibration of stated confidence: forecasts of success compared with outcomes.

Intervals are over clusters of tasks; the error by chance assumes independent forecasts.

Brier score and bins equal `sklearn.metrics.brier_score_loss` and `sklearn.calibration.calibration_curve`, as tests
check. They are computed here because every summary of a run needs them, and importing `sklearn.metrics` takes 1.7 s.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from reflexion_lab.analysis.stats.bootstrap import MIN_TASKS, generator, rate
from reflexion_lab.analysis.stats.intervals import LEVEL, RESAMPLES, Estimate, Rate, resampled
from reflexion_lab.errors import ConfigError
from reflexion_lab.io.arrays import np
from reflexion_lab.records import Record

EDGES = tuple(i / 10 for i in range(11))
"""Edges of the bins."""


class Forecast(NamedTuple):
    """A stated probability of success, and the outcome."""

    task_id: str
    confidence: float
    """In [0, 1]."""
    came_true: bool
    cluster: str = ""
    """Cluster of the task; "" for a task that stands alone."""


class Bin(Record, frozen=True, kw_only=True):
    """Forecasts in (low, high]; the lowest bin includes 0."""

    low: float
    high: float
    confidence: float
    """Mean forecast."""
    came_true: Rate


class Calibration(Record, frozen=True, kw_only=True):
    """Forecasts compared with outcomes."""

    n: int
    tasks: int
    came_true: Rate
    confidence: float
    """Mean forecast; overconfident if above `came_true`."""
    brier: Estimate
    """Mean of (forecast - outcome)², in [0, 1], lower is better (Brier 1950, Monthly Weather Review 78:1-3)."""
    uncertainty: float
    """s (1 - s) for the share s that came true: the Brier score of always forecasting s."""
    error: float
    """Expected calibration error: mean distance of a bin's forecasts from its outcomes, in [0, 1] (Naeini et al. 2015,
    AAAI 29). Biased upwards for small n; compare with `error_by_chance`."""
    error_by_chance: float
    """95 % quantile of `error` for a perfectly calibrated forecaster with the same forecasts (consistency resampling:
    Bröcker and Smith 2007, Weather and Forecasting 22:651-661)."""
    bins: tuple[Bin, ...]
    """Ten of equal width, lowest first, without empty ones."""


def calibration(forecasts: Sequence[Forecast], *, seed: int = 0) -> Calibration:
    """Calibration of `forecasts`.

    Raises ConfigError: no forecast, or one outside [0, 1]. `seed`: of bootstrap and error by chance.
    """
    bins = _bins(forecasts)
    came_true = _came_true(forecasts)
    n, share = came_true.n, came_true.share
    return Calibration(
        n=n,
        tasks=len({forecast.task_id for forecast in forecasts}),
        came_true=came_true,
        confidence=sum(forecast.confidence for forecast in forecasts) / n,
        brier=_brier(forecasts, seed),
        uncertainty=share * (1 - share),
        error=sum(group.came_true.n * abs(group.confidence - group.came_true.share) for group in bins) / n,
        error_by_chance=_by_chance(forecasts, seed),
        bins=bins,
    )


def _came_true(forecasts: Sequence[Forecast]) -> Rate:
    clusters = {forecast.task_id: forecast.cluster for forecast in forecasts if forecast.cluster}
    return rate(((forecast.task_id, forecast.came_true) for forecast in forecasts), clusters)


def _place(confidence: float) -> int:
    """Index of the bin of a forecast."""
    return bisect_left(EDGES[1:-1], confidence)


def _bins(forecasts: Sequence[Forecast]) -> tuple[Bin, ...]:
    """Raises ConfigError."""
    if not forecasts:
        raise ConfigError("forecasts", "none", "at least one")
    by_place: dict[int, list[Forecast]] = {}
    for forecast in forecasts:
        if not 0 <= forecast.confidence <= 1:
            raise ConfigError(f"confidence at {forecast.task_id}", forecast.confidence, "a number in [0, 1]")
        by_place.setdefault(_place(forecast.confidence), []).append(forecast)
    return tuple(
        Bin(
            low=EDGES[place],
            high=EDGES[place + 1],
            confidence=sum(forecast.confidence for forecast in members) / len(members),
            came_true=_came_true(members),
        )
        for place, members in sorted(by_place.items())
    )


def _brier(forecasts: Sequence[Forecast], seed: int) -> Estimate:
    """Brier score with a percentile interval over tasks (Efron and Tibshirani 1993, ch. 13).

    With fewer than `MIN_TASKS` tasks, or with equal outcomes, the interval also includes the scores expected if the
    share that came true were an end of its interval, independently of the forecasts.
    """
    squares: dict[str, list[float]] = {}
    for forecast in forecasts:
        cluster = forecast.cluster or forecast.task_id
        squares.setdefault(cluster, []).append((forecast.confidence - forecast.came_true) ** 2)
    sums, counts = (np.array([float(of(values)) for values in squares.values()]) for of in (sum, len))
    drawn_sums, drawn_counts = resampled([sums, counts], f"{seed}:calibration")
    low, high = np.quantile(drawn_sums / drawn_counts, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    value = float(sums.sum() / counts.sum())
    ends = [float(low), float(high), value]
    came_true = _came_true(forecasts)
    if len(squares) < MIN_TASKS or came_true.share in (0, 1):
        failed, passed = (sum((each.confidence - came) ** 2 for each in forecasts) / len(forecasts) for came in (0, 1))
        ends += [failed + end * (passed - failed) for end in (came_true.low, came_true.high)]
    return Estimate(value=value, low=min(ends), high=max(ends))


def _by_chance(forecasts: Sequence[Forecast], seed: int) -> float:
    """Quantile `LEVEL` of the calibration error if every forecast were its true probability."""
    values, counts = np.unique([forecast.confidence for forecast in forecasts], return_counts=True)
    rng = generator(seed, "calibration chance")
    surplus = rng.binomial(counts, values, size=(RESAMPLES, len(values))) - counts * values
    places = np.array([_place(value) for value in values])
    errors = sum(np.abs(surplus[:, places == place].sum(axis=1)) for place in np.unique(places))
    return float(np.quantile(np.asarray(errors) / counts.sum(), LEVEL))
