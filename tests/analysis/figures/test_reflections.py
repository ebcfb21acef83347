from __future__ import annotations

import csv

import pytest
from msgspec.structs import replace

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.figures import repairs as repair_plots
from reflexion_lab.analysis.figures import similarity as similarity_plots
from reflexion_lab.analysis.figures.reflections import effects, flag_rates, reliability, save_reflections
from reflexion_lab.analysis.figures.style import COLOURS, FAINT
from reflexion_lab.analysis.learning.calibration import Forecast, calibration
from reflexion_lab.analysis.learning.reflections import reflections
from reflexion_lab.analysis.learning.transitions import repairs
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.stats.intervals import Rate
from reflexion_lab.records import Message
from tests.analysis.figures.artists import axes, by_gid


@pytest.fixture
def log(write_run, attempt, reflection) -> Log:
    attempts = {}
    for task in range(24):
        name, passes = f"t{task}", task % 3 == 0
        words = replace(
            reflection(1, "llm" if task % 2 else "rules:type"),
            category="type" if task % 4 else "assertion",
            confidence=0.2 if task % 5 else 0.9,
            flags=("generic", "misses_check")[: task % 3],
        )
        second = attempt(name, 2, float(passes))
        attempts[name] = [
            attempt(name, 1, 0.0, reflection=words),
            replace(second, recalled=() if task % 4 == 1 else (f"ep-{name}-1",)),
        ]
    return Log.read(write_run(attempts=attempts))


@pytest.fixture
def diagram():
    pairs = [(0.15, 0), (0.15, 1), (0.85, 1), (0.85, 0), (0.85, 0)]
    return calibration([Forecast(str(n), confidence, bool(came)) for n, (confidence, came) in enumerate(pairs)])


def texts(ax):
    return [text.get_text() for text in ax.texts]


def test_reliability_diagram_draws_shares_intervals_and_n(diagram):
    ax = reliability(diagram, axes(), "stated")
    (shares,), (diagonal,) = by_gid(ax.lines, "shares"), by_gid(ax.lines, "diagonal")
    assert list(shares.get_xdata()) == pytest.approx([0.15, 0.85])
    assert list(shares.get_ydata()) == pytest.approx([1 / 2, 1 / 3])
    assert list(diagonal.get_xdata()) == list(diagonal.get_ydata()) == [0, 1]
    ends = [[tuple(point) for point in path.vertices] for c in ax.collections for path in c.get_paths()]
    rates = [Rate.of(1, 2), Rate.of(1, 3)]
    assert [(low, high) for (_, low), (_, high) in ends] == [(rate.low, rate.high) for rate in rates]
    bars = by_gid(ax.patches, "n")
    assert bars[0].get_height() / bars[1].get_height() == pytest.approx(2 / 3)
    assert all(bar.get_y() + bar.get_height() < 0 for bar in bars)
    assert min(ax.get_yticks()) == 0
    assert texts(ax) == ["2", "3"]
    assert "Brier 0." in ax.get_title(loc="left")


def test_flags_are_named_with_their_counts(log):
    flags = reflections(log).every.flags
    ax = flag_rates(flags, axes())
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["generic", "misses_check"]
    assert texts(ax) == ["16/24", "8/24"]
    assert [bar.get_width() for bar in ax.patches] == pytest.approx([16 / 24, 8 / 24])


def test_effects_show_value_and_interval_about_the_base(log):
    figures = reflections(log)
    unread = replace(figures.every, effect=None, retries=Rate.of(0, 0))
    ax = effects(figures.by_category | {"unread": unread}, figures.base, axes())
    dots = [line for line in ax.lines if line.get_marker() == "o"]
    values = [group.effect.value for group in figures.by_category.values()]
    assert [float(dot.get_xdata()[0]) for dot in dots] == pytest.approx(values)
    assert texts(ax)[-1] == "0/0"
    assert "base 2/6" in ax.get_title(loc="left")
    low, high = ax.get_xlim()
    assert all(low <= g.effect.low and g.effect.high <= high for g in figures.by_category.values())


def test_bars_and_dots_are_told_apart_in_grey():
    from matplotlib.colors import to_rgb

    def grey(colour):
        return sum(weight * part for weight, part in zip((0.299, 0.587, 0.114), to_rgb(colour), strict=True))

    assert grey(FAINT) - grey(COLOURS[0]) > 0.3


