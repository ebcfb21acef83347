"""`reflexion-lab memory log | diff | revert` on a run with a curator."""

import pytest

from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Item
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.runner.objects import method_of
from reflexion_lab.storage.place import opened
from reflexion_lab.studies.run import carry_out
from tests.studies.small_runs import stored_items


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Four tasks in two rounds, each kept as it was."""
    root = tmp_path_factory.mktemp("runs")
    stream = ("benchmark.limit=4", "memory.shared.round_size=2", "curator=full_history", "loop.max_attempts=1")
    carry_out(
        compose(*stream, "model=simulated", "actor=single_shot", f"run_root={root}", "tracker=none", "quiet=true")
    )
    (folder,) = [path.parent for path in root.glob("*/manifest.json")]
    return folder


def test_log_shows_size_cost_and_operations_by_round_and_names_those_of_one(lab, run):
    page = lab("memory", "log", run, "--json")
    assert f"{run.name}: 4 items" in page.out
    assert "curator: calls 4, rounds 2, tokens 0; unreadable replies 0, prompts too long 0" in page.out
    assert len(page.raw.splitlines()) <= 16
    assert [update["round"] for update in page.json["updates"]] == [0, 0, 1, 1]
    task = RunFolder(run).updates[2].task_ids[0]
    out = lab("memory", "log", run, "--round", "1").out
    assert f"call 0, {task}: 1 operations add item-" in out
    with pytest.raises(ConfigError, match="--round"):
        lab("memory", "log", run, "--round", "2")


def test_diff_between_rounds(lab, run):
    whole, last = (lab("memory", "diff", run, *since, "--json").json for since in ((), ("--since", "1")))
    assert (whole["added"], last["added"], last["until"]) == (4, 2, 2)
    assert lab("memory", "diff", run, "--until", "0").out.startswith(f"{run.name}, rounds 0 to 0: 0 added, 0 removed")
    with pytest.raises(ConfigError, match="0 to 2 rounds"):
        lab("memory", "diff", run, "--since", "3")


def test_revert_sets_the_items_of_a_store(lab, run, place):
    method = method_of(RunFolder(run).manifest.config["curator"])
    store = opened(place)
    store.append(
        [Item(item_id="other", text="of another run", owner=method), Item(item_id="awm", text="x", owner="awm")]
    )
    store.close()
    assert "items 1 to 2, would be reverted" in lab("memory", "revert", run, "1", "--store", place).out
    assert stored_items(place) == {"other", "awm"}
    lab("memory", "revert", run, "1", "--store", place, "--yes")
    updates = RunFolder(run).updates
    first = {name for update in updates[:2] for operation in update.operations for name in operation.item_ids}
    assert stored_items(place) == first | {"awm"}
    lab("memory", "revert", run, "0", "--store", place, "--yes")
    assert stored_items(place) == {"awm"}


def test_a_run_without_a_curator_is_named(lab, tmp_path):
    stream = ("benchmark.limit=1", "loop.max_attempts=1", "model=simulated", "actor=single_shot", "tracker=none")
    carry_out(compose(*stream, f"run_root={tmp_path}", "quiet=true"))
    (folder,) = [path.parent for path in tmp_path.glob("*/manifest.json")]
    with pytest.raises(ConfigError, match="a run with a curator"):
        lab("memory", "log", folder)
