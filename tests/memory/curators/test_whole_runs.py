"""Whole runs: what a curator learns reaches later actors, and its calls are counted apart."""

import pytest

from experiments.memory_methods.families import rules_in
from reflexion_lab.memory.curators.items import after
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.studies.run import carry_out
from tests.builders import FAMILIES

LESSON = "Try the smallest input by hand first"
"""What the simulated model tells every curator."""
METHODS = {
    "expel": ["curator=expel"],
    "ace": ["curator=ace"],
    "cumulative": ["curator=dynamic_cheatsheet"],
    "synthesis": ["curator=dynamic_cheatsheet", "curator.variant=retrieval_synthesis"],
}


@pytest.mark.parametrize("method", METHODS)
def test_later_actors_read_what_the_curator_wrote(tmp_path, method):
    stream = ["benchmark=basics", "benchmark.limit=4", "memory.shared.round_size=1", "cache.mode=off"]
    plain = ["model=simulated", "actor=single_shot", "tracker=none", "quiet=true", f"run_root={tmp_path}"]
    carry_out(compose(*METHODS[method], *stream, *plain))
    (manifest,) = tmp_path.glob("*/manifest.json")
    folder = RunFolder(manifest.parent)
    attempts = [each for loop in folder.attempts.values() for each in loop]
    assert [LESSON in attempts[place].trajectory.messages[0].content for place in (0, -1)] == [False, True]
    assert sum(update.unreadable for update in folder.updates) == 0
    usages = [each.selection_usage for each in attempts] + [update.usage for update in folder.updates]
    assert sum(usage.calls for usage in usages) == {"ace": 8, "synthesis": 3}.get(method, len(folder.updates))
    assert any(LESSON in item.text for item in after(folder.beginning.items, folder.updates))


@pytest.mark.parametrize(
    "words",
    [
        "expel", "ace", "ace curator.variant=paper", "awm", "dynamic_cheatsheet",
        "dynamic_cheatsheet curator.variant=retrieval_synthesis", "a_mem", "reasoning_bank",
    ],
)  # fmt: skip
def test_every_method_learns_every_rule_of_the_student(tmp_path, words):
    stream = [*FAMILIES, "benchmark.load.n=12", "benchmark.load.families=4"]
    plain = ["actor=single_shot", "loop.max_attempts=1", "tracker=none", "quiet=true", f"run_root={tmp_path}"]
    carry_out(compose(*f"curator={words}".split(), *stream, *plain, "memory.shared.round_size=1"))
    (manifest,) = tmp_path.glob("*/manifest.json")
    folder = RunFolder(manifest.parent)
    memory = after(folder.beginning.items, folder.updates)
    assert len({rule for item in memory for rule in rules_in(item.text)}) == 4
