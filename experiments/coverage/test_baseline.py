"""A gain less a baseline that is quoted as a number: the page's figures, and the simulation in small."""

from pathlib import Path

import numpy as np
import pytest

from experiments.coverage import baseline
from reflexion_lab.analysis.stats.intervals import wilson

README = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")
SECTION = README.partition("## A gain over a baseline that is quoted as a number")[2]
METHODS = ("known", "unpaired", "paired")


def table():
    """Coverages at each gain, in per cent, and mean width by runs, tasks, correlation and method."""
    designs = {}
    for line in SECTION.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and cells[0].isdigit():
            key = int(cells[0]), int(cells[1]), float(cells[2])
            pairs = zip(METHODS, cells[3::2], cells[4::2], strict=True)
            designs[key] = {name: ([float(x) for x in held.split(" / ")], float(width)) for name, held, width in pairs}
    return designs


def spread(values):
    return f"{min(values):.1f} to {max(values):.1f}"


def test_the_words_below_the_table_are_its_figures():
    designs = table()
    assert len(designs) == len(baseline.RUNS) * len(baseline.TASKS) * len(baseline.AGREEMENTS)
    words = " ".join(SECTION.split())

    def held(method, runs=None, correlation=None, gains=slice(None)):
        chosen = [by for (r, _, c), by in designs.items() if runs in (None, r) and correlation in (None, c)]
        return [share for by in chosen for share in by[method][0][gains]]

    def wider(method, runs=None, correlation=None):
        chosen = [by for (r, _, c), by in designs.items() if runs in (None, r) and correlation in (None, c)]
        return [by[method][1] / by["paired"][1] for by in chosen]

    assert f"in {spread(held('known', 1, 0.1))} % of studies where draws" in words
    assert f"in {spread(held('known', 1, 0.9))} % where they mostly agree" in words
    assert f"it is {spread(wider('known', 1, 0.9))} times as wide" in words
    assert f"it holds the gain in {spread(held('known', 5))} %" in words
    assert f"excludes 0 in {spread([100 - x for x in held('known', 5, gains=slice(1))])} % of studies" in words
    assert f"it holds in {spread(held('unpaired'))} %, at up to {max(wider('unpaired')):.1f} times" in words
    assert f"it holds in {spread(held('paired'))} %" in words


@pytest.mark.parametrize("repeats", baseline.RUNS)
def test_a_small_simulation_lies_near_the_published_coverage(repeats):
    rng, studies = np.random.default_rng(1), 300
    lines = baseline.of_design(rng, 50, repeats, 0.5, 0.0, studies)
    published = table()[repeats, 50, 0.5]
    for name, (share, width) in zip(METHODS, lines, strict=True):
        low, high = wilson(share * studies, studies, 0.999)
        coverages, mean_width = published[name]
        assert low <= coverages[0] / 100 <= high
        assert width == pytest.approx(mean_width, rel=0.1)


def test_the_planted_gain_is_the_mean_difference():
    first, second = baseline.draw(np.random.default_rng(2), 400_000, 1, 0.5, 0.1)
    assert (second - first).mean() == pytest.approx(0.1, abs=0.004)
    assert first.mean() == pytest.approx(baseline.RATE, abs=0.004)
