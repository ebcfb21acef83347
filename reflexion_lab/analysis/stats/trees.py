"""Repair trees: pass and tokens of n_p programs of a task with n_r repairs each, read from one frozen tree.

Olausson et al. (ICLR 2024, arXiv 2306.09896) draw 1000 subtrees from the tree of each task. Here is their expectation:
programs and repairs are drawn without replacement, so n_p programs all fail with the mean product of their weights w,
e(w) / C(N_p, n_p), where e is the elementary symmetric polynomial of degree n_p. It takes the draws of a task as
exchangeable, and the repairs of a program given the program and its reflection, which they share.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from msgspec.structs import replace

from reflexion_lab.analysis.stats.bootstrap import are_varied, ends, generator, resampled_sums
from reflexion_lab.analysis.stats.intervals import LEVEL, RESAMPLES, TOLERANCE, Estimate, of_clusters, over_tasks
from reflexion_lab.analysis.stats.permutation import pass_at_k
from reflexion_lab.errors import DataError
from reflexion_lab.io.arrays import Floats, np
from reflexion_lab.records import Record


class Program(NamedTuple):
    """A fresh draw of a tree with its hidden verdict, and those of its repairs with their tokens."""

    passed: bool
    is_repaired: bool
    """Whether it failed its feedback, so that the tree has repairs of it."""
    tokens: float
    reflection: float
    """Tokens of the reflection that its repairs share."""
    repairs: Sequence[tuple[bool, float]] = ()


def pass_at(tree: Sequence[Program], n_r: int) -> Floats:
    """P(a program or a repair passes its hidden tests) of 0, 1, ..., N_p programs with `n_r` repairs, by the size of a
    subtree. Without repairs it is pass@k. Raises DataError: a program that failed its feedback has fewer repairs.
    """
    products = np.eye(1, len(tree) + 1)[0]  # mean product over the subsets of each size of the programs so far
    for seen, program in enumerate(tree, 1):
        share = np.arange(1, len(tree) + 1) / seen  # of the subsets, those with this program
        products[1:] = (1 - share) * products[1:] + share * _weight(program, n_r) * products[:-1]
    return np.asarray(1 - products)


def _weight(program: Program, n_r: int) -> float:
    """P(the program and `n_r` of its repairs fail)."""
    if program.passed or not n_r or not program.is_repaired:
        return float(not program.passed)
    if (n := len(program.repairs)) < n_r:
        raise DataError("tree", f"a failed program with {n} repairs, as of a tree that was cut", f"{n_r} of each")
    return 1 - pass_at_k(n, sum(passed for passed, _ in program.repairs), n_r)


def tokens_of_program(tree: Sequence[Program], n_r: int) -> float:
    """Mean tokens of a program with its reflection and `n_r` repairs; n_p programs take n_p times as many. Without
    repairs there is no reflection: independent draws need none.
    """
    repairing = sum(each.reflection + n_r * fmean(t for _, t in each.repairs) for each in tree if each.repairs and n_r)
    return (sum(each.tokens for each in tree) + repairing) / len(tree)


def oracle_stop(tree: Sequence[Program]) -> tuple[bool, float]:
    """Whether any of a tree passes its hidden tests, and the tokens of a search that stops there: program by program,
    each with its repairs. An upper bound, computed afterwards: no loop may see these verdicts.
    """
    paid = 0.0
    for program in tree:
        for passed, tokens in ((program.passed, program.tokens), (False, program.reflection), *program.repairs):
            paid += tokens
            if passed:
                return True, paid
    return False, paid


class Spot(Record, frozen=True, kw_only=True):
    """`programs` draws with `repairs` of each that failed its feedback, and `draws` that take as many `tokens`."""

    programs: int
    repairs: int
    tokens: float
    draws: float
    pass_at_t: Estimate
    """Any of them passes its hidden tests, in [0, 1]."""
    drawn: Estimate | None = None
    """`pass_at_t` of `draws`; None beyond those of a tree, and without repairs."""
    difference: Estimate | None = None
    is_worth_it: bool = False
    """Whether the difference is above 0 by intervals that hold for all spots together."""
    price: float = 0.0
    """Draws that one repair costs, with its part of the reflection."""
    break_even: Estimate | None = None
    """Draws that one repair may cost to be worth it; infinite if all draws of a tree pass less often."""


class Curves(Record, frozen=True, kw_only=True):
    """pass@t over tokens, of 1 to N_p independent `draws` and of all sizes; tasks are resampled together."""

    draws: list[Spot]
    spots: list[Spot]
    headline: Spot
    """Of the spots within the tokens of all draws, that of most tokens; without any, the cheapest."""
    crossings: dict[int, tuple[Estimate | None, bool]]
    """By n_r, tokens beyond which one side is ahead up to the end, None if it always is; and whether it is repair."""


def curves(trees: Sequence[Sequence[Program]], clusters: Sequence[int], sizes: Sequence[int]) -> Curves:
    """The curve of independent draws, and every n_p with each n_r of `sizes`, compared at equal mean tokens.

    The curve of draws is linear between k and k + 1. Intervals of a pass: `intervals.of_clusters`, a tree with as many
    cases as programs. Of differences, prices and the crossing: percentiles of one bootstrap over clusters, or
    `intervals.over_tasks` where too few tasks differ (`bootstrap.are_varied`). `clusters`: index of each tree's cluster
    (`clusters.places`). Raises DataError: as of `pass_at`.
    """
    n_p = len(trees[0])
    parts = [[x for n_r in (0, *sizes) for x in (tokens_of_program(tree, n_r), *pass_at(tree, n_r))] for tree in trees]
    table = [(1, fmean(each.is_repaired for each in tree), *own) for tree, own in zip(trees, parts, strict=True)]
    rows = np.zeros((max(clusters) + 1, len(table[0])))
    np.add.at(rows, np.asarray(clusters), table)
    sums = np.vstack([rows.sum(axis=0), resampled_sums(rows, generator(0, "tasks"), RESAMPLES)])
    share, means = sums[:, 1:2] / sums[:, :1], sums[:, 2:] / sums[:, :1]
    # of each n_r, the tokens of a program, then the pass of 0, 1, ..., N_p
    by_size = dict(zip((0, *sizes), np.split(means, len(sizes) + 1, axis=1), strict=True))
    own = dict(zip(by_size, np.split(rows[:, 2:] / rows[:, :1], len(by_size), axis=1), strict=True))
    cost, drawn, cases, programs = means[:, :1], means[:, 1 : n_p + 2], rows[:, 0], np.arange(1, n_p + 1)
    spots, gaps = [], []  # a gap of 0 is none, or in doubt
    for n_r, curve in by_size.items():
        draws = programs * curve[:, :1] / cost
        base, n_repairs = _height(drawn, draws), programs * n_r * share
        gap, each = curve[:, 2:] - base, own[n_r][:, 2:] - _height(own[0][:, 1:], np.tile(draws[0], (len(cases), 1)))
        with np.errstate(divide="ignore", invalid="ignore"):
            price = (draws - programs) / n_repairs
            even = np.maximum(_reach(drawn, curve[:, 2:]) - programs, 0) / n_repairs
        for at, n in enumerate(map(int, programs)):
            ends_of = of_clusters(own[n_r][:, 1 + n] * cases * n_p, cases * n_p)
            passed, tokens = Estimate.of(float(curve[0, 1 + n]), *ends_of), float(n * curve[0, 0])
            spot = Spot(programs=n, repairs=n_r, tokens=tokens, draws=float(draws[0, at]), pass_at_t=passed)
            if n_r:
                spot = replace(spot, price=float(price[0, at]), break_even=_estimate(even[:, at]))
            gaps.append(np.zeros(len(gap)))
            if n_r and spot.draws <= n_p + TOLERANCE:
                difference = _estimate(gap[:, at])
                if are_varied(each[:, at]):
                    gaps[-1] = gap[:, at]
                else:  # a case has the same weight in a large cluster
                    linear = difference.value + (each[:, at] - difference.value) * cases / cases.mean()
                    difference = Estimate.of(difference.value, *over_tasks(linear))
                spot = replace(spot, drawn=_estimate(base[:, at]), difference=difference)
            spots.append(spot)
    # bounds that hold together: of the largest standardised deviation (Westfall and Young 1993)
    every = np.column_stack(gaps)
    errors = every[1:].std(axis=0) + TOLERANCE
    largest = (np.abs(every[1:] - every[0]) / errors).max(axis=1)
    worth = every[0] > np.quantile(largest, LEVEL) * errors
    repaired = [replace(spot, is_worth_it=bool(is_worth)) for spot, is_worth in zip(spots, worth, strict=True)][n_p:]
    head = max(repaired, key=lambda spot: spot.tokens if spot.difference else -spot.tokens)
    crossings = {n_r: _crossing(cost, drawn, by_size[n_r]) for n_r in sizes}
    return Curves(draws=spots[:n_p], spots=repaired, headline=head, crossings=crossings)


def _estimate(values: Floats) -> Estimate:
    """The first value, with the percentiles of the others."""
    return Estimate.of(float(values[0]), *ends(values[1:]))


def _height(curve: Floats, places: Floats) -> Floats:
    """Heights of each row's curve at its `places`, from 0; beyond its end, along its last piece."""
    below = np.clip(places.astype(int), 0, curve.shape[1] - 2)
    low, high = np.take_along_axis(curve, below, axis=1), np.take_along_axis(curve, below + 1, axis=1)
    return np.asarray(np.clip(low + (places - below) * (high - low), 0, 1))


