"""An MLflow tracking server with PostgreSQL behind it, both started here for real: the view that machines share."""

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from own_server import own_server

from reflexion_lab.cli import main as cli
from reflexion_lab.studies.tracking.mlflow import MlflowTracker, TrackerError

LIGHT = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
RUN = ["benchmark.limit=2", "loop.max_attempts=2", "model=simulated", "actor=single_shot", "reflector=rules"]


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The address of the server, and that of its database."""
    folder, port = tmp_path_factory.mktemp("served"), free_port()
    with own_server() as database, (folder / "log").open("w") as log:
        with psycopg.connect(database.url, autocommit=True) as connection:
            connection.execute("CREATE DATABASE mlflow")
        url = database.url.replace("/postgres?", "/mlflow?")
        command = [
            *(sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"),
            *("--backend-store-uri", url.replace("postgresql:", "postgresql+psycopg:")),
            *("--artifacts-destination", str(folder / "artifacts")),
        ]
        home = {**os.environ, **LIGHT, "HOME": str(folder)}
        with subprocess.Popen(command, env=home, stdout=log, stderr=log, start_new_session=True) as server:
            try:
                wait_for(f"http://127.0.0.1:{port}/health", server, folder / "log")
                yield f"http://127.0.0.1:{port}", url
            finally:
                os.killpg(server.pid, signal.SIGTERM)


def wait_for(address, server, log):
    while server.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=60):
                return
        except OSError:
            with pytest.raises(subprocess.TimeoutExpired):
                server.wait(0.2)
    raise AssertionError(log.read_text())


def runs_of(site, experiment):
    from mlflow import MlflowClient

    client = MlflowClient(site)
    return list(client.search_runs([client.get_experiment_by_name(experiment).experiment_id]))


@pytest.mark.slow
def test_a_run_and_a_sweep_are_tracked_over_http_into_postgresql(site, tmp_path, capsys):
    address, url = site
    where = [f"run_root={tmp_path}", f"storage.tracking={address}", "tracker.experiment=wide"]
    assert cli.main(["run", *RUN, *where]) == 0
    assert f"MLflow: {address}/#/experiments/" in capsys.readouterr().out
    assert cli.main(["run", "-m", "seed=1,2", *RUN, *where]) == 0
    assert f"{address}/#/experiments/" in capsys.readouterr().out
    runs = runs_of(address, "wide")
    assert sorted(run.data.params["seed"] for run in runs if run.data.tags.get("kind") != "arm") == ["0", "1", "2"]
    assert all(run.info.status == "FINISHED" for run in runs)
    assert len(runs) == 4, "and one summary of the arm"
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM runs").fetchone() == (4,)
        assert connection.execute("SELECT count(*) FROM metrics").fetchone()[0] > 40
    assert not list(tmp_path.glob("mlflow.db*"))
    (first,) = [run for run in runs if run.data.params.get("seed") == "0"]
    from mlflow import MlflowClient

    files = {item.path for item in MlflowClient(address).list_artifacts(first.info.run_id)}
    assert {"manifest.json", "attempts.jsonl", "results.jsonl", "grades.jsonl"} <= files


@pytest.mark.slow
def test_an_experiment_that_several_create_is_created_once(site):
    from mlflow import MlflowClient

    tracker, client = MlflowTracker(site[0], "born together"), MlflowClient(site[0])
    with ThreadPoolExecutor(4) as pool:
        created = list(pool.map(lambda _: tracker._create(client, "born together"), range(4)))
    assert set(created) == {tracker.prepare()}


@pytest.mark.slow
def test_links_to_a_server_hold_no_log_in(site, run):
    tracker = MlflowTracker(site[0].replace("//", "//someone:hunter2@"), "linked")
    assert tracker.track(run()).startswith(f"{site[0]}/#/experiments/")


@pytest.mark.slow
@pytest.mark.soak
def test_a_run_whose_server_was_away_can_be_tracked_later(site, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    dead = f"http://someone:hunter2@127.0.0.1:{free_port()}"
    where = [f"run_root={tmp_path}", f"storage.tracking={dead}", "tracker.experiment=late"]
    assert cli.main(["run", *RUN, *where]) == 0
    errors = " ".join(capsys.readouterr().err.split())
    assert "not tracked: " in errors
    assert "the run is safe in its folder; show it later with `reflexion-lab track" in errors
    assert "hunter2" not in errors
    (folder,) = (path.parent for path in tmp_path.glob("*/summary.json"))
    assert cli.main(["track", str(folder), "--uri", site[0], "--experiment", "late"]) == 0
    assert [run.data.tags["run_id"] for run in runs_of(site[0], "late")] == [folder.name]


def test_a_server_that_is_away_is_given_up_in_seconds(run, monkeypatch):
    """MLflow by itself would try for four minutes, once for every run of a sweep."""
    monkeypatch.delenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", raising=False)
    pauses = []
    monkeypatch.setattr("time.sleep", pauses.append)
    with pytest.raises(TrackerError, match="the run is safe in its folder"):
        MlflowTracker(f"http://127.0.0.1:{free_port()}").track(run())
    assert sum(pauses) < 15
