"""A benchmark in shards measures what it measures as a whole: equal verdicts, equal tables, one arm."""

import contextlib
import csv
import json
import shutil

import pytest
from msgspec.structs import replace

import reflexion_lab as rl
from reflexion_lab.agent.reflectors.quoted import Quoted
from reflexion_lab.analysis.comparison import side_by_side
from reflexion_lab.analysis.comparison.cases import save_cases
from reflexion_lab.analysis.report import run_tables
from reflexion_lab.analysis.report.comparison import warnings
from reflexion_lab.analysis.report.documents import rows, save_report
from reflexion_lab.analysis.shards import grouped, read, with_others
from reflexion_lab.analysis.summary import summary
from reflexion_lab.cli.main import main
from reflexion_lab.cli.run import in_processes
from reflexion_lab.errors import ConfigError, DataError, FolderError
from reflexion_lab.runner.config.assemble import assemble
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.folder.folder import RunFolder, folders
from reflexion_lab.studies.replay.verify import verify
from reflexion_lab.studies.sweeps.running import sweep
from reflexion_lab.studies.sweeps.sweep import Sweep
from reflexion_lab.studies.tracking.arm_runs import note

COMMON = ["model=simulated", "actor=single_shot", "tracker=none", "quiet=true", "workers=2"]
SMALL = [*COMMON, "benchmark.limit=9", "benchmark.order=3", "loop.max_attempts=2"]
ARMS = ["recall.omega=0,1", "seed=0,1"]
IN_FOUR = "benchmark.shard=0/4,1/4,2/4,3/4"
TIMES = ("seconds", "run_ids")


def swept(root, *overrides):
    return sweep([*SMALL, f"run_root={root}", *overrides], quiet=True)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return swept(tmp_path_factory.mktemp("whole"), *ARMS)


@pytest.fixture(scope="module")
def cut(tmp_path_factory):
    return swept(tmp_path_factory.mktemp("cut"), *ARMS, IN_FOUR)


def verdicts(arms):
    return {(arm.label, case): passed for arm in arms for case, passed in arm.verdicts().items()}


def table(comparison):
    return [
        {key: value for key, value in row.items() if not any(word in key for word in TIMES)} for row in rows(comparison)
    ]


def cases(folder, arms, comparison):
    save_report(folder, comparison, arms)
    with (folder / "cases.csv").open() as file:
        return sorted(
            tuple((key, value) for key, value in row.items() if not any(word in key for word in TIMES))
            for row in csv.DictReader(file)
        )


def test_four_shards_are_the_whole(whole, cut, tmp_path):
    assert len(cut) == 4 * len(whole) == 16
    (arms, comparison), (pooled, of_shards) = (side_by_side(folders(each)) for each in (whole, cut))
    assert verdicts(pooled) == verdicts(arms)
    assert len(verdicts(arms)) == 2 * 2 * 9
    assert table(of_shards) == table(comparison)
    assert [arm.label for arm in pooled] == ["reflexion recall.omega=0", "reflexion recall.omega=1"]
    assert list(warnings(of_shards)) == list(warnings(comparison))
    for name in ("whole", "cut"):
        (tmp_path / name).mkdir()
    assert cases(tmp_path / "cut", pooled, of_shards) == cases(tmp_path / "whole", arms, comparison)


def test_a_benchmark_with_clusters_has_the_same_table_in_shards(tmp_path):
    task = 'def f{0}(x):\n    """Return x plus {0}."""\n'
    lines = [
        {
            "task_id": f"own/{number}", "prompt": task.format(number), "entry_point": f"f{number}",
            "canonical_solution": f"    return x + {number}\n",
            "visible_tests": [f"assert f{number}(1) == {1 + number}"],
            "hidden_tests": [f"assert f{number}(5) == {5 + number}"], "cluster": "abaacbcda"[number],
        }
        for number in range(9)
    ]  # fmt: skip
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    words = [*COMMON, f"benchmark={tmp_path / 'tasks.jsonl'}", "seed=0,1"]
    both = [
        sweep([*words, f"run_root={tmp_path / name}", f"benchmark.shard={shards}"], quiet=True)
        for name, shards in (("whole", "null"), ("cut", "0/2,1/2"))
    ]
    sizes = [len(RunFolder.existing(run).results) for run in both[1].runs]
    assert sizes == [5, 4, 5, 4]
    (arms, comparison), (pooled, of_shards) = (side_by_side(folders(each)) for each in both)
    assert table(of_shards) == table(comparison)
    assert pooled[0].n_clusters == arms[0].n_clusters == 4


