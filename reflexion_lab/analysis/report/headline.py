"""The headline figures of a run, one a line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from reflexion_lab.analysis.report import cells
from reflexion_lab.analysis.report.sheets import listed
from reflexion_lab.analysis.summary import Summary

if TYPE_CHECKING:
    from rich.table import Table


def headline(figures: Summary) -> Table:
    """Name and value, one a line, each rate with its n and interval."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    for parts in (_results, _suites, _reflections, _memory, _exclusions):
        for name, value in parts(figures):
            grid.add_row(cells.line(name, "bold"), cells.line(value))
    return grid


def _results(figures: Summary) -> Iterator[tuple[str, str]]:
    yield "upper bound (not pass@1)" if figures.is_upper_bound else "pass@1", cells.rate(figures.pass_at_1)
    names = [f"{role} {model}" if len(figures.models) > 1 else model for role, model in figures.models.items()]
    other = ", ".join(sorted(figures.verification_types.keys() - {"unit_tests"}))
    by = f", evaluated by {other}" if other else ""
    yield "of", f"{figures.benchmark}, feedback source {figures.feedback_source}, seed {figures.seed}{by}"
    yield "models" if len(names) > 1 else "model", ", ".join(names)
    if figures.pass_at_1_first and figures.against_single and figures.attempts_mean > 1:
        yield "plain single attempt", f"{cells.rate(figures.pass_at_1_first)}, attempt 1 of these very loops"
        pair = figures.against_single
        p = f"p = {pair.p:.2g}" if pair.p >= 1e-4 else "p < 0.0001"
        points = f"{100 * pair.difference:+.1f} points {cells.interval(pair.low, pair.high)}"
        yield "gain, paired", f"{points}, Newcombe's method 10"
        yield (
            "since attempt 1",
            f"{pair.repaired} repaired, {pair.damaged} damaged; {p}, McNemar's exact test",
        )
    if figures.visible_pass.n:
        yield "feedback passed", cells.rate(figures.visible_pass)
    if figures.feedback_tests or figures.hidden_tests:
        feedback = f"{figures.feedback_in_place} of {figures.feedback_tests} feedback verdicts, over all attempts"
        hidden = f"{figures.hidden_in_place} of {figures.hidden_tests} hidden ones on what was submitted"
        yield "judged in place", f"{feedback}; {hidden}; those a program can forge"
    while_open = f"{figures.hidden_asked_open} while the run was open, {figures.n_logged} tasks"
    yield "hidden verdicts", f"{while_open}; {figures.hidden_asked_sealed} after the seal"
    if figures.did_not_run:
        yield "left out of the reward", f"{cells.counts(figures.did_not_run)}; the other weights make up for it"


def _suites(figures: Summary) -> Iterator[tuple[str, str]]:
    if found := figures.suites:
        empty = f"{found.empty} of {found.suites} tasks without any" if found.empty else "some for every task"
        yield "tests by the model", f"{found.tests} kept, {empty}; left out: {cells.counts(found.dropped)}"
        yield "valid tests", f"{cells.rate(found.valid, 'tests')}: the canonical solution passes them"
        yield "all tests valid", cells.rate(found.valid_suites)
        unjudged = f"; {found.unjudged} not judged" if found.unjudged else ""
        yield "invalid tests", cells.counts(found.invalid_outcomes) + unjudged
        if single := figures.feedback_asserts:
            right = f"{single.true_positives} pass, {single.false_negatives} fail on right programs"
            wrong = f"{single.false_positives} pass, {single.true_negatives} fail on wrong ones"
            yield "single tests", f"{right}; {wrong}, over all attempts"


def _reflections(figures: Summary) -> Iterator[tuple[str, str]]:
    if figures.reflections:
        yield "reflections", cells.counts(figures.reflections)
        yield "written by the model", cells.rate(figures.reflections_by_model, "reflections")
        yield "word for word again", f"{figures.reflections_repeated} within their task"
    for name, found in (figures.reflection_figures.calibration if figures.reflection_figures else {}).items():
        brier = f"Brier {found.brier.value:.3f} [{found.brier.low:.3f}, {found.brier.high:.3f}]"
        naive = f"{found.uncertainty:.3f} by always naming the share that passed"
        error = f"calibration error {found.error:.3f}, up to {found.error_by_chance:.3f} by chance"
        means = f"mean {found.confidence:.2f}, {found.came_true.k} of {found.n} passed"
        yield f"confidence, {name}", f"{brier}, {naive}; {error}; {means}"


def _memory(figures: Summary) -> Iterator[tuple[str, str]]:
    if figures.read_of_others is not None:
        before = cells.counts(figures.known_before) if figures.known_before else "nothing of earlier runs"
        yield "known at the start", before
        yield "read of other loops", f"{cells.counts(figures.read_of_others)}, by number of attempts"


def _exclusions(figures: Summary) -> Iterator[tuple[str, str]]:
    """What is in n that a reader would want to know, and which tasks are not in it."""
    yield "loops ended by", f"{cells.counts(figures.stop_reasons)}; {figures.attempts_mean:.2f} attempts a task"
    yield "hidden outcomes", cells.counts(figures.submitted_outcomes)
    yield "feedback outcomes", f"{cells.counts(figures.feedback_outcomes)}, over all attempts"
    attempts = f"attempts without a program {figures.extraction_failures}, with a time-out {figures.timeouts}"
    yield "counted in n", f"tasks without feedback {figures.no_feedback}, {attempts}"
    if figures.no_verdict:
        yield "left out of n", f"tasks without a hidden verdict {len(figures.no_verdict)}: {listed(figures.no_verdict)}"
    yield "harness errors", f"{figures.harness_errors} verdicts, feedback and hidden"
    if figures.withheld:
        yield "withheld by the model", f"{cells.counts(figures.withheld)}, attempts without a program, not passed"
    if figures.set_aside:
        yield "begun anew", f"{cells.counts(figures.set_aside)}, loops that got no answer; none of them is in n"
    if retries := sum(usage.retries for usage in figures.usage.values()):
        yield "requests sent again", f"{retries} that brought no answer at first"
    if figures.uncounted:
        yield "cost unknown", f"{figures.uncounted} attempts of which the server counted no token"
    if figures.torn:
        yield "torn lines skipped", str(figures.torn)
