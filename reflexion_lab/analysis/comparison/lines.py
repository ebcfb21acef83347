"""A comparison as lines: one per arm, metric and budget. Table, JSON, notebook and MLflow are made of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from reflexion_lab.analysis.comparison import Comparison
from reflexion_lab.analysis.comparison.row import Difference, Row
from reflexion_lab.analysis.metrics import COUNTS, Value
from reflexion_lab.analysis.stats.intervals import Estimate, Rate
from reflexion_lab.records import Record

FACTS = (
    "arm", "feedback_source", "is_upper_bound", "study", "models", "run_ids", "shards", "seeds", "no_verdict", "absent",
    "alone", "curve", "refused", "unknown", "currencies", "unmatched", "calls", "reflections", "memory", "began",
)  # fmt: skip
"""Fields of a row that are no figures."""
PRICES = ("spend", "baseline_spend", "solved", "baseline_solved", "ratio", "break_even")
"""Fields of `RetryPrice`."""


class Line(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A figure of an arm; at a budget its difference to the baseline, or the price of a further attempt there."""

    arm: str
    metric: str
    """`Metric.key`: `upper_bound` in the place of `pass_at_1` where hidden tests or solutions reached the loops."""
    budget: str = ""
    """`as_run`, or `equal_` and the unit; "" for a figure of the arm alone."""
    baseline: str = ""
    """At a budget, the arm of comparison."""
    value: float | None = None
    """None where there is no difference: `verdict` tells why."""
    low: float | None = None
    high: float | None = None
    method: str = ""
    """Method of the 95 % interval from `low` to `high`."""
    n: int | None = None
    """Cases of a share; pairs of a difference."""
    tasks: int | None = None
    """Tasks of these pairs, and clusters of these tasks. All that follows is of differences alone: `Difference`."""
    clusters: int | None = None
    won: int | None = None
    lost: int | None = None
    p: float | None = None
    p_tasks: float | None = None
    p_holm: float | None = None
    """None for an upper bound, which is in no family."""
    low_90: float | None = None
    high_90: float | None = None
    margin: float | None = None
    minimum: float | None = None
    effective: int | None = None
    detected: bool | None = None
    verdict: str = ""
    exploratory: bool | None = None
    reasons: str = ""
    """Why it is exploratory."""
    attempts: int | None = None
    """The attempt at which both are cut."""
    spend: float | None = None
    """Mean spending of a case after the cut."""
    baseline_spend: float | None = None
    matched: bool | None = None
    """Whether the budgets could be made equal."""


def lines(comparison: Comparison) -> list[Line]:
    """All figures of all arms."""
    every, baseline = (line for row in comparison.rows for line in of_row(row)), comparison.baseline or ""
    return [replace(line, baseline=baseline) if line.budget else line for line in every]


def of_row(row: Row) -> Iterator[Line]:
    fields = {name: getattr(row, name) for name in COUNTS}
    counts = {name: n if isinstance(n, int) else len(n) for name, n in fields.items()}
    for name, value in (row.metrics | counts | {f"{row.metric}_area": row.area}).items():
        yield from _line(row, name, value)
    if row.refused:
        yield Line(arm=row.arm, metric=row.metric, budget="as_run", verdict=row.refused)
    for budget, difference in row.differences.items():
        yield _difference(row, budget, difference)
        for name in PRICES if difference.price else ():
            for line in _line(row, f"price_{name}", getattr(difference.price, name), budget):
                yield replace(line, matched=difference.cut and difference.cut.is_matched)
    for unit, reason in row.unmatched.items():
        yield Line(arm=row.arm, metric=row.metric, budget=f"equal_{unit}", verdict=reason)


def document(comparison: Comparison) -> dict[str, Any]:
    """The comparison for JSON: its own fields, facts of the `arms`, and `lines`."""
    own = {name: getattr(comparison, name) for name in comparison.__struct_fields__ if name != "rows"}
    arms = [{name: getattr(row, name) for name in FACTS} for row in comparison.rows]
    return own | {"arms": arms, "lines": lines(comparison)}


def _line(row: Row, metric: str, value: Value | None, budget: str = "") -> Iterator[Line]:
    if isinstance(value, Rate | Estimate):
        method = row.method if metric in (row.metric, f"{row.metric}_first") else getattr(value, "method", "")
        line = Line(arm=row.arm, metric=metric, budget=budget, value=value.value, low=value.low, high=value.high)
        if (n := getattr(value, "n", None)) != 0:
            yield replace(line, n=n, method=method)
    elif value is not None:
        yield Line(arm=row.arm, metric=metric, budget=budget, value=value)


SAME = ("n", "tasks", "clusters", "won", "lost", "p", "p_tasks", "margin", "minimum", "effective", "method")


def _difference(row: Row, budget: str, of: Difference) -> Line:
    same: dict[str, Any] = {name: getattr(of, name) for name in SAME}
    line = Line(
        arm=row.arm,
        metric=row.metric,
        budget=budget,
        value=of.estimate.value,
        low=of.estimate.low,
        high=of.estimate.high,
        low_90=of.interval_90[0],
        high_90=of.interval_90[1],
        p_holm=None if row.is_upper_bound else of.p_holm,
        detected=None if row.is_upper_bound else of.is_detected,
        verdict=row.claim(of),
        exploratory=bool(of.exploratory),
        reasons="; ".join(of.exploratory),
        **same,
    )
    if (cut := of.cut) is None:
        return line
    spent = {"attempts": cut.attempts, "spend": cut.spend, "baseline_spend": cut.baseline_spend}
    return replace(line, matched=cut.is_matched, **spent)
