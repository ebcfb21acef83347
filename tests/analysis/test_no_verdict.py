"""A task without hidden tests: in no rate's n, and named wherever a rate stands."""

import csv
import json
from pathlib import Path

import pytest

import reflexion_lab as rl
from reflexion_lab.analysis.summary import Log, summary
from reflexion_lab.cli.main import main
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.studies.tracking import run_view as view
from tests.analysis.conftest import lines_of

RIGHT = "    return n + 1\n"


def row(number: int, **fields: object) -> dict[str, object]:
    name = f"up_{number}"
    return {
        "task_id": f"own/{number}", "prompt": f'def {name}(n):\n    """Return n + 1."""\n', "entry_point": name,
        "visible_tests": [f"assert {name}(1) == 2"], "hidden_tests": [f"assert {name}(5) == 6"],
        "canonical_solution": RIGHT,
    } | fields  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """Runs of two arms over two seeds on three tasks: one without hidden tests, one without visible ones."""
    here = tmp_path_factory.mktemp("no_verdict")
    tasks = [row(1), row(2, hidden_tests=[]), row(3, visible_tests=[])]
    (here / "own.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))
    common = ("model=simulated", "actor=single_shot", "benchmark=jsonl", "tracker=none", "quiet=true")
    runs: dict[str, list[Path]] = {"reflexion": [], "retry": []}
    for arm, paths in runs.items():
        for seed in (0, 1):
            root = here / f"{arm}-{seed}"
            options = (f"benchmark.load.path={here / 'own.jsonl'}", f"run_root={root}", f"seed={seed}", f"arm={arm}")
            assert main(["run", *common, *options]) == 0
            paths.append(next(root.glob("*/manifest.json")).parent)
    return runs


@pytest.fixture
def run(folders) -> RunFolder:
    return RunFolder.existing(folders["reflexion"][0])


def test_a_summary_leaves_it_out_of_n_and_counts_feedback_on_tasks_that_show_a_test(run):
    figures = summary(Log.read(run))
    assert figures.n_logged == 3
    assert figures.no_verdict == ("own/2",)
    assert figures.pass_at_1.n == figures.pass_at_1_first.n == figures.any_solved.n == figures.against_single.n == 2
    log = Log.read(run)
    assert summary(log).visible_pass.n == 2
    assert {(point.n, point.n_feedback) for point in log.points} == {(2, 2)}
    curve = [metric.value for metric in view.metrics(log, summary(log)) if metric.name == "curve/visible_pass"]
    assert curve[-1] == summary(log).visible_pass.share


def test_a_report_counts_pairs_and_cases_with_a_verdict_alone(folders, tmp_path):
    runs = [str(path) for paths in folders.values() for path in paths]
    assert main(["report", *runs, "--out", str(tmp_path / "report")]) == 0
    table = lines_of(tmp_path / "report" / "table.csv")
    for metric, value in {"n_logged": "6", "n": "4", "no_verdict": "2", "tasks": "2"}.items():
        assert [line["value"] for (_, name, _), line in table.items() if name == metric] == [value] * 2, metric
    assert [line["n"] for (_, _, budget), line in table.items() if budget == "as_run"] == ["4"], "one is the baseline"
    curves = list(csv.DictReader((tmp_path / "report" / "curves.csv").open()))
    assert {line["n"] for line in curves} == {"4"}


def test_frames_hold_no_false_for_it(folders):
    frames = rl.load(folders["reflexion"])
    task = frames.tasks[frames.tasks.task_id == "own/2"]
    assert task.hidden_passed.isna().all() and task.hidden_any_solved.isna().all()
    assert frames.attempts[frames.attempts.task_id == "own/2"].hidden_passed.isna().all()
    assert list(frames.runs.n) == [2, 2] and list(frames.runs.no_verdict) == [1, 1]


def test_a_benchmark_without_any_hidden_test_has_no_pass_at_1(tmp_path, capsys):
    (tmp_path / "own.jsonl").write_text(json.dumps(row(1, hidden_tests=[])) + "\n")
    options = (f"benchmark.load.path={tmp_path / 'own.jsonl'}", f"run_root={tmp_path / 'runs'}")
    assert main(["run", "model=simulated", "actor=single_shot", "benchmark=jsonl", "tracker=none", *options]) == 0
    assert "pass@1 not known: no task with a hidden verdict" in " ".join(capsys.readouterr().out.split())
    folder = next((tmp_path / "runs").glob("*/manifest.json")).parent
    assert rl.load(folder).runs.pass_at_1.isna().all()
    assert main(["compare", str(folder)]) == 2
    assert "no task with a hidden verdict" in capsys.readouterr().err
