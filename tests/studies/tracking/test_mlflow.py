from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from reflexion_lab.errors import FolderError
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.studies.tracking.mlflow import MlflowTracker, TrackerError
from reflexion_lab.studies.tracking.saved_views import TAG

Run = Callable[..., Path]


def client(tracker: MlflowTracker) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(tracker.uri)


def logged(tracker: MlflowTracker) -> list[Any]:
    """The experiment's runs that are not in the trash."""
    experiment = client(tracker).get_experiment_by_name(tracker.experiment)
    return list(client(tracker).search_runs([experiment.experiment_id]))


@pytest.mark.slow
def test_four_processes_may_make_a_new_database_and_track_at_once(
    born_together: tuple[Path, list[str], list[str]],
) -> None:
    database, links, failures = born_together
    assert failures == []
    assert len(links) == 4
    assert len(set(links)) == 1
    found = client(MlflowTracker(f"sqlite:///{database}"))
    experiment = found.get_experiment_by_name("reflexion")
    runs = found.search_runs([experiment.experiment_id])
    assert sorted(run.data.params["seed"] for run in runs) == ["0", "1", "2", "3"]
    assert {run.info.status for run in runs} == {"FINISHED"}
    assert all(len(found.get_metric_history(run.info.run_id, "curve/pass_at_1")) == 3 for run in runs)


def test_a_folder_is_one_flat_finished_run(tracker: MlflowTracker, run: Run) -> None:
    path = run()
    tracker.track(path)
    (found,) = logged(tracker)
    assert found.info.run_name == "reflexion a3 Ω1 s0 basics"
    assert found.info.status == "FINISHED"
    assert "mlflow.parentRunId" not in found.data.tags
    assert found.info.start_time == 1740823200000


def test_duration_is_that_of_the_records_whatever_the_times_of_files(tracker: MlflowTracker, run: Run) -> None:
    path = run()
    (path / "summary.json").write_text('{"ended_at": "2025-03-01T10:00:07Z"}')
    os.utime(path / "results.jsonl", (2e9, 2e9))
    tracker.track(path)
    (tracked,) = logged(tracker)
    assert tracked.info.end_time - tracked.info.start_time == 7000
    assert tracked.data.metrics["usage/task_seconds"] == 4.0


def test_runs_of_one_benchmark_may_be_tracked_at_once(tracker: MlflowTracker, run: Run) -> None:
    folders = [run(f"run-{seed}", seed=seed) for seed in range(4)]
    together(tracker, folders)
    assert sorted(tracked.data.params["seed"] for tracked in logged(tracker)) == ["0", "1", "2", "3"]


def test_one_run_tracked_by_three_at_once_is_there_once(tracker: MlflowTracker, run: Run) -> None:
    together(tracker, [run()] * 3)
    assert len(logged(tracker)) == 1


def together(tracker: MlflowTracker, folders: list[Path]) -> None:
    """Track all of them at the same moment, a thread each."""
    barrier = threading.Barrier(len(folders))

    def track(folder: Path) -> str:
        barrier.wait()
        return tracker.track(folder)

    tracker.prepare()
    with ThreadPoolExecutor(len(folders)) as pool:
        assert len(list(pool.map(track, folders))) == len(folders)


def test_metric_history_has_the_attempt_as_step(tracker: MlflowTracker, run: Run) -> None:
    tracker.track(run(solved_at=(1, 2, 3, 0)))
    (found,) = logged(tracker)
    history = client(tracker).get_metric_history(found.info.run_id, "curve/pass_at_1")
    assert [(point.step, point.value) for point in history] == [(1, 0.25), (2, 0.5), (3, 0.75)]
    assert found.data.metrics["final/pass_at_1"] == 0.75


