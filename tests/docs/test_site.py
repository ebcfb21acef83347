"""The built documentation: whole, without a dead link, and without anything from the network."""

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import reflexion_lab

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
CONF = ROOT / "conf"
LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "link": "href"}
"""What a browser fetches by itself; a link to follow is another thing."""
NOT_FETCHED = ("canonical", "prev", "next", "alternate")


class Page(HTMLParser):
    """The anchors of a page, where its links lead, and what it loads."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.loads, self.text = set(), [], [], text
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        mapping = dict(attrs)
        self.anchors |= {mapping[name] for name in ("id", "name") if mapping.get(name)}
        if tag == "a" and mapping.get("href"):
            self.links.append(mapping["href"])
        is_fetched = tag in LOADED and mapping.get("rel") not in NOT_FETCHED
        if is_fetched and mapping.get(LOADED[tag]):
            self.loads.append(mapping[LOADED[tag]])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder that `mkdocs build --strict` makes; a warning of it, such as a dead link, is a failure."""
    out = tmp_path_factory.mktemp("site")
    process = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(out)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return out


@pytest.fixture(scope="module")
def pages(site):
    return {path: Page(path.read_text()) for path in site.rglob("*.html")}


def test_every_link_and_anchor_within_the_site_is_there(site, pages):
    dead = []
    for path, page in pages.items():
        for link in page.links + page.loads:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or path.name == "404.html":
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            anchor = unquote(parts.fragment)
            if not target.is_file() or (anchor and target in pages and anchor not in pages[target].anchors):
                dead.append(f"{path.relative_to(site)}: {link}")
    assert dead == []
    assert sum(len(page.links) for page in pages.values()) > 1000


def test_nothing_is_loaded_from_the_network(site, pages):
    foreign = [
        f"{path.relative_to(site)}: {load}"
        for path, page in pages.items()
        for load in page.loads
        if urlsplit(load).scheme not in ("", "data") or urlsplit(load).netloc
    ]
    assert foreign == []
    styles = "\n".join(path.read_text() for path in site.rglob("*.css"))
    fetched = re.findall(r"(?:@import\s+|url\(\s*)[\"']?(?:https?:)?//[^\"')\s]+", styles)
    assert fetched == []


GUIDES = {False: "explore.md", True: "in_your_own_agent.md"}
"""Pages of functions and of classes."""


def test_every_public_name_is_documented(site, pages):
    anchors = pages[site / "api" / "index.html"].anchors
    homes = {"plot": "notebook.plot", "agent": "notebook.agent.Agent"}
    names = [homes.get(name, name) for name in reflexion_lab.__all__]
    assert [name for name in names if f"reflexion_lab.{name}" not in anchors] == []
    guides = {is_class: (ROOT / "docs" / "guides" / page).read_text() for is_class, page in GUIDES.items()}
    assert [name for name in reflexion_lab.__all__ if f"rl.{name}" not in guides[name[0].isupper()]] == []


def test_every_room_is_documented(pages):
    package = ROOT / "reflexion_lab"
    folders = {path.parent.name for path in package.glob("*/__init__.py")}
    modules = {path.stem for path in package.glob("*.py") if not path.stem.startswith("__")}
    sources = "\n".join(path.read_text() for path in (ROOT / "docs" / "api").glob("*.md"))
    documented = set(re.findall(r"^::: reflexion_lab\.(\w+)$", sources, re.MULTILINE))
    assert documented == folders | modules


def test_every_notebook_is_shown_with_its_stored_outputs(site):
    notebooks = sorted((ROOT / "notebooks").glob("*.ipynb"))
    assert len(notebooks) == 11
    for path in notebooks:
        page = (site / "notebooks" / f"{path.stem}.html").read_text()
        outputs = [output for cell in json.loads(path.read_text())["cells"] for output in cell.get("outputs", [])]
        rendered = page.split('<div class="nb-output">')[1:]
        assert len(rendered) == len(outputs), path.name
        for html, output in zip(rendered, outputs, strict=True):
            mark = {"text/html": "<div", "image/png": "<img"}
            kinds = [mark[kind] for kind in mark if kind in output.get("data", {})] or ["<pre"]
            assert html.lstrip().startswith(kinds[0]), f"{path.name}: {html[:60]}"


def test_every_config_choice_is_documented(site):
    text = (site / "configuration.html").read_text()
    by_group = {part.partition('"')[0]: part for part in text.split('<h3 id="')}
    missing = [
        f"{group.name}={path.stem}"
        for group in CONF.iterdir()
        if group.is_dir()
        for path in group.glob("*.yaml")
        if not re.search(rf"<code>{path.stem}</code>[^\n]*</td>\n<td>[^<\s]", by_group.get(group.name, ""))
    ]
    assert missing == []
    keys = re.findall(r"^(\w+):", (CONF / "config.yaml").read_text(), re.MULTILINE)
    assert [key for key in keys if key not in text] == []
