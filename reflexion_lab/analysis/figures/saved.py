"""All figures of a comparison, each as a picture with the very numbers beside it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from reflexion_lab.analysis import figures
from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.comparison import Comparison
from reflexion_lab.analysis.figures import drawing as registry
from reflexion_lab.analysis.figures.drawing import Drawing, Figure, Kind, save
from reflexion_lab.io.terminal_text import plain
from reflexion_lab.text.shorten import bounded

__all__ = ["Figure", "save_figures"]


def save_figures(folder: Path, comparison: Comparison, arms: Sequence[Arm], kind: Kind = "png") -> list[Figure]:
    """Write the figures that make sense for these arms into `folder`; those that would be empty are left out.

    Parameters
    ----------
    comparison : Comparison
        Of these very arms.
    arms : Sequence[Arm]
        One at least.
    """
    folder.mkdir(parents=True, exist_ok=True)
    named_arms = readable(arms)
    whole = {arm.label: plain(name) for name, arm in named_arms.items()}
    drawings = _drawings(renamed(comparison, named_arms), list(named_arms.values()))
    return [save(folder, _in_full(drawing, whole), kind) for drawing in drawings]


def _in_full(drawing: Drawing, whole: Mapping[str, str]) -> Drawing:
    """With whole names in the table beside the figure, where there is room for them."""
    place = drawing.columns.index("arm")
    return drawing._replace(
        rows=[(*row[:place], whole.get(str(row[place]), row[place]), *row[place + 1 :]) for row in drawing.rows]
    )


def _drawings(comparison: Comparison, arms: Sequence[Arm]) -> Iterator[Drawing]:
    for module in pkgutil.iter_modules(figures.__path__):  # a figure is registered by its module
        importlib.import_module(f"{figures.__name__}.{module.name}")
    for figure in sorted(registry.REGISTRY, key=lambda entry: entry.place):
        if len(arms) <= figure.most:
            drawn = figure.of(comparison, arms) if figure.is_compared else figure.of(arms)
            yield from [drawn] if isinstance(drawn, Drawing) else drawn or ()


LONGEST = 72
"""Characters of a name in a figure: more would leave no room for what is drawn."""


def readable(arms: Sequence[Arm]) -> dict[str, Arm]:
    """By its whole name: every arm under a name on one line, cut in its middle where it is too long, and still like no
    other.
    """
    by_label: dict[str, Arm] = {}
    taken: set[str] = set()
    for arm in arms:
        whole = _visible(plain(arm.label))
        name, number = bounded(whole, LONGEST), 2
        while name in taken:
            name, number = f"{bounded(whole, LONGEST - 5)} ({number})", number + 1
        taken.add(name)
        by_label[arm.label] = Arm(name, arm.logs)
    return by_label


def renamed(comparison: Comparison, by_label: Mapping[str, Arm]) -> Comparison:
    """With the names that `shown` gives its arms."""
    rows = tuple(replace(row, arm=by_label[row.arm].label) for row in comparison.rows)
    baseline = by_label[comparison.baseline].label if comparison.baseline else None
    return replace(comparison, rows=rows, baseline=baseline)


def _visible(name: str) -> str:
    """Legends leave out what has no name, or one that begins with an underscore."""
    return f" {name}" if name.startswith("_") else name or "(no name)"