def test_params_and_tags_are_readable_back(tracker: MlflowTracker, run: Run) -> None:
    tracker.track(run())
    (found,) = logged(tracker)
    assert found.data.params["loop.max_attempts"] == "3"
    assert found.data.tags["feedback_source"] == "visible"
    assert found.data.tags["sweep_id"] == "sweep-7"
    assert "pass@1 **0.750**" in found.data.tags["mlflow.note.content"]
    assert found.inputs.dataset_inputs[0].dataset.name == "basics"


def test_no_name_of_a_secret_reaches_the_database(tracker: MlflowTracker, run: Run) -> None:
    tracker.track(run())
    (found,) = logged(tracker)
    names = [*found.data.params, *found.data.tags]
    assert [name for name in names if any(word in name.lower() for word in ("key", "token", "secret"))] == [
        "recall.max_tokens"
    ]


FIGURES = ("convergence", "reflections")


def test_files_are_copied_without_drafts(tracker: MlflowTracker, run: Run) -> None:
    path = run(is_drawn=False)
    (path / ".manifest.json.99").write_text("half")
    (path / "reflections").mkdir()
    (path / "reflections" / "001.json").write_text("{}")
    tracker.track(path)
    (found,) = logged(tracker)
    names = {item.path for item in client(tracker).list_artifacts(found.info.run_id)}
    records = {"manifest.json", "attempts.jsonl", "results.jsonl", "grades.jsonl"}
    assert names == records | {"reflections"} | {f"{name}.{kind}" for name in FIGURES for kind in ("png", "csv")}
    (inner,) = client(tracker).list_artifacts(found.info.run_id, "reflections")
    assert inner.path == "reflections/001.json"
    copied = Path(client(tracker).download_artifacts(found.info.run_id, "attempts.jsonl"))
    assert copied.read_bytes() == (path / "attempts.jsonl").read_bytes()


def test_figures_of_the_run_are_not_drawn_again(tracker: MlflowTracker, run: Run) -> None:
    path = run()
    for name in FIGURES:
        (path / f"{name}.png").write_bytes(b"drawn")
    tracker.track(path)
    (found,) = logged(tracker)
    for name in FIGURES:
        assert Path(client(tracker).download_artifacts(found.info.run_id, f"{name}.png")).read_bytes() == b"drawn"


def test_tracking_writes_nothing_into_the_run_folder(tracker: MlflowTracker, run: Run) -> None:
    path = run(is_drawn=False)
    before = sorted(path.rglob("*"))
    tracker.track(path)
    assert sorted(path.rglob("*")) == before


def test_tracking_again_replaces_the_run(tracker: MlflowTracker, run: Run) -> None:
    path = run(solved_at=(1, 0), n_expected=4)
    tracker.track(path)
    (first,) = logged(tracker)
    assert first.info.status == "KILLED"
    tracker.track(run(solved_at=(3, 2), n_expected=4))
    (second,) = logged(tracker)
    assert second.data.metrics["final/pass_at_1"] == 1.0
    assert second.info.run_id != first.info.run_id
    assert second.data.tags["mlflow.runColor"] == first.data.tags["mlflow.runColor"]


def test_two_folders_are_two_runs(tracker: MlflowTracker, run: Run) -> None:
    tracker.track(run("one", seed=1))
    tracker.track(run("two", seed=2))
    assert {found.data.params["seed"] for found in logged(tracker)} == {"1", "2"}
    assert len({found.data.tags["mlflow.runColor"] for found in logged(tracker)}) == 2


def test_the_link_opens_the_charts_of_the_sweep_by_a_view_that_is_there(tracker: MlflowTracker, run: Run) -> None:
    link = tracker.track(run())
    experiment = client(tracker).get_experiment_by_name("trial")
    charts = f"http://127.0.0.1:5000/#/experiments/{experiment.experiment_id}/runs?compareRunsMode=CHART"
    assert link == f"{charts}&workflowType=machine_learning&viewStateShareKey=charts-sweep-7"
    assert f"{TAG}charts-sweep-7" in experiment.tags


