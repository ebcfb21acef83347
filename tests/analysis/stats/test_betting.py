"""The test by betting: its wealth, its false acceptances, and its power as docs/optimize.md states it."""

import re
from pathlib import Path

import numpy as np
import pytest

from reflexion_lab.analysis.stats.betting import ALPHA, BETS, fewest, is_above_zero, wealth

RUNS, PROPOSALS, TASKS = 2000, 200, 25
PAGE = Path(__file__).parents[3] / "docs" / "optimize.md"


def verdicts(gain, rng, shape):
    """New less old where the old prompt solves half of the tasks, and the new one `gain` more, independently."""
    return (rng.random(shape) < 0.5 + gain).astype(float) - (rng.random(shape) < 0.5)


NULLS = {
    "no difference": lambda rng, shape: verdicts(0.0, rng, shape),
    "every task differs": lambda rng, shape: rng.choice([-1.0, 1.0], shape),
    "small losses, rare wins": lambda rng, shape: np.where(rng.random(shape) < 1 / 11, 1.0, -0.1),
}


def test_wealth_is_the_mean_of_the_bets_and_fewest_the_wins_that_suffice():
    cases = np.random.default_rng(0).uniform(-1, 1, 30)
    shares = (np.arange(BETS) + 0.5) / BETS
    assert wealth(cases)[-1] == pytest.approx(np.mean([np.prod(1 + share * cases) for share in shares]))
    assert wealth(cases[::-1])[-1] == pytest.approx(wealth(cases)[-1])
    assert wealth([0.0] * 5).tolist() == [1.0] * 5
    assert not is_above_zero([])
    assert is_above_zero([1.0] * fewest(0.01), 0.01)
    assert not is_above_zero([1.0] * (fewest(0.01) - 1), 0.01)
    assert is_above_zero([1.0] * fewest() + [-1.0] * 50)  # it has stopped before


@pytest.mark.parametrize("null", NULLS)
def test_proposals_without_a_gain_are_accepted_in_at_most_alpha_of_all(null):
    """2,000 runs of 200 proposals each; greedy acceptance on three tasks commits several times as many."""
    rng, accepted, greedy = np.random.default_rng(1), np.zeros(RUNS), np.zeros(RUNS)
    for run in range(0, RUNS, 50):
        gains = NULLS[null](rng, (50, PROPOSALS, TASKS))
        accepted[run : run + 50] = is_above_zero(gains).mean(axis=1)
        greedy[run : run + 50] = (gains[..., :3].sum(axis=-1) > 0).mean(axis=1)
    assert 0 < accepted.mean() <= ALPHA
    assert greedy.mean() > 4 * ALPHA


def power(gain, tasks=40, proposals=20_000):
    """Share accepted by the test, its mean tasks, shares by greedy on three tasks, and by greedy on as many as it."""
    rng = np.random.default_rng(2)
    gains = verdicts(gain, rng, (proposals, tasks))
    reached = wealth(gains) >= 1 / ALPHA
    used = np.where(reached.any(axis=1), reached.argmax(axis=1) + 1, tasks)
    equal = round(float(used.mean()))
    shares = [reached.any(axis=1).mean(), *((gains[:, :n].sum(axis=1) > 0).mean() for n in (3, equal))]
    first, *others = (f"{100 * share:.0f} %" for share in shares)
    return [first, str(equal), *others]


def test_the_page_states_its_power_beside_greedy_acceptance():
    rows = re.findall(r"^\| \+?(\d+) points \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    assert [int(gain) for gain, _ in rows] == [0, 10, 20, 30, 40]
    for gain, cells in rows:
        assert cells.split(" | ") == power(int(gain) / 100), gain
