"""tests/behaviours.md: each test that it names exists, and each line of the list of behaviours has its row."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"\| (\d+) \| (.+) \| (same|differs) \| (.+) \|")
NAMED = re.compile(r"`([a-z_]+/[a-z_/]+)` (\w+)")


def sections():
    """The rows of each section, as (number, behaviour, verdict, what shows it)."""
    rows = {}
    for line in (ROOT / "tests" / "behaviours.md").read_text().splitlines():
        if line.startswith("## "):
            rows[line] = []
        elif line.startswith("| ") and line[2].isdigit():
            rows[next(reversed(rows))].append(ROW.fullmatch(line).groups())
    return rows


@pytest.mark.parametrize("rows", sections().values(), ids=sections())
def test_each_row_names_a_test_that_exists_or_a_reason(rows):
    assert [int(number) for number, *_ in rows] == list(range(1, len(rows) + 1))
    for _, behaviour, verdict, evidence in rows:
        tests = NAMED.findall(evidence)
        assert tests or verdict == "differs", behaviour
        assert verdict == "same" or NAMED.sub("", evidence).strip("; "), f"{behaviour}: a difference has a reason"
        for file, name in tests:
            assert f"def test_{name}(" in (ROOT / "tests" / f"{file}.py").read_text(), f"{file}: {name}"


def test_each_line_of_the_list_has_its_row(recorded_runs):
    lines = (recorded_runs.parent / "behaviours.md").read_text().splitlines()
    parts = "\n".join(lines).split("\n## ")[1:]
    assert [len(rows) for rows in sections().values()] == [part.count("\n- ") for part in parts]
