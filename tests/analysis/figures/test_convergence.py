from __future__ import annotations

import csv
import threading

import pytest

from reflexion_lab.analysis.figures.curves import Curve, curves, run_drawing, save_convergence
from reflexion_lab.analysis.summary import Log
from tests.analysis.figures.artists import axes, by_gid

RUN = {"a": [(1.0, True)], "b": [(0.5, False), (1.0, True)], "c": [(0.0, False), (0.5, False), (0.5, True)]}


@pytest.fixture
def curve(write_run):
    def make(label: str = "reflexion", feedback_source: str = "visible", **options) -> Curve:
        return Curve.of(Log.read(write_run(RUN, feedback_source=feedback_source, **options)), label)

    return make


def test_the_lines_are_the_points(curve):
    pooled = curve()
    ax = curves([pooled], axes(), feedback=True)
    (solid,), (dashed,) = by_gid(ax.lines, "pass_at_1"), by_gid(ax.lines, "visible_pass")
    assert list(solid.get_ydata()) == [point.pass_at_1 for point in pooled.points]
    assert list(dashed.get_ydata()) == [point.visible_pass for point in pooled.points]
    assert solid.get_linestyle() != dashed.get_linestyle()
    low, high = ax.get_ylim()
    assert low <= min(dashed.get_ydata()) <= max(dashed.get_ydata()) <= high
    assert not by_gid(curves([pooled], axes()).lines, "visible_pass")
    assert [tick for tick in ax.get_xticks() if ax.get_xlim()[0] <= tick <= ax.get_xlim()[1]] == [1, 2, 3]
    assert ax.yaxis.get_major_formatter()(0.5) == "50 %"


def test_the_caption_holds_what_it_takes_to_read_the_figure(write_run):
    folder = write_run(RUN, seed=7)
    text = run_drawing(Log.read(folder), "reflexion").caption
    for part in ("reflexion: n = 3 tasks", "seed 7", "visible feedback", "Wilson 95 %", "Dashed"):
        assert part in text


def test_an_oracle_curve_is_never_called_pass_at_1(write_run):
    drawing = run_drawing(Log.read(write_run(RUN, feedback_source="oracle")), "oracle arm")
    ax = drawing.panels[0](axes())
    (line,) = by_gid(ax.lines, "pass_at_1")
    assert line.get_label() == "oracle arm (UPPER BOUND, not pass@1)"
    assert "UPPER BOUND" in drawing.title
    assert "UPPER BOUND" in drawing.caption
    assert "Dashed" not in drawing.caption
    assert not by_gid(ax.lines, "visible_pass")


def test_a_lone_point_still_shows_its_interval(write_run):
    from matplotlib.collections import LineCollection

    single = Curve.of(Log.read(write_run({"a": [(1.0, True)], "b": [(0.0, False)]})), "single attempt")
    ax = curves([single], axes())
    (bar,) = (collection for collection in ax.collections if isinstance(collection, LineCollection))
    assert list(bar.get_segments()[0][:, 1]) == [single.points[0].low, single.points[0].high]


def test_the_figure_and_its_numbers_are_saved_from_any_thread(write_run, tmp_path):
    log = Log.read(write_run(RUN))
    thread = threading.Thread(target=save_convergence, args=(tmp_path, log, "reflexion"))
    thread.start()
    thread.join()
    assert (tmp_path / "convergence.png").read_bytes().startswith(b"\x89PNG")
    with (tmp_path / "convergence.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["attempt"]) for row in rows] == [1, 2, 3]
    assert [float(row["pass_at_1"]) for row in rows] == [point.pass_at_1 for point in log.points]
    assert {(row["label"], row["feedback_source"], row["seeds"]) for row in rows} == {("reflexion", "visible", "7")}


def test_a_run_without_a_curve_says_what_to_do(curve):
    with pytest.raises(ValueError, match="got no curve"):
        curve(sealed=False)
