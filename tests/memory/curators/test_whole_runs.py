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
SYNTHESIS = "curator=dynamic_cheatsheet curator.variant=retrieval_synthesis"
MATTS = {kind: f"experiment=matts_{kind} model.first=0.1" for kind in ("parallel", "sequential")}
RUNS = [
    # Words, kinds of updates, and the calls of the curator in four rounds.
    ("curator=expel", {"pair", "successes"}, None), ("curator=ace", {""}, 8), ("curator=dynamic_cheatsheet", {""}, 4),
    (SYNTHESIS, {""}, 3), ("curator=awm", {""}, None), ("curator=memento", {""}, 0), ("curator=a_mem", {""}, None),
    ("curator=reasoning_bank", {"success", "failure"}, 4),
    (f"{MATTS['parallel']} temperature=0.8", {"success", "failure", "parallel"}, None),
    (MATTS["sequential"], {"success", "failure", "sequential"}, None),
]  # fmt: skip


def carried_out(root, *words):
    carry_out(compose(*words, "tracker=none", "quiet=true", "memory.shared.round_size=1", f"run_root={root}"))
    (manifest,) = root.glob("*/manifest.json")
    folder = RunFolder(manifest.parent)
    return folder, after(folder.beginning.items, folder.updates)


@pytest.mark.parametrize(("words", "kinds", "calls"), RUNS, ids=[words for words, *_ in RUNS])
def test_later_actors_read_what_the_curator_wrote(tmp_path, words, kinds, calls):
    small = ("benchmark=basics", "benchmark.limit=4", "cache.mode=off", "model=simulated", "actor=single_shot")
    folder, memory = carried_out(tmp_path, *words.split(), *small)
    assert folder.updates and not any(update.unreadable for update in folder.updates)
    assert {update.kind for update in folder.updates} <= kinds
    attempts = list(folder.each_attempt())
    usages = [each.selection_usage for each in attempts] + [update.usage for update in folder.updates]
    assert calls is None or sum(usage.calls for usage in usages) == calls
    known = {name for update in folder.updates for op in update.operations for name in op.item_ids}
    read = {name for attempt in attempts for name in attempt.recalled_items}
    assert read and (read <= known or words == SYNTHESIS)
    if calls != 0:
        assert [LESSON in attempts[place].trajectory.messages[0].content for place in (0, -1)] == [False, True]
        assert any(LESSON in item.text for item in memory)


"""What the simulated model tells every curator."""


@pytest.mark.parametrize(
    "words",
    [
        "expel", "ace", "ace curator.variant=paper", "awm", "dynamic_cheatsheet",
        "dynamic_cheatsheet curator.variant=retrieval_synthesis", "a_mem", "reasoning_bank",
    ],
)  # fmt: skip
def test_every_method_learns_every_rule_of_the_student(tmp_path, words):
    stream = [*FAMILIES, "benchmark.load.n=12", "benchmark.load.families=4"]
    small = ("actor=single_shot", "loop.max_attempts=1")
    _, memory = carried_out(tmp_path, *f"curator={words}".split(), *stream, *small)
    assert len({rule for item in memory for rule in rules_in(item.text)}) == 4
