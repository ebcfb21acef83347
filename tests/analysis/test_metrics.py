"""One function is a metric: it stands in the run's table, page, frames, in MLflow, and in comparisons."""

from io import StringIO

import pytest
from rich.console import Console

from reflexion_lab.analysis import metrics
from reflexion_lab.analysis.comparison import compare
from reflexion_lab.analysis.comparison.grouping import arms
from reflexion_lab.analysis.figures.curves import Curve
from reflexion_lab.analysis.report.comparison import sheets
from reflexion_lab.analysis.report.documents import write_table
from reflexion_lab.analysis.report.page import page
from reflexion_lab.analysis.report.run_tables import show
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.stats.intervals import Estimate, Rate
from reflexion_lab.analysis.summary import summary
from reflexion_lab.errors import ConfigError
from reflexion_lab.notebook.frames import load
from reflexion_lab.studies.tracking import arm_runs, run_view
from tests.analysis.conftest import lines_of

VERDICTS = {"a": [(1.0, True)], "b": [(0.0, False), (1.0, True)], "c": [(0.0, False), (0.0, False)]}


@pytest.fixture
def registry(monkeypatch):
    """A copy of the registry, so that a test's metrics are gone behind it."""
    monkeypatch.setattr(metrics, "REGISTRY", dict(metrics.REGISTRY))


@pytest.fixture
def runs(run):
    return [run(arm, VERDICTS, seed) for arm in ("feedback_only", "words") for seed in (1, 2)]


def views(runs, folder):
    """By name, the text of everything that shows a run or a comparison, and the frames' columns."""
    log = Log.read(runs[0])
    console = Console(file=StringIO(), width=120)
    show(runs[0], console)
    all_arms = arms(runs)
    comparison = compare(all_arms)
    row, written = comparison.rows[1], lines_of(write_table(folder / "t.csv", comparison))
    frames = load(*(run.path for run in runs))
    return {
        "show": console.file.getvalue(),
        "page": page(log),
        "table": "\n".join(map(repr, sheets(comparison))),
        "csv": {name: line for (_, name, budget), line in written.items() if not budget},
        "json": {line["metric"]: line for line in comparison.document["lines"] if "budget" not in line},
        "run in MLflow": {metric.name: metric.value for metric in run_view.metrics(log, summary(log))},
        "arm in MLflow": {metric.name: metric.value for metric in arm_runs.metrics(row, Curve.over(all_arms[1], 2))},
        "runs": frames.runs,
        "tasks": frames.tasks,
        "attempts": frames.attempts,
    }


def test_one_function_of_attempts_is_shown_everywhere(registry, runs, tmp_path):
    @metrics.metric("attempt", "share", label="late attempts", direction="lower")
    def late(attempt, grade):
        return attempt.number > 1

    pages = views(runs, tmp_path)
    assert "late attempts" in pages["show"]
    assert "(2 of 5 attempts, over 3 tasks 95 %)" in pages["show"]
    assert "late attempts" in pages["page"]
    assert "late attempts" in pages["table"]
    assert "(4 of 10 attempts, over 3 tasks 95 %)" in pages["table"]
    assert (pages["csv"]["late_rate"]["value"], pages["csv"]["late_rate"]["n"]) == ("0.4", "10")
    assert (pages["json"]["late_rate"]["value"], pages["json"]["late_rate"]["method"]) == (0.4, "over 3 tasks")
    assert pages["run in MLflow"]["final/late_rate"] == pages["arm in MLflow"]["final/late_rate"] == 0.4
    assert pages["run in MLflow"]["final/late_rate_low"] < 0.4 < pages["arm in MLflow"]["final/late_rate_high"]
    assert pages["runs"].late_rate.tolist() == [0.4] * 4
    assert pages["attempts"].late.sum() == 8


def test_one_function_of_tasks_or_numbers_is_shown_everywhere(registry, runs, tmp_path):
    @metrics.metric("task", "share", label="retried tasks")
    def retried(attempts, grades):
        return len(attempts) > 1

    @metrics.metric("attempt", "number", label="length", note="characters")
    def length(attempt, grade):
        return len(attempt.trajectory.solution)

    pages = views(runs, tmp_path)
    for name in ("show", "page", "table"):
        assert "retried tasks" in pages[name]
        assert "characters" in pages[name]
    assert "(4 of 6 tasks, over 3 tasks 95 %)" in pages["table"]
    assert pages["csv"]["retried"]["value"] == "0.666667" and float(pages["csv"]["retried"]["low"]) < 0.66
    assert pages["arm in MLflow"]["final/retried"] == pytest.approx(2 / 3)
    assert pages["arm in MLflow"]["final/length"] == pages["run in MLflow"]["final/length"] > 0
    assert pages["runs"].retried.tolist() == [pytest.approx(2 / 3)] * 4
    assert pages["tasks"].retried.sum() == 8


def test_a_metric_without_a_value_is_left_out_and_missing(registry, runs, tmp_path):
    @metrics.metric("attempt", "share", label="never known", direction="lower")
    def never(attempt, grade):
        return None

    @metrics.metric("run", "count", label="no count")
    def no_count(log):
        return None

    pages = views(runs, tmp_path)
    assert not [text for text in ("never known", "no count") if text in pages["show"] + pages["page"]]
    assert "final/never_rate" not in pages["run in MLflow"].keys() | pages["arm in MLflow"].keys()
    assert pages["attempts"].never.isna().all()
    assert pages["runs"].no_count.isna().all()
    assert "never_rate" not in pages["csv"].keys() | pages["json"].keys()


def test_an_upper_bound_has_no_metric_called_pass_at_1(write_run):
    log = Log.read(write_run(VERDICTS, feedback_source="oracle"))
    names = [metric.key(log.is_upper_bound) for metric, _ in metrics.in_run(log)]
    assert "upper_bound_first" in names
    assert not [name for name in names if "pass_at_1" in name or name.startswith("feedback")]
    runs = load(write_run(VERDICTS, name="oracle", feedback_source="oracle")).runs
    assert runs.pass_at_1_first.isna().all()
    assert runs.upper_bound_first.tolist() == [pytest.approx(1 / 3)]


def test_a_name_is_taken_once_per_level(registry):
    with pytest.raises(ValueError, match="metric: got a second 'timeouts' of level attempt"):
        metrics.metric("attempt", "share", label="x", name="timeouts")(lambda attempt, grade: True)
    with pytest.raises(ConfigError, match="got the name of a metric or column of the lab"):
        metrics.metric("task", "number", label="x", name="seeds")(lambda attempts, grades: 1)


def test_the_summary_holds_the_values_of_the_registry(write_run):
    log = Log.read(write_run(VERDICTS))
    figures = summary(log)
    assert figures is summary(log)
    values = {metric.name: value for metric, value in metrics.in_run(log) if metric.level == "run"}
    for name in ("pass_at_1", "any_solved", "visible_pass", "attempts_mean", "harness_errors", "no_feedback"):
        assert values[name] == getattr(figures, name)
    assert metrics.numbers("x", Rate.of(0, 0)) == metrics.numbers("x", None) == {}
    assert metrics.numbers("x", Estimate(value=1.0, low=0.0, high=2.0)) == {"x": 1.0, "x_low": 0.0, "x_high": 2.0}
