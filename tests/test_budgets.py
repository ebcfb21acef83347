"""Budgets that only go down: lines per wing, and config keys that nothing here uses.

`[tool.lab.lines]` in pyproject.toml holds the lines. `unused_keys.txt` holds the keys that no experiment, notebook or
recipe used when the budget was set; a key added later needs one.
"""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PACKAGE, CONF = ROOT / "reflexion_lab", ROOT / "conf"
BUDGETS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["lab"]["lines"]
UNUSED = set((Path(__file__).parent / "unused_keys.txt").read_text().split())


def lines(paths):
    return sum(path.read_bytes().count(b"\n") for path in paths)


WINGS = {path.parent.name: lines(path.parent.rglob("*.py")) for path in PACKAGE.glob("*/__init__.py")}
LINES = WINGS | {"top": lines(PACKAGE.glob("*.py")), "tests": lines((ROOT / "tests").rglob("*.py"))}


@pytest.mark.parametrize("wing", LINES)
def test_lines_are_within_budget(wing):
    assert LINES[wing] <= BUDGETS[wing], "make it smaller; a budget rises only where an issue says so"


def test_every_budget_is_of_a_wing():
    assert BUDGETS.keys() == LINES.keys()
    assert sum(BUDGETS.values()) - BUDGETS["tests"] <= 57_158
    assert BUDGETS["tests"] <= 51_369


def leaves(node, path=""):
    """Dotted keys below `node`; an empty mapping is a key, `_target_` and its like are none."""
    if not isinstance(node, dict) or not node:
        return {path}
    return {key for name, value in node.items() if name[0] != "_" for key in leaves(value, f"{path}.{name}".strip("."))}


def config_keys():
    config = yaml.safe_load((CONF / "config.yaml").read_text())
    keys = leaves({name: value for name, value in config.items() if name not in ("defaults", "hydra")})
    for path in CONF.glob("*/*.yaml"):
        if path.parent.name not in ("experiment", "preset", "hydra"):
            package = re.match(r"# @package (\S+)", text := path.read_text())
            node = {name: value for name, value in yaml.safe_load(text).items() if name != "defaults"}
            keys |= leaves(node, package[1] if package else path.parent.name)
    return {key for key in keys if "." in key or key in config}


def used_keys(keys):
    """Keys that an experiment, a preset, a notebook, a script of an experiment or a recipe sets."""
    texts = [p.read_text() for p in (ROOT / "experiments").rglob("*") if p.suffix in {".sh", ".py", ".yaml", ".md"}]
    texts += [path.read_text() for path in (ROOT / "notebooks").glob("*.ipynb")]
    texts += [(ROOT / "docs" / "recipes.md").read_text()]
    words = {name for text in texts for name in re.findall(r"(?<![\w.@])([a-z_]+(?:\.\w+)*)\\?[\"']?[=:]", text)}
    for path in [*CONF.glob("experiment/*.yaml"), *CONF.glob("preset/*.yaml")]:
        words |= leaves(yaml.safe_load(path.read_text()))
    return {key for key in keys if key in words}


def test_every_new_config_key_is_used_by_an_experiment_notebook_or_recipe():
    keys = config_keys()
    unused = keys - used_keys(keys)
    assert sorted(unused - UNUSED) == [], "use it in an experiment, notebook or recipe, or remove it"
    assert sorted(UNUSED - unused) == [], "it is used now, or gone: remove its line from unused_keys.txt"
