"""The figures of a run, one a line: what its terminal table and its page show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from reflexion_lab.analysis import metrics
from reflexion_lab.analysis.report import cells
from reflexion_lab.analysis.report.sheets import listed, p_value, percents, points
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.stats.intervals import Estimate, Rate
from reflexion_lab.analysis.summary import Summary, summary

if TYPE_CHECKING:
    from rich.table import Table

OVER_ATTEMPT_1 = ("attempt_1_pass_at_1", "gain_over_attempt_1", "gain_over_attempt_1_p")
"""Metrics that say nothing of loops with a single attempt."""


def headline(log: Log) -> Table:
    """Name and value, one a line, each rate with its n and interval."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    for name, value in facts(log):
        grid.add_row(cells.line(name, "bold"), cells.line(value))
    return grid


def facts(log: Log) -> Iterator[tuple[str, str]]:
    """What was run and every registered metric, pass@1 first; then counts by kind."""
    figures = summary(log)
    lines = _metrics(log, figures)
    yield next(lines)
    other = ", ".join(sorted(figures.verification_types.keys() - {"unit_tests"}))
    by = f", evaluated by {other}" if other else ""
    yield "benchmark", f"{figures.benchmark}, feedback source {figures.feedback_source}, seed {figures.seed}{by}"
    names = [f"{role} {model}" if len(figures.models) > 1 else model for role, model in figures.models.items()]
    yield "models" if len(names) > 1 else "model", ", ".join(names)
    yield from lines
    for part in (_verdicts, _suites, _reflections, _memory, _exclusions):
        yield from part(figures)


def _metrics(log: Log, figures: Summary) -> Iterator[tuple[str, str]]:
    left_out = () if figures.attempts_mean > 1 else OVER_ATTEMPT_1
    for metric, value in metrics.in_run(log):
        is_empty = isinstance(value, Rate) and not value.n and metric.name != "pass_at_1"
        if not is_empty and metric.name not in left_out:
            label = metric.label.replace("pass@1", "upper bound") if log.is_upper_bound else metric.label
            yield f"{label}, attempts" if metric.level == "attempt" else label, text(metric, value)


def text(metric: metrics.Metric, value: metrics.Value) -> str:
    """A value in its unit, with interval, n and note."""
    if isinstance(value, Rate):
        line = cells.rate(value, metric.cases)
    elif isinstance(value, Estimate):
        amount = f"{points(value)} points" if metric.unit == "points" else f"{percents(value)} %"
        line = f"{amount}, {metric.interval}" if metric.interval else amount
    elif metric.unit == "p":
        line = p_value(value)
    else:
        line = f"{value:,.0f}" if metric.unit == "count" else f"{value:.2f}"
    return f"{line}, {metric.note}" if metric.note else line


def _verdicts(figures: Summary) -> Iterator[tuple[str, str]]:
    if (pair := figures.against_single) and figures.attempts_mean > 1:
        yield "since attempt 1", f"{pair.repaired} repaired, {pair.damaged} damaged"
    if figures.feedback_tests or figures.hidden_tests:
        feedback = f"{figures.feedback_in_place} of {figures.feedback_tests} feedback verdicts, over all attempts"
        hidden = f"{figures.hidden_in_place} of {figures.hidden_tests} hidden ones on what was submitted"
        yield "judged in the candidate's process", f"{feedback}; {hidden}; a program can forge these"
    while_open = f"{figures.hidden_asked_open} while the run was open, {figures.n_logged} tasks"
    yield "hidden verdicts", f"{while_open}; {figures.hidden_asked_sealed} after the seal"
    if figures.did_not_run:
        yield "left out of the reward", f"{cells.counts(figures.did_not_run)}; the other weights make up for it"


def _suites(figures: Summary) -> Iterator[tuple[str, str]]:
    if suites := figures.suites:
        empty = f"{suites.empty} of {suites.suites} tasks without any" if suites.empty else "some for every task"
        yield "tests by the model", f"{suites.tests} kept, {empty}; left out: {cells.counts(suites.dropped)}"
        yield "all tests valid", cells.rate(suites.valid_suites)
        unjudged = f"; {suites.unjudged} not judged" if suites.unjudged else ""
        yield "invalid tests", cells.counts(suites.invalid_outcomes) + unjudged
        if single := figures.feedback_asserts:
            right = f"{single.true_positives} pass, {single.false_negatives} fail on right programs"
            wrong = f"{single.false_positives} pass, {single.true_negatives} fail on wrong ones"
            yield "single tests", f"{right}; {wrong}, over all attempts"


def _reflections(figures: Summary) -> Iterator[tuple[str, str]]:
    if figures.reflections:
        yield "reflections", cells.counts(figures.reflections)
    calibrations = figures.reflection_figures.calibration if figures.reflection_figures else {}
    for name, calibration in calibrations.items():
        brier = f"Brier {cells.estimate(calibration.brier, digits=3, scale=1)}"
        naive = f"{calibration.uncertainty:.3f} by always naming the share that passed"
        error = f"calibration error {calibration.error:.3f}, up to {calibration.error_by_chance:.3f} by chance"
        means = f"mean {calibration.confidence:.2f}, {calibration.came_true.k} of {calibration.n} passed"
        yield f"confidence, {name}", f"{brier}, {naive}; {error}; {means}"


def _memory(figures: Summary) -> Iterator[tuple[str, str]]:
    if figures.read_of_others is not None:
        before = cells.counts(figures.known_before) if figures.known_before else "nothing of earlier runs"
        yield "known at the start", before
        yield "items read from other tasks", f"{cells.counts(figures.read_of_others)}, by number of attempts"


def _exclusions(figures: Summary) -> Iterator[tuple[str, str]]:
    """How loops ended, and the tasks and attempts that are counted apart."""
    yield "loops ended by", cells.counts(figures.stop_reasons)
    yield "hidden outcomes", cells.counts(figures.submitted_outcomes)
    yield "feedback outcomes", f"{cells.counts(figures.feedback_outcomes)}, over all attempts"
    if figures.no_verdict:
        yield "left out of n", f"tasks without a hidden verdict {len(figures.no_verdict)}: {listed(figures.no_verdict)}"
    if figures.withheld:
        yield "withheld by the model", f"{cells.counts(figures.withheld)}, attempts without a program, not passed"
    if figures.set_aside:
        yield "restarted", f"{cells.counts(figures.set_aside)}, loops that got no answer; none of them is in n"
    if retries := sum(usage.retries for usage in figures.usage.values()):
        yield "requests sent again", f"{retries} that brought no answer at first"
    if figures.uncounted:
        yield "cost unknown", f"{figures.uncounted} attempts of which the server counted no token"
    if figures.torn:
        yield "torn lines skipped", str(figures.torn)
