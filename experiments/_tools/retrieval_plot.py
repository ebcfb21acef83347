"""The figure of a comparison of retrievers, and the files that an experiment keeps of it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from experiments._tools import output
from experiments._tools.forest import forest
from experiments._tools.output import legend_above
from experiments._tools.retrieval_report import as_rows, n_of
from experiments._tools.retrievers_compared import Comparison
from reflexion_lab.analysis.figures.style import INK, caption
from reflexion_lab.analysis.stats.intervals import Estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHOD = (
    "Dot: mean over queries; bar: 95 % interval, bootstrap over tasks. The pool lacks the asking model (same task)\n"
    "or the asking task (class). program: error and code without prompt, docstrings and names; words: the prompt\n"
    "against the reflection's words. random and recency read no document."
)


def draw(comparison: Comparison, sources: Sequence[str], figure: Figure) -> Figure:
    """Fill an empty figure: one panel a probe that has questions."""
    items = [probe for probe in comparison.probes if probe.questions]
    names = list(dict.fromkeys(cell.retriever for cell in comparison.cells))
    figure.set_size_inches(4 * len(items), 0.8 + 0.75 * len(names))
    panels = figure.subplots(1, len(items), squeeze=False)[0]
    figure.subplots_adjust(wspace=0.08)
    for ax, probe in zip(panels, items, strict=True):
        forest(_estimates(comparison, probe.name), ax, f"nDCG@{comparison.k}")
        ax.set_title(f"{probe.name}: {n_of(comparison, probe)}", fontsize=10, loc="left", color=INK)
        if ax is not panels[0]:
            ax.set_yticklabels([])
    sources_line = f"{comparison.documents} documents from {', '.join(sources)}; seed {comparison.seed}."
    caption(panels[0], f"{sources_line}\n{METHOD}")
    legend_above(panels[0])
    return figure


def save(comparison: Comparison, sources: Sequence[str], folder: Path) -> list[Path]:
    """Write `table.csv` and `figure.svg` into `folder`, and name them."""
    drawing = partial(draw, comparison, sources)
    return output.save(list(as_rows(comparison)), drawing, folder, salt="retrieval", pad_inches=0.2)


def _estimates(comparison: Comparison, probe: str) -> dict[str, dict[str, Estimate]]:
    rows: dict[str, dict[str, Estimate]] = {}
    for cell in comparison.cells:
        if cell.probe == probe:
            rows.setdefault(cell.retriever, {})[cell.match] = cell.quality.ndcg
    return rows
