"""Names of arms as a picture can show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.comparison import Comparison
from reflexion_lab.io.terminal_text import plain
from reflexion_lab.text.shorten import bounded

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
