"""Curators that share a store: each reads and changes its own items alone, in whatever order they come."""

import pytest

from reflexion_lab.cli.main import main
from reflexion_lab.memory.curators.items import after
from reflexion_lab.records import Item
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.runner.objects import method_of
from reflexion_lab.storage.place import opened

METHODS = (
    "expel", "awm", "memento", "a_mem", "ace", "reasoning_bank", "dynamic_cheatsheet", "raw_trajectories",
    "full_history", "wisdom", "shuffled curator@curator.first=expel",
)  # fmt: skip
SMALL = (
    "benchmark=basics", "benchmark.load.n=5", "model=simulated", "model.first=0.5", "model.repair=0.5", "tracker=none",
    "actor=single_shot", "loop.max_attempts=2", "memory.shared.round_size=2", "quiet=true", "store=sqlite",
)  # fmt: skip


def learnt(root, method, store):
    """The method, and the items with which a run on the store began and ended."""
    known = set(root.glob("2*"))
    words = [f"curator={method.split()[0]}", *method.split()[1:], f"store.place={store}", f"run_root={root}"]
    words.append(f"memory.shared.items.salt={method.split()[0]}")
    assert main(["run", *SMALL, *words]) == 0
    (path,) = set(root.glob("2*")) - known
    folder = RunFolder(path)
    items = after(folder.beginning.items, folder.updates)
    return method_of(folder.manifest.config["curator"]), folder.beginning.items, items


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """By method, what its run on an empty store began and ended with."""
    root = tmp_path_factory.mktemp("alone")
    return {method: learnt(root, method, root / f"m{n}.sqlite") for n, method in enumerate(METHODS)}


@pytest.mark.parametrize("order", [METHODS[:-1], METHODS[-2::-1]], ids=["forwards", "backwards"])
def test_no_curator_reads_or_changes_the_items_of_another(alone, tmp_path, order):
    place = tmp_path / "memory.sqlite"
    for method in order:
        assert learnt(tmp_path, method, place) == alone[method]
    store = opened(str(place))
    held = [item for item in store.read(Item) if item.text]
    store.close()
    for name, began, ended in (alone[method] for method in order):
        assert not began and ended
        assert {item.item_id for item in held if item.owner == name} == {item.item_id for item in ended}
    assert learnt(tmp_path, "expel", place)[1] == alone["expel"][2]
    assert learnt(tmp_path, METHODS[-1], place)[0] == alone["expel"][0]  # a control reads what it controls


def test_items_of_a_store_that_name_no_method_are_counted_and_not_read(tmp_path, capsys):
    place = tmp_path / "memory.sqlite"
    store = opened(str(place))
    store.append([Item(item_id="old", text="Always sort first.")])
    store.close()
    assert learnt(tmp_path, "expel", place)[1] == ()
    assert "warning: 1 items of the store name no curator and are not read" in capsys.readouterr().err
