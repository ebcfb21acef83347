"""The curators of published methods in whole runs, as the command starts them."""

from __future__ import annotations

import pytest

from reflexion_lab.cli import main as cli
from reflexion_lab.runner.folder.folder import RunFolder

SMALL = ("model=simulated", "actor=single_shot", "benchmark.limit=4", "tracker=none", "quiet=true", "cache.mode=off")


@pytest.mark.parametrize(
    ("choices", "kinds", "n_calls"),
    [
        (("curator=awm",), {""}, 1),
        (("curator=memento",), {""}, 0),
        (("curator=a_mem",), {""}, 2),
        (("curator=reasoning_bank",), {"success", "failure"}, 1),
        (("experiment=matts_parallel", "temperature=0.8", "model.first=0.1"), {"success", "failure", "parallel"}, 1),
        (("experiment=matts_sequential", "model.first=0.1"), {"success", "failure", "sequential"}, 1),
    ],
)
def test_a_run_keeps_items_that_later_tasks_read(choices, kinds, n_calls, tmp_path):
    assert cli.main(["run", *choices, *SMALL, "memory.shared.round_size=1", f"run_root={tmp_path}"]) == 0
    (path,) = [path.parent for path in tmp_path.glob("*/manifest.json")]
    folder = RunFolder(path)
    assert folder.updates
    assert not any(update.unreadable for update in folder.updates)
    assert {update.kind for update in folder.updates} <= kinds
    assert all(len(update.replies) <= n_calls and update.items for update in folder.updates)
    known = {name for update in folder.updates for op in update.operations for name in op.item_ids}
    read = {name for attempt in folder.each_attempt() for name in attempt.recalled_items}
    assert read and read <= known
