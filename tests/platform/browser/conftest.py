"""A headless Chromium that the machine has, and pages on which an uncaught error fails the test."""

import shutil
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
QUIET = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")
QUIET += ("--disable-sync", "--no-first-run")
SLOW_MACHINE = 120_000.0
"""Milliseconds that a page may take to show what a test waits for."""


@pytest.fixture(scope="package")
def browser():
    """One for all tests here; it ends with them, since its event loop would be in the way of other tests."""
    api = pytest.importorskip("playwright.sync_api", reason="no browser: the Python package playwright is missing")
    chromium = next(filter(None, map(shutil.which, NAMES)), None)
    if chromium is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is on the PATH")
    with api.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=chromium, args=QUIET)
        yield started
        started.close()


@pytest.fixture
def page(browser, tmp_path):
    """A page in a context of its own, without cookies or storage of others; what it showed last is in `tmp_path`."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(SLOW_MACHINE)
    errors = []
    context.on("weberror", lambda event: errors.append(str(event.error)))
    tab = context.new_page()
    yield tab
    tab.screenshot(path=tmp_path / "last.png")
    context.close()
    assert errors == []


@pytest.fixture
def faint():
    """Gives the elements within a locator whose words can hardly be read."""
    script = (Path(__file__).parent / "faint.js").read_text()
    return lambda locator: locator.evaluate_all(f"found => found.flatMap(\n{script})")
