"""Four states of memory: their prompts follow the operations, and their effect is the planted one."""

from pathlib import Path

import pytest

from experiments.four_states.analysis import (
    CURATORS,
    PAIRS,
    bytes_of,
    chance_within,
    evidence,
    half_width,
    rows_of,
    states_shown,
)
from experiments.four_states.cases import cases_of, main, memory_of
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.cli.main import main as lab
from reflexion_lab.runner.config.assemble import assemble
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.folder.folder import folders
from reflexion_lab.studies.run import finish
from tests.builders import FAMILIES

FOLDER = Path(__file__).parent
STREAM = (
    *FAMILIES, "benchmark.load.seed=0", "benchmark.load.families=3", "actor=single_shot", "loop.max_attempts=1",
    "memory.shared.round_size=1", "memory.shared.items.max_tokens=0", "tracker=none", "quiet=true",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("curator", ["ace", "dynamic_cheatsheet"])
def test_a_revert_of_the_store_gives_the_prompts_of_before_and_the_next_one_those_of_after(tmp_path, curator):
    store = tmp_path / "store"
    words = (*STREAM, f"curator={curator}", f"run_root={tmp_path}")

    def state(name, draws, *more):
        frozen = ("memory.shared.items.frozen=true", "benchmark.load.n=6", f"seed={draws}0", f"arm={name}-{curator}")
        return finish(assemble(compose(*words, *frozen, *more)))

    kept = ("store=jsonl", f"store.place={store}")
    finish(assemble(compose(*words, "benchmark.load.n=3", f"arm=learn-{curator}", *kept)))
    (learnt,) = tmp_path.glob(f"2*-learn-{curator}-*")
    state("before", 1)
    state("applied", 2, *kept)
    assert lab(["memory", "revert", str(learnt), "0", "--store", str(store), "--yes"]) == 0
    state("rolled_back", 3, *kept)
    assert lab(["memory", "revert", str(learnt), "3", "--store", str(store), "--yes"]) == 0
    state("applied_again", 4, *kept)

    logs = {log.arm.partition("-")[0]: log for log in map(Log.read, folders(sorted(tmp_path.glob("2*"))))}
    memories = {name: memory_of(log) for name, log in logs.items() if name != "learn"}
    assert memories["before"].prompts == memories["rolled_back"].prompts != memories["applied"].prompts
    assert memories["applied"].prompts == memories["applied_again"].prompts
    assert memories["before"].digest == memories["rolled_back"].digest != memories["applied"].digest
    assert memories["applied"].digest == memories["applied_again"].digest
    chances = {name: {case.task: case.chance for case in cases_of(log)} for name, log in logs.items()}
    later = [task for task in chances["before"] if not task.endswith("/0")]
    assert {chances["before"][task] for task in later} == {0.2}
    assert {chances["applied_again"][task] for task in later} == {0.8}


@pytest.mark.slow
def test_the_tasks_of_a_world_are_its_later_ones(capsys):
    assert main(["--ids", "0"]) == 0
    ids = capsys.readouterr().out.strip().strip("[]").split(",")
    assert len(ids) == len(set(ids)) == 250
    assert not any(name.endswith("/0") for name in ids)


def test_errors_of_the_published_transitions_are_those_of_the_draws_and_their_bytes_are_equal():
    rows, memories = rows_of(FOLDER), evidence(FOLDER)[1]
    transitions = [row for row in rows if row["kind"] == "transition"]
    assert len(transitions) == 3 * len(CURATORS)
    assert all(abs(row["error"]) <= 0.02 for row in transitions)
    assert all(row["error_low"] <= 0 <= row["error_high"] for row in transitions)
    assert max(map(half_width, transitions)) < 0.02
    assert all(0.96 < chance_within(row) < 0.99 for row in transitions)
    assert states_shown(FOLDER) == 10
    assert all(row["measured"] == 0 for row in rows if row["kind"] == "shared")
    for curator in CURATORS:
        for state, earlier in PAIRS:
            counts = bytes_of(memories, curator, state, earlier)
            assert counts.runs == counts.prompts == counts.items > 0
