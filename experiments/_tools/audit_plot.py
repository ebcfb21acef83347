"""The figure of an audit: pass rates in the paper, in its log, and in the re-execution."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from experiments._tools.output import legend, plain_axes
from reflexion_lab.analysis.figures.style import COLOURS, INK
from reflexion_lab.audit.audit import Audit
from reflexion_lab.audit.audit_report import PublishedResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

METHOD = (
    "Share of tasks. n: stored programs, each executed again in a namespace of its own with its log's own test.\n"
    "Bars: Wilson 95 % intervals of the re-executed share. Hollow: the verdicts that the log holds."
)

HOLLOW: dict[str, Any] = {"markerfacecolor": "none", "markeredgecolor": INK, "markeredgewidth": 1.3, "markersize": 12}
PAPER: dict[str, Any] = {"color": COLOURS[1], "markersize": 6.5, "markeredgecolor": "white"}


def logged_against_executed(published: Mapping[str, PublishedResult], audits: Mapping[str, Audit], ax: Axes) -> Axes:
    """Draw one row per log, in the order of `audits`, the first on top."""
    for place, (key, audit) in enumerate(audits.items()):
        _row(ax, -place, published[key], audit)
    labels = [f"{published[key].label}\nn = {audit.n}" for key, audit in audits.items()]
    ax.set_yticks([-place for place in range(len(audits))], labels)
    _frame(ax, len(audits))
    return ax


def _row(ax: Axes, y: float, paper: PublishedResult, audit: Audit) -> None:
    rate, logged = audit.rate, audit.logged_rate
    ax.hlines(y, rate.low, rate.high, color=COLOURS[0], linewidth=5, alpha=0.28)
    ax.plot(rate.share, y, "o", color=COLOURS[0], markersize=8, markeredgecolor="white", zorder=4, label="re-executed")
    ax.plot(logged.share, y, "s", **HOLLOW, zorder=3, label="its log")
    if paper.percent is not None:
        ax.plot(paper.percent / 100, y, "D", **PAPER, zorder=5, label="paper")
    beside: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "xytext": (8, 0), "textcoords": "offset points"}
    ax.annotate(f"log {logged.k}, re-executed {rate.k}", (1, y), **beside, va="center", fontsize=9, color=INK)


def _frame(ax: Axes, rows: int) -> None:
    """Axes, grid, legend and caption."""
    from matplotlib.ticker import PercentFormatter

    ax.set_ylim(-rows + 0.4, 0.6)
    ax.xaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
    plain_axes(ax, grid="x")
    legend(ax, loc="lower left", bbox_to_anchor=(0, 1.02), ncols=3, borderaxespad=0, labelcolor=INK, fontsize=9)
    below: dict[str, Any] = {"xycoords": "axes fraction", "xytext": (0, -28), "textcoords": "offset points"}
    ax.annotate(METHOD, (0, 0), **below, va="top", fontsize=8, color=INK, linespacing=1.5)
