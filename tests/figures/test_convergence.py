from __future__ import annotations

import csv
import subprocess
import sys
import threading
from itertools import pairwise

import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from reflexion_lab.analysis.figures.convergence import Curve, convergence, save_convergence
from reflexion_lab.analysis.figures.style import COLOURS
from reflexion_lab.analysis.summary import Log

RUN = {"a": [(1.0, True)], "b": [(0.5, False), (1.0, True)], "c": [(0.0, False), (0.5, False), (0.5, True)]}


@pytest.fixture
def curve(write_run):
    def make(label: str = "reflexion", feedback_source: str = "visible", **options) -> Curve:
        return Curve.of(Log.read(write_run(RUN, feedback_source=feedback_source, **options)), label)

    return make


def drawn(ax, gid):
    return [line for line in ax.lines if line.get_gid() == gid]


def caption(ax):
    (text,) = (text for text in ax.texts if text.get_gid() == "caption")
    return text.get_text()


def test_the_axes_given_is_the_axes_returned(curve):
    ax = Figure().add_subplot()
    assert convergence(curve(), ax) is ax


def test_the_lines_are_the_points(curve):
    one = curve()
    ax = convergence(one, Figure().add_subplot())
    (solid,), (dashed,) = drawn(ax, "pass_at_1"), drawn(ax, "visible_pass")
    assert list(solid.get_ydata()) == [point.pass_at_1 for point in one.points]
    assert list(dashed.get_ydata()) == [point.visible_pass for point in one.points]
    assert solid.get_linestyle() != dashed.get_linestyle()


def test_the_caption_holds_what_it_takes_to_read_the_figure(curve):
    text = caption(convergence(curve(seed=7), Figure().add_subplot()))
    for part in ("n = 3 tasks", "seed 7", "visible feedback", "Wilson 95 %", "Dashed"):
        assert part in text


def test_attempts_are_whole_numbers_and_shares_are_percent(curve):
    ax = convergence(curve(), Figure().add_subplot())
    assert ax.get_ylim() == (0, 1)
    inside = [tick for tick in ax.get_xticks() if ax.get_xlim()[0] <= tick <= ax.get_xlim()[1]]
    assert inside == [1, 2, 3]
    assert ax.yaxis.get_major_formatter()(0.5) == "50 %"


def test_two_curves_differ_in_colour_and_in_marker(curve):
    ax = Figure().add_subplot()
    for label in ("reflexion", "retry"):
        convergence(curve(label), ax)
    first, second = drawn(ax, "pass_at_1")
    assert [to_hex(line.get_color()).upper() for line in (first, second)] == list(COLOURS[:2])
    assert first.get_marker() != second.get_marker()
    assert caption(ax).count("Wilson") == 1
    assert "reflexion: n = 3" in caption(ax)
    assert "retry: n = 3" in caption(ax)


def test_figures_at_equal_ends_do_not_cover_each_other(curve):
    ax = Figure().add_subplot()
    for label in ("reflexion", "retry", "rules"):
        convergence(curve(label), ax)
    heights = sorted(text.get_position()[1] for text in ax.texts if (text.get_gid() or "").startswith("share"))
    assert len(heights) == 3
    assert min(above - below for below, above in pairwise(heights)) > 0.04


def test_an_oracle_curve_is_never_called_pass_at_1(curve):
    ax = convergence(curve("oracle arm", "oracle"), Figure().add_subplot())
    (label,) = (text.get_text() for text in ax.get_legend().get_texts())
    assert label == "oracle arm, upper bound, not pass@1"
    assert "UPPER BOUND" in caption(ax)
    assert "Dashed" not in caption(ax)


def test_a_lone_point_still_shows_its_interval(write_run):
    one = Curve.of(Log.read(write_run({"a": [(1.0, True)], "b": [(0.0, False)]})), "single attempt")
    ax = convergence(one, Figure().add_subplot())
    (bar,) = (collection for collection in ax.collections if isinstance(collection, LineCollection))
    assert list(bar.get_segments()[0][:, 1]) == [one.points[0].low, one.points[0].high]


def test_the_table_beside_the_figure_holds_its_numbers(curve, tmp_path):
    one = curve()
    path = save_convergence(tmp_path, [one])
    assert path == tmp_path / "convergence.png"
    assert path.read_bytes().startswith(b"\x89PNG")
    with (tmp_path / "convergence.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["attempt"]) for row in rows] == [1, 2, 3]
    assert [float(row["pass_at_1"]) for row in rows] == [point.pass_at_1 for point in one.points]
    assert {(row["label"], row["feedback_source"], row["seeds"]) for row in rows} == {("reflexion", "visible", "7")}


def test_figures_are_drawn_in_any_thread(curve, tmp_path):
    one = curve()
    thread = threading.Thread(target=save_convergence, args=(tmp_path, [one]))
    thread.start()
    thread.join()
    assert (tmp_path / "convergence.png").is_file()


def test_a_run_without_a_curve_says_what_to_do(curve):
    with pytest.raises(ValueError, match="got no curve"):
        curve(sealed=False)


def test_importing_the_room_loads_no_heavy_library():
    room = "import reflexion_lab.analysis.figures.convergence, reflexion_lab.analysis.report.run_tables, sys"
    code = f"{room}; print({{'matplotlib', 'numpy', 'rich'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
