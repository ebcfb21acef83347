"""Numbers of a real model in docs/recipes.md are those of the experiments; test_code_blocks.py runs the others."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ESTIMATE = re.compile(r"[+−]\d+\.\d \[[+−]\d+\.\d, [+−]\d+\.\d]")
PAGE = (ROOT / "docs" / "recipes.md").read_text()


def test_numbers_of_a_real_model_are_those_of_its_experiment():
    rows = [row for row in PAGE.splitlines() if row.startswith("|") and "`experiments/" in row]
    assert len(rows) == 3
    for row in rows:
        name = re.search(r"`experiments/(\w+)`", row)[1]
        page = (ROOT / "experiments" / name / "README.md").read_text()
        assert ESTIMATE.findall(row), row
        assert [number for number in ESTIMATE.findall(row) if number not in " ".join(page.split())] == [], name


def test_every_recipe_shows_a_number_that_is_run():
    recipes = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:-1]
    assert len(recipes) == 9
    assert [recipe for recipe in recipes if not re.search(r"\n[^|\n]*\[[+-]?\d+\.\d, [+-]?\d+\.\d]", recipe)] == []


def test_findings_of_the_readme_are_figures_of_the_experiments():
    findings = (ROOT / "README.md").read_text().partition("## Findings so far")[2].partition("\n## ")[0]
    pages = " ".join(path.read_text() for path in ROOT.glob("experiments/*/README.md"))
    intervals = re.findall(r"\[[+−]?\d+\.\d, [+−]?\d+\.\d]", findings)
    assert len(intervals) >= 6
    assert [interval for interval in intervals if interval not in pages] == []
