"""Items of several curators in one store, each with its own; and limits: what they remove, and what a prompt shows."""

import pytest

from reflexion_lab.cli.main import main
from reflexion_lab.memory.curators.items import EXCEEDS, after
from reflexion_lab.records import Item
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.runner.objects import method_of
from reflexion_lab.storage.place import opened
from reflexion_lab.text.shorten import estimated

METHODS = (
    "expel", "awm", "memento", "a_mem", "ace", "reasoning_bank", "dynamic_cheatsheet", "raw_trajectories",
    "full_history", "wisdom", "shuffled curator@curator.first=expel",
)  # fmt: skip
SMALL = (
    "benchmark=basics", "benchmark.load.n=5", "model=simulated", "model.first=0.5", "model.repair=0.5", "tracker=none",
    "actor=single_shot", "loop.max_attempts=2", "memory.shared.round_size=2", "quiet=true",
)  # fmt: skip


def run(root, method, *words):
    known = set(root.glob("2*"))
    name, *options = method.split()
    assert main(["run", *SMALL, f"curator={name}", *options, *words, f"run_root={root}"]) == 0
    (path,) = set(root.glob("2*")) - known
    return RunFolder(path)


def learnt(root, method, store):
    """The method, and the items with which a run on the store began and ended."""
    name = method.split()[0]
    folder = run(root, method, "store=sqlite", f"store.place={store}", f"memory.shared.items.salt={name}")
    items = after(folder.beginning.items, folder.updates)
    return method_of(folder.manifest.config["curator"]), folder.beginning.items, items


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """By method, what its run on an empty store began and ended with."""
    root = tmp_path_factory.mktemp("alone")
    return {method: learnt(root, method, root / f"m{n}.sqlite") for n, method in enumerate(METHODS)}


@pytest.mark.parametrize(
    "order", [METHODS[:-1], pytest.param(METHODS[-2::-1], marks=pytest.mark.slow)], ids=["forwards", "backwards"]
)
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


LIMIT = 300


@pytest.mark.parametrize(("method", "section", "limit"), [
    *[(name, None, LIMIT) for name in ("memento", "a_mem", "raw_trajectories curator.passed_only=false", "gold")],
    ("reasoning_bank memory.shared.items.duplicates=keep", None, 40), ("wisdom", None, 40),
    ("shuffled curator@curator.first=memento curator.first.k=1", None, LIMIT),
    ("expel curator.examples=2", "examples", LIMIT),
    ("dynamic_cheatsheet curator.variant=retrieval_synthesis", "pairs", LIMIT),
])  # fmt: skip
def test_a_bank_keeps_all_of_its_items_and_a_prompt_shows_those_that_fit(tmp_path, method, section, limit):
    folder = run(tmp_path, method, "benchmark.load.n=8", f"memory.shared.items.max_tokens={limit}")
    lost = [operation for update in folder.updates for operation in update.operations if operation.reason == "limit"]
    refused = [each.operation for update in folder.updates for each in update.refused if each.reason == EXCEEDS]
    assert not [operation for operation in (*lost, *refused) if section is None or operation.section == section]
    banked = {item.item_id: item for item in after((), folder.updates) if section in (None, item.section)}
    assert sum(estimated(item.text) for item in banked.values()) > limit
    shown = [[banked[name] for name in loop[0].recalled_items if name in banked] for loop in folder.attempts.values()]
    assert section == "pairs" or method == "wisdom" or any(shown)
    assert max(sum(estimated(item.text) for item in items) for items in shown) <= 1.1 * limit  # A-Mem rewrites later


@pytest.mark.parametrize(("words", "line"), [
    (["full_history", f"memory.shared.items.max_tokens={LIMIT}"], "raise memory.shared.items.max_tokens"),
    (["memento", "memory.shared.items.max_items=2"], "6 of 8 items; raise memory.shared.items.max_items or"),
    (["memento", f"memory.shared.items.max_tokens={LIMIT}"], ""),
    (["raw_trajectories", "memory.shared.items.max_tokens=20"], "ITEMS UNREAD: no attempt read one of "),
])  # fmt: skip
def test_the_first_screen_says_how_many_items_the_limits_removed(tmp_path, capsys, words, line):
    folder = run(tmp_path, *words, "benchmark.load.n=8")
    capsys.readouterr()
    assert main(["show", str(folder.path)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert line in out and ("ITEMS LOST: limits removed " in out) is ("raise" in line)
