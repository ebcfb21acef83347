"""The figure of success by trial: one panel a world."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments._tools import output
from experiments._tools.trial_logs import Trials
from experiments._tools.trials_report import COLUMNS, as_rows
from reflexion_lab.analysis.figures.style import COLOURS, FAINT, INK, MARKERS, caption, watermark

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def save(trials: Sequence[Trials], folder: Path) -> list[Path]:
    """Write `trials.svg` and, with the same numbers and the differences, `trials.csv`; returns both paths."""
    worlds = list(dict.fromkeys(run.world for run in trials))

    def draw(figure: Figure) -> None:
        figure.set_size_inches(5.4 * len(worlds), 4.4)
        figure.set_layout_engine("constrained")
        panels = figure.subplots(1, len(worlds), sharey=True, squeeze=False)[0]
        for world, ax in zip(worlds, panels, strict=True):
            success([run for run in trials if run.world == world], ax)

    rows = [dict.fromkeys(COLUMNS, "") | row for row in as_rows(trials)]
    return output.save(rows, draw, folder, salt="reflexion_lab", names=("trials.csv", "trials.svg"))


def success(trials: Sequence[Trials], ax: Axes) -> Axes:
    """Draw the share of environments solved so far by trial, with Wilson bands; a run of one trial is a bar."""
    for number, run in enumerate(trials):
        colour = COLOURS[number % len(COLOURS)]
        x, rates = list(range(1, run.length + 1)), run.curve
        low, high = [rate.low for rate in rates], [rate.high for rate in rates]
        if run.length > 1:
            ax.fill_between(x, low, high, color=colour, alpha=0.13, linewidth=0)
        else:
            ax.vlines(x, low, high, color=colour, alpha=0.35, linewidth=6)
        look: dict[str, Any] = {"color": colour, "marker": MARKERS[number % len(MARKERS)], "markeredgecolor": "white"}
        label = f"{run.name}: {rates[-1].k} of {rates[-1].n}"
        ax.plot(x, [rate.share for rate in rates], linewidth=2, markersize=6.5, label=label, **look)
    _frame(trials, ax)
    return ax


def _frame(trials: Sequence[Trials], ax: Axes) -> None:
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    longest = max(run.length for run in trials)
    ax.set(xlim=(0.7, longest + 0.3), ylim=(0, 1.02))
    ax.set_title(trials[0].world, color=INK, loc="left", fontweight="bold", pad=8 + 14 * len(trials))
    ax.set_xlabel("trial", color=INK)
    ax.set_ylabel("environments solved so far", color=INK)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    ax.yaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))
    ax.grid(axis="y", color=FAINT, linewidth=0.7)
    ax.set_axisbelow(True)
    ax.tick_params(length=0, colors=INK)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.spines["bottom"].set_color(FAINT)
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1.01), borderaxespad=0, frameon=False, labelcolor=INK, fontsize=8.5)
    n = len(trials[0].solved)
    sample_line = f"n = {n} environments, one run each. Bands: Wilson 95 %, over environments.\n"
    caption(ax, f"{sample_line}What drives the loop is the measure itself: solved so far, no pass@1.")
    watermark(ax)
