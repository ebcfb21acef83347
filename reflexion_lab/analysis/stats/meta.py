"""A random-effects model over studies that compare the same two arms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from reflexion_lab.analysis.stats.intervals import Estimate, t_quantile
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Record

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

STEPS = 200
"""Bisections of the variance between studies."""


class Pooled(Record, frozen=True, kw_only=True):
    """Mean effect of a population of studies, and how far single ones lie from it."""

    estimate: Estimate
    """Mean effect over studies."""
    between: float
    """Standard deviation of true effects between studies."""
    prediction: tuple[float, float] | None
    """95 % prediction interval of the true effect in another study; None with fewer than three studies."""
    weights: tuple[float, ...]
    """Share of each study in the mean."""
    heterogeneity: float
    """I², the share of the variation between estimates that is not due to chance, in [0, 1]."""


def pooled(effects: Sequence[float], errors: Sequence[float]) -> Pooled:
    """Random effects: estimates are normal around the true effects of their studies, which are normal around the mean.

    The variance between studies is that of Paule and Mandel (1982, Journal of Research of the National Bureau of
    Standards 87:377-385). The interval of the mean is that of Hartung and Knapp (2001, Statistics in Medicine
    20:3875-3889) and Sidik and Jonkman (2002, Statistics in Medicine 21:3153-3159), Student's t with studies - 1
    degrees of freedom, with their factor not below 1 (Röver, Knapp and Friede 2015, BMC Medical Research Methodology
    15:99). The prediction interval is that of Higgins, Thompson and Spiegelhalter (2009, JRSS A 172:137-159) with
    studies - 2 degrees of freedom.

    Parameters
    ----------
    effects : Sequence[float]
        Differences of the studies, in [-1, 1]; at least two.
    errors : Sequence[float]
        Their standard errors, above 0.

    Raises
    ------
    ConfigError
        Fewer than two studies, different lengths, or a standard error that is not above 0.
    """
    import numpy as np

    values, variances = np.asarray(effects, float), np.asarray(errors, float) ** 2
    studies = len(values)
    if studies < 2 or values.shape != variances.shape:
        raise ConfigError("studies", f"{studies} effects, {len(variances)} errors", "one of each for two or more")
    if not (np.asarray(errors, float) > 0).all():
        raise ConfigError("errors", min(errors), "standard errors above 0")
    between = _paule_mandel(values, variances)
    weights = 1 / (variances + between)
    mean = float((weights * values).sum() / weights.sum())
    spread = float((weights * (values - mean) ** 2).sum() / (studies - 1))
    error = math.sqrt(max(1.0, spread) / weights.sum())
    half = t_quantile(studies - 1) * error
    fixed = 1 / variances
    q = float((fixed * (values - (fixed * values).sum() / fixed.sum()) ** 2).sum())
    reach = None
    if studies > 2:
        reach = t_quantile(studies - 2) * math.sqrt(between + error**2)
    return Pooled(
        estimate=Estimate.of(mean, mean - half, mean + half),
        between=math.sqrt(between),
        prediction=(mean - reach, mean + reach) if reach is not None else None,
        weights=tuple(float(weight) for weight in weights / weights.sum()),
        heterogeneity=max(0.0, 1 - (studies - 1) / q) if q > 0 else 0.0,
    )


def _paule_mandel(values: NDArray[float64], variances: NDArray[float64]) -> float:
    """Variance between studies at which the weighted sum of squares equals its expectation; 0 if it is below at 0."""

    def excess(between: float) -> float:
        weights = 1 / (variances + between)
        mean = (weights * values).sum() / weights.sum()
        return float((weights * (values - mean) ** 2).sum()) - (len(values) - 1)

    low, high = 0.0, float(((values - values.mean()) ** 2).sum())
    if excess(low) <= 0:
        return 0.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return (low + high) / 2
