"""A run as text for a terminal."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from reflexion_lab.analysis.report import cells
from reflexion_lab.analysis.report.headline import headline
from reflexion_lab.analysis.report.reflection_report import reflection_table
from reflexion_lab.analysis.report.sheets import NONE, listed, percent
from reflexion_lab.analysis.suite_quality import Confusion
from reflexion_lab.analysis.summary import Log, Summary, summary
from reflexion_lab.loop.selection import submitted_at
from reflexion_lab.records import Usage
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.runner.folder.manifest import changes, resumed

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

ROWS = 60
"""Tasks that are shown unless all are asked for."""

STYLES = {"pass": "green", "repaired": "bold green", "damaged": "bold red", "not graded": "yellow"}
"""Of words in a cell; any other outcome is red."""

CONFUSION = (
    "passed, and right",
    "passed, but wrong",
    "failed, but right",
    "failed, and wrong",
    "without a verdict",
    "wrong if passed",
    "right if failed",
    "passed if wrong",
    "failed if right",
)
"""Rows of the table on feedback tests: counts of programs, then shares."""


def show(
    run: RunFolder,
    console: Console,
    all_tasks: bool = False,
    log: Log | None = None,
    figures: Summary | None = None,
) -> None:
    """Print a run: its tasks, convergence, headline figures and costs, and loudly what is wrong with it.

    `log` and `figures`: the run's, where it has been read and summarised already.

    Raises:
        FolderError: a file of the run cannot be read.
    """
    log = log or Log.read(run, texts=False)
    figures = figures or summary(log)
    loud = [cells.line(text, "bold white on red") for text in warnings(log, figures, run.path)]
    tables = [
        _tasks(log, all_tasks),
        *_convergence(log, figures),
        *_feedback(figures),
        *_reflections(figures),
        headline(figures),
        cells.line(""),
        _costs(figures, log.manifest.prices),
        *map(cells.line, resumed(log.manifest, log.resumptions)),
    ]
    for part in (*loud, *tables, *loud):
        console.print(part)
    console.print(cells.line(f"run folder: {run.path}"), soft_wrap=True)


def _reflections(figures: Summary) -> Iterator[Table]:
    if figures.reflection_figures:
        yield reflection_table(figures.reflection_figures, figures.feedback_source)


def warnings(log: Log, figures: Summary, path: Path | None = None) -> Iterator[str]:
    """What a reader must not overlook, a line each; with the run's `path`, also how to go on with it."""
    if figures.harness_errors:
        spoilt = f"{figures.harness_errors} verdicts are failures of the harness and say nothing about a program"
        yield f"HARNESS ERRORS: {spoilt}{_first_problem(log)}. Run `reflexion-lab doctor`"
    resume = f". To resume, give the command that began it, with resume={path}" if path else ""
    if changed := [one for one in log.resumptions if changes(log.manifest, one)]:
        yield f"RESUMED WITH CHANGES: {'; '.join(resumed(log.manifest, changed))}"
    if figures.no_verdict:
        yield (
            f"NO VERDICT: {len(figures.no_verdict)} of {figures.n_logged} tasks have no hidden tests or a harness "
            f"error, and are in no rate's n: {listed(figures.no_verdict, 5)}"
        )
    if figures.is_upper_bound:
        yield "UPPER BOUND, not pass@1: the hidden tests drove this loop (feedback source: oracle)."
    if figures.n_logged != figures.n_expected:
        ended = f"{figures.n_logged} of {figures.n_expected} tasks have ended"
        yield f"INCOMPLETE: {ended}; no figure is final{resume}"
    elif not log.is_graded:
        yield f"NOT ALL GRADED: some attempts have no hidden verdict yet, so there is no curve{resume}"


def _first_problem(log: Log) -> str:
    """What the harness said first, if it was while giving feedback; a grade holds no words."""
    checks = (check for attempt in log.every for check in attempt.evaluation.checks)
    said = next((f"{check.name}: {check.message}" for check in checks if check.outcome == "harness_error"), "")
    return f"; the first: {' '.join(said.split())[:200].rstrip('.: ')}" if said else ""


def _tasks(log: Log, all_tasks: bool) -> Table:
    """One row a task. Of too many, failures and changes of verdict come first and `ROWS` are shown."""
    table = cells.table("Tasks", "task", "submitted", "feedback", "hidden", "since\nattempt 1", "ended by", names=6)
    left_out = set(log.no_verdict)
    rows = {task_id: _row(log, task_id, left_out) for task_id in log.results}
    shown = list(rows)
    if len(shown) > ROWS and not all_tasks:
        shown = sorted(rows, key=lambda task_id: rows[task_id][2:4] == ("pass", ""))[:ROWS]
        table.caption = f"{len(rows) - ROWS} more tasks left out; failures, repairs and damage come first"
    for task_id in shown:
        submitted, *verdicts, ended = rows[task_id]
        coloured = (cells.line(cell, STYLES.get(cell, "red")) for cell in verdicts)
        table.add_row(cells.line(task_id), submitted, *coloured, cells.line(ended))
    return table


