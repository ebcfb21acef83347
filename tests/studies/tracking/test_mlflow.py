"""One MLflow run for each run folder: written in whole, replaced in whole, by any number of processes."""

import os
import shutil
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from msgspec.structs import replace

from reflexion_lab.cli.main import main
from reflexion_lab.errors import FolderError
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.studies.tracking.mlflow import MlflowTracker, TrackerError
from reflexion_lab.studies.tracking.null import NullTracker

FIGURES = ("curves",)


def client(tracker):
    from mlflow import MlflowClient

    return MlflowClient(tracker.uri)


def test_a_folder_is_one_flat_run_with_all_its_figures(tracker, run, logged):
    path = run(solved_at=(1, 2, 3, 0))
    (path / "summary.json").write_text('{"ended_at": "2025-03-01T10:00:07Z"}')
    os.utime(path / "results.jsonl", (2e9, 2e9))  # times come from the records, not from the files
    tracker.track(path)
    (job,) = logged()
    info, params, tags = job.info, job.data.params, job.data.tags
    assert (info.run_name, info.status) == ("s0 reflexion a3 Ω1 basics", "FINISHED")
    assert (info.start_time, info.end_time) == (1740823200000, 1740823207000)
    assert "mlflow.parentRunId" not in tags
    history = client(tracker).get_metric_history(info.run_id, "curve/pass_at_1")
    assert [(point.step, point.value) for point in history] == [(1, 0.25), (2, 0.5), (3, 0.75)]
    assert (job.data.metrics["final/pass_at_1"], job.data.metrics["usage/task_seconds"]) == (0.75, 8.0)
    assert (params["loop.max_attempts"], tags["feedback_source"], tags["sweep_id"]) == ("3", "visible", "sweep-7")
    assert "75.0 %" in tags["mlflow.note.content"]
    assert job.inputs.dataset_inputs[0].dataset.name == "basics"
    drawn = [client(tracker).download_artifacts(info.run_id, f"{name}.png") for name in FIGURES]
    assert {Path(figure).read_bytes() for figure in drawn} == {b"drawn"}, "the run's own figures"
    secrets = [name for name in (*params, *tags) if any(word in name.lower() for word in ("key", "token", "secret"))]
    assert secrets == ["recall.max_tokens"]


@pytest.mark.parametrize(("seeds", "runs"), [((0, 1, 2, 3), ["0", "1", "2", "3"]), ((0, 0, 0), ["0"])])
def test_threads_may_track_runs_at_once(tracker, run, logged, seeds, runs):
    folders = {seed: run(f"run-{seed}", seed=seed) for seed in seeds}
    barrier = threading.Barrier(len(seeds))

    def track(seed):
        barrier.wait()
        return tracker.track(folders[seed])

    tracker.prepare()
    with ThreadPoolExecutor(len(seeds)) as pool:
        assert len(list(pool.map(track, seeds))) == len(seeds)
    assert sorted(job.data.params["seed"] for job in logged()) == runs


def test_files_are_copied_without_drafts(tracker, run, logged):
    path = run(is_drawn=False)
    (path / ".manifest.json.99").write_text("half")
    (path / "reflections").mkdir()
    (path / "reflections" / "001.json").write_text("{}")
    before = sorted(path.rglob("*"))
    tracker.track(path)
    assert sorted(path.rglob("*")) == before, "nothing is written into the run folder"
    (job,) = logged()
    names = {item.path for item in client(tracker).list_artifacts(job.info.run_id)}
    records = {"manifest.json", "attempts.jsonl", "results.jsonl", "grades.jsonl"}
    assert names == records | {"reflections"} | {f"{name}.{kind}" for name in FIGURES for kind in ("png", "csv")}
    (inner,) = client(tracker).list_artifacts(job.info.run_id, "reflections")
    assert inner.path == "reflections/001.json"
    copied = Path(client(tracker).download_artifacts(job.info.run_id, "attempts.jsonl"))
    assert copied.read_bytes() == (path / "attempts.jsonl").read_bytes()


def test_tracking_again_replaces_the_run(tracker, run, logged):
    path = run(solved_at=(1, 0), n_expected=4)
    tracker.track(path)
    (first,) = logged()
    assert first.info.status == "KILLED"
    tracker.track(run(solved_at=(3, 2), n_expected=4))
    (second,) = logged()
    assert second.data.metrics["final/pass_at_1"] == 1.0
    assert second.info.run_id != first.info.run_id


