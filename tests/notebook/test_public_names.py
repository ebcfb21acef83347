"""What `import reflexion_lab as rl` gives, and what it costs."""

import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

import reflexion_lab as rl
from reflexion_lab.run_folder import RunFolder, RunFolderError, folders


@pytest.fixture
def two(write_run, tmp_path):
    """Run folders `root/a` and `root/b`, beside a folder that holds no run."""
    made = []
    (tmp_path / "root" / "sweeps").mkdir(parents=True)
    for seed, name in ((1, "a"), (2, "b")):
        folder = write_run(seed=seed)
        folder.write_manifest(replace(folder.manifest, run_id=name))
        made.append(RunFolder(folder.path.rename(tmp_path / "root" / name)))
    return made


class Holder:
    """Whatever knows its run folder, or several."""

    def __init__(self, **known):
        self.__dict__.update(known)


def test_importing_the_lab_loads_nothing_heavy():
    heavy = ["numpy", "pandas", "matplotlib", "mlflow", "hydra", "omegaconf", "ipywidgets", "rich", "jinja2", "tqdm"]
    code = f"import sys, reflexion_lab; print([name for name in {heavy} if name in sys.modules])"
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert asked.stdout.strip() == "[]"


def test_every_public_name_is_there_is_listed_and_says_what_it_does():
    assert len(rl.__all__) == 12
    assert set(rl.__all__) <= set(dir(rl))
    for name in rl.__all__:
        assert getattr(rl, name).__doc__, name


def test_a_name_that_is_not_there_is_answered_with_those_that_are():
    with pytest.raises(AttributeError, match="no attribute 'compair'; it has by_hand, compare, compose"):
        rl.compair  # noqa: B018


def test_runs_are_named_in_many_ways_and_each_counts_once(two):
    first, second = two
    root = first.path.parent
    ways = [
        (first.path, second.path),
        (str(first.path), second),
        (f"{root}/*",),
        ([first.path, [second]],),
        (Holder(folder=first), Holder(runs=[second.path])),
        (root / "*", first.path, root / "." / "b"),
    ]
    for way in ways:
        assert [run.path.resolve() for run in folders(*way)] == [first.path.resolve(), second.path.resolve()], way


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("nowhere", "nowhere: no manifest.json found"),
        ("nowhere/*", "expected a pattern that fits run folders"),
        (7, "7: found as a run; expected a folder, a pattern"),
        (Holder(runs=None), "found as a run"),
    ],
)
def test_what_is_no_run_is_said(named, said):
    with pytest.raises(RunFolderError, match=said):
        folders(named)


def test_a_table_of_runs_tells_what_each_was(two, tmp_path):
    shown = rl.runs(tmp_path / "root")
    assert [Path(row[0]).name for row in shown.rows] == ["a", "b"]
    assert [row[4] for row in shown.rows] == ["1", "2"]
    assert all(row[-1] == "-" for row in shown.rows), "no summary was written: they are not finished"


def test_overrides_are_words_or_mappings():
    cfg = rl.compose("arm=mine", {"loop.max_attempts": 5, "recall.omega": "all"})
    assert (cfg.arm, cfg.loop.max_attempts, cfg.recall.omega) == ("mine", 5, "all")
