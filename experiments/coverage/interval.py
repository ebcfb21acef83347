"""Coverage and mean width of the interval of a paired difference, simulated: every line a design.

    python experiments/coverage/interval.py [--runs 2000] [--worst] [--agree]
    python experiments/coverage/interval.py --shift 0.06 | --per-cluster [--runs 1000]
    python experiments/coverage/interval.py --equivalence | --shares [--runs 2000] [--check]

Tasks are clusters: their rates are Beta, an effect is added on the logit, four fifths of the cases share their draw
with the baseline. Beside ours (`stats.bootstrap.difference`): a plain t over tasks, and with one seed Newcombe's method
10 (1998, Statistics in Medicine 17:2635-2650). `--worst` prints one line a number of tasks and seeds: the least
coverage over all rates and effects, the mean width, and with one seed our greatest width beside Newcombe's. With
`--agree` all seeds of a task draw alike, as at temperature 0. `--shift` is another simulation: each seed adds to an
arm's rates on all tasks, normal with this standard deviation, and the truth is the mean over seeds;
`stats.seeds.widened` stands beside the interval at the seeds of the runs. `--per-cluster` has 1 to 4 tasks a cluster,
which share their rates and an effect of their own (standard deviation 1 on the logit), and compares ours by cluster
with ours by task, one line a number of clusters, tasks a cluster and seeds.

`--shares` is of the interval of one share: clusters of 5 cases each, or of 1, 1, 2, 3, 5 and 8 in turn, or of single
cases, where it is Wilson's; the rates of clusters are Beta with an intraclass correlation. With `--check` the lines
are compared with README.md beside this file.

`--equivalence` enumerates all tables of one seed, and prints the probability of equivalence at a true difference of the
margin: the greatest over margins of 2 to 30 points and all discordances.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from itertools import groupby, product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import expit, gammaln, logit, stdtrit, xlogy

from reflexion_lab.analysis.stats.bootstrap import difference, interval
from reflexion_lab.analysis.stats.intervals import EQUIVALENCE, over_tasks, score_limit, wilson
from reflexion_lab.analysis.stats.seeds import widened

TASKS, SEEDS, RATES, EFFECTS = (20, 40, 60, 100, 164, 400), (1, 3, 5), (0.05, 0.15, 0.5, 0.9, 0.95), (0.0, 0.15, 0.8)
CLUSTERS, PER_CLUSTER, SPREAD = (60, 138), (1, 2, 3, 4), 1.0
SHARED = 0.8
SHARE_CLUSTERS, SHARE_RATES, AGREEMENTS = (
    (6, 8, 9, 10, 12, 20, 50, 200),
    (0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98),
    (0.1, 0.5, 0.9),
)
EQUIVALENCE_TASKS = (30, 40, 60, 100, 164)
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
    parser.add_argument("--shift", type=float, help="an arm's standard deviation between seeds, such as 0.06")
    parser.add_argument("--per-cluster", action="store_true", help="1 to 4 tasks a cluster, by cluster and by task")
    parser.add_argument("--shares", action="store_true", help="the interval of one share")
    parser.add_argument("--check", action="store_true", help="with --shares: exit code 1 if a line is not in README.md")
    parser.add_argument("--equivalence", action="store_true", help="the error of equivalence at the margin, exactly")
    options = parser.parse_args()
    published = (Path(__file__).parent / "README.md").read_text(encoding="utf-8").splitlines()
    for row in rows(options):
        print(row, flush=True)
        if options.check and row not in published:
            parser.exit(1, "that line is not in README.md\n")


def rows(options: argparse.Namespace) -> Iterator[str]:
    if options.per_cluster:
        return by_cluster_size(options.runs)
    if options.shift is not None:
        return over_seeds(options.runs, options.shift)
    if options.shares:
        return of_shares(options.runs)
    if options.equivalence:
        return errors_at_the_margin()
    lines = designs(options.runs, options.agree)
    return summaries(lines) if options.worst else map(described, lines)


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


def by_cluster_size(runs: int) -> Iterator[str]:
    """A table in Markdown: least coverage and mean width over rates and effects."""
    rng = np.random.default_rng(20261125)
    yield "| clusters | tasks in each | seeds | coverage by cluster, % | by task, % | mean width by cluster | by task |"
    yield "|---|---|---|---|---|---|---|"
    for clusters, size, seeds in product(CLUSTERS, PER_CLUSTER, SEEDS[:2]):
        figures = [_of_clusters(rng, clusters, size, seeds, *how, runs) for how in product(RATES[1:4], EFFECTS[::2])]
        (least, width), (least_by_task, width_by_task) = (
            (min(coverage for coverage, _ in of_method), np.mean([wide for _, wide in of_method]))
            for of_method in zip(*figures, strict=True)
        )
        coverages = f"{100 * least:.1f} | {100 * least_by_task:.1f}"
        yield f"| {clusters} | {size} | {seeds} | {coverages} | {width:.3f} | {width_by_task:.3f} |"


def _of_clusters(
    rng: np.random.Generator, clusters: int, size: int, seeds: int, rate: float, effect: float, runs: int
) -> list[tuple[float, float]]:
    """Coverage and mean width of ours by cluster and by task."""

    def drawn(clusters: int) -> Draw:
        before = rng.beta(rate, 1 - rate, (clusters, 1, 1)).clip(1e-9, 1 - 1e-9)
        after = expit(logit(before) + effect + SPREAD * rng.standard_normal((clusters, 1, 1)))
        luck, is_shared, fresh = (rng.random((clusters, size, seeds)) for _ in range(3))
        other = np.where(is_shared < SHARED, luck, fresh)
        return (luck < before).astype(float), (other < after).astype(float), float((after - before).mean())

    truth = float(np.mean([drawn(20_000)[2] for _ in range(50)]))
    studies = [drawn(clusters)[:2] for _ in range(runs)]
    shapes = (clusters, size * seeds), (clusters * size, seeds)
    return [
        quality([ours(first.reshape(shape), second.reshape(shape)) for first, second in studies], truth)
        for shape in shapes
    ]


def quality(pairs: list[Ends], truth: float) -> tuple[float, float]:
    low, high = np.array(pairs).T
    return float(((low <= truth) & (truth <= high)).mean()), float((high - low).mean())


def ours(first: np.ndarray, second: np.ndarray) -> Ends:
    estimate = difference(first, second)
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


def of_shares(runs: int) -> Iterator[str]:
    """A table in Markdown: coverage and mean width, over all intraclass correlations; of Wilson without clusters."""
    rng = np.random.default_rng(20261127)
    yield "| clusters | rate | least, % | of 5 cases, % | width | unequal, % | width | single, % | width |"
    yield "|---" * 9 + "|"
    for clusters, rate in product(SHARE_CLUSTERS, SHARE_RATES):
        equal, unequal = (
            [_of_share(rng, np.resize(sizes, clusters), rate, agree, runs) for agree in AGREEMENTS]
            for sizes in ((5,), (1, 1, 2, 3, 5, 8))
        )
        single = _of_share(rng, np.ones(clusters, int), rate, 0, runs)
        least = min(coverage for coverage, _ in (*equal, *unequal))
        means = [np.mean(of_design, axis=0) for of_design in (equal, unequal, [single])]
        figures = " | ".join(f"{100 * coverage:.1f} | {width:.3f}" for coverage, width in means)
        yield f"| {clusters} | {rate} | {100 * least:.1f} | {figures} |"


def _of_share(rng: np.random.Generator, sizes: np.ndarray, rate: float, agree: float, runs: int) -> tuple[float, float]:
    """Coverage and mean width with this intraclass correlation of the cases of a cluster."""
    spread = (1 - agree) / agree if agree else 0.0
    drawn = (runs, len(sizes))
    rates = rng.beta(rate * spread, (1 - rate) * spread, drawn) if agree else np.full(drawn, rate)
    ends = []
    for passed in rng.binomial(sizes, rates):
        cases = np.where(np.arange(sizes.max()) < sizes[:, None], np.arange(sizes.max()) < passed[:, None], np.nan)
        estimate = interval(cases)
        ends.append((estimate.low, estimate.high))
    return quality(ends, rate)


def errors_at_the_margin() -> Iterator[str]:
    """A table in Markdown: the probability that a true difference at the margin is called equivalent."""
    yield "| tasks | interval alone, % | with the score test, % |"
    yield "|---|---|---|"
    for tasks in EQUIVALENCE_TASKS:
        won, lost = np.array([(w, c) for w in range(tasks + 1) for c in range(tasks + 1 - w)]).T
        ends = [over_tasks([1.0] * w + [-1.0] * c + [0.0] * (tasks - w - c), level=EQUIVALENCE)
                for w, c in zip(won.tolist(), lost.tolist(), strict=True)]  # fmt: skip
        sizes = np.abs(ends).max(axis=1)
        limits = np.maximum(sizes, [score_limit(abs(low + high) / 2, tasks) for low, high in ends])
        alone, both = (max(_errors(size, won, lost, tasks)) for size in (sizes, limits))
        yield f"| {tasks} | {100 * alone:.1f} | {100 * both:.1f} |"


def _errors(sizes: np.ndarray, won: np.ndarray, lost: np.ndarray, tasks: int) -> Iterator[float]:
    ways = gammaln(tasks + 1) - gammaln(won + 1) - gammaln(lost + 1) - gammaln(tasks - won - lost + 1)
    for margin in np.arange(0.02, 0.3001, 0.005):
        is_equivalent = sizes < margin
        for discordance in np.linspace(margin, 1, 20):
            chances = (discordance + margin) / 2, (discordance - margin) / 2, 1 - discordance
            counts = won, lost, tasks - won - lost
            yield float(
                np.exp(ways + sum(xlogy(n, p) for n, p in zip(counts, chances, strict=True)))[is_equivalent].sum()
            )


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
