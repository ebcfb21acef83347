"""Coverage and mean width of the interval of a paired difference, simulated: every line a design.

    python bench/coverage.py [--runs 2000] [--worst] [--agree] [--posterior] | --shift 0.06

Tasks are clusters: their rates are Beta, an effect is added on the logit, four fifths of the cases share their draw
with the baseline. Beside ours (`stats.bootstrap.difference`): a plain t over tasks, and with one seed Newcombe's method
10 (1998, Statistics in Medicine 17:2635-2650). `--worst` prints one line a number of tasks and seeds: the least
coverage over all rates and effects, the mean width, and with one seed our greatest width beside Newcombe's. With
`--agree` all seeds of a task draw alike, as at temperature 0. With `--posterior` the credible interval of
`stats.bayes.posterior` (1,000 draws) is printed, too. `--shift` is another simulation: each seed adds to an arm's rates
on all tasks, normal with this standard deviation, and the truth is the mean over seeds; `stats.seeds.widened` stands
beside the interval at the seeds of the runs.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from itertools import groupby, product
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit, stdtrit

from reflexion_lab.analysis.stats.bayes import posterior
from reflexion_lab.analysis.stats.bootstrap import difference
from reflexion_lab.analysis.stats.intervals import wilson
from reflexion_lab.analysis.stats.seeds import widened

TASKS, SEEDS, RATES, EFFECTS = (20, 40, 60, 100, 164, 400), (1, 3, 5), (0.05, 0.15, 0.5, 0.9, 0.95), (0.0, 0.15, 0.8)
SHARED = 0.8
Ends = tuple[float, float]


class Line(NamedTuple):
    """One design: of each method, coverage and mean width."""

    tasks: int
    seeds: int
    rate: float
    effect: float
    truth: float
    methods: dict[str, tuple[float, float]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2000, help="simulated studies a design (2000)")
    parser.add_argument("--worst", action="store_true", help="one line a number of tasks and seeds")
    parser.add_argument("--agree", action="store_true", help="all seeds of a task draw alike")
    parser.add_argument("--posterior", action="store_true", help="also the Bayesian comparison; ten times as long")
    parser.add_argument("--shift", type=float, help="an arm's standard deviation between seeds, such as 0.06")
    options = parser.parse_args()
    if options.posterior:
        METHODS["posterior"] = credible
    if options.shift is not None:
        for row in over_seeds(options.runs, options.shift):
            print(row, flush=True)
        return
    lines = designs(options.runs, options.agree)
    for row in summaries(lines) if options.worst else map(described, lines):
        print(row, flush=True)


def designs(runs: int, agree: bool = False) -> Iterator[Line]:
    rng = np.random.default_rng(20261124)
    for tasks, seeds, rate, effect in product(TASKS, SEEDS, RATES, EFFECTS):
        truth = float(np.mean([draw(rng, 100_000, 1, rate, effect)[2] for _ in range(10)]))
        ends: dict[str, list[Ends]] = {}
        for _ in range(runs):
            first, second, _ = draw(rng, tasks, seeds, rate, effect, agree)
            for name, method in METHODS.items():
                if seeds == 1 or name != "Newcombe":
                    ends.setdefault(name, []).append(method(first, second))
        yield Line(tasks, seeds, rate, effect, truth, {name: quality(pairs, truth) for name, pairs in ends.items()})


Draw = tuple[np.ndarray, np.ndarray, float]


def draw(rng: np.random.Generator, tasks: int, seeds: int, rate: float, effect: float, agree: bool = False) -> Draw:
    """Both sides' verdicts, shape (tasks, seeds), and the mean difference of their rates."""
    before = rng.beta(rate, 1 - rate, (tasks, 1)).clip(1e-9, 1 - 1e-9)
    after = expit(logit(before) + effect)
    luck, is_shared, fresh = (rng.random((tasks, 1 if agree else seeds)) for _ in range(3))
    luck, other = (np.tile(side, seeds if agree else 1) for side in (luck, np.where(is_shared < SHARED, luck, fresh)))
    return (luck < before).astype(float), (other < after).astype(float), float((after - before).mean())


def quality(pairs: list[Ends], truth: float) -> tuple[float, float]:
    low, high = np.array(pairs).T
    return float(((low <= truth) & (truth <= high)).mean()), float((high - low).mean())


def ours(first: np.ndarray, second: np.ndarray) -> Ends:
    estimate = difference(first, second)
    return estimate.low, estimate.high


def credible(first: np.ndarray, second: np.ndarray) -> Ends:
    estimate = posterior(second - first, draws=1000).estimate
    return estimate.low, estimate.high


