"""The figure of what came out of recorded completions, and the files that an experiment keeps of it."""

from __future__ import annotations

import textwrap
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from experiments._tools import output
from experiments._tools.forest import forest
from experiments._tools.parsing_report import as_rows, grouped, key, share
from experiments._tools.replies_parsed import Parsing
from reflexion_lab.analysis.figures.style import COLOURS, FAINT, INK, caption

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

METHOD = (
    "Left: share of completions whose program passes its row's own tests; bar: Wilson 95 % interval, discounted for\n"
    "completions that share a task. Logged: as recorded. Extracted: our extractor, executed anew. Right: completions\n"
    "whose two verdicts differ, by what executing variants of the program showed."
)


def draw(parsing: Parsing, figure: Figure) -> Figure:
    """Fill an empty figure: pass shares by model, and disagreements by cause. There must be completions."""
    models = dict(grouped(parsing.replies, key("model")))
    figure.set_size_inches(12, 1 + 0.42 * len(models))
    left, right = figure.subplots(1, 2, width_ratios=(1.2, 1))
    figure.subplots_adjust(wspace=0.32)
    rows = {
        f"{name} ({len(own)})": {
            "logged": share(own, lambda case: case.logged),
            "extracted": share(own, lambda case: case.passed),
        }
        for name, own in models.items()
    }
    forest(rows, left, "share that passes")
    handles = dict(zip(*reversed(left.get_legend_handles_labels()), strict=True))
    left.legend(handles.values(), handles, loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
    _causes(parsing, right)
    unread = sum(not case.parsed for case in parsing.words)
    counts = f"{len(parsing.replies)} completions; of {len(parsing.words)} reflections {unread} need the rules."
    files = textwrap.fill(f"Files: {', '.join(name.partition('.')[0] for name in parsing.sources)}.", 115)
    caption(left, f"{counts}\n{files}\n{METHOD}")
    return figure


def save(parsing: Parsing, folder: Path) -> list[Path]:
    """Write `table.csv` and, where there are completions, `figure.svg` into `folder`, and name them."""
    drawing = partial(draw, parsing) if parsing.replies else None
    return output.save(list(as_rows(parsing)), drawing, folder, salt="parsing", pad_inches=0.2)


def _causes(parsing: Parsing, ax: Axes) -> Axes:
    """One bar a cause, passes that only we have to the right, passes that only the log has to the left."""
    counts = Counter((reply.cause, reply.passed) for reply in parsing.replies if reply.differs)
    causes = list(dict.fromkeys(cause for (cause, _), _ in counts.most_common()))
    for ours, sign, colour in ((True, 1, COLOURS[1]), (False, -1, COLOURS[0])):
        widths = [sign * counts[cause, ours] for cause in causes]
        ax.barh(causes, widths, color=colour, height=0.55)
        for place, width in enumerate(widths):
            if width:
                side = "left" if ours else "right"
                ax.text(width, place, f" {abs(width)} ", color=INK, fontsize=9, ha=side, va="center")
    most = max(map(abs, counts.values()), default=1)
    ax.set_xlim(-1.6 * most, 1.6 * most)
    ax.set_ylim(len(causes) - 0.4, -0.6)
    ax.axvline(0, color=INK, linewidth=0.8)
    ax.set_xticks([-0.9 * most, 0.9 * most], ["passes in the log alone", "passes as extracted alone"])
    ax.set_title(f"{counts.total()} of {len(parsing.replies)} verdicts differ", fontsize=10, loc="left", color=INK)
    ax.tick_params(length=0, colors=INK)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.spines["bottom"].set_color(FAINT)
    return ax
