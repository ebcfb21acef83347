"""Notebook 00 in a real JupyterLab: it opens, runs from top to bottom, and can be read in both themes."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
NAME = "00_the_loop_by_hand.ipynb"
SETTINGS = {
    "apputils-extension/notification": {"checkForUpdates": False, "doNotDisturbMode": True, "fetchNews": "false"},
    "notebook-extension/tracker": {"windowingMode": "none"},
}
"""Nothing is asked of the network, nothing pops up, and cells out of sight are there."""
READY = "Python 3 (ipykernel) | Idle"
"""What the status bar says; a menu that is used before asks which kernel to take."""
HTML = '.jp-OutputArea-output[data-mime-type="text/html"]'
ERROR = '.jp-OutputArea-output[data-mime-type="application/vnd.jupyter.error"]'
pytestmark = [pytest.mark.browser, pytest.mark.soak]  # a minute


@pytest.fixture(scope="module")
def cells():
    """How many code cells the notebook has."""
    import nbformat  # a second of every process that collects

    notebook = nbformat.read(ROOT / "notebooks" / NAME, as_version=4)
    return sum(cell.cell_type == "code" for cell in notebook.cells)


@pytest.fixture(scope="module")
def lab(browser, tmp_path_factory):
    """The address of a JupyterLab on a copy of the notebooks, without outputs and without this user's settings."""
    import nbformat

    place = tmp_path_factory.mktemp("lab")
    shutil.copytree(ROOT / "notebooks", place / "notebooks", ignore=shutil.ignore_patterns("runs", ".*"))
    notebook = nbformat.read(place / "notebooks" / NAME, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    nbformat.write(notebook, place / "notebooks" / NAME)
    for name, values in SETTINGS.items():
        file = place / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values))
    with (place / "log").open("w") as log:
        process = subprocess.Popen(command(place), cwd=place, env=environment(place), stdout=log, stderr=log)
        try:
            yield address(process, place)
        finally:
            process.terminate()  # it ends its kernels first
            process.wait(120)


def command(place):
    """Another port is taken where 8888 is not free."""
    options = ["--no-browser", "--allow-root", "--ip=127.0.0.1", "--IdentityProvider.token="]
    options += ["--LabApp.extension_manager=readonly", f"--ServerApp.root_dir={place / 'notebooks'}"]
    return [sys.executable, "-m", "jupyterlab", *options]


def environment(place):
    own = {name: str(place) for name in ("HOME", "TMPDIR", "IPYTHONDIR", "MPLCONFIGDIR", "XDG_CACHE_HOME")}
    own |= {f"JUPYTER_{name}_DIR": str(place / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
    own |= {f"JUPYTERLAB_{name}_DIR": str(place / name.lower()) for name in ("SETTINGS", "WORKSPACES")}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JUPYTER")}
    return kept | own | {"PYTHONPATH": str(ROOT)}


def address(process, place):
    """Where it listens, as it says itself."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        for file in (place / "runtime").glob("jpserver-*.json"):
            with contextlib.suppress(ValueError):  # half written
                return json.loads(file.read_text())["url"]
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.1)
    pytest.fail(f"JupyterLab did not start:\n{(place / 'log').read_text()[-2000:]}")


def run_all(page, lab, cells):
    """Open the notebook, run it by the menu, and wait for its last cell, or for an error."""
    page.goto(f"{lab}lab/tree/{NAME}?reset")
    page.get_by_text(READY, exact=True).wait_for()
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    last = page.locator(".jp-CodeCell .jp-InputPrompt").nth(cells - 1)
    last.filter(has_text=re.compile(rf"\[{cells}\]")).or_(page.locator(ERROR)).first.wait_for()
    page.get_by_text(READY, exact=True).wait_for()


def test_notebook_00_runs_and_is_legible_in_both_themes(page, faint, lab, cells):
    run_all(page, lab, cells)
    assert page.locator(ERROR).all_inner_texts() == []
    prompts = page.locator(".jp-CodeCell .jp-InputPrompt").all_inner_texts()
    assert prompts == [f"[{n}]:" for n in range(1, cells + 1)]
    views = page.locator(HTML)
    assert views.count() >= 4
    assert page.locator(".jp-CodeCell").last.locator(HTML).last.is_visible()  # the answer
    figures = page.locator(".jp-OutputArea-output img")
    assert figures.evaluate_all("found => found.map(one => one.naturalWidth > 300)") == [True] * figures.count() != []
    assert faint(views) == []
    page.get_by_role("menuitem", name="Settings", exact=True).click()
    page.get_by_text("Theme", exact=True).click()
    page.get_by_text("JupyterLab Dark", exact=True).click()
    page.locator('body[data-jp-theme-light="false"]').wait_for(state="attached")
    assert faint(views) == []
