import pytest
from msgspec.structs import replace

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.figures import calibration as calibration_plots
from reflexion_lab.analysis.figures import retrieval
from reflexion_lab.analysis.figures.calibration import reliability
from reflexion_lab.analysis.learning.calibration import Forecast, calibration
from reflexion_lab.analysis.learning.reflections import reflections
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.stats.intervals import Rate
from tests.analysis.figures.artists import axes, by_gid


@pytest.fixture
def log(write_run, attempt, reflection) -> Log:
    attempts = {}
    for task in range(24):
        name, passes = f"t{task}", task % 3 == 0
        words = replace(
            reflection(1, "llm" if task % 2 else "rules:type"), category="type" if task % 4 else "assertion",
            confidence=0.2 if task % 5 else 0.9, flags=("generic", "misses_check")[: task % 3],
        )  # fmt: skip
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


def test_the_drawing_of_confidence_holds_its_bins(log):
    drawing = calibration_plots.drawing([Arm("reflexion", [log])], source="stated")
    figures = reflections(log).calibration["stated"]
    columns = dict(zip(drawing.columns, zip(*drawing.rows, strict=True), strict=True))
    assert sum(columns["n"]) == figures.n
    assert set(columns["brier"]) == {figures.brier.value}
    assert columns["share"] == tuple(part.came_true.share for part in figures.bins)
    assert "95 % intervals: Wilson." in drawing.caption
    clustered = replace(log, clusters={f"t{task}": f"c{task // 6}" for task in range(24)})
    drawing = calibration_plots.drawing([Arm("reflexion", [clustered])], source="stated")
    assert "adjusted t over clusters" in drawing.caption
    with pytest.raises(ValueError, match="source: got 'other', expected one of "):
        calibration_plots.drawing([Arm("reflexion", [log])], source="other")


@pytest.fixture
def simple(write_run):
    return Arm("simple", [Log.read(write_run({"a": [(1.0, True)]}, name="simple"))])


def test_without_reflections_or_items_of_other_loops_there_is_no_figure(simple):
    assert calibration_plots.drawing([simple]) is None
    assert retrieval.drawing([simple]) is None


def test_the_window_of_a_plain_run_is_of_its_own_loop(write_run, attempt):
    later = replace(attempt("own/1-1", 2, 1.0), recalled=("ep-own/1-1-1", "ep-run-1/own/1-1-1", "ep-own/1-1"))
    log = Log.read(write_run(attempts={"own/1-1": [attempt("own/1-1", 1, 0.0), later]}))
    assert retrieval.items_of_others(log, later) == 1  # the third is of task own/1
    assert retrieval.items_of_others(replace(log, shard_ids=("run-0", "run-2")), later) == 2


def test_attempts_are_drawn_by_the_items_of_other_loops_that_they_read(write_run, attempt):
    """Forty tasks; all but the first read as many items as the rest of their number by three, and every second passes.
    An episode of the own loop does not count.
    """
    attempts = {}
    for task in range(40):
        name = f"t{task}"
        record = attempt(name, 1, float(task % 2))
        recalled = (f"ep-run-1/{name}-1", *(f"ep-run-1/other-{number}" for number in range(task % 3)))
        attempts[name] = [replace(record, recalled=recalled)]
    arm = Arm("near", [Log.read(write_run(attempts=attempts))])
    drawing = retrieval.drawing([arm])
    (panel,) = drawing.panels  # there is no later attempt
    ax = axes()
    assert panel(ax) is ax
    columns = dict(zip(drawing.columns, zip(*drawing.rows, strict=True), strict=True))
    assert (columns["items"], columns["n"], columns["k"]) == ((0, 1, 2), (14, 13, 13), (7, 7, 6))
    (marks,) = by_gid(ax.lines, "passed")
    assert list(marks.get_ydata()) == list(columns["share"])
    ends = [segment[:, 1].tolist() for c in by_gid(ax.collections, "interval") for segment in c.get_segments()]
    assert ends == [list(pair) for pair in zip(columns["low"], columns["high"], strict=True)]
    assert texts(ax) == ["14", "13", "13"]
    assert "95 % intervals: Wilson." in drawing.caption
    clustered = [replace(log, clusters={f"t{task}": f"c{task // 6}" for task in range(40)}) for log in arm.logs]
    assert "95 % intervals: adjusted t over clusters." in retrieval.drawing([Arm("near", clustered)]).caption
