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
STUDENT = "model=simulated actor=single_shot model.first=0.3 model.spread=0.2 model.damage=0.1 tracker.traces=1.0"
NO_ASSISTANT = "if (self === top) localStorage.setItem('mlflow.assistant.fab.autoOpenedOnFirstLoad_v1', 'true')"
"""As if a reader had closed the panel that MLflow opens on a first visit."""
TABLE = """() => {
    const rows = {};
    for (const row of document.querySelectorAll("[role=row][row-index]"))
        for (const cell of row.querySelectorAll("[role=gridcell]"))
            (rows[row.getAttribute("row-index")] ??= {})[cell.getAttribute("col-id")] = cell.innerText.trim();
    return Object.values(rows);
}"""
IN_SIGHT = """names => {
    const edge = document.querySelector(".ag-body-viewport").getBoundingClientRect().right;
    const heads = [...document.querySelectorAll("[role=columnheader]")];
    return names.filter(name => heads.some(head => head.innerText.trim() === name &&
        head.getBoundingClientRect().width && head.getBoundingClientRect().right <= edge + 1));
}"""

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


def table(page, n):
    page.wait_for_function(f"() => document.querySelectorAll('.ag-center-cols-container [role=row]').length >= {n}")
    return page.evaluate(TABLE)


def test_the_table_of_runs_shows_all_that_counts_without_scrolling(mlflow, site):
    page = mlflow(site["runs"], "text=6 matching runs")
    rows = table(page, 6)
    heads = ["arm", "feedback_source", "final/n", "final/pass_at_1", "interval", "final/difference", "usage/tokens"]
    assert page.evaluate(IN_SIGHT, heads) == heads
    assert sorted(row["params.`arm`"] for row in rows) == sorted(2 * ARMS)
    assert {row["params.`feedback_source`"] for row in rows} == {"visible"}
    assert {row["metrics.`final/n`"] for row in rows} == {"6"}
    shares = [float(row["metrics.`final/pass_at_1`"]) for row in rows]
    assert shares == sorted(shares, reverse=True)
    assert all(re.fullmatch(r"\[0\.\d{3}, [01]\.\d{3}\]", row["tags.`interval`"]) for row in rows)
    assert all(int(row["metrics.`usage/tokens`"]) > 0 for row in rows)
    differences = {row["params.`arm`"]: row["metrics.`final/difference`"] for row in rows}
    assert differences.pop("feedback_only") == "-"
    assert all(-1 <= float(difference) <= 1 for difference in differences.values())


def test_table_of_arms_fits_difference_interval_and_p(mlflow, site):
    page = mlflow(site["arms"], "text=3 matching runs")
    rows = {row["attributes.`Run Name`"].split("\n")[-1]: row for row in table(page, 3)}
    heads = ["feedback_source", "final/n", "final/pass_at_1", "interval", "difference", "p_holm", "usage/tokens"]
    assert page.evaluate(IN_SIGHT, [*heads, "at_equal_tokens"]) == [*heads, "at_equal_tokens"]
    assert sorted(rows) == [f"{arm}, 2 seeds" for arm in ARMS]
    assert {row["metrics.`final/n`"] for row in rows.values()} == {"12"}
    assert rows["feedback_only, 2 seeds"]["tags.`difference`"] == "baseline"
    for arm in ("reflexion, 2 seeds", "retry, 2 seeds"):
        signed = r"(?:[+-]\d\.\d{3}|0\.000)"
        assert re.fullmatch(rf"{signed} \[{signed}, {signed}\]", rows[arm]["tags.`difference`"])
        assert 0 <= float(rows[arm]["tags.`p_holm`"]) <= 1


def test_charts_tell_the_arms_apart_by_name(mlflow, site):
    page = mlflow(site["charts"], ".main-svg .scatterlayer .trace")
    items = [page.locator(f"text='{arm} (curve/pass_at_1)'").first for arm in ARMS]
    for legend in items:
        legend.wait_for()
    box = items[0].locator("xpath=../..").bounding_box()
    places = [legend.bounding_box() for legend in items]
    assert all(box["y"] <= place["y"] and place["y"] + place["height"] <= box["y"] + box["height"] for place in places)
    lines = [legend.locator("xpath=..").locator("path").evaluate("one => one.style.stroke") for legend in items]
    assert len(set(lines)) == len(ARMS)
    assert page.locator("text='Group: reflexion'").is_visible()


def test_traces_by_task_and_attempt_show_prompt_and_reply(mlflow, site):
    traces = re.sub(r"/runs\?.*", "/traces?workflowType=machine_learning", site["runs"])
    page = mlflow(traces, "text=/attempt 2: reflexion s1/")
    page.get_by_role("button", name="Got it").click()  # what MLflow says of a button of its own
    page.locator("text=/attempt 2: reflexion s1/").first.click()
    page.wait_for_selector("text=/^attempt 2: basics/")
    assert page.locator("text='evaluator'").first.is_visible()
    page.locator("text='actor'").first.click()
    page.wait_for_selector("text=Complete this Python function")
    page.wait_for_selector("text='reply'")


def test_the_artifacts_of_an_arm_show_its_report(mlflow, site):
    page = mlflow(site["arms"], "text='reflexion, 2 seeds'")
    page.locator("text='reflexion, 2 seeds'").first.click()
    page.get_by_role("tab", name="Artifacts").click()
    page.locator("text='report.html'").first.click()
    report = page.frame_locator("iframe").first
    report.get_by_role("heading", name="Difference to feedback_only").wait_for()
    page.locator("text='curves.png'").first.click()
    page.wait_for_selector("img[src^='blob:'], img[src*='curves.png']")