def test_the_same_command_keeps_every_shard(cut):
    again = Sweep.of([*SMALL, f"run_root={cut.root}", *ARMS, IN_FOUR])
    assert again.keep() == []
    assert len({run.name for run in again.runs}) == 16


def test_notebooks_and_screens_have_the_pool_as_one_run(whole, cut, capsys):
    frames, expected = rl.load(cut), rl.load(whole)
    assert len(frames.runs) == len(expected.runs) == 4
    assert frames.runs.n.tolist() == [9] * 4
    assert sorted(frames.attempts.task_id) == sorted(expected.attempts.task_id)
    assert len(rl.compare(cut).arms) == 2
    assert verify(cut.runs[1]).holds
    assert main(["show", str(cut.runs[1])]) == 0
    assert "4 of 4 shards" in " ".join(capsys.readouterr().out.split())


def test_a_missing_shard_is_named(cut, tmp_path, capsys):
    runs = [run for run in folders(cut) if run.manifest.seed == 0]
    assert main(["compare", *(str(run.path) for run in runs[1:])]) == 0
    assert "has 3 of 4 shards at seed 0" in " ".join(capsys.readouterr().out.split())
    arms, comparison = side_by_side(runs[1:])
    assert main(["compare", str(save_cases(tmp_path / "cases.csv", arms))]) == 0
    assert "has 3 of 4 shards at seed 0" in " ".join(capsys.readouterr().out.split())
    assert comparison.document["arms"][0]["shards"] == ("3 of 4 shards at seed 0",)
    assert "3 of 4 shards at seed 0**" in note(comparison.rows[0], comparison)
    assert rl.load(runs[1:]).runs.pass_at_1.isna().tolist() == [True, False]
    shutil.copytree(runs[1].path, tmp_path / runs[1].path.name)
    assert main(["show", str(tmp_path / runs[1].path.name)]) == 0
    assert "SHARDS MISSING: 1 of 4 shards" in " ".join(capsys.readouterr().out.split())
    assert main(["show", str(tmp_path / runs[1].path.name), "--json"]) == 0
    assert "SHARDS MISSING: 1 of 4 shards" in capsys.readouterr().err


@pytest.fixture
def copied(cut, tmp_path):
    """A copy of a shard of the first cell with another manifest."""
    shards = [run for run in folders(cut) if is_of_first_cell(run)]

    def copy(number, name, sweep_id="a", **fields):
        run = RunFolder(shutil.copytree(shards[number].path, tmp_path / name))
        config = {**run.manifest.config, "sweep_id": sweep_id}
        run.write_manifest(replace(run.manifest, **{"run_id": name, "config": config, **fields}))
        return RunFolder(run.path)

    return copy


def test_shards_of_a_sweep_belong_together_else_the_newest(copied):
    days = enumerate(("", "", "a"))
    old, new, swept = ([copied(number, f"{day}-{number}", sweep) for number in range(4)] for day, sweep in days)
    assert paths(with_others(new[2])) == paths(new)
    assert list(map(paths, grouped([old[0], *swept[::-1], *old[1:]]))) == [paths(old), paths(swept)]


def paths(group):
    return [run.path for run in group]


def test_shards_have_equal_prices_and_tasks(copied):
    first, second = copied(0, "first"), copied(1, "second")
    priced = copied(1, "priced", prices={"actor": "1 USD"})
    other = copied(1, "other", provenance=replace(second.manifest.provenance, benchmark_file_digest="another"))
    assert list(map(len, grouped([first, priced, other, second]))) == [2, 1, 1]
    with pytest.raises(FolderError, match="first: got a task in two of its shards"):
        read([first, copied(0, "again")])


def test_an_unfinished_shard_of_other_packages_is_named(copied):
    first, second = copied(0, "first"), copied(1, "second")
    third = copied(2, "third", package_versions={**first.manifest.package_versions, "numpy": "0"}, n_expected=9)
    assert not read([first, second]).resumptions
    log = read([first, second, third])
    changed, *_, incomplete = run_tables.warnings(log, summary(log), first.path)
    assert "numpy" in changed and f"with resume={third.path}" in incomplete
    with pytest.raises(DataError, match="run third: got 7 of 14 tasks"):
        side_by_side([first, second, third])


