"""docs/presets.md says of each promise of a preset's document where it stands, and rows.yaml names the test of each."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ROWS = yaml.safe_load((ROOT / "tests" / "presets" / "rows.yaml").read_text())
PAGE = (ROOT / "docs" / "presets.md").read_text().partition("\n## Promise by promise\n")[2]
SECTIONS = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", PAGE, re.M | re.S))
HEAD = "| promise | state | how |\n|---|---|---|\n"


def test_every_preset_has_its_promises():
    presets = {path.stem for path in (ROOT / "conf" / "preset").glob("*.yaml")}
    assert presets == ROWS.keys() == SECTIONS.keys()


@pytest.mark.parametrize("preset", ROWS)
def test_each_promise_has_a_state_and_a_test(preset):
    assert SECTIONS[preset].count(HEAD) == 1
    lines = SECTIONS[preset].partition(HEAD)[2].strip().splitlines()
    rows = [re.fullmatch(r"\| (.+?) \| (whole|differs) \| (.+) \|", line) for line in lines]
    assert all(rows), f"expected | promise | whole or differs | how |, got {lines[rows.index(None)]}"
    assert [row[1] for row in rows] == list(ROWS[preset])


@pytest.mark.parametrize("place", sorted({place for promises in ROWS.values() for place in promises.values()}))
def test_each_test_exists(place):
    file, _, name = place.partition("::")
    assert re.search(rf"^def {name}\(", (ROOT / file).read_text(), re.M), place
