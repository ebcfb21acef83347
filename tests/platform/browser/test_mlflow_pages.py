"""MLflow's pages on three arms and two seeds, opened by the links that a sweep prints: what a reader must see."""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from reflexion_lab.studies.tracking.mlflow import MlflowTracker

ROOT = Path(__file__).parents[3]
ARMS = ["feedback_only", "reflexion", "retry"]
SWEEP = "experiment=retry,feedback_only,reflexion seed=0,1 benchmark.load.n=6 benchmark.load.seed=0 temperature=0.6"
STUDENT = "model=simulated actor=single_shot model.first=0.3 model.spread=0.2 model.damage=0.1"
NO_ASSISTANT = "if (self === top) localStorage.setItem('mlflow.assistant.fab.autoOpenedOnFirstLoad_v1', 'true')"
"""As if a reader had closed the panel that MLflow opens on a first visit."""

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def site(browser, tmp_path_factory):
    """Links by what they show, as the sweep printed them, to a server that was started as the tracker says."""
    place = tmp_path_factory.mktemp("mlflow")
    environment = {**os.environ, "HOME": str(place), "PYTHONPATH": str(ROOT), "MLFLOW_DISABLE_TELEMETRY": "true"}
    environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "reflexion_lab", "run", "-m", *SWEEP.split(), *STUDENT.split()]
    run = subprocess.run(
        [*command, f"run_root={place / 'runs'}", f"+tracker.port={port}"],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    links = dict(re.findall(r"^MLflow, (\w+): (\S+)$", run.stdout, re.MULTILINE))
    assert sorted(links) == ["arms", "charts", "runs"], run.stdout
    with serving(MlflowTracker(f"sqlite:///{place / 'runs' / 'mlflow.db'}", port=port), environment, place):
        yield links
    shutil.rmtree(place / "runs")


@contextlib.contextmanager
def serving(tracker, environment, place):
    """The server of `tracker.command`, up; it and all its workers are ended."""
    log = place / "server.log"
    with log.open("w") as file:
        server = subprocess.Popen(
            tracker.command, shell=True, cwd=place, env=environment, stdout=file, stderr=file, start_new_session=True
        )
    try:
        while True:
            with contextlib.suppress(URLError, ConnectionError, TimeoutError), urlopen(f"{tracker.site}/health"):
                break
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(0.2)
                pytest.fail(f"the server ended: {log.read_text()}")
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


@pytest.fixture
def mlflow(page, site):
    """Opens the page of a link; returns it once `awaited` is there."""
    page.set_viewport_size({"width": 1400, "height": 900})
    page.add_init_script(NO_ASSISTANT)

    def opened(link, awaited):
        page.goto(link)
        page.wait_for_selector(awaited)
        return page

    return opened


def test_links_of_a_sweep_open_its_arms_runs_and_charts(mlflow, site):
    mlflow(site["arms"], "text=3 matching runs")
    page = mlflow(site["runs"], "text=6 matching runs")
    assert page.locator("text='reflexion, 2 seeds'").count() == 0
    page = mlflow(site["charts"], ".main-svg .scatterlayer .trace")
    assert page.locator("text='curve/pass_at_1'").first.is_visible()


def test_artifacts_of_an_arm_show_its_report(mlflow, site):
    page = mlflow(site["arms"], "text='reflexion, 2 seeds'")
    page.locator("text='reflexion, 2 seeds'").first.click()
    page.get_by_role("tab", name="Artifacts").click()
    page.locator("text='report.html'").first.click()
    report = page.frame_locator("iframe").first
    report.get_by_role("heading", name="Difference to feedback_only").wait_for()