def _reach(curve: Floats, heights: Floats) -> Floats:
    """The first places at which each row's curve, which never falls, has these heights; infinite above its end."""
    above = (curve[:, None] < heights[:, :, None] - TOLERANCE).sum(axis=2)
    end = np.clip(above, 1, curve.shape[1] - 1)
    low, high = np.take_along_axis(curve, end - 1, axis=1), np.take_along_axis(curve, end, axis=1)
    step = np.divide(heights - low, high - low, out=np.zeros_like(low), where=high > low)
    return np.where(above < curve.shape[1], end - 1 + np.clip(step, 0, 1), np.inf)


def _crossing(cost: Floats, drawn: Floats, curve: Floats) -> tuple[Estimate | None, bool]:
    """As of `Curves.crossings`; `cost`: tokens of a draw."""
    tokens = np.linspace(max(cost[0, 0], curve[0, 0]), (drawn.shape[1] - 1) * cost[0, 0], 128)
    gaps = _height(curve[:, 1:], tokens / curve[:, :1]) - _height(drawn, tokens / cost)
    sign = np.sign(gaps[0, -1])
    behind = sign * gaps < -TOLERANCE
    if tokens[0] >= tokens[-1] or not behind[0].any():
        return None, bool(sign > 0)
    after = len(tokens) - np.argmax(behind[:, ::-1], axis=1)
    return _estimate(np.where(behind.any(axis=1), np.append(tokens, np.inf)[after], 0)), bool(sign > 0)
