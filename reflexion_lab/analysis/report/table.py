"""A comparison as numbers: one line an arm, shares in [0, 1], for whatever reads CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from reflexion_lab.analysis import metrics
from reflexion_lab.analysis.comparison import Comparison
from reflexion_lab.analysis.comparison.differences import Difference
from reflexion_lab.analysis.comparison.row import Row
from reflexion_lab.analysis.figures.drawing import inert
from reflexion_lab.analysis.stats.intervals import Estimate, Rate

DIGITS = 6
"""Significant ones: small sums of money and small p keep theirs."""


def write_table(path: Path, comparison: Comparison) -> Path:
    """`table.csv`, or whatever `path` is called; returns it. Raises OSError."""
    lines = rows(comparison)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, lines[0])
        writer.writeheader()
        writer.writerows(lines)
    return path


def rows(comparison: Comparison) -> list[dict[str, object]]:
    """By column, every arm's values; the same columns for all."""
    return [dict(_line(row, comparison)) for row in comparison.rows]


def _line(row: Row, comparison: Comparison) -> Iterator[tuple[str, object]]:
    """Columns and values; the same columns for every row. An upper bound has a column of its own, and no pass@1."""
    final = "upper_bound" if row.is_upper_bound else "pass_at_1"
    yield from (("arm", inert(row.arm)), ("feedback_source", row.feedback_source), ("study", inert(row.study)))
    yield from (("seeds", " ".join(map(str, row.seeds))), ("tasks", row.tasks))
    yield from (("n_expected", row.n_expected), ("n_logged", row.n_logged), ("n", row.n))
    yield from _estimate("pass_at_1_first", row.first)
    for name in ("pass_at_1", "upper_bound"):
        yield from _estimate(name, row.final if name == final else None)
    yield from (("interval", row.method), ("area", _round(row.area)), ("baseline", inert(comparison.baseline or "")))
    for name, difference in (("as_run", row.as_run), (f"equal_{comparison.unit}", row.matched)):
        yield from _difference(name, difference, row.is_upper_bound)
    yield from (("refused", row.refused), ("unmatched", inert(row.unmatched)))
    yield from (("repaired", row.moves.wc), ("damaged", row.moves.cw))
    yield from (*_estimate("repair", row.moves.repair), *_estimate("damage", row.moves.damage))
    yield from _rate("false_positives", row.feedback.false_positive_rate)
    yield from _rate("false_negatives", row.feedback.false_negative_rate)
    yield "attempts", row.spent.timeouts.n
    for metric in metrics.of_level("attempt", "task", "arm"):
        yield from _metric(metric, row.metrics.get(metric.key(row.is_upper_bound)))
    yield from _spent(row)
    yield from (("no_verdict", len(row.no_verdict)), ("no_feedback", row.no_feedback))
    yield from (("absent", len(row.absent)), ("alone", len(row.alone)))
    yield "models", inert("; ".join(" ".join((role, *names)) for role, names in row.models.items()))


def _spent(row: Row) -> Iterator[tuple[str, object]]:
    """Empty where nobody recorded it."""
    usage = row.spent.usage
    units = {
        "calls": "calls",
        **dict.fromkeys(("tokens", "prompt_tokens", "completion_tokens"), "tokens"),
        "cost": "cost",
    }
    yield from ((name, _round(getattr(usage, name)) if unit not in row.unknown else "") for name, unit in units.items())
    for unit, estimate in (("tokens", row.tokens_per_solved), ("cost", row.cost_per_solved)):
        yield f"{unit}_per_case", _round(getattr(usage, unit) / row.n_logged) if unit not in row.unknown else ""
        yield from _estimate(f"{unit}_per_solved", estimate)


def _difference(name: str, difference: Difference | None, is_upper_bound: bool) -> Iterator[tuple[str, object]]:
    yield from _estimate(f"{name}_difference", difference.estimate if difference else None)
    yield f"{name}_pairs", difference.n if difference else ""
    yield f"{name}_won", difference.won if difference else ""
    yield f"{name}_lost", difference.lost if difference else ""
    for field in ("p", "p_tasks", "p_holm", "least", "minimum"):
        is_corrected = field != "p_holm" or not is_upper_bound  # an upper bound is in no family
        yield f"{name}_{field}", _round(getattr(difference, field)) if difference and is_corrected else ""
    yield f"{name}_detected", difference.is_detected if difference and not is_upper_bound else ""
    yield f"{name}_exploratory", bool(difference.exploratory) if difference else ""
    yield f"{name}_interval", difference.method if difference else ""
    yield f"{name}_spend", _round(difference.cut.spend) if difference and difference.cut else ""
    yield f"{name}_baseline_spend", _round(difference.cut.baseline_spend) if difference and difference.cut else ""


def _estimate(name: str, estimate: Estimate | None) -> Iterator[tuple[str, object]]:
    yield name, _round(estimate.value) if estimate else ""
    yield f"{name}_low", _round(estimate.low) if estimate else ""
    yield f"{name}_high", _round(estimate.high) if estimate else ""


def _rate(name: str, rate: Rate) -> Iterator[tuple[str, object]]:
    yield name, rate.k
    yield f"{name}_rate", _round(rate.share) if rate.n else ""


def _metric(metric: metrics.Metric, value: metrics.Value | None) -> Iterator[tuple[str, object]]:
    if metric.level == "attempt" and metric.unit == "share":
        yield from _rate(metric.name, value if isinstance(value, Rate) else Rate.of(0, 0))
        return
    values = metrics.numbers(metric.name, value)
    names = (metric.name, f"{metric.name}_low", f"{metric.name}_high") if metric.interval else (metric.name,)
    yield from ((name, _round(values.get(name))) for name in names)


def _round(value: float | None) -> object:
    return "" if value is None else value if isinstance(value, int) else float(f"{value:.{DIGITS}g}")
