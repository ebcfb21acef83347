"""Map of hidden outcomes: a cell per task, seed and attempt."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from reflexion_lab.analysis.arms import Arm, Case
from reflexion_lab.analysis.figures.drawing import FEW, Drawing, facts, figure
from reflexion_lab.analysis.figures.style import INK, Axes, Style, watermark
from reflexion_lab.io.arrays import np
from reflexion_lab.records import WITHHELD

KINDS = {
    "pass": "#CFE6F3",
    "wrong": "#EFB118",
    "error": "#D55E00",
    "timeout": "#7A3E9D",
    "no program": "#111111",
    "no verdict": "#FFFFFF",
}
"""Darker is further from a right program, for print in grey; an unknown verdict is a cross on white."""
UNKNOWN = "no verdict"
NAMES = {"pass": "pass", "fail": "wrong", "timeout": "timeout", "extraction_failed": "no program",
         "no_tests": "no verdict", "harness_error": "no verdict",
         **dict.fromkeys(WITHHELD, "no program")}  # fmt: skip
"""By outcome; any other is an error."""
MOST_NAMES = 45
"""Maximum number of tasks drawn with names."""
COLUMNS = ("place", "task_id", "solved_share", "arm", "feedback_source", "seed", "attempt", "hidden_outcome", "kind")


def outcome_map(arm: Arm, tasks: Sequence[str], ax: Axes, is_named: bool = True) -> Axes:
    """Draw a cell per attempt: `tasks` from top to bottom, seeds side by side, attempts from left to right.

    The faintest grey: the loop had ended. With `is_named`, tasks are named at the side.
    """
    from matplotlib.colors import ListedColormap

    kinds, wide = list(KINDS), arm.longest + 1
    image = np.full((len(tasks), wide * len(arm.seeds) - 1), np.nan)
    rows = {task_id: row for row, task_id in enumerate(tasks)}
    for case, number, kind in _cells(arm):
        image[rows[case.task_id], arm.seeds.index(case.seed) * wide + number - 1] = kinds.index(kind)
    look: Style = {"cmap": ListedColormap(list(KINDS.values())), "vmin": -0.5, "vmax": len(KINDS) - 0.5}
    ended = np.ones_like(image)
    ended[:, arm.longest :: wide] = np.nan  # between seeds
    ax.imshow(ended, aspect="auto", cmap=ListedColormap(["#F4F4F4"]))
    ax.imshow(image, aspect="auto", interpolation="nearest", gid="map", **look)
    _axes(arm, tasks if is_named else (), wide, ax)
    for kind, colour in KINDS.items():
        if kind != UNKNOWN:
            ax.plot([], [], "s", color=colour, markersize=8, label=kind)
    down, across = np.nonzero(image == kinds.index(UNKNOWN))
    cross: Style = {"color": INK, "markersize": 4, "markeredgewidth": 0.8, "gid": "unknown"}
    ax.plot(across, down, "x", label=UNKNOWN, **cross)
    ax.set_title(arm.label, loc="left", fontsize=9)
    return watermark(ax) if arm.is_upper_bound else ax


@figure(100, FEW, is_single=True)
def drawing(arms: Sequence[Arm]) -> Drawing:
    """A panel per arm; tasks in one order, those most often solved by submissions of all arms on top."""
    shares = _shares(arms)
    tasks = sorted(shares, key=lambda task_id: (math.isnan(shares[task_id]), -shares[task_id], task_id))
    places = {task_id: place for place, task_id in enumerate(tasks, 1)}
    rows = sorted(
        (places[c.task_id], c.task_id, shares[c.task_id], arm.label, arm.feedback_source, c.seed, number,
         arm.grades[c][number].outcome, kind)
        for arm in arms
        for c, number, kind in _cells(arm)
    )  # fmt: skip
    text = f"{facts(arms)} The easiest task is on top; faintest grey: the loop had ended. No estimates."
    across = min(len(arms), 5)
    cells = max((arm.longest + 1) * len(arm.seeds) for arm in arms)
    size = max(2.6, 0.14 * cells + 0.9), min(7.0, max(2.4, 0.6 + 0.13 * len(tasks)))
    panels = [functools.partial(outcome_map, arm, tasks, is_named=not n % across) for n, arm in enumerate(arms)]
    return Drawing("outcomes", "Outcomes", panels, COLUMNS, rows, text, size, across, True)


def _cells(arm: Arm) -> list[tuple[Case, int, str]]:
    return [
        (case, number, NAMES.get(grade.outcome, "error"))
        for case, by_number in arm.grades.items()
        for number, grade in by_number.items()
        if case in arm.attempts
    ]


def _shares(arms: Sequence[Arm]) -> dict[str, float]:
    """Share of solving submissions by task; NaN without a hidden verdict."""
    verdicts: dict[str, list[bool]] = {case.task_id: [] for arm in arms for case in arm.attempts}
    for arm in arms:
        for case, passed in arm.verdicts().items():
            verdicts[case.task_id].append(passed)
    return {task_id: sum(passed) / len(passed) if passed else math.nan for task_id, passed in verdicts.items()}


def _axes(arm: Arm, tasks: Sequence[str], wide: int, ax: Axes) -> None:
    starts = [place * wide for place in range(len(arm.seeds))]
    step = 1 if arm.longest <= 5 else arm.longest - 1
    labelled = range(0, arm.longest, step)
    ax.set_xticks([start + t for start in starts for t in labelled], [str(t + 1) for _ in starts for t in labelled])
    for start, seed in zip(starts, arm.seeds, strict=True):
        where: Style = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "ha": "center"}
        text = f"seed {seed}" if len(starts) < 4 else str(seed)
        ax.annotate(text, (start + (arm.longest - 1) / 2, 0), (0, -24), **where, fontsize=7.5, color=INK)
    ax.set_xlabel("attempt", fontsize=8.5, color=INK, labelpad=20)
    names = tasks if len(tasks) <= MOST_NAMES else ()
    ax.set_yticks(range(len(names)), names)
    if tasks and not names:
        ax.set_ylabel(f"{len(tasks)} tasks, the easiest on top", fontsize=8.5, color=INK)
    ax.tick_params(length=0, colors=INK, labelsize=7)
    ax.spines[:].set_visible(False)
