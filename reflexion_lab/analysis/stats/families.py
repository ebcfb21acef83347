"""Several tests at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from reflexion_lab.errors import ConfigError


def holm(p_values: Sequence[float]) -> list[float]:
    """P values adjusted for their family, in the order given: each may be held against the level of a single test.

    Holm 1979 (Scandinavian Journal of Statistics 6:65-70): the i-th smallest of m is multiplied by m - i + 1, and none
    may fall below a smaller one. The chance of any false finding in the family stays below the level, however the tests
    depend on each other.

    Raises
    ------
    ConfigError
        A value outside [0, 1].
    """
    if odd := [p for p in p_values if not 0 <= p <= 1]:
        raise ConfigError("p_values", odd[0], "numbers in [0, 1]")
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    grown = [min(1.0, (len(order) - i) * p_values[place]) for i, place in enumerate(order)]
    by_place = dict(zip(order, accumulate(grown, max), strict=True))
    return [by_place[place] for place in range(len(order))]
