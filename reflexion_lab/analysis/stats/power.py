"""What a paired comparison can find at all: before it runs, and beside its result."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from reflexion_lab.errors import ConfigError

if TYPE_CHECKING:
    from numpy import int64
    from numpy.typing import NDArray

ALPHA = 0.05
POWER = 0.8
CLOSE = 1e-6
"""Differences nearer to each other than this are one."""


def needed(discordant: int, alpha: float = ALPHA) -> tuple[int, int] | None:
    """The least one-sided split, (wins, losses), of so many discordant pairs that exact McNemar calls significant.

    None where even all against none is not: of 5 pairs or fewer, at the level of 0.05.

    Raises
    ------
    ConfigError
        A negative count, or a level outside (0, 1).
    """
    _check(alpha, "alpha")
    if discordant < 0:
        raise ConfigError("discordant", discordant, "0 or more")
    losses = int(_most_losses(discordant, alpha)[discordant])
    return (discordant - losses, losses) if losses >= 0 else None


def minimum_detectable(n: int, discordant: float, power: float = POWER, alpha: float = ALPHA) -> float | None:
    """The least true difference of two paired shares that exact McNemar finds with chance `power`, in (0, 1].

    Unconditional and exact (Duffy 1984, Statistics in Medicine 3:371-382): the number D of discordant pairs is
    binomial(n, discordant); of D pairs the better side wins binomial(D, (1 + difference / discordant) / 2); the power
    is the chance that this splits D as `needed` says, or further, to the right side. Solved for the difference by
    bisection.

    Parameters
    ----------
    n : int
        Tasks, each with one pair. With several seeds a task, n stays the number of tasks: what is found is then an
        upper bound.
    discordant : float
        The share of tasks on which the sides differ, in (0, 1]; from a probe, or from earlier runs.

    Returns
    -------
    float | None
        None where no difference can be found so often: the discordant pairs are too few even if one side wins them all.

    Raises
    ------
    ConfigError
        N below 1; a share, power or level out of range.
    """
    _check(power, "power")
    _check(alpha, "alpha")
    if n < 1:
        raise ConfigError("n", n, "1 task or more")
    if not 0 < discordant <= 1:
        raise ConfigError("discordant", discordant, "a share in (0, 1]")
    low, high = 0.0, discordant
    if power_of(n, discordant, high, alpha) < power:
        return None
    while high - low > CLOSE:
        middle = (low + high) / 2
        low, high = (low, middle) if power_of(n, discordant, middle, alpha) >= power else (middle, high)
    return high


def power_of(n: int, discordant: float, difference: float, alpha: float = ALPHA) -> float:
    """The chance that exact McNemar finds a true `difference`, to its right side; see `minimum_detectable`.

    Raises
    ------
    ConfigError
        A difference beyond the discordant share.
    """
    import numpy as np
    from scipy.special import bdtr, gammaln, xlog1py, xlogy

    if not 0 <= difference <= discordant:
        raise ConfigError("difference", difference, f"one in [0, {discordant}], the discordant share")
    pairs = np.arange(n + 1)
    logs = gammaln(n + 1) - gammaln(pairs + 1) - gammaln(n - pairs + 1)
    chances = np.exp(logs + xlogy(pairs, discordant) + xlog1py(n - pairs, -discordant))
    losses = _most_losses(n, alpha)
    is_significant = losses >= 0
    wins = bdtr(losses[is_significant].astype(float), pairs[is_significant], (1 - difference / discordant) / 2)
    return float((chances[is_significant] * wins).sum())


@functools.lru_cache(maxsize=8)
def _most_losses(most: int, alpha: float) -> NDArray[int64]:
    """For 0 to `most` discordant pairs, the most losses with which the rest is still significant; -1 for none."""
    import numpy as np
    from scipy.special import bdtr

    most_losses, losses = [], -1
    for pairs in range(most + 1):
        # one more pair never takes a loss away, and never allows two more; p as in `intervals.mcnemar`, in floats
        if 2 * (losses + 1) < pairs and 2 * bdtr(losses + 1, pairs, 0.5) <= alpha * (1 + CLOSE**2):
            losses += 1
        most_losses.append(losses)
    return np.array(most_losses)


def _check(value: float, name: str) -> None:
    if not 0 < value < 1:
        raise ConfigError(name, value, "a number in (0, 1)")
