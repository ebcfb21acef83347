"""Memory that begins with the items of another run or of a store: what it holds, what is refused, what is said."""

import pytest
from msgspec.structs import replace

from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Item
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.storage.place import opened
from reflexion_lab.studies.run import carry_out
from reflexion_lab.studies.sweeps.running import sweep
from tests.studies.small_runs import stored_items

KEY = "memory.shared.items"
STREAM = (
    "model=simulated", "actor=single_shot", "benchmark=basics", "benchmark.load.n=6", "loop.max_attempts=1",
    "memory.shared.round_size=2", "curator=full_history", "tracker=none", "quiet=true", "sandbox.servers=1",
)  # fmt: skip


def run(root, *overrides) -> RunFolder:
    before = set(root.glob("*/manifest.json"))
    carry_out(compose(*STREAM, f"run_root={root}", *overrides))
    new = set(root.glob("*/manifest.json")) - before
    return RunFolder(new.pop().parent) if new else RunFolder(sorted(before)[-1].parent)


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """A plain run, and two whose loops were shown what is hidden."""
    root = tmp_path_factory.mktemp("sources")
    hidden = {"gold": ["curator=gold"], "oracle": ["feedback_source=oracle"]}
    return {"plain": run(root), **{name: run(root, *words) for name, words in hidden.items()}}


def items(folder: RunFolder) -> int:
    assert folder.beginning is not None
    return len(folder.beginning.items)


@pytest.mark.parametrize("name", ["gold", "oracle"])
def test_items_of_an_upper_bound_make_an_upper_bound(sources, name, tmp_path, lab_main):
    of = f"{KEY}.of={sources[name].path}"
    first = run(tmp_path, of, f"{KEY}.frozen=true")
    assert first.manifest.is_upper_bound
    assert run(tmp_path, f"{KEY}.of={first.path}").manifest.is_upper_bound
    with pytest.raises(ConfigError, match="a store with"):
        run(tmp_path, of, f"{KEY}.frozen=true", "store=jsonl", f"store.place={tmp_path / 'store'}")
    with pytest.raises(ConfigError, match="would leak hidden tests"):
        lab_main("memory", "revert", str(sources[name].path), "2", "--store", str(tmp_path / "store"), "--yes")


@pytest.fixture
def lab_main():
    import argparse

    from reflexion_lab.cli import memory

    def main(*words: str) -> None:
        parser = argparse.ArgumentParser()
        memory.add(parser.add_subparsers())
        options = parser.parse_args(words)
        options.command(options)

    return main