def test_the_link_shows_the_runs_of_the_sweep_best_first(tracker, run):
    link = tracker.track(run())
    experiment = client(tracker).get_experiment_by_name("trial")
    place, _, query = link.partition("?")
    assert place == f"http://127.0.0.1:5000/#/experiments/{experiment.experiment_id}/runs"
    assert parse_qs(query) == {
        "compareRunsMode": ["CHART"], "searchFilter": ["tags.kind = 'job' and tags.sweep_id = 'sweep-7'"],
        "orderByKey": ["metrics.`final/pass_at_1`"], "orderByAsc": ["false"], "startTime": ["ALL"],
    }  # fmt: skip


def test_a_registered_study_has_an_experiment_of_its_name(tracker, run):
    path = run()
    folder = RunFolder.existing(path)
    folder.write_manifest(replace(folder.manifest, study="does it help", study_digest="ab"))
    tracker.track(path)
    experiment = client(tracker).get_experiment_by_name("does it help")
    (job,) = client(tracker).search_runs([experiment.experiment_id])
    assert job.data.tags["study"] == "does it help"
    assert client(tracker).get_experiment_by_name("trial") is None


def test_a_failure_keeps_the_former_run_and_says_how_to_try_again(tracker, run, tmp_path, logged):
    path = run()
    tracker.track(path)
    (former,) = logged()
    shutil.rmtree(tmp_path / "mlartifacts")
    (tmp_path / "mlartifacts").write_text("in the way")
    with pytest.raises(TrackerError, match=f"the run is safe in its folder.*reflexion-lab track {path}"):
        tracker.track(path)
    assert [job.info.run_id for job in logged()] == [former.info.run_id]


def test_a_damaged_database_and_a_folder_without_a_run_are_named(tracker, tmp_path, run):
    with pytest.raises(FolderError, match="no manifest"):
        tracker.track(tmp_path)
    (tmp_path / "broken.db").write_text("no database" * 100)
    with pytest.raises(TrackerError, match=r"broken\.db failed"):
        MlflowTracker(f"sqlite:///{tmp_path / 'broken.db'}").track(run())


def test_the_database_is_fixed_when_the_tracker_is_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tracker = MlflowTracker("sqlite:///runs/mlflow.db")
    monkeypatch.chdir("/")
    assert tracker.uri == f"sqlite:///{tmp_path}/runs/mlflow.db"
    assert tracker.artifacts == tmp_path / "runs" / "mlartifacts"


@pytest.mark.parametrize("uri", ["mlflow.db", "./mlruns", "file:///tmp/mlruns", "sqlite://", "sqlite:///:memory:"])
def test_an_address_that_is_no_database_is_refused(uri):
    with pytest.raises(ValueError, match=r"tracker\.uri"):
        MlflowTracker(uri)


def test_the_command_opens_this_database_on_this_machine_alone_and_starts_no_server(tracker):
    assert f"mlflow ui --backend-store-uri {tracker.uri} --host 127.0.0.1 --port 5000 --workers 1" in tracker.command
    assert tracker.command.startswith("MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false ")
    tracker = MlflowTracker("http://tracking.example:8080/")
    assert (tracker.site, tracker.command, tracker.database) == ("http://tracking.example:8080", "", None)


def test_a_missing_mlflow_is_said_before_the_run_and_the_null_tracker_writes_nothing(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(TrackerError, match="pip install 'mlflow"):
        MlflowTracker()
    assert (NullTracker().track(tmp_path), NullTracker().track_arms([tmp_path])) == ("", {})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("variable", "word", "place"), [
    ("", "", "runs/mlflow.db"), ("mine.db", "", "mine.db"), ("mine.db", "storage.tracking", "other.db"),
    ("mine.db", "tracker.uri", "other.db"),
])  # fmt: skip
def test_mlflows_own_variable_is_used_where_it_is_set(variable, word, place, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "./mlruns")
    assert main(["run", "model=simulated", "benchmark.limit=1"]) == 2
    assert "tracker.uri: got './mlruns', " in (error := capsys.readouterr().err) and "$MLFLOW_TRACKING_URI" in error
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    if variable:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{variable}")
    words = [f"{word}=sqlite:///other.db"] if word else []
    assert main(["run", "model=simulated", "benchmark.limit=1", "tracker=mlflow", *words]) == 0
    assert [str(path) for path in Path().rglob("*.db") if not path.name.startswith(".")] == [place]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/{place}")
    assert main(["track", "runs"]) == 0
    assert f"mlflow ui --backend-store-uri sqlite:///{tmp_path}/{place} " in capsys.readouterr().out
