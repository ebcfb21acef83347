"""A run with a split: rates are of the test tasks, those of train stand apart, and memory learns from train alone."""

import json

import pytest

from reflexion_lab.analysis.comparison.grouping import arms
from reflexion_lab.analysis.report.history import Sources
from reflexion_lab.analysis.report.run_tables import facts, usage
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.summary import summary
from reflexion_lab.cli.main import main
from reflexion_lab.errors import ConfigError
from reflexion_lab.notebook.frames import load
from reflexion_lab.records import Episode
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.config.parts import load_benchmark
from reflexion_lab.runner.config.record import RunConfig
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.storage.place import opened
from reflexion_lab.studies.tracking.run_view import metrics
from tests.builders import FAMILIES

OPTIONS = (
    "benchmark=basics", "benchmark.load.n=8", "benchmark.order=1", "benchmark.passes=2", "benchmark.split={test: 0.25}",
    "model=simulated", "actor=single_shot", "reflector=rules", "loop.max_attempts=2", "memory.shared.round_size=16",
    "memory.shared.shown.wisdom=2", "tracker=none", "store=jsonl", "curator=full_history",
)  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    root = tmp_path_factory.mktemp("split")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        assert main(["run", *OPTIONS]) == 0
    return RunFolder(next(root.rglob("manifest.json")).parent)


def test_every_result_names_its_side_and_the_train_tasks_come_first(run):
    log = Log.read(run)
    sides = {result.task_id: result.split for result in log.results.values()}
    order = [task.task_id for task in load_benchmark(RunConfig.of(compose(*OPTIONS)))]
    assert [sides[task_id] for task_id in order] == ["train"] * 12 + ["test"] * 2
    assert len({log.results[task_id].cluster for task_id in order}) == 8  # a later pass keeps the cluster


def test_rates_are_of_the_test_tasks_and_train_is_reported_apart(run):
    log = Log.read(run)
    figures = summary(log)
    assert (figures.pass_at_1.n, figures.train.n, figures.n_logged) == (2, 12, 14)
    assert (figures.pass_at_1_first.n, figures.against_single.n, log.points[0].n) == (2, 2, 2)
    passed = {task_id: grade.passed for task_id, (_, grade) in log.submitted.items()}
    assert figures.train.k == sum(passed[i] for i, result in log.results.items() if result.split == "train")
    assert dict(facts(log))["pass@1, held-out tasks"] and dict(facts(log))["train tasks"]
    (arm,) = arms([run])
    assert (len(arm.judged), arm.train) == (2, 12)
    stored = json.loads((run.path / "summary.json").read_bytes())
    assert stored["train"]["n"] == 12
    frames = load(run)
    assert (frames.tasks["split"].tolist().count("test"), frames.runs["n"].tolist()) == (2, [2])


def test_tokens_per_solved_task_are_of_train_and_held_out_tasks_alike(run):
    log = Log.read(run)
    n_solved = sum(grade.passed for _, grade in log.submitted.values())
    assert n_solved > summary(log).pass_at_1.k
    used = summary(log).usage["actor"].tokens
    table = usage(log)
    assert {row[0]: row[4] for row in table.rows}["actor"] == f"{used / n_solved:,.0f}"
    assert "over all tasks, train and held-out" in table.caption
    measures = {metric.name: metric.value for metric in metrics(log, summary(log))}
    assert measures["usage/actor/tokens_per_solved"] == used / n_solved


def test_memory_learns_from_train_tasks_alone_and_held_out_ones_show_items_of_all_rounds(run):
    store = opened(str(run.path.parents[1] / run.manifest.config["store"]["place"]))
    learnt = {episode.task_id for episode in store.read(Episode)}
    assert len(learnt) == 6
    assert not learnt & {i for i, result in Log.read(run).results.items() if result.split == "test"}
    log = Log.read(run)
    ((attempt, *_), *_) = (log.attempts[i] for i, result in log.results.items() if result.split == "test")
    items = [item for item in Sources.of(log).memory_items(attempt) if item.kind == "item"]
    assert len(items) > 5 and all(item.where and item.words for item in items)


def test_a_run_without_a_split_says_nothing_of_one(write_run):
    log = Log.read(write_run({"a": [(1.0, True)]}))
    assert log.headline is log
    assert not summary(log).train


@pytest.mark.parametrize(("override", "message"), [
    ("benchmark.split={tests: 0.5}", "benchmark.split.tests: unknown key"),
    ("benchmark.split={test: 2}", r"benchmark.split.test: got 2, expected .* 1"),
    ("benchmark.split=test", "benchmark.split"), ("benchmark.passes=0", "benchmark.passes: got 0, expected 1 or more"),
])  # fmt: skip
def test_a_wrong_value_is_refused_by_its_key(override, message):
    with pytest.raises(ConfigError, match=message):
        load_benchmark(RunConfig.of(compose("benchmark=basics", "benchmark.load.n=8", override)))


def test_no_fold_tests_a_task_of_validation(tmp_path):
    stream = (*FAMILIES, "benchmark.load.n=24", "benchmark.load.families=8")
    plain = (*stream, "actor=single_shot", "loop.max_attempts=1", "tracker=none", "quiet=true")
    held_out = {"test": [], "validation": []}
    for part, sides in held_out.items():
        for fold in (0, 1):
            root = tmp_path / f"{part}{fold}"
            split = f"benchmark.split={{folds: 2, fold: {fold}, validation: 0.25, part: {part}}}"
            assert main(["run", *plain, split, f"run_root={root}"]) == 0
            log = Log.read(RunFolder(next(root.glob("*/manifest.json")).parent))
            sides.append({result.cluster for result in log.results.values() if result.split == part})
    assert held_out["validation"][0] == held_out["validation"][1]
    sides = [*held_out["test"], held_out["validation"][0]]
    assert [len(side) for side in sides] == [3, 3, 2]
    assert len(set.union(*sides)) == 8