def test_a_view_that_a_reader_has_changed_stays(tracker: MlflowTracker, run: Run) -> None:
    tracker.track(run())
    experiment = client(tracker).get_experiment_by_name("trial")
    client(tracker).set_experiment_tag(experiment.experiment_id, f"{TAG}runs", "changed")
    tracker.track(run())
    assert client(tracker).get_experiment_by_name("trial").tags[f"{TAG}runs"] == "changed"


def test_runs_of_a_registered_study_have_an_experiment_of_its_name(tracker: MlflowTracker, run: Run) -> None:
    path = run()
    folder = RunFolder.existing(path)
    folder.write_manifest(replace(folder.manifest, study="does it help", study_digest="ab"))
    tracker.track(path)
    experiment = client(tracker).get_experiment_by_name("does it help")
    (found,) = client(tracker).search_runs([experiment.experiment_id])
    assert found.data.tags["study"] == "does it help"
    assert client(tracker).get_experiment_by_name("trial") is None


def test_a_failure_keeps_the_former_run_and_says_how_to_try_again(
    tracker: MlflowTracker, run: Run, tmp_path: Path
) -> None:
    path = run()
    tracker.track(path)
    (former,) = logged(tracker)
    shutil.rmtree(tmp_path / "mlartifacts")
    (tmp_path / "mlartifacts").write_text("in the way")
    with pytest.raises(TrackerError, match=f"the run is safe in its folder.*reflexion-lab track {path}"):
        tracker.track(path)
    assert [found.info.run_id for found in logged(tracker)] == [former.info.run_id]


def test_a_damaged_database_is_a_tracker_error(tmp_path: Path, run: Run) -> None:
    (tmp_path / "broken.db").write_text("no database" * 100)
    with pytest.raises(TrackerError, match=r"broken\.db failed"):
        MlflowTracker(f"sqlite:///{tmp_path / 'broken.db'}").track(run())


def test_a_folder_without_a_run_is_named(tracker: MlflowTracker, tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="no manifest"):
        tracker.track(tmp_path)


def test_the_database_is_fixed_when_the_tracker_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = MlflowTracker("sqlite:///runs/mlflow.db")
    monkeypatch.chdir("/")
    assert made.uri == f"sqlite:///{tmp_path}/runs/mlflow.db"
    assert made.artifacts == tmp_path / "runs" / "mlartifacts"


@pytest.mark.parametrize("uri", ["mlflow.db", "./mlruns", "file:///tmp/mlruns", "sqlite://", "sqlite:///:memory:"])
def test_an_address_that_is_no_database_is_refused(uri: str) -> None:
    with pytest.raises(ValueError, match=r"tracker\.uri"):
        MlflowTracker(uri)


def test_the_command_opens_this_database_on_this_machine_alone(tracker: MlflowTracker) -> None:
    assert f"mlflow ui --backend-store-uri {tracker.uri} --host 127.0.0.1 --port 5000 --workers 1" in tracker.command
    assert tracker.command.startswith("MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false ")


def test_a_server_is_linked_to_and_not_started(run: Run) -> None:
    made = MlflowTracker("http://tracking.example:8080/")
    assert (made.site, made.command, made.database) == ("http://tracking.example:8080", "", None)


def test_a_missing_mlflow_is_said_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(TrackerError, match="pip install 'mlflow"):
        MlflowTracker()


def test_making_a_tracker_imports_no_mlflow() -> None:
    program = (
        "import sys; from reflexion_lab.studies.tracking.mlflow import MlflowTracker; MlflowTracker(); "
        "print([name for name in ('mlflow', 'matplotlib', 'numpy') if name in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_a_torn_last_line_does_not_keep_a_folder_from_its_tracker(tracker: MlflowTracker, run: Run) -> None:
    path = run()
    with (path / "attempts.jsonl").open("ab") as file:
        file.write(b'{"task_id": "t/9", "num')
    tracker.track(path)
    (found,) = logged(tracker)
    assert found.data.tags["n_logged"] == str(len(RunFolder.existing(path).results))
