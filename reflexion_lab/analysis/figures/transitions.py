"""Programs that each further attempt keeps, repairs and damages."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.figures.drawing import FEW, Drawing, facts, figure
from reflexion_lab.analysis.figures.style import COLOURS, SMALL, Axes, Style, frame, per_cent, watermark
from reflexion_lab.analysis.learning.transitions import Moves, Transitions, transitions

KINDS: dict[str, tuple[str, Style]] = {
    "cc": ("stays right", {"facecolor": COLOURS[5]}),
    "wc": ("repaired", {"facecolor": COLOURS[2], "hatch": "//"}),
    "cw": ("damaged", {"facecolor": COLOURS[1], "hatch": "xx"}),
    "ww": ("stays wrong", {"facecolor": "#EEEEEE"}),
}
FITS = 0.08
"""Minimum share of a bar with room for its count."""
COLUMNS = ("arm", "feedback_source", "attempt", "n", *KINDS, "unknown", "repair", "repair_low", "repair_high", "damage",
           "damage_low", "damage_high")  # fmt: skip


def transition_bars(arm_moves: Transitions, ax: Axes) -> Axes:
    """Draw one bar per attempt, from 2 on: shares of programs kept, repaired and damaged, and n above."""
    known = {moves.attempt or 0: moves for moves in arm_moves.programs if moves.n}
    for attempt, moves in known.items():
        _bar(attempt, moves, ax)
    ax.set(xlabel="attempt, against the one before", ylabel="share of programs", ylim=(0, 1.1), yticks=(0, 0.5, 1))
    middle = (2 + max(known)) / 2
    half = max(1.1, max(known) - middle + 0.6)  # a lone bar shall not fill the panel
    ax.set_xlim(middle - half, middle + half)
    ax.set_xticks(sorted(known))
    per_cent(ax.yaxis)
    ax.set_title(arm_moves.arm, loc="left", fontsize=9)
    if arm_moves.is_upper_bound:
        watermark(ax)
    return frame(ax, "y")


def _bar(attempt: int, moves: Moves, ax: Axes) -> None:
    white: Style = {"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.8}
    bottom = 0.0
    for kind, (name, style) in KINDS.items():
        count = getattr(moves, kind)
        share = count / moves.n
        ax.bar(attempt, share, 0.7, bottom, edgecolor="white", label=name if attempt == 2 else "", gid=kind, **style)
        if share > FITS:
            ax.text(attempt, bottom + share / 2, str(count), ha="center", va="center", bbox=white, **SMALL)
        bottom += share
    ax.annotate(f"n = {moves.n}", (attempt, 1), (0, 3), textcoords="offset points", ha="center", **SMALL)


TOO_SHORT = "no loop with a second attempt", "runs with loop.max_attempts=2 or more"


@figure(60, FEW, is_single=True, missing=TOO_SHORT)
def drawing(arms: Sequence[Arm]) -> Drawing | None:
    """A panel for each arm with a second attempt; None without any."""
    longer = [arm for arm in arms if arm.longest > 1]
    every = [transitions(arm) for arm in longer]
    if not every:
        return None
    rows = [_row(arm_moves, moves) for arm_moves in every for moves in arm_moves.programs]
    text = f"{facts(longer)} Rates with 95 % intervals: in the CSV beside the figure."
    panels = [functools.partial(transition_bars, arm_moves) for arm_moves in every]
    across = min(len(every), 2 if len(every) < 5 else 3)
    title = "Programs kept, repaired and damaged by an attempt"
    return Drawing("transitions", title, panels, COLUMNS, rows, text, (4.4, 2.9), across, True)


def _row(arm_moves: Transitions, moves: Moves) -> Sequence[object]:
    rates = [(rate.value, rate.low, rate.high) if rate else (None,) * 3 for rate in (moves.repair, moves.damage)]
    counts = [getattr(moves, kind) for kind in KINDS]
    head = arm_moves.arm, arm_moves.feedback_source, moves.attempt, moves.n
    return *head, *counts, moves.unknown, *rates[0], *rates[1]
