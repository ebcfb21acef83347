"""Differences over several studies as tables."""

from __future__ import annotations

from collections.abc import Iterator

from reflexion_lab.analysis.comparison.pooled import PooledArm, PooledComparison
from reflexion_lab.analysis.figures.drawing import inert
from reflexion_lab.analysis.report import cells
from reflexion_lab.analysis.report.cells import NONE
from reflexion_lab.analysis.report.comparison import warnings
from reflexion_lab.analysis.report.sheets import Sheet
from reflexion_lab.analysis.stats.intervals import Estimate
from reflexion_lab.io.terminal_text import plain

COLUMNS = ("study", "tasks", "pairs", "difference\n[95 %]", "weight")


def pooled_sheets(comparison: PooledComparison) -> list[Sheet]:
    """A table per arm and budget: each study, the pooled difference, and the prediction for another study."""
    return [_sheet(arm, comparison) for arm in comparison.arms]


def pooled_warnings(comparison: PooledComparison) -> Iterator[str]:
    """The warnings of every study, with the names of the studies."""
    studies: dict[str, list[str]] = {}
    for study, compared in comparison.studies.items():
        for text in warnings(compared):
            studies.setdefault(text, []).append(plain(study))
    yield from (f"{text} ({', '.join(names)})" for text, names in studies.items())


def _sheet(arm: PooledArm, comparison: PooledComparison) -> Sheet:
    shared = " Studies share a benchmark: the model ignores that their errors are correlated." * comparison.shares_tasks
    unregistered = any(effect.difference.exploratory for effect in arm.effects)
    exploratory = " Exploratory: a study that did not register this comparison." * unregistered
    left_out = f" Left out: {plain('; '.join(comparison.left_out))}." * bool(comparison.left_out)
    model = arm.pooled
    caption = (
        f"Percentage points, arm minus {plain(comparison.baseline)}; random effects of {len(arm.effects)} studies: "
        f"SD {cells.number(model.between)} points, I² {cells.number(model.heterogeneity)} %."
        f"{shared}{exploratory}{left_out}"
    )
    method = (
        f"Percentage points of pass@1, {plain(arm.arm)} minus {plain(comparison.baseline)}. SD: standard deviation of "
        "true effects between studies (Paule and Mandel). Pooled: interval of the mean effect by Hartung, Knapp, Sidik "
        f"and Jonkman. Prediction: where the true effect of another such study lies (three studies or more)."
    )
    title = f"{plain(arm.arm)} over studies, {arm.budget}"
    return Sheet(title=title, columns=COLUMNS, rows=tuple(_rows(arm)), caption=caption, method=method)


def _rows(arm: PooledArm) -> Iterator[tuple[str, ...]]:
    for effect, weight in zip(arm.effects, arm.pooled.weights, strict=True):
        difference = effect.difference
        estimate = cells.estimate(difference.estimate, signed=True)
        study = plain(effect.study) + ": exploratory" * bool(difference.exploratory)
        yield study, str(effect.difference.tasks), str(difference.n), estimate, cells.number(weight)
    tasks = str(sum(effect.difference.tasks for effect in arm.effects))
    pairs = str(sum(effect.difference.n for effect in arm.effects))
    yield "pooled", tasks, pairs, cells.estimate(arm.pooled.estimate, signed=True), "100.0"
    yield "prediction", "", "", _prediction(arm.pooled.prediction), ""


def _prediction(ends: tuple[float, float] | None) -> str:
    return cells.interval(*ends, signed=True) if ends else NONE


def pooled_rows(comparison: PooledComparison) -> list[dict[str, object]]:
    """A row per study and one per pooled difference, shares in [-1, 1]."""
    return [
        {
            "arm": inert(arm.arm),
            "baseline": inert(comparison.baseline),
            "budget": arm.budget,
            "study": inert(study),
            "difference": estimate.value,
            "low": estimate.low,
            "high": estimate.high,
            "weight": weight,
            "exploratory": is_exploratory,
        }
        for arm in comparison.arms
        for study, estimate, weight, is_exploratory in _lines(arm)
    ]


def _lines(arm: PooledArm) -> Iterator[tuple[str, Estimate, float, bool | str]]:
    for effect, weight in zip(arm.effects, arm.pooled.weights, strict=True):
        yield effect.study, effect.difference.estimate, weight, bool(effect.difference.exploratory)
    yield "pooled", arm.pooled.estimate, 1.0, ""