def _row(log: Log, task_id: str, left_out: Collection[str]) -> tuple[str, str, str, str, str]:
    """Attempt submitted, feedback verdict, hidden verdict, change since attempt 1, why the loop ended."""
    made = log.attempts[task_id]
    chosen = submitted_at(made)
    first, final = (log.grades.get((task_id, number)) for number in (1, chosen.number))
    change = ""
    if first and final and task_id not in left_out and first.passed != final.passed:
        change = "repaired" if final.passed else "damaged"
    submitted = f"{chosen.number} of {len(made)}"
    hidden = final.outcome if final else "not graded"
    return submitted, chosen.evaluation.outcome, hidden, change, log.results[task_id].stop_reason


def _convergence(log: Log, figures: Summary) -> Iterator[Table]:
    points = log.points
    if not points:
        return
    feedback = f", feedback n = {points[-1].n_feedback}" if points[-1].n_feedback != points[-1].n else ""
    title = f"Convergence, n = {points[0].n} tasks{feedback}: every loop cut at this attempt; shares in %"
    metric = "upper\nbound" if figures.is_upper_bound else "pass@1"
    columns = ("solved", metric, "95 %\ninterval", "feedback\npassed", "any\nsolved")
    table = cells.table(title, "attempt", *columns, "mean\nreward", "tokens\nso far")
    for point in points:
        passed = NONE if point.visible_pass is None else percent(point.visible_pass)
        table.add_row(
            str(point.attempt),
            f"{point.solved}/{point.n}",
            f"{100 * point.pass_at_1:.1f}",
            cells.line(cells.interval(point.low, point.high)),
            passed,
            percent(point.any_solved),
            NONE if point.reward is None else f"{point.reward:.3f}",
            f"{point.tokens_cum:,}",
        )
    yield table


def _feedback(figures: Summary) -> Iterator[Table]:
    """Verdicts of the feedback tests against the hidden ones, which in an oracle's run are the same."""
    columns = {"attempt 1": figures.feedback_first, "submitted": figures.feedback}
    columns["all attempts"] = figures.feedback_attempts
    known = {name: found for name, found in columns.items() if found}
    if figures.is_upper_bound or figures.no_feedback == figures.n_logged:
        return
    table = cells.table(f"Feedback {_giver(figures)} against hidden tests", "programs", *known)
    rows = {name: _confusion(found) for name, found in known.items()}
    for cell in zip(CONFUSION, *rows.values(), strict=True):
        table.add_row(*map(cells.line, cell))
    table.caption = "shares in %, Wilson 95 %; attempts at one task are not independent"
    yield table


def _confusion(found: Confusion) -> list[str]:
    """A cell for each of `CONFUSION`."""
    counts = found.true_positives, found.false_positives, found.false_negatives, found.true_negatives, found.unknown
    rates = found.wrong_if_passed, found.right_if_failed, found.false_positive_rate, found.false_negative_rate
    # Whole per cents in the brackets: three columns of them fit a terminal.
    shares = (f"{100 * r.share:.1f} [{100 * r.low:.0f}, {100 * r.high:.0f}]" if r.n else "-" for r in rates)
    return [*map(str, counts), *shares]


def _giver(figures: Summary) -> str:
    """Whose verdict the feedback is: `tests`, which a combined reward leaves the last word, or `by lint` and such."""
    others = sorted(figures.verification_types.keys() - {"unit_tests", "combined"})
    return f"by {', '.join(others)}" if others else "tests"


def _costs(figures: Summary, prices: Mapping[str, str]) -> Table:
    columns = ("calls", "prompt\ntokens", "completion\ntokens", "a solved\ntask", "model\nseconds", "cost")
    table = cells.table("Usage", "role", *columns)
    unread = {"after the last attempt": figures.usage_last_reflections}
    rows = {**figures.usage, "all": sum(figures.usage.values(), Usage()), **unread}
    solved = figures.pass_at_1.k
    unpriced = {role for role in rows if prices.get(role, prices.get("actor")) == "unknown"}
    unpriced |= {"all", "after the last attempt"} if "unknown" in prices.values() else set()
    for role, usage in rows.items():
        tokens = (f"{count:,}" for count in (usage.prompt_tokens, usage.completion_tokens))
        each = f"{usage.tokens / solved:,.0f}" if solved else "-"
        cost = "unknown" if role in unpriced else f"{usage.cost:,.4f}"
        table.add_row(cells.line(role), f"{usage.calls:,}", *tokens, each, f"{usage.seconds:,.1f}", cost)
    each = "a solved task: tokens of both kinds, over all tasks" if solved else "no task solved"
    unknown = "; cost: unknown, since nobody knows a price" if unpriced else ""
    table.caption = f"{each}; cached replies count what they took when first drawn{unknown}"
    return table
