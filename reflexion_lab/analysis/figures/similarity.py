"""Share of attempts that passed, by similarity of the nearest item they read."""

from __future__ import annotations

import functools
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.figures.drawing import FEW, Drawing, facts, figure
from reflexion_lab.analysis.figures.style import (
    FAINT,
    SMALL,
    Style,
    bars,
    frame,
    look,
    mark_bounds,
    marker_only,
    named,
    per_cent,
)
from reflexion_lab.analysis.learning.similarity import Bin, Similarity, bins, edges, similarity
from reflexion_lab.analysis.stats.bootstrap import interval
from reflexion_lab.analysis.stats.clusters import by_cluster
from reflexion_lab.analysis.stats.intervals import Estimate
from reflexion_lab.memory.retrieval.texts import signature
from reflexion_lab.records import Attempt

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS, ROW = 0.06, 0.025
"""Distance from 0 and 1 of the first row of single attempts, and of each further row."""
NONE = -0.6
"""Position of attempts that read nothing; bins begin at 0, each 1 wide."""
MOST_COUNTS = 3
"""Maximum number of arms drawn with counts."""
COLUMNS = ("attempts", "arm", "feedback_source", "from_score", "to_score", "mean_score", "k", "n", "share", "low",
           "high", "unknown")  # fmt: skip
NAMES = {False: "first attempts", True: "later attempts"}


class Group(NamedTuple):
    """An arm's first or later attempts, as drawn."""

    result: Similarity
    bins: Mapping[int, Bin]
    without: Estimate | None
    """Passed share of the attempts that read nothing of other tasks; None without any."""


def by_similarity(by_arm: Mapping[Arm, Group], ends: Sequence[float], kind: str, ax: Axes) -> Axes:
    """Draw a curve per arm: the share that passed by the score of the nearest item read.

    A tick for each attempt lies above 100 % where it passed and below 0 where it failed. At the left end: attempts
    that read nothing. Bins between `ends` are drawn equally wide. `kind` is the title.
    """
    for place, (arm, group) in enumerate(by_arm.items()):
        style, shift = look(place), (place - (len(by_arm) - 1) / 2) * 0.6 / len(by_arm)
        places = {bin + 0.5 + shift: score_bin for bin, score_bin in group.bins.items()}
        passed = [score_bin.passed for score_bin in places.values()]
        bars(places, passed, style["color"], ax)
        shares = [share.value for share in passed]
        name = named(arm.label, arm.is_upper_bound)
        ax.plot(list(places), shares, **style, linewidth=1.5, markersize=7, zorder=4, label=name, gid="bins")
        if len(by_arm) <= MOST_COUNTS:
            for x, score_bin in places.items():
                ax.annotate(str(score_bin.n), (x, score_bin.passed.value), (5, 5), textcoords="offset points", **SMALL)
        if group.without:
            bars([NONE + shift / 2], [group.without], style["color"], ax)
            ax.plot(NONE + shift / 2, group.without.value, **marker_only(style), markersize=6, gid="without")
        _points(group, place, ends, style, ax)
    _axes(by_arm, ends, ax)
    ax.set_title(kind, loc="left", fontsize=9)
    mark_bounds(ax, [arm.label for arm in by_arm if arm.is_upper_bound], height=0.5)
    return frame(ax, "y")


