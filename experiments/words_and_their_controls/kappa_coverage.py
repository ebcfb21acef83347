"""Simulated coverage of the interval of Cohen's kappa: `python -m experiments.words_and_their_controls.kappa_coverage`.

Two raters of equal rates of yes, each item alone or two items of a cluster rated alike.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import product

import numpy as np

from experiments.words_and_their_controls.rating import cohen

YES, KAPPAS = (0.1, 0.2, 0.3, 0.4, 0.5), (0.0, 0.3, 0.6, 0.9)


def table(runs: int) -> Iterator[str]:
    """A table in Markdown: coverage of Cohen's kappa, its least and greatest over rates of yes and kappas."""
    rng = np.random.default_rng(20261127)
    yield "| ratings | a cluster | coverage, % |"
    yield "|---|---|---|"
    for ratings, size in product((20, 60), (1, 2)):
        shares = [coverage(rng, ratings, size, *how, runs) for how in product(YES, KAPPAS)]
        yield f"| {ratings} | {size} | {100 * min(shares):.1f} to {100 * max(shares):.1f} |"


def coverage(rng: np.random.Generator, ratings: int, size: int, rate: float, kappa: float, runs: int) -> float:
    odd = rate * (1 - rate) * (1 - kappa)
    chances = [rate - odd, odd, odd, 1 - rate - odd]
    tables = (True, True), (True, False), (False, True), (False, False)
    ends = []
    for _ in range(runs):
        pairs = [tables[place] for place in rng.choice(4, ratings // size, p=chances) for _ in range(size)]
        _, estimate = cohen(pairs, [place // size for place in range(len(pairs))])
        if estimate is not None:
            ends.append((estimate.low, estimate.high))
    return sum(low <= kappa <= high for low, high in ends) / len(ends)


if __name__ == "__main__":
    for line in table(int(sys.argv[1]) if sys.argv[1:] else 2000):
        print(line, flush=True)
