"""Coverage and mean width of a gain over a baseline, with and without the baseline's own noise.

    python experiments/coverage/baseline.py [--studies 4000] [--check]

Both arms have the same tasks and draws of their own. A task's rate without memory is Beta with mean 0.5 and an
intraclass correlation; memory makes a share of tasks certain, so that the mean gain is the planted one. The baseline
ran once, the memory arm once or five times. Three intervals: that of the memory arm less the baseline's observed rate,
as if that were a known number (Wilson's of one run, a t interval over five); Newcombe's for independent samples
(`stats.intervals.unpaired_difference`), with the noise of both; and ours, paired by task
(`stats.bootstrap.difference`). With `--check` the lines are compared with README.md beside this file.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np

from reflexion_lab.analysis.stats.bootstrap import difference, interval
from reflexion_lab.analysis.stats.intervals import t_quantile, unpaired_difference

TASKS, RUNS, AGREEMENTS, GAINS = (50, 164, 500), (1, 5), (0.1, 0.5, 0.9), (0.0, 0.05, 0.1)
RATE = 0.5
Ends = tuple[float, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=4000, help="simulated studies a design (4000)")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a line is not in README.md")
    options = parser.parse_args()
    published = (Path(__file__).parent / "README.md").read_text(encoding="utf-8").splitlines()
    for row in rows(options.studies):
        print(row, flush=True)
        if options.check and row not in published:
            parser.exit(1, "that line is not in README.md\n")


def rows(studies: int) -> Iterator[str]:
    """A table in Markdown: coverage at each planted gain and mean width over gains, by method."""
    rng = np.random.default_rng(20261128)
    yield "| runs | tasks | correlation | known baseline, % | width | unpaired, % | width | paired, % | width |"
    yield "|---" * 9 + "|"
    for repeats, tasks, agreement in product(RUNS, TASKS, AGREEMENTS):
        held = np.array([of_design(rng, tasks, repeats, agreement, gain, studies) for gain in GAINS])
        cells = (
            f"{' / '.join(f'{100 * share:.1f}' for share in held[:, at, 0])} | {held[:, at, 1].mean():.3f}"
            for at in range(held.shape[1])
        )
        yield f"| {repeats} | {tasks} | {agreement} | {' | '.join(cells)} |"


def of_design(
    rng: np.random.Generator, tasks: int, repeats: int, agreement: float, gain: float, studies: int
) -> list[tuple[float, float]]:
    """Coverage and mean width of each method."""
    ends = np.array([methods(*draw(rng, tasks, repeats, agreement, gain)) for _ in range(studies)])
    low, high = ends[..., 0], ends[..., 1]
    return list(zip(((low <= gain) & (gain <= high)).mean(axis=0), (high - low).mean(axis=0), strict=True))


def draw(
    rng: np.random.Generator, tasks: int, repeats: int, agreement: float, gain: float
) -> tuple[np.ndarray, np.ndarray]:
    """Verdicts of the baseline, shape (tasks, 1), and of the memory arm, shape (tasks, repeats)."""
    spread = (1 - agreement) / agreement
    without = rng.beta(RATE * spread, (1 - RATE) * spread, (tasks, 1))
    certain = rng.random((tasks, 1)) < gain / (1 - RATE)
    first = rng.random((tasks, 1)) < without
    second = rng.random((tasks, repeats)) < np.where(certain, 1.0, without)
    return first.astype(float), second.astype(float)


def methods(first: np.ndarray, second: np.ndarray) -> list[Ends]:
    baseline, memory = interval(first), interval(second)
    low, high = (memory.low, memory.high) if second.shape[1] == 1 else over_runs(second.mean(axis=0))
    both = ((share.value, share.low, share.high) for share in (memory, baseline))
    paired = difference(first, second.mean(axis=1, keepdims=True))
    known = low - baseline.value, high - baseline.value
    return [known, unpaired_difference(*both), (paired.low, paired.high)]


def over_runs(rates: np.ndarray) -> Ends:
    """Student's t interval of a mean over runs, which holds at these tasks."""
    half = t_quantile(len(rates) - 1) * rates.std(ddof=1) / math.sqrt(len(rates))
    return rates.mean() - half, rates.mean() + half


if __name__ == "__main__":
    main()
