"""All figures of a comparison, each as a picture with the very numbers beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.comparison import Comparison
from reflexion_lab.figures import (
    budgets,
    config_curves,
    curves,
    differences,
    feedback,
    outcome_map,
    survival,
    transitions,
)
from reflexion_lab.figures.drawing import Drawing, Figure, save
from reflexion_lab.figures.text import plain

MOST = 14
"""Arms that curves can tell apart; a sweep of more is drawn over its config keys and as differences."""

__all__ = ["Figure", "save_figures"]


def save_figures(
    folder: Path, comparison: Comparison, arms: Sequence[Arm], kind: Literal["png", "svg"] = "png"
) -> list[Figure]:
    """Write the figures that make sense for these arms into `folder`; those that would be empty are left out.

    Args:
        comparison: of these very arms.
        arms: one at least.
    """
    folder.mkdir(parents=True, exist_ok=True)
    named = _plainly(comparison), [Arm(plain(arm.label), arm.logs) for arm in arms]
    return [save(folder, drawing, kind) for drawing in _drawings(*named) if drawing]


def _plainly(comparison: Comparison) -> Comparison:
    """With names that a picture can show: a control character has no glyph, and a line break moves what is below."""
    rows = tuple(replace(row, arm=plain(row.arm)) for row in comparison.rows)
    return replace(comparison, rows=rows, baseline=plain(comparison.baseline) if comparison.baseline else None)


def _drawings(comparison: Comparison, arms: Sequence[Arm]) -> Iterator[Drawing | None]:
    has_room = len(arms) <= MOST
    if has_room:
        yield curves.drawing(arms)
        yield budgets.drawing(arms)
    yield differences.drawing(comparison, arms)
    for key in config_curves.swept(arms):
        yield config_curves.drawing(arms, key)
    yield feedback.drawing(arms)
    if has_room:
        yield transitions.drawing(arms)
        yield survival.drawing(arms)
        yield outcome_map.drawing(arms)
