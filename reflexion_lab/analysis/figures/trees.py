"""pass@t of repair trees over tokens, beside independent draws."""

from __future__ import annotations

import functools

from msgspec.structs import astuple

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.figures import style as styles
from reflexion_lab.analysis.figures.budgets import LABELS
from reflexion_lab.analysis.figures.drawing import Drawing, facts
from reflexion_lab.analysis.figures.style import BANDS, INK, Axes, Style, frame, look, weighed
from reflexion_lab.analysis.learning.repair import Repair
from reflexion_lab.text.shorten import number_of


def drawing(answer: Repair, arm: Arm) -> Drawing:
    """Independent draws with their band, and of each number of repairs a curve over programs with intervals."""
    every = (*answer.curves.draws, *answer.curves.spots)
    rows = [(answer.arm, *astuple(spot)[:4], *astuple(spot.pass_at_t)) for spot in every]
    text = f"{facts([arm])} Markers: 1, 2, ... programs. Bars and band: 95 % intervals. Dashed: curves cross."
    title = "Any program passes its hidden tests (pass@t), by tokens"
    columns = ("arm", "programs", "repairs", "tokens", "draws", "pass_at_t", "low", "high")
    return Drawing("tree", title, [functools.partial(_panel, answer)], columns, rows, text, (8.2, 4.8), has_legend=True)


def _panel(answer: Repair, ax: Axes) -> Axes:
    draws, every = answer.curves.draws, (*answer.curves.draws, *answer.curves.spots)
    x, ends = [spot.tokens for spot in draws], [spot.pass_at_t for spot in draws]
    ax.fill_between(x, [end.low for end in ends], [end.high for end in ends], linewidth=0, **weighed(INK, BANDS))
    ax.plot(x, [end.value for end in ends], color=INK, linewidth=1.6, label="independent draws", gid="draws", zorder=4)
    for place, n_r in enumerate(answer.curves.crossings):
        curve, style = [spot for spot in answer.curves.spots if spot.repairs == n_r], look(place)
        x, ends = [spot.tokens for spot in curve], [spot.pass_at_t for spot in curve]
        styles.bars(x, ends, style["color"], ax)
        if crossing := answer.curves.crossings[n_r][0]:
            ax.axvline(crossing.value, color=style["color"], linewidth=1, linestyle=(0, (2, 3)), gid="crossing")
        name = f"{number_of(n_r, 'repair')} of each failed program"
        ax.plot(x, [end.value for end in ends], **style, linewidth=1.1, markersize=5, label=name, zorder=5)
    at, ring = answer.curves.headline, Style(markersize=12, markerfacecolor="none", markeredgecolor=INK)
    ax.plot(at.tokens, at.pass_at_t.value, "o", **ring, zorder=6, gid="headline", label="largest common budget")
    ax.set(xlabel=LABELS["tokens"], xlim=(0, 1.05 * max(1.6 * draws[-1].tokens, at.tokens)))  # the others: in the CSV
    ax.xaxis.set_major_formatter(lambda tokens, _: f"{tokens:,.0f}")
    styles.share_axis(ax, [end for spot in every for end in (spot.pass_at_t.low, spot.pass_at_t.high)], "pass@t")
    return frame(ax, "both")