@figure(80, FEW)
def drawing(arms: Sequence[Arm], seed: int = 0, later: Sequence[bool] = (False, True)) -> Drawing | None:
    """A panel for first attempts and one for later ones; None where no attempt read an item of another task."""
    parts = {is_later: _groups(arms, is_later, seed) for is_later in later}
    parts = {is_later: part for is_later, part in parts.items() if part[0]}
    if not parts:
        return None
    rows = [
        (NAMES[is_later], arm.label, arm.feedback_source, ends[place], ends[place + 1], score_bin.score,
         score_bin.k, score_bin.n, score_bin.passed.value, score_bin.passed.low,
         score_bin.passed.high, group.result.unknown)
        for is_later, (by_arm, ends) in parts.items()
        for arm, group in by_arm.items()
        for place, score_bin in group.bins.items()
    ]  # fmt: skip
    drawn = list(dict.fromkeys(arm for by_arm, _ in parts.values() for arm in by_arm))
    unknown = sum(group.result.unknown for by_arm, _ in parts.values() for group in by_arm.values())
    text = (
        f"{facts(drawn)} 95 % intervals: bootstrap over tasks. Ticks: attempts, passed above, failed below."
        + f" Left out, since what they read is not in these runs: {unknown}." * bool(unknown)
    )
    method = (
        "Hidden verdicts on attempts that read episodes or mistakes of other tasks, by similarity of the nearest. "
        "Scores are not recorded but computed again from the run folders: Jaccard over the texts that the run "
        "compared, whatever its retriever. Bins of about equal counts, drawn equally wide; score intervals where there "
        'are few tasks. "none": nothing of other tasks was read. Tasks with near neighbours differ in more than that.'
    )
    panels = [
        functools.partial(by_similarity, by_arm, ends, NAMES[is_later]) for is_later, (by_arm, ends) in parts.items()
    ]
    title = "Passed, by similarity of recalled items"
    return Drawing("similarity", title, panels, COLUMNS, rows, text, (5.4, 3.6), has_legend=True, method=method)


def compared(attempt: Attempt, match: str) -> str:
    """The text of an attempt that retrieval compares beside its task's text (`retrieval.texts`)."""
    return {"task_error": signature(attempt.evaluation), "task_code": attempt.trajectory.solution}.get(match, "")


def _groups(arms: Sequence[Arm], is_later: bool, seed: int) -> tuple[dict[Arm, Group], list[float]]:
    """Groups of the arms that read anything, and the edges of their bins."""
    every = {arm: similarity(arm, compared, is_later) for arm in arms}
    read = {arm: result for arm, result in every.items() if result.near}
    ends = edges([near.score for result in read.values() for near in result.near]) if read else []
    return {
        arm: Group(result, bins(result.near, ends, seed, arm.clusters), _without(result, arm, seed))
        for arm, result in read.items()
    }, ends


def _without(result: Similarity, arm: Arm, seed: int) -> Estimate | None:
    outcomes = [(case.task_id, passed) for case, _, passed in result.without]
    return interval(by_cluster(outcomes, arm.clusters), seed) if outcomes else None


def _points(group: Group, place: int, ends: Sequence[float], style: Style, ax: Axes) -> None:
    away = POINTS + ROW * place
    heights = [1 + away if near.passed else -away for near in group.result.near]
    look: Style = {"color": style["color"], "marker": "|", "s": 16, "linewidths": 0.7, "alpha": 0.6}
    ax.scatter([_within(near.score, ends) for near in group.result.near], heights, **look, gid="points")


def _within(score: float, ends: Sequence[float]) -> float:
    """Position of a score on an axis of equally wide bins."""
    place = max(0, bisect_left(ends, score, 1, len(ends) - 1) - 1)
    wide = ends[place + 1] - ends[place]
    return place + ((score - ends[place]) / wide if wide else 0.5)


def _axes(by_arm: Mapping[Arm, Group], ends: Sequence[float], ax: Axes) -> None:
    edge = POINTS + ROW * len(by_arm)
    has_none, is_one = any(group.without for group in by_arm.values()), ends[0] == ends[-1]
    ticks = {0.5 if is_one else float(place): f"{end:.2f}" for place, end in enumerate(ends)}
    if has_none:
        ticks = {NONE: "none", **ticks}
        ax.axvline(NONE / 2, color=FAINT, linewidth=0.7)
    ax.set_xticks(list(ticks), list(ticks.values()))
    ax.set(xlim=((NONE - 0.4) if has_none else -0.1, len(ends) - 0.9), ylim=(-edge, 1 + edge))
    ax.set(xlabel="Jaccard similarity of the nearest item read", ylabel="share of attempts that passed")
    ax.set_yticks((0, 0.25, 0.5, 0.75, 1))
    per_cent(ax.yaxis)