@pytest.mark.parametrize(("overrides", "message"), [
    (["curator=none"], "without a curator"),
    (["curator=memento"], "FullHistory, expected a run of reflexion_lab.memory.curators.memento.Memento"),
    (["curator=raw_trajectories"], "with .frozen=true"), ([f"{KEY}.after=4"], f"{KEY}.after: got 4, expected 0 to 3"),
    ([f"{KEY}.of=null", f"{KEY}.after=1"], f"{KEY}.after: got 1, expected null"),
])  # fmt: skip
def test_items_that_cannot_be_are_refused(sources, overrides, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        run(tmp_path, f"{KEY}.of={sources['plain'].path}", *overrides)


def test_an_unfinished_run_gives_the_rounds_that_are_over(sources, tmp_path):
    unfinished = tmp_path / sources["plain"].path.name
    unfinished.mkdir()
    for name in ("manifest.json", "memory.json", "attempts.jsonl", "results.jsonl", "operations.jsonl"):
        (unfinished / name).write_bytes((sources["plain"].path / name).read_bytes())
    of = f"{KEY}.of={unfinished}"
    with pytest.raises(ConfigError, match="not finished"):
        run(tmp_path / "runs", of)
    assert items(run(tmp_path / "runs", of, f"{KEY}.after=1")) == 2


def test_a_source_that_changed_is_another_config_and_a_resumed_run_needs_none(sources, tmp_path):
    moved = tmp_path / "source"
    moved.mkdir()
    for file in sources["plain"].path.iterdir():
        if file.is_file():
            (moved / file.name).write_bytes(file.read_bytes())
    of = f"{KEY}.of={moved}"
    folder = run(tmp_path / "runs", of, f"{KEY}.frozen=true")
    assert folder.manifest.provenance.items.endswith(f"6 items, {sources['plain'].updates[-1].digest}")
    moved.rename(tmp_path / "elsewhere")
    assert run(tmp_path / "runs", of, f"{KEY}.frozen=true", f"resume={folder.path}").path == folder.path


@pytest.mark.parametrize(("override", "warning"), [
    (["benchmark.split={folds: 2, fold: 0}"], "warning: 3 items of "),
    (["curator=raw_trajectories", f"{KEY}.frozen=true"],
     "FullHistory, not reflexion_lab.memory.curators.controls.RawTrajectories"),
])  # fmt: skip
def test_a_held_out_task_that_memory_knows_and_another_curator_are_said(sources, tmp_path, capsys, override, warning):
    run(tmp_path, f"{KEY}.of={sources['plain'].path}", *override)
    assert warning in capsys.readouterr().err


def test_items_beyond_the_limit_of_memory_are_counted_in_a_warning(sources, tmp_path, capsys):
    of = f"{KEY}.of={sources['plain'].path}"
    run(tmp_path, of)
    assert "left out" not in capsys.readouterr().err
    few = run(tmp_path, of, f"{KEY}.max_items=2", f"{KEY}.frozen=true")
    assert "warning: 4 items of " in capsys.readouterr().err
    assert items(few) == 2
    assert max(len(loop[0].recalled_items) for loop in few.attempts.values()) <= 2


def test_a_store_gets_the_items_that_a_run_began_with_and_says_that_it_is_filled(sources, tmp_path):
    place = tmp_path / "store"
    keep = ("store=jsonl", f"store.place={place}")
    first = run(tmp_path / "runs", f"{KEY}.of={sources['plain'].path}", "benchmark.load.seed=5", *keep)
    assert len(stored_items(place)) == 12
    second = run(tmp_path / "runs", f"{KEY}.frozen=true", *keep)
    assert (items(first), items(second)) == (6, 12)
    assert (first.manifest.provenance.store, second.manifest.provenance.store) == ("empty", "filled")


def test_cells_of_a_sweep_begin_with_the_store_and_the_items_of_their_own_source(sources, tmp_path):
    place = tmp_path / "store"
    keep = ("store=jsonl", f"store.place={place}")
    run(tmp_path / "runs", "benchmark.load.seed=5", *keep)
    cells = [
        run(tmp_path / "runs", "sweep_id=s", f"{KEY}.frozen=true", *keep, *words)
        for words in (
            ["curator=none"],
            [],
            *([f"{KEY}.of={sources['plain'].path}", f"{KEY}.after={n}"] for n in (0, 2)),
        )
    ]
    assert [items(cell) for cell in cells] == [0, 6, 6, 10]


def test_a_control_that_is_added_later_begins_with_the_store_alone(sources, tmp_path):
    of, keep = f"{KEY}.of={sources['plain'].path}", ("store=jsonl", f"store.place={tmp_path / 'store'}")
    common = [*STREAM, *keep, f"{KEY}.frozen=true", "sweep_id=s", f"run_root={tmp_path / 'runs'}"]
    run(tmp_path / "else", "benchmark.load.seed=5", *keep)
    (treated,) = sweep([*common, "sweep_id=first", of], quiet=True).runs
    (treated / "summary.json").unlink()
    cells = [[f"{of},null"], ["curator=none"], [f"{of},null", f"{KEY}.max_items=2"]]
    swept = [sweep([*common, *cell], quiet=True) for cell in cells]
    assert [[items(RunFolder(folder)) for folder in each.runs] for each in swept] == [[12, 6], [0], [2, 2]]
    assert swept[0].runs[0] == treated
    assert [sweep([*common, *cell], quiet=True).runs for cell in cells] == [each.runs for each in swept]


def test_a_resumed_run_stores_no_items_that_the_store_has_had(tmp_path, lab_main):
    place = tmp_path / "store"
    keep = ("store=jsonl", f"store.place={place}")
    folder = run(tmp_path / "runs", *keep)
    assert len(stored_items(place)) == 6
    lab_main("memory", "revert", str(folder.path), "0", "--store", str(place), "--yes")
    run(tmp_path / "runs", *keep, f"resume={folder.path}")
    assert stored_items(place) == set()


def test_items_that_a_store_has_had_keep_what_others_made_of_them(sources, tmp_path):
    place = tmp_path / "store"
    of = (f"{KEY}.of={sources['plain'].path}", "store=jsonl", f"store.place={place}")
    run(tmp_path / "runs", *of, "benchmark.load.seed=5")
    known = {name for update in sources["plain"].updates for each in update.operations for name in each.item_ids}
    store = opened(place)
    first, second, *_ = [item for item in store.read(Item) if item.item_id in known]
    store.append([replace(first, counts={"helpful": 3}), Item(item_id=second.item_id, text="")])
    store.close()
    later = run(tmp_path / "runs", *of, "benchmark.load.seed=6")
    assert {item.item_id: item.counts for item in later.beginning.items}[first.item_id] == {"helpful": 3}
    assert second.item_id not in stored_items(place)


def test_a_run_whose_curator_was_never_called_may_be_named(tmp_path):
    quiet = run(tmp_path, "curator=wisdom", "reflector=none", "model.first=1", "model.spread=0")
    assert quiet.updates == []
    assert items(run(tmp_path, "curator=wisdom", f"{KEY}.of={quiet.path}", f"{KEY}.frozen=true")) == 0
