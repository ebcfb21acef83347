from __future__ import annotations

import csv

import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from msgspec.structs import replace

from reflexion_lab.analysis.figures.reflections import effects, flag_rates, reliability, save_reflections
from reflexion_lab.analysis.figures.style import COLOURS, FAINT
from reflexion_lab.analysis.learning.calibration import Forecast, calibration
from reflexion_lab.analysis.learning.reflections import reflections
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.stats.intervals import Rate


@pytest.fixture
def log(write_run, attempt, reflection) -> Log:
    made = {}
    for task in range(24):
        name, passes = f"t{task}", task % 3 == 0
        words = replace(
            reflection(1, "llm" if task % 2 else "rules:type"),
            category="type" if task % 4 else "assertion",
            confidence=0.2 if task % 5 else 0.9,
            flags=("generic", "misses_check")[: task % 3],
        )
        second = attempt(name, 2, float(passes))
        made[name] = [
            attempt(name, 1, 0.0, reflection=words),
            replace(second, recalled=() if task % 4 == 1 else (f"ep-{name}-1",)),
        ]
    return Log.read(write_run(made=made))


@pytest.fixture
def found():
    pairs = [(0.15, 0), (0.15, 1), (0.85, 1), (0.85, 0), (0.85, 0)]
    return calibration([Forecast(str(n), confidence, bool(came)) for n, (confidence, came) in enumerate(pairs)])


def by_id(artists, gid):
    return [artist for artist in artists if artist.get_gid() == gid]


def texts(ax):
    return [text.get_text() for text in ax.texts]


def test_the_axes_given_is_the_axes_returned(log, found):
    figures, ax = reflections(log), Figure().add_subplot()
    assert reliability(found, ax) is flag_rates(figures.every.flags, ax) is ax
    assert effects(figures.by_category, figures.base, ax) is ax


def test_a_reliability_diagram_has_shares_diagonal_intervals_and_bars_of_n(found):
    ax = reliability(found, Figure().add_subplot(), "stated")
    (shares,), (diagonal,) = by_id(ax.lines, "shares"), by_id(ax.lines, "diagonal")
    assert list(shares.get_xdata()) == pytest.approx([0.15, 0.85])
    assert list(shares.get_ydata()) == pytest.approx([1 / 2, 1 / 3])
    assert list(diagonal.get_xdata()) == list(diagonal.get_ydata()) == [0, 1]
    ends = [[tuple(point) for point in path.vertices] for c in ax.collections for path in c.get_paths()]
    rates = [Rate.of(1, 2), Rate.of(1, 3)]
    assert [(low, high) for (_, low), (_, high) in ends] == [(rate.low, rate.high) for rate in rates]
    bars = by_id(ax.patches, "n")
    assert bars[0].get_height() / bars[1].get_height() == pytest.approx(2 / 3)
    assert texts(ax) == ["2", "3"]
    assert "Brier 0." in ax.get_title(loc="left")


def test_bars_of_n_lie_below_every_share(found):
    ax = reliability(found, Figure().add_subplot())
    assert all(bar.get_y() + bar.get_height() < 0 for bar in by_id(ax.patches, "n"))
    assert min(ax.get_yticks()) == 0


def test_flags_are_named_with_their_counts(log):
    flags = reflections(log).every.flags
    ax = flag_rates(flags, Figure().add_subplot())
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["generic", "misses_check"]
    assert texts(ax) == ["16/24", "8/24"]
    assert [bar.get_width() for bar in ax.patches] == pytest.approx([16 / 24, 8 / 24])


def test_effects_show_value_and_interval_about_the_base(log):
    figures = reflections(log)
    ax = effects(figures.by_category, figures.base, Figure().add_subplot())
    dots = [line for line in ax.lines if line.get_marker() == "o"]
    values = [group.effect.value for group in figures.by_category.values()]
    assert [float(dot.get_xdata()[0]) for dot in dots] == pytest.approx(values)
    assert "base 2/6" in ax.get_title(loc="left")
    low, high = ax.get_xlim()
    assert all(low <= g.effect.low and g.effect.high <= high for g in figures.by_category.values())


def test_a_group_that_nobody_read_has_its_counts_alone(log):
    group = replace(reflections(log).every, effect=None, retries=Rate.of(0, 0))
    ax = effects({"none": group}, Rate.of(0, 0), Figure().add_subplot())
    assert texts(ax) == ["0/0"]
    assert not [line for line in ax.lines if line.get_marker() == "o"]


def test_bars_and_dots_are_told_apart_in_grey():
    def grey(colour):
        return sum(weight * part for weight, part in zip((0.299, 0.587, 0.114), to_rgb(colour), strict=True))

    assert grey(FAINT) - grey(COLOURS[0]) > 0.3


def test_the_figure_is_saved_with_its_numbers(log, tmp_path):
    path = save_reflections(tmp_path, log, "reflexion")
    assert path.read_bytes().startswith(b"\x89PNG")
    rows = list(csv.DictReader((tmp_path / "reflections.csv").open()))
    figures = reflections(log)
    found = {(row["figure"], row["name"]): row for row in rows}
    assert len(found) == len(rows)
    assert float(found["effect", "class type"]["value"]) == figures.by_category["type"].effect.value
    assert (found["passed", "all"]["k"], found["passed", "all"]["n"]) == ("6", "18")
    assert found["flag generic", "by llm"]["n"] == "12"
    assert float(found["brier", "stated"]["value"]) == figures.calibration["stated"].brier.value
    bins = [row for row in rows if row["figure"] == "reliability" and row["name"].startswith("stated")]
    assert sum(int(row["n"]) for row in bins) == figures.calibration["stated"].n


def test_a_run_without_reflections_has_no_figure(write_run, tmp_path):
    assert save_reflections(tmp_path, Log.read(write_run({"a": [(1.0, True)]})), "simple") is None
    assert not (tmp_path / "reflections.csv").exists()


@pytest.mark.parametrize("rounds", [1, 3])
def test_reflections_that_nobody_read_are_drawn_too(write_run, tmp_path, rounds):
    log = Log.read(write_run({"a": [(0.0, False)] * rounds}))
    assert save_reflections(tmp_path, log, "resample").exists()
