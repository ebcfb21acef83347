"""Memory across tasks of a student whose gain is planted: the lab's intervals hold what its probabilities give."""

from pathlib import Path

import pytest

from experiments.memory_methods.analysis import NAMES, NULLS, held, holds, matrix_rows, rows_of
from experiments.memory_methods.cases import clusters_of, deviation, gain, main, planted, rate, read
from reflexion_lab.runner.config.assemble import assemble
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.studies.run import finish
from tests.builders import FAMILIES

FOLDER = Path(__file__).parents[2] / "experiments" / "memory_methods"
ARMS = {
    "none": ["curator=none"],
    "shuffled": ["curator=shuffled", "curator@curator.first=memento"],
    "gold": ["curator=gold"],
    "expel": ["curator=expel"],
}
ORDERS = 3


@pytest.fixture(scope="module")
def later(tmp_path_factory):
    """Cases of later tasks by arm: 60 tasks in 10 families, in three orders."""
    folder = tmp_path_factory.mktemp("memory_methods")
    for arm, words in ARMS.items():
        for order in range(ORDERS):
            cfg = compose(
                *FAMILIES, "benchmark.load.seed=0", "benchmark.load.n=60", "benchmark.load.families=10",
                f"benchmark.order={order}", f"seed={order}", "model.insight=0.9",
                "actor=single_shot", "loop.max_attempts=1", "memory.shared.round_size=1",
                "memory.shared.items.max_tokens=0", "tracker=none", "quiet=true", f"arm={arm}",
                f"run_root={folder / 'runs'}", *words,
            )  # fmt: skip
            finish(assemble(cfg))
    assert main([str(folder / "runs" / "2*"), "--out", str(folder)]) == 0
    cases, runs = read(folder)
    assert {arm: len(own) for arm, own in runs.items()} == dict.fromkeys(ARMS, ORDERS)
    return {arm: [case for case in own if case.is_later] for arm, own in cases.items()}


@pytest.mark.slow
@pytest.mark.parametrize("arm", ARMS)
def test_the_intervals_hold_what_the_probabilities_of_the_prompts_give(later, arm):
    cases, solved = later[arm], rate(later[arm])
    assert len(cases) == 50 * ORDERS and len(set(clusters_of(cases).values())) == 10
    assert solved.low <= planted(cases) <= solved.high
    assert abs(deviation(cases)) < 3
    change = gain(cases, later["none"])
    assert change.over == "tasks and orders"
    assert change.low <= planted(cases) - planted(later["none"]) <= change.high


@pytest.mark.slow
def test_solutions_help_and_items_at_random_do_not(later):
    assert {case.chance for case in later["none"]} == {0.2}
    assert {case.chance for case in later["gold"]} == {0.8}
    gains = {arm: gain(later[arm], later["none"]) for arm in ARMS}
    assert gains["gold"].low > 0 and gains["shuffled"].low <= 0
    assert planted(later["shuffled"]) < 0.25 < planted(later["expel"])
    assert max(gains, key=lambda arm: gains[arm].value) == "gold"


def test_the_published_intervals_hold_what_was_planted():
    rows = rows_of(FOLDER)
    arms = {row["arm"]: row for row in rows}
    assert set(NAMES) < set(arms)
    assert held(rows) == {"rates": 34, "n_rates": 36, "gains": 34, "n_gains": 34}
    assert max(abs(row["z"]) for row in rows) < 3.5
    assert arms["gold"]["planted"] == max(row["planted"] for row in rows if row["part"] != "naive") == 0.8
    assert all(arms[arm]["gain_low"] <= 0 and arms[arm]["planted"] <= 0.2 for arm in NULLS)
    biased = {row["measure"] for row in matrix_rows(FOLDER) if not holds(row["low"], row["planted"], row["high"])}
    assert biased == {"forgetting"}
