"""Coverage and mean width of the interval of a paired difference, simulated: every line a design.

    python bench/coverage.py [--runs 2000] [--worst] [--agree]

Tasks are clusters: their rates are Beta, an effect is added on the logit, four fifths of the cases share their draw
with the baseline. Beside ours (`stats.bootstrap.difference`): a plain t over tasks, and with one seed Newcombe's method
10 (1998, Statistics in Medicine 17:2635-2650). `--worst` prints one line a number of tasks and seeds: the least
coverage over all rates and effects, the mean width, and with one seed our greatest width beside Newcombe's. With
`--agree` all seeds of a task draw alike, as at temperature 0.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from itertools import groupby, product
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit, stdtrit

from reflexion_lab.analysis.stats.bootstrap import difference
from reflexion_lab.analysis.stats.intervals import wilson

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
    options = parser.parse_args()
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


def plain_t(first: np.ndarray, second: np.ndarray) -> Ends:
    means = (second - first).mean(axis=1)
    half = stdtrit(len(means) - 1, 0.975) * means.std(ddof=1) / math.sqrt(len(means))
    return means.mean() - half, means.mean() + half


def newcombe(first: np.ndarray, second: np.ndarray) -> Ends:
    n, passes1, passes2 = len(first), int(first.sum()), int(second.sum())
    both = int((first * second).sum())
    (low1, high1), (low2, high2) = wilson(passes1, n), wilson(passes2, n)
    excess = both * (n - passes1 - passes2 + both) - (passes1 - both) * (passes2 - both)
    margins = passes1 * (n - passes1) * passes2 * (n - passes2)
    phi = (max(0.0, excess - n / 2) if excess > 0 else excess) / math.sqrt(margins) if margins else 0.0
    down1, up1, down2, up2 = passes1 / n - low1, high1 - passes1 / n, passes2 / n - low2, high2 - passes2 / n
    low = math.sqrt(max(0.0, down2**2 - 2 * phi * down2 * up1 + up1**2))
    high = math.sqrt(max(0.0, up2**2 - 2 * phi * up2 * down1 + down1**2))
    return (passes2 - passes1) / n - low, (passes2 - passes1) / n + high


METHODS: dict[str, Callable[[np.ndarray, np.ndarray], Ends]] = {"ours": ours, "plain t": plain_t, "Newcombe": newcombe}


def described(line: Line) -> str:
    figures = " | ".join(f"{name} {100 * share:5.1f} % {width:.3f}" for name, (share, width) in line.methods.items())
    return f"{line.tasks:4d} {line.seeds} {line.rate:4.2f} {line.effect:4.2f} {line.truth:+.3f} | {figures}"


def summaries(lines: Iterator[Line]) -> Iterator[str]:
    """A table in Markdown."""
    yield "| tasks | seeds | least coverage, % | plain t | Newcombe | mean width | at most beside Newcombe |"
    yield "|---|---|---|---|---|---|---|"
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
