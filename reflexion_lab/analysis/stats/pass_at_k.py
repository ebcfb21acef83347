"""pass@k: the chance that at least one of k draws passes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from reflexion_lab.analysis.stats.bootstrap import DRAWS, interval
from reflexion_lab.analysis.stats.intervals import Estimate
from reflexion_lab.errors import ConfigError


def pass_at_k(n: int, c: int, k: int) -> float:
    """Unbiased, of one task: 1 - C(n - c, k) / C(n, k) (Chen et al. 2021, arXiv 2107.03374, equation 1).

    The draws must be independent and alike: the attempts of a Reflexion loop are neither.

    Parameters
    ----------
    n : int
        Draws made. c: those that passed. k: at most n.

    Raises
    ------
    ConfigError
        Not 0 <= c <= n, or not 1 <= k <= n.
    """
    if not 0 <= c <= n:
        raise ConfigError("c", f"{c} of n = {n}", "0 <= c <= n")
    if not 1 <= k <= n:
        raise ConfigError("k", f"{k} of n = {n}", "1 <= k <= n", "k draws cannot be judged by fewer")
    return 1 - math.comb(n - c, k) / math.comb(n, k)


def mean_pass_at_k(samples: Sequence[tuple[int, int]], k: int, seed: int = 0, draws: int = DRAWS) -> Estimate:
    """The mean over tasks, its interval over tasks; see `bootstrap.interval`.

    Parameters
    ----------
    samples : Sequence[tuple[int, int]]
        (n, c) of each task.

    Raises
    ------
    ConfigError
        No task, or as `pass_at_k`.
    """
    return interval([[pass_at_k(n, c, k)] for n, c in samples] or [[math.nan]], seed, draws)
