"""The difference of two shares whose cases share tasks: by hand, by another implementation, and by simulation."""

import random

import numpy as np
import pytest

from reflexion_lab.analysis.learning.effect import effect
from reflexion_lab.analysis.stats.intervals import unpaired_difference, wilson


def cases(*groups, first: int = 0):
    """Verdicts: one task a group, one case a letter, `+` for a pass."""
    return {
        (f"t{first + task}", number): letter == "+"
        for task, group in enumerate(groups)
        for number, letter in enumerate(group, 2)
    }


def with_ends(k: int, n: int):
    return k / n, *wilson(k, n)


@pytest.mark.parametrize(
    ("counts", "low", "high"),
    [((56, 70, 48, 80), 0.0524, 0.3339), ((9, 10, 3, 10), 0.1705, 0.8090), ((10, 10, 0, 10), 0.6075, 1.0000)],
)
def test_newcombes_own_table_is_reproduced(counts, low, high):
    interval = unpaired_difference(with_ends(*counts[:2]), with_ends(*counts[2:]))
    assert interval == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))


def test_the_effect_is_the_difference_of_the_shares_with_newcombes_interval_for_few_tasks():
    result = effect(cases("+", "+-", "-"), cases("-", "-+", "--", first=10))
    assert result.value == pytest.approx(2 / 4 - 1 / 5)
    assert result.low < result.value < result.high
    result = effect(cases("-", "-", "-"), cases(*["-"] * 5, *["+"] * 5, first=10))
    low, high = unpaired_difference(with_ends(0, 3), with_ends(5, 10))
    assert (result.value, result.low, result.high) == (-0.5, pytest.approx(low), pytest.approx(high))


def test_a_base_that_holds_the_cases_is_the_rest_in_its_share():
    after, rest = cases("+", "-", "-", "-"), cases(*"+" * 3, *"-" * 9, first=10)
    result = effect(after, {**after, **rest})
    low, high = unpaired_difference(with_ends(1, 4), with_ends(3, 12))
    assert result.value == pytest.approx(1 / 4 - 4 / 16)
    assert (result.low, result.high) == (pytest.approx(low * 12 / 16), pytest.approx(high * 12 / 16))


def test_without_anything_to_compare_there_is_no_effect_and_a_partial_base_is_refused():
    some = cases("+", "-")
    assert effect({}, some) is None
    assert effect(some, {}) is None
    assert effect(some, some) is None
    with pytest.raises(ValueError, match="got 1 of 2 cases"):
        effect(cases("+-"), {("t0", 2): True, ("t9", 2): False})


def test_many_tasks_have_scipys_bootstrap_over_tasks():
    from scipy.stats import bootstrap

    rng = random.Random(4)
    groups = [["".join(rng.choice("+--") for _ in range(rng.randint(0, 3))) for _ in range(60)] for _ in range(2)]
    after, base = cases(*groups[0]), {(task, 100 + n): p for (task, n), p in cases(*groups[1]).items()}
    counts = [np.array([(g.count("+"), len(g)) for g in side], dtype=float) for side in groups]

    def difference(index):
        items = [side[index.astype(int)].sum(axis=0) for side in counts]
        return items[0][0] / items[0][1] - items[1][0] / items[1][1]

    theirs = bootstrap(
        (np.arange(60),), difference, vectorized=False, method="percentile", n_resamples=4000, rng=1
    ).confidence_interval
    ours = effect(after, base)
    width = theirs.high - theirs.low
    assert ours.low == pytest.approx(theirs.low, abs=0.08 * width)
    assert ours.high == pytest.approx(theirs.high, abs=0.08 * width)
    assert ours == effect(after, base)
    assert ours != effect(after, base, seed=1)


def drawn(rng: random.Random, tasks: int, share: float):
    """Up to two retries a task, of a chance of its own, until one passes; a task's retries read the same group."""
    after, rest = {}, {}
    for task in range(tasks):
        chance, side = rng.betavariate(1, 3), after if rng.random() < share else rest
        for number in (2, 3):
            side[f"t{task}", number] = rng.random() < chance
            if side[f"t{task}", number]:
                break
    return after, rest


@pytest.mark.parametrize(("tasks", "share"), [(20, 0.2), (40, 0.5), (100, 0.3)])
@pytest.mark.parametrize("is_inside", [False, True])
def test_the_interval_holds_the_truth_as_often_as_it_says(tasks, share, is_inside):
    """Both groups pass alike here, so that the truth is 0. Of 300 runs, 0.95 have a standard error of 0.013."""
    rng, held, runs = random.Random(f"{tasks}:{share}"), 0, 0
    while runs < 300:
        after, rest = drawn(rng, tasks, share)
        result = effect(after, {**after, **rest} if is_inside else rest)
        if result:
            runs += 1
            held += result.low <= 0 <= result.high
    assert 0.91 <= held / runs <= 1
