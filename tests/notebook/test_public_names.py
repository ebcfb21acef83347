"""What `import reflexion_lab as rl` gives, and what it costs."""

import pkgutil
from pathlib import Path

import pytest
from msgspec.structs import replace

import reflexion_lab as rl
from reflexion_lab.errors import ConfigError, FolderError
from reflexion_lab.notebook.run import Run
from reflexion_lab.runner.config.grid import lines
from reflexion_lab.runner.folder.folder import RunFolder, folders, newest


@pytest.fixture
def two(write_run, tmp_path):
    """Run folders `root/a` and `root/b`, beside a folder that holds no run."""
    run_folders = []
    (tmp_path / "root" / "sweeps").mkdir(parents=True)
    for seed, name in ((1, "a"), (2, "b")):
        folder = write_run(seed=seed)
        folder.write_manifest(replace(folder.manifest, run_id=name))
        run_folders.append(RunFolder(folder.path.rename(tmp_path / "root" / name)))
    return run_folders


class Holder:
    """Whatever knows its run folder, or several."""

    def __init__(self, **known):
        self.__dict__.update(known)


def test_every_public_name_is_listed_documented_and_hidden_by_no_module():
    assert len(rl.__all__) == 37 and set(rl.__all__) <= set(dir(rl))
    for name in rl.__all__:
        assert getattr(rl, name).__doc__, name
    with pytest.raises(AttributeError, match="no attribute 'compair'; it has Archive, Combined, EpisodeBuffer"):
        rl.compair  # noqa: B018
    # An import of a module `runs` would set the name `runs` of the package to that module.
    modules = {module.name for module in pkgutil.iter_modules(rl.__path__)}
    assert modules & (set(rl.__all__) - {"agent", "plot"}) == set()  # `rl.agent` is a package that can be called


