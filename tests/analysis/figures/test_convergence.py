import csv
import threading

import pytest

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.figures.curves import Curve, curves, drawing
from reflexion_lab.analysis.figures.drawing import save
from reflexion_lab.analysis.run_log import Log
from tests.analysis.figures.artists import axes, by_gid

RUN = {"a": [(1.0, True)], "b": [(0.5, False), (1.0, True)], "c": [(0.0, False), (0.5, False), (0.5, True)]}


@pytest.fixture
def curve(write_run):
    def make(label: str = "reflexion", feedback_source: str = "visible", **options) -> Curve:
        return Curve.over(Arm(label, [Log.read(write_run(RUN, feedback_source=feedback_source, **options))]))

    return make


def test_the_lines_are_the_points(curve):
    pooled = curve()
    ax = curves([pooled], axes())
    (solid,) = by_gid(ax.lines, "pass_at_1")
    assert list(solid.get_ydata()) == [point.pass_at_1 for point in pooled.points]
    assert [tick for tick in ax.get_xticks() if ax.get_xlim()[0] <= tick <= ax.get_xlim()[1]] == [1, 2, 3]
    assert ax.yaxis.get_major_formatter()(0.5) == "50 %"


def test_an_oracle_curve_is_never_called_pass_at_1(write_run):
    drawn = drawing([Arm("oracle arm", [Log.read(write_run(RUN, feedback_source="oracle"))])])
    ax = drawn.panels[0](axes())
    (line,) = by_gid(ax.lines, "pass_at_1")
    assert line.get_label() == "oracle arm (UPPER BOUND, not pass@1)"
    assert "pass@1" not in drawn.title
    assert "UPPER BOUND" in drawn.caption


def test_the_figure_and_its_numbers_are_saved_from_any_thread(write_run, tmp_path):
    log = Log.read(write_run(RUN))
    thread = threading.Thread(target=lambda: save(tmp_path, drawing([Arm("reflexion", [log])])))
    thread.start()
    thread.join()
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    with (tmp_path / "curves.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["attempt"]) for row in rows] == [1, 2, 3]
    assert [float(row["share"]) for row in rows] == [point.pass_at_1 for point in log.points]
    assert {(row["arm"], row["feedback_source"], row["seeds"]) for row in rows} == {("reflexion", "visible", "7")}