def over_seeds(runs: int, shift: float) -> Iterator[str]:
    """A table in Markdown: coverage of the mean over tasks and seeds, and mean width."""
    rng = np.random.default_rng(20261125)
    yield "| tasks | rate | seeds | at these seeds, % | width | for other seeds, % | width |"
    yield "|---|---|---|---|---|---|---|"
    for tasks, rate in product((60, 164), (0.15, 0.5)):
        truth = float(np.mean([shifted(rng, 500, 20, rate, shift).mean() for _ in range(500)]))
        for seeds in (3, 5, 10):
            here, beyond = [], []
            for _ in range(runs):
                cases = shifted(rng, tasks, seeds, rate, shift)
                here.append(ours(np.maximum(-cases, 0), np.maximum(cases, 0)))
                beyond.append(widened(here[-1], cases))
            figures = (
                f"{100 * share:.1f} | {width:.3f}" for share, width in (quality(here, truth), quality(beyond, truth))
            )
            yield f"| {tasks} | {rate} | {seeds} | {' | '.join(figures)} |"


def shifted(rng: np.random.Generator, tasks: int, seeds: int, rate: float, shift: float) -> np.ndarray:
    """Differences of shape (tasks, seeds) to a baseline, as `draw`, with an effect of 0.4 and a shift of each seed."""
    before = rng.beta(2 * rate, 2 * (1 - rate), (tasks, 1)).clip(1e-9, 1 - 1e-9)
    after = expit(logit(before) + 0.4) + rng.normal(0, shift, seeds)
    luck, is_shared, fresh = (rng.random((tasks, seeds)) for _ in range(3))
    return (np.where(is_shared < SHARED, luck, fresh) < after).astype(float) - (luck < before)


def plain_t(first: np.ndarray, second: np.ndarray) -> Ends:
    means = (second - first).mean(axis=1)
    half = stdtrit(len(means) - 1, 0.975) * means.std(ddof=1) / math.sqrt(len(means))
    return means.mean() - half, means.mean() + half


def newcombe(first: np.ndarray, second: np.ndarray) -> Ends:
    n, one, other = len(first), int(first.sum()), int(second.sum())
    both = int((first * second).sum())
    (low1, high1), (low2, high2) = wilson(one, n), wilson(other, n)
    excess = both * (n - one - other + both) - (one - both) * (other - both)
    margins = one * (n - one) * other * (n - other)
    phi = (max(0.0, excess - n / 2) if excess > 0 else excess) / math.sqrt(margins) if margins else 0.0
    down1, up1, down2, up2 = one / n - low1, high1 - one / n, other / n - low2, high2 - other / n
    low = math.sqrt(max(0.0, down2**2 - 2 * phi * down2 * up1 + up1**2))
    high = math.sqrt(max(0.0, up2**2 - 2 * phi * up2 * down1 + down1**2))
    return (other - one) / n - low, (other - one) / n + high


METHODS: dict[str, Callable[[np.ndarray, np.ndarray], Ends]] = {"ours": ours, "plain t": plain_t, "Newcombe": newcombe}


def described(line: Line) -> str:
    figures = " | ".join(f"{name} {100 * share:5.1f} % {width:.3f}" for name, (share, width) in line.methods.items())
    return f"{line.tasks:4d} {line.seeds} {line.rate:4.2f} {line.effect:4.2f} {line.truth:+.3f} | {figures}"


def summaries(lines: Iterator[Line]) -> Iterator[str]:
    """A table in Markdown."""
    names = "".join(f" | {name}" for name in METHODS if name != "ours")
    yield f"| tasks | seeds | least coverage, %{names} | mean width | at most beside Newcombe |"
    yield "|---" * (len(METHODS) + 4) + "|"
    for (tasks, seeds), group in groupby(lines, key=lambda line: line[:2]):
        of_size = list(group)
        least = [
            f"{100 * min(line.methods[name][0] for line in of_size):.1f}" if name in of_size[0].methods else ""
            for name in METHODS
        ]
        width = np.mean([line.methods["ours"][1] for line in of_size])
        beside = f"{max(map(excess, of_size)):+.0%}" if seeds == 1 else ""
        yield f"| {tasks} | {seeds} | {' | '.join(least)} | {width:.3f} | {beside} |"


def excess(line: Line) -> float:
    """How much wider ours is than Newcombe's."""
    return line.methods["ours"][1] / line.methods["Newcombe"][1] - 1


if __name__ == "__main__":
    main()