def test_runs_are_named_in_many_ways_and_each_counts_once(two):
    first, second = two
    root = first.path.parent
    ways = [
        (first.path, second.path), (str(first.path), second), (f"{root}/*",), ([first.path, [second]],),
        (Holder(folder=first), Holder(runs=[second.path])), (root / "*", first.path, root / "." / "b"),
    ]  # fmt: skip
    for way in ways:
        assert [run.path.resolve() for run in folders(*way)] == [first.path.resolve(), second.path.resolve()], way


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere", "nowhere: got no manifest.json"), ("nowhere/*", "expected a pattern that fits run folders"),
        (7, "runs: got something of type int, expected a folder, a pattern"),
        (Holder(runs=None), "runs: got something of type Holder, expected a folder"),
        ("def f():\n" * 1000, "no path, expected a run folder"), ("a\0b", "expected a run folder"),
    ],
)  # fmt: skip
def test_what_is_no_run_is_an_error(name, message):
    with pytest.raises(FolderError, match=message):
        folders(name)


def test_runs_are_named_by_their_folder_a_shells_pattern_or_a_part_of_a_name(two, tmp_path, monkeypatch):
    root = two[0].path.parent
    every = sorted(run.path.name for run in two)
    assert [folder.path.name for folder in folders(root)] == every
    (root / "calls.sqlite").write_bytes(b"")
    (root / "bundles").mkdir()
    with pytest.warns(UserWarning, match="since they are no runs: 3 of 5 paths"):
        assert [folder.path.name for folder in folders(*sorted(root.iterdir()))] == every
    with pytest.raises(FolderError, match=r"no manifest\.json"):
        folders(root / "calls.sqlite", root / "bundles")
    monkeypatch.chdir(tmp_path)
    root.rename("runs")
    assert [folder.path.name for folder in folders("a")] == ["a"]
    Path("runs", "a").rename(Path("runs", "ab"))
    with pytest.raises(FolderError, match=r"b: got 2 runs of such a name \(ab, b\)"):
        folders("b")
    with pytest.raises(FolderError, match="zz: no run in runs/ has that in its name"):
        folders("zz")
    for old, new in (("ab", "20260101-000000-a"), ("b", "20260102-000000-b")):
        Path("runs", old).rename(Path("runs", new))
    assert [folder.path.name for folder in newest(1)] == ["20260102-000000-b"]
    with pytest.raises(FolderError, match="runs: got 2 runs, expected 3 or more"):
        newest(3)


@pytest.mark.parametrize("ask", [rl.load, rl.compare, rl.plot.curves])
def test_no_run_at_all_is_said_the_same_everywhere(ask):
    with pytest.raises(FolderError, match="runs: got none, expected run folders"):
        ask()


def test_what_cannot_be_read_hides_no_run(two, tmp_path):
    root = (tmp_path / "root").rename(tmp_path / "we[1]rd")
    (root / "sweeps" / "manifest.json").write_text('{"name": "of another tool"}')
    table = rl.runs(root)
    assert [run.path.name for run in table.runs] == ["a", "b"]
    assert "Not read:" in table.sheet.caption and "sweeps" in table.sheet.caption
    assert "no runs in" in repr(rl.runs(tmp_path / "nowhere"))


def test_overrides_are_words_or_mappings():
    cfg = rl.compose("arm=mine", {"loop.max_attempts": 5, "recall.omega": "all"})
    assert (cfg.arm, cfg.loop.max_attempts, cfg.recall.omega) == ("mine", 5, "all")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("loop.max_attemps=3", r"unknown key \(did you mean 'loop.max_attempts'\?\); `rl.compose\(\)` shows"),
        (["seed=1", "model=simulatd"], "model: got 'simulatd', expected one of .*gguf, .*did you mean 'simulated'"),
        ("seed=0,1", "seed=0,1: got several values, expected one; `rl.sweep`"),
        ({"seed": "abc"}, "seed"),
        ("+sed=1", "sed: unknown key.*did you mean 'seed'"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_to_write(override, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for start in (rl.run, rl.by_hand):
        with pytest.raises(ConfigError, match=message) as caught:
            start("tracker=none", "model=simulated" if override == {"seed": "abc"} else "quiet=true", override)
        assert "\n" not in str(caught.value) and caught.value.__suppress_context__
    assert not list(tmp_path.rglob("manifest.json"))


def test_a_grid_with_a_mistake_is_refused():
    for grid, problem, words in (
        ({"sed": [0, 1]}, ConfigError, r"sed: unknown key.*did you mean 'seed'.*in cell 0: sed=0"),
        (3, TypeError, "int, expected words"), ({"seed": []}, ValueError, "seed: got an empty list"),
        ({"seed": {1, 2}}, TypeError, "seed: got set"), ({"seed": [b"0"]}, TypeError, "seed: got bytes"),
    ):  # fmt: skip
        with pytest.raises(problem, match=words):
            rl.sweep(grid)


def test_parts_show_no_hidden_test():
    parts = rl.by_hand("model=simulated", "actor=single_shot", "benchmark.load.n=4")
    assert repr(parts) == "4 tasks of basics; .tasks .loop() .judge"
    task, text = parts.tasks[0], repr(parts.tasks)
    assert task.task_id in text and "4 tasks" in text
    assert not any(hidden in text for hidden in (*task.hidden_tests, task.canonical_solution))


def test_a_run_that_is_cut_off_says_so_first(two):
    run = two[0]
    run.write_manifest(replace(run.manifest, n_expected=100))
    assert repr(Run(run)).startswith(f"INCOMPLETE, {len(run.results)} of 100 tasks ended: ")


def test_a_grid_takes_what_a_notebook_holds(tmp_path):
    import numpy as np
    import pandas as pd

    from reflexion_lab.studies.sweeps.sweep import Sweep

    common = {"model": "simulated", "actor": "single_shot", "tracker": "none", "run_root": tmp_path / "a b,c"}
    for seeds, expected in (
        (np.arange(3), [0, 1, 2]), (pd.Series([4, 5]), [4, 5]), (range(2), [0, 1]), (np.int64(7), [7]),
    ):  # fmt: skip
        cells = Sweep.of(lines(common | {"seed": seeds})).cells
        assert [cell.cfg.seed for cell in cells] == expected
        assert {cell.cfg.run_root for cell in cells} == {str(tmp_path / "a b,c")}
    temperatures = [cell.cfg.temperature for cell in Sweep.of(lines(common | {"temperature": np.linspace(0, 1, 3)}))]
    assert temperatures == [0.0, 0.5, 1.0]
