"""A run at a glance as HTML: headline, curve, every task, costs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from reflexion_lab.analysis.report import cells, pieces
from reflexion_lab.analysis.report.headline import facts
from reflexion_lab.analysis.report.run_tables import usage, warnings
from reflexion_lab.analysis.report.tasks import RESULTS, TaskLine, task_lines
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.summary import Summary, summary


def overview(log: Log, is_linked: bool = False) -> str:
    """The run as HTML; with `is_linked`, tasks lead to `#task=…`, as the page of a run has them."""
    figures = summary(log)
    groups = [(name, RESULTS[name], list(tasks)) for name, tasks in groupby(task_lines(log), lambda task: task.result)]
    loud, lines = list(warnings(log, figures)), list(_facts(log))
    draw = pieces.macro("run", "overview")
    return draw(log.arm, figures, loud, lines, log.points, groups, usage(log), link, is_linked)


def sentence(log: Log) -> str:
    """Its headline in a line."""
    figures = summary(log)
    rate = cells.rate(figures.pass_at_1)
    line = f"{log.manifest.run_id}: {metric(figures)} {rate}, feedback {figures.feedback_source}"
    return pieces.visible(unfinished(log) + line)


def unfinished(log: Log) -> str:
    """What stands before a line on a run whose tasks have not all ended; "" where they have."""
    ended, expected = len(log.attempts), log.manifest.n_expected
    return f"INCOMPLETE, {ended} of {expected} tasks ended: " if ended != expected else ""


def metric(figures: Summary) -> str:
    return "UPPER BOUND, not pass@1:" if figures.is_upper_bound else "pass@1"


def link(task: TaskLine) -> str:
    """Where the page of a run shows the task."""
    from urllib.parse import quote

    return f"#task={quote(task.task_id, safe='/', errors='backslashreplace')}"


def _facts(log: Log) -> Iterator[tuple[str, str]]:
    yield "run", f"{log.manifest.run_id}, made {log.manifest.created_at}"
    yield "arm", log.arm
    yield "tasks", f"{len(log.results)} of {log.manifest.n_expected}"
    yield from facts(log)
