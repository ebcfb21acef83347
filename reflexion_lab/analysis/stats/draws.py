"""Rows drawn with replacement, and the percentiles of what was drawn."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

from reflexion_lab.analysis.stats.intervals import LEVEL

if TYPE_CHECKING:
    from numpy import float64, int64
    from numpy.random import Generator
    from numpy.typing import NDArray

AT_ONCE = 2_000_000
"""Weights held in memory at a time."""
FEW_KINDS = 20
"""Rows of a kind, from which on numpy's multinomial is faster than drawing each row."""
NARROW = 64
"""Columns; wider rows are hardly ever equal, and slow to compare."""


def generator(seed: int, name: str) -> Generator:
    import numpy as np

    return np.random.default_rng(random.Random(f"{seed}:{name}").getrandbits(64))


def drawn(rows: NDArray[float64], rng: Generator, draws: int) -> NDArray[float64]:
    """Column sums over as many rows as there are, drawn with replacement; shape (draws, columns).

    Equal rows are drawn as one, by how often they come: the same in distribution, and cheap for many tasks.
    """
    import numpy as np

    kinds, often = rows, np.ones(len(rows), int)
    if rows.shape[1] <= NARROW:
        kinds, often = np.unique(rows, axis=0, return_counts=True)
    return np.concatenate([weighted(_weights(often, rng, size), kinds) for size in batches(draws, len(rows))])


def weighted(weights: NDArray[float64], rows: NDArray[float64]) -> NDArray[float64]:
    """`weights @ rows` by one thread: small products are slow where several threads wait for a busy machine."""
    import numpy as np

    return np.asarray(np.einsum("dr,cr->dc", weights, np.ascontiguousarray(rows.T)))


def _weights(often: NDArray[int64], rng: Generator, draws: int) -> NDArray[float64]:
    """How often each kind of row was drawn, shape (draws, kinds)."""
    import numpy as np

    kinds, rows = len(often), int(often.sum())
    if kinds * FEW_KINDS < rows:
        return rng.multinomial(rows, often / rows, size=draws).astype(float)
    kind_of = np.repeat(np.arange(kinds), often)
    chosen = kind_of[rng.integers(0, rows, size=(draws, rows))] + kinds * np.arange(draws)[:, None]
    return np.bincount(chosen.ravel(), minlength=draws * kinds).reshape(draws, kinds).astype(float)


def batches(draws: int, width: int) -> list[int]:
    """Sizes that add up to `draws`, each holding no more than `AT_ONCE` numbers at `width` a draw."""
    most = max(1, AT_ONCE // width)
    return [min(most, draws - start) for start in range(0, draws, most)]


def ends(estimates: NDArray[float64]) -> tuple[float, float]:
    """The drawn numbers between which `LEVEL` of them lies, rounded outwards; what is not a number says nothing."""
    import numpy as np

    order = np.sort(estimates[~np.isnan(estimates)])
    low, high = ((len(order) - 1) * (1 - LEVEL) / 2, (len(order) - 1) * (1 + LEVEL) / 2)
    return float(order[math.floor(low)]), float(order[math.ceil(high)])
