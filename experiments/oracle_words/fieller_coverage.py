"""`python -m experiments.oracle_words.fieller_coverage [STUDIES]`: simulated coverage of the ratio of two effects.

A baseline of rates 15 or 50 %, a ceiling whose effect on the logit is 1.6, and an arm of 0, 0.4 or 0.8. Fieller's set
stands beside the percentile bootstrap over tasks, both where the interval of the ceiling's effect lies above 0.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
from scipy.special import expit, logit

from experiments.oracle_words.fieller import ratio
from reflexion_lab.analysis.stats.intervals import resampled

TASKS, SEEDS, RATES, EFFECTS, CEILING = (40, 60, 100, 138), (1, 3), (0.15, 0.5), (0.0, 0.4, 0.8), 1.6
SHARED = 0.8
"""Share of cases that draw as the baseline did."""


def table(runs: int) -> Iterator[str]:
    """A table in Markdown: coverage of the ratio of two effects, its least and greatest over rates and effects."""
    rng = np.random.default_rng(20261126)
    yield "| tasks | seeds | Fieller, % | percentile bootstrap, % | undefined, % |"
    yield "|---|---|---|---|---|"
    for tasks, seeds in product(TASKS, SEEDS):
        figures = [_of_ratio(rng, tasks, seeds, *how, runs) for how in product(RATES, EFFECTS)]
        by_fieller, by_bootstrap, undefined = (
            f"{100 * min(of_method):.1f} to {100 * max(of_method):.1f}" for of_method in zip(*figures, strict=True)
        )
        yield f"| {tasks} | {seeds} | {by_fieller} | {by_bootstrap} | {undefined} |"


def _of_ratio(
    rng: np.random.Generator, tasks: int, seeds: int, rate: float, effect: float, runs: int
) -> tuple[float, float, float]:
    """Coverage of Fieller's set and of the bootstrap where the ratio is defined, and the share where it is not."""

    def drawn(tasks: int) -> tuple[np.ndarray, np.ndarray, float]:
        before = rng.beta(rate, 1 - rate, (tasks, 1)).clip(1e-9, 1 - 1e-9)
        after = [expit(logit(before) + size) for size in (effect, CEILING)]
        luck = rng.random((tasks, seeds))
        base, shares = luck < before, []
        for chance in after:
            other = np.where(rng.random((tasks, seeds)) < SHARED, luck, rng.random((tasks, seeds)))
            shares.append((other < chance).astype(float) - base)
        gains = [float((chance - before).mean()) for chance in after]
        return shares[0], shares[1], gains[0] / gains[1]

    truth, ratios, percentiles = float(np.mean([drawn(100_000)[2] for _ in range(10)])), [], []
    for _ in range(runs):
        arm, ceiling, _ = drawn(tasks)
        share = ratio(arm, ceiling)
        if share is not None and ceiling.mean() > 0:
            ratios.append((share.low, share.high))
            sums = resampled([arm.mean(axis=1), ceiling.mean(axis=1)], "fieller")
            with np.errstate(invalid="ignore", divide="ignore"):
                percentiles.append(tuple(np.nanquantile(sums[0] / sums[1], [0.025, 0.975])))
    return _share(ratios, truth), _share(percentiles, truth), 1 - len(ratios) / runs


def _share(ends: Sequence[tuple[float, float]], truth: float) -> float:
    return sum(low <= truth <= high for low, high in ends) / len(ends)


if __name__ == "__main__":
    for line in table(int(sys.argv[1]) if sys.argv[1:] else 2000):
        print(line, flush=True)