class Reader(Quoted):
    def __init__(self, tasks):
        Reader.n = len(tasks)


def test_a_reflector_reads_the_tasks_of_every_shard(tmp_path):
    cfg = compose(*SMALL, f"run_root={tmp_path}", "benchmark.shard=1/2")
    cfg.reflector = {"_target_": f"{__name__}.Reader"}
    with contextlib.closing(assemble(cfg)) as lab:
        lab.runner.loop()
    assert Reader.n == 9


def test_a_shard_that_is_there_twice_is_another_run_of_its_seed(cut, tmp_path):
    (first, *others) = [run for run in folders(cut) if is_of_first_cell(run)]
    twin = RunFolder(shutil.copytree(first.path, tmp_path / first.path.name))
    assert len(others) == 3
    with pytest.raises(DataError, match="two runs of seed 0"):
        side_by_side([first, twin, *others])
    assert len(rl.load([first, twin, *others]).runs) == 2


def is_of_first_cell(run):
    return run.manifest.seed == run.manifest.config["recall"]["omega"] == 0


@pytest.mark.parametrize(("words", "key"), [
    (["curator=wisdom"], "curator"), (["store=jsonl"], "store"),
    (["memory.shared.shown.wisdom=1"], "memory.shared.shown"), (["memory.shared.priors=true"], "memory.shared.priors"),
    (["recall=similar"], "recall"), (["benchmark.split={test: 0.5}"], "benchmark.split"),
])  # fmt: skip
def test_memory_across_tasks_is_refused_with_its_key(words, key, tmp_path):
    cfg = compose(*SMALL, f"run_root={tmp_path}", "benchmark.shard=1/2", *words)
    with pytest.raises(ConfigError, match=f"benchmark.shard: got 1/2 with memory across tasks by {key}, expected none"):
        assemble(cfg)
    assert not [*tmp_path.glob("*/manifest.json")]


def test_a_run_resumes_as_its_own_shard_alone(cut):
    run = folders(cut)[0]
    cfg = compose(*SMALL, f"run_root={cut.root}", "recall.omega=0", "benchmark.shard=1/4", f"resume={run.path}")
    with pytest.raises(ConfigError, match=r"began with another .*benchmark\.shard"):
        assemble(cfg)


@pytest.mark.slow
def test_a_run_in_processes_is_the_whole(whole, tmp_path, capsys):
    assert main(["run", "-m", "--processes", "2", *SMALL, f"run_root={tmp_path}", *ARMS]) == 0, capsys.readouterr().err
    (arms, comparison), (pooled, of_shards) = (side_by_side(folders(each)) for each in (whole, tmp_path))
    assert verdicts(pooled) == verdicts(arms)
    assert table(of_shards) == table(comparison)


@pytest.mark.parametrize(("words", "problem"), [
    (["--processes=1"], "--processes: got 1, expected 2 or more"),
    (["--processes", "4", "benchmark.shard=0/2"], "--processes: got benchmark.shard=0/2 beside it"),
    (["hydra/launcher=ray", "--processes=4"], "--processes: got hydra/launcher=ray beside it"),
    (["--processes=4", "hydra.launcher.n_jobs=2"], "--processes: got hydra.launcher.n_jobs=2 beside it"),
])  # fmt: skip
def test_processes_are_several_and_alone(words, problem, tmp_path, capsys):
    assert main(["run", *SMALL, f"run_root={tmp_path}", *words]) == 2
    assert problem in capsys.readouterr().err
    assert {len(in_processes(2, [f"{plus}sandbox.servers=3"])) for plus in ("", "+", "++")} == {4}


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["joblib", "ray", "submitit_local"])
def test_shards_by_a_launcher_are_the_whole(launcher, whole, tmp_path, capsys):
    words = [*SMALL, f"run_root={tmp_path}", *ARMS, IN_FOUR, f"hydra/launcher={launcher}"]
    assert main(["run", "-m", *words]) == 0, capsys.readouterr().err
    (arms, comparison), (pooled, of_shards) = (side_by_side(folders(each)) for each in (whole, tmp_path))
    assert verdicts(pooled) == verdicts(arms)
    assert table(of_shards) == table(comparison)