def test_the_figure_is_saved_with_its_numbers(log, tmp_path):
    path = save_reflections(tmp_path, log, "reflexion")
    assert path.read_bytes().startswith(b"\x89PNG")
    rows = list(csv.DictReader((tmp_path / "reflections.csv").open()))
    figures = reflections(log)
    values = {(row["figure"], row["name"]): row for row in rows}
    assert len(values) == len(rows)
    assert float(values["effect", "class type"]["value"]) == figures.by_category["type"].effect.value
    assert (values["passed", "all"]["k"], values["passed", "all"]["n"]) == ("6", "18")
    assert values["flag generic", "by llm"]["n"] == "12"
    assert float(values["brier", "stated"]["value"]) == figures.calibration["stated"].brier.value
    bins = [row for row in rows if row["figure"] == "reliability" and row["name"].startswith("stated")]
    assert sum(int(row["n"]) for row in bins) == figures.calibration["stated"].n


def test_unread_reflections_are_drawn_no_reflections_no_figure(write_run, tmp_path):
    simple = write_run({"a": [(1.0, True)]}, name="simple")
    assert save_reflections(tmp_path, Log.read(simple), "simple") is None
    assert not (tmp_path / "reflections.csv").exists()
    for rounds in (1, 3):
        log = Log.read(write_run({"a": [(0.0, False)] * rounds}, name=f"rounds {rounds}"))
        assert save_reflections(tmp_path, log, "resample").exists()


@pytest.fixture
def failing(write_run):
    verdicts = {f"t{task}": [(0.5, False), (1.0, True) if task % 3 else (0.5, False)] for task in range(12)}
    return Arm("reflexion", [Log.read(write_run(verdicts))])


def test_a_repair_rate_is_drawn_where_the_analysis_says(failing):
    classes, ax = repairs(failing, repair_plots.failure_class), axes()
    repair_plots.repair_rates([classes], "next", ax)
    (repair,) = classes.by_class.values()
    (dot,), (bar,) = by_gid(ax.lines, "repair"), [c for c in ax.collections if len(c.get_segments()) == 1]
    assert list(dot.get_xdata()) == [repair.next.share.value]
    assert [x for x, _ in bar.get_segments()[0]] == [repair.next.share.low, repair.next.share.high]
    assert "8 of 12" in texts(ax)
    assert [tick.get_text() for tick in ax.get_yticklabels()] == list(classes.by_class)
    (row,) = repair_plots.drawing([failing]).rows[::2]
    assert row[:8] == ("reflexion", "visible", "assertion", "next", 12, 8, 12, 8 / 12)


@pytest.fixture
def near(write_run, attempt):
    """Forty tasks; all but the first read the one before."""
    attempts = {}
    for task in range(40):
        name, words = f"t{task}", " ".join(f"w{word}" for word in range(task // 4 + 1))
        text = f'def f{task}():\n    """{words}"""'
        record = attempt(name, 1, float(task % 2))
        trajectory = replace(
            record.trajectory,
            solution=f"{text}\n    return 1\n",
            messages=(Message(role="user", content=f"```python\n{text}\n```"),),
        )
        recalled = (f"ep-run-1/t{task - 1}-1",) if task else ()
        attempts[name] = [replace(record, trajectory=trajectory, recalled=recalled)]
    return Arm("near", [Log.read(write_run(attempts=attempts))])


def test_every_attempt_is_a_tick_and_every_bin_a_mark(near):
    drawing = similarity_plots.drawing([near])
    (panel,) = drawing.panels  # there is no later attempt
    ax = axes()
    assert panel(ax) is ax
    (points,), (marks,), (without,) = (
        by_gid(ax.collections, "points"),
        by_gid(ax.lines, "bins"),
        by_gid(ax.lines, "without"),
    )
    heights = [y for _, y in points.get_offsets()]
    assert (sum(y > 1 for y in heights), sum(y < 0 for y in heights)) == (20, 19)
    columns = dict(zip(drawing.columns, zip(*drawing.rows, strict=True), strict=True))
    assert list(marks.get_ydata()) == list(columns["share"])
    assert sum(columns["n"]) == 39
    assert list(without.get_ydata()) == [0.0]
    ends = [segment[:, 1].tolist() for c in by_gid(ax.collections, "interval") for segment in c.get_segments()]
    assert ends[: len(columns["low"])] == [list(pair) for pair in zip(columns["low"], columns["high"], strict=True)]
    assert "computed again" in drawing.method


def test_no_similarity_figure_without_memory_across_tasks(failing):
    assert similarity_plots.drawing([failing]) is None
