"""A sequential test by betting: one may stop after any case, and its error rate still holds."""

from __future__ import annotations

from reflexion_lab.io.arrays import ArrayLike, Booleans, Floats, np

ALPHA = 0.05
BETS = 20
"""Bets that the wealth is spread over. With more of them it changes by less than 1 % at 10 pairs."""


def wealth(differences: ArrayLike) -> Floats:
    """Wealth after each case, from 1, of bets that the mean of `differences` in [-1, 1] is above 0; the last axis.

    Spread evenly over shares b in (0, 1), each grows by 1 + b * difference (diversified Kelly betting, Waudby-Smith and
    Ramdas 2024, JRSS B 86:1-27). If the mean of each next difference, given those before, is 0 or less, the chance that
    it ever reaches 1 / alpha is alpha at most (Ville's inequality).
    """
    steps = np.asarray(differences, dtype=float)
    shares = (np.arange(BETS) + 0.5) / BETS
    return np.asarray(sum(np.cumprod(1 + share * steps, axis=-1) for share in shares) / BETS)


def is_above_zero(differences: ArrayLike, alpha: float = ALPHA) -> np.bool_ | Booleans:
    """Whether the wealth has reached 1 / `alpha` after any case: the mean difference is above 0."""
    return (wealth(differences) >= 1 / alpha).any(axis=-1)


def fewest(alpha: float = ALPHA) -> int:
    """Fewest cases that can show it, all of them won."""
    n = 1
    while not is_above_zero([1.0] * n, alpha):
        n += 1
    return n
