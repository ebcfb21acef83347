from __future__ import annotations

import pytest
from matplotlib.figure import Figure
from msgspec.structs import replace

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.figures import repairs as repair_plots
from reflexion_lab.analysis.figures import similarity as similarity_plots
from reflexion_lab.analysis.learning.transitions import repairs
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.records import Message


def by_gid(artists, gid):
    return [artist for artist in artists if artist.get_gid() == gid]


def texts(ax):
    return [text.get_text() for text in ax.texts]


@pytest.fixture
def failing(write_run):
    verdicts = {f"t{task}": [(0.5, False), (1.0, True) if task % 3 else (0.5, False)] for task in range(12)}
    return Arm("reflexion", [Log.read(write_run(verdicts))])


def test_a_repair_rate_is_drawn_where_the_analysis_says(failing):
    found, ax = repairs(failing, repair_plots.failure_class), Figure().add_subplot()
    assert repair_plots.repair_rates([found], "next", ax) is ax
    (one,) = found.by_class.values()
    (dot,), (bar,) = by_gid(ax.lines, "repair"), [c for c in ax.collections if len(c.get_segments()) == 1]
    assert list(dot.get_xdata()) == [one.next.share.value]
    assert [x for x, _ in bar.get_segments()[0]] == [one.next.share.low, one.next.share.high]
    assert "8 of 12" in texts(ax)
    assert [tick.get_text() for tick in ax.get_yticklabels()] == list(found.by_class)


def test_classes_of_repairs_are_those_of_the_evidence(failing):
    (one,) = repair_plots.drawing([failing]).rows[::2]
    assert one[:8] == ("reflexion", "visible", "assertion", "next", 12, 8, 12, 8 / 12)


@pytest.fixture
def near(write_run, attempt):
    """Forty tasks; all but the first read the one before."""
    made = {}
    for task in range(40):
        name, words = f"t{task}", " ".join(f"w{word}" for word in range(task // 4 + 1))
        text = f'def f{task}():\n    """{words}"""'
        one = attempt(name, 1, float(task % 2))
        trajectory = replace(
            one.trajectory,
            solution=f"{text}\n    return 1\n",
            messages=(Message(role="user", content=f"```python\n{text}\n```"),),
        )
        recalled = (f"ep-run-1/t{task - 1}-1",) if task else ()
        made[name] = [replace(one, trajectory=trajectory, recalled=recalled)]
    return Arm("near", [Log.read(write_run(made=made))])


def test_every_attempt_is_a_tick_and_every_bin_a_mark(near):
    drawing = similarity_plots.drawing([near])
    (panel,) = drawing.panels  # there is no later attempt
    ax = Figure().add_subplot()
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
    assert "computed again" in drawing.caption


def test_runs_whose_tasks_know_nothing_of_each_other_have_no_such_figure(failing):
    assert similarity_plots.drawing([failing]) is None
