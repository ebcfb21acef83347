"""A run at a glance as HTML: headline, curve, every task, costs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from reflexion_lab.analysis.report import cells, pieces
from reflexion_lab.analysis.report.headline import facts
from reflexion_lab.analysis.report.run_tables import warnings
from reflexion_lab.analysis.report.tasks import RESULTS, TaskLine, task_lines
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.summary import Summary, summary
from reflexion_lab.records import Usage

Rows = list[tuple[str, str]]


def overview(log: Log, is_linked: bool = False) -> str:
    """The run as HTML; with `is_linked`, tasks lead to `#task=…`, as the page of a run has them."""
    figures = summary(log)
    groups = [(name, RESULTS[name], list(tasks)) for name, tasks in groupby(task_lines(log), lambda task: task.result)]
    lines, costs = list(_facts(log)), list(_costs(log, figures))
    made = pieces.macro("run", "overview")
    return made(arm(log), figures, list(warnings(log, figures)), lines, log.points, groups, costs, link, is_linked)


def sentence(log: Log) -> str:
    """Its headline in a line."""
    figures = summary(log)
    rate = cells.rate(figures.pass_at_1)
    said = f"{log.manifest.run_id}: {metric(figures)} {rate}, feedback {figures.feedback_source}"
    return pieces.visible(unfinished(log) + said)


def unfinished(log: Log) -> str:
    """What stands before a line on a run whose tasks have not all ended; "" where they have."""
    ended, expected = len(log.attempts), log.manifest.n_expected
    return f"INCOMPLETE, {ended} of {expected} tasks ended: " if ended != expected else ""


def arm(log: Log) -> str:
    return str(log.manifest.config.get("arm", "run"))


def metric(figures: Summary) -> str:
    return "UPPER BOUND, not pass@1:" if figures.is_upper_bound else "pass@1"


def link(task: TaskLine) -> str:
    """Where the page of a run shows the task."""
    from urllib.parse import quote

    return f"#task={quote(task.task_id, safe='/', errors='backslashreplace')}"


def _facts(log: Log) -> Iterator[tuple[str, str]]:
    yield "run", f"{log.manifest.run_id}, made {log.manifest.created_at}"
    yield "arm", arm(log)
    yield "tasks", f"{len(log.results)} of {log.manifest.n_expected}"
    yield from facts(log)


def _costs(log: Log, figures: Summary) -> Iterator[tuple[str, ...]]:
    """Role, calls, prompt and completion tokens, the model's seconds, cost."""
    prices = log.manifest.prices
    rows = figures.usage | {"all": sum(figures.usage.values(), Usage())}
    for role, usage in rows.items():
        if not usage.calls:
            continue
        is_unknown = usage.calls and not usage.tokens  # a recorded run whose log counts none
        is_unpriced = "unknown" in (prices.values() if role == "all" else [prices.get(role, prices.get("actor"))])
        spent = f"{usage.prompt_tokens:,}", f"{usage.completion_tokens:,}", f"{usage.seconds:,.1f}"
        cost = "unknown" if is_unpriced or is_unknown else f"{usage.cost:,.4f}"
        yield role, f"{usage.calls:,}", *(("unknown",) * 3 if is_unknown else spent), cost
