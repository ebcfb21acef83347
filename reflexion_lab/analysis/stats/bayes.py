"""A Bayesian paired comparison with tasks as clusters, beside the interval."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reflexion_lab.analysis.stats.bootstrap import ends, generator, linearised
from reflexion_lab.analysis.stats.intervals import DIGITS, Estimate, agreement
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Record

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

PRIOR = 2.0
"""Weight of the prior in tasks, half of it a discordant task for each side."""
DRAWS = 10_000
"""Posterior draws. An end of the interval is known to about 1 % of its width."""


class Posterior(Record, frozen=True, kw_only=True):
    """Posterior of a mean difference over tasks."""

    estimate: Estimate
    """Posterior mean and 95 % credible interval, in [-1, 1]."""
    greater: float
    """P(difference > 0): that the arm solves more than its baseline."""
    within: float | None
    """P(|difference| < margin); None without a margin."""


def posterior(differences: ArrayLike, margin: float | None = None, seed: int = 0, draws: int = DRAWS) -> Posterior:
    """Posterior of the mean difference of the population that the tasks are drawn from.

    Tasks are a sample from an unknown distribution with a Dirichlet process prior (Ferguson 1973, Annals of Statistics
    1:209-230): posterior draws give the tasks weights from a Dirichlet distribution, as the Bayesian bootstrap does
    (Rubin 1981, Annals of Statistics 9:130-134), and the prior's two atoms a share of `PRIOR` tasks. The atoms lie at
    plus and minus the scale of a discordant task (`intervals.agreement`), so that the posterior has a width where no
    task differs. All seeds of a task share its weight.

    Parameters
    ----------
    differences : ArrayLike
        Shape (tasks, seeds), values in [-1, 1]; NaN for a missing case.
    margin : float | None, optional
        In (0, 1].
    seed : int, default 0
    draws : int, default 10000

    Raises
    ------
    ConfigError
        No case, or fewer than one draw.
    """
    import numpy as np

    if draws < 1:
        raise ConfigError("draws", draws, "1 or more")
    _, linear = linearised(differences)
    scale = agreement(differences)
    kinds, counts = np.unique(linear.round(DIGITS), return_counts=True)  # equal tasks: one weight, the same posterior
    places = np.concatenate([kinds, [-scale, scale]])
    masses = np.concatenate([counts, [PRIOR / 2, PRIOR / 2]])
    weights = generator(seed, "posterior").standard_gamma(masses, (draws, len(masses)))
    means = np.clip((weights * places).sum(axis=1) / weights.sum(axis=1), -1, 1)
    low, high = ends(means)
    return Posterior(
        estimate=Estimate.of(float(means.mean()), low, high),
        greater=float((means > 0).mean()),
        within=float((np.abs(means) < margin).mean()) if margin else None,
    )
