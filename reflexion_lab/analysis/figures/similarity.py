"""Whether attempts pass more often that read something near their task."""

from __future__ import annotations

import functools
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.figures.drawing import FEW, Drawing, facts, figure
from reflexion_lab.analysis.figures.style import FAINT, SMALL, Style, frame, look, named, per_cent, watermark
from reflexion_lab.analysis.learning.similarity import Bin, Similarity, bins, edges, similarity
from reflexion_lab.analysis.learning.transitions import by_task
from reflexion_lab.analysis.stats.bootstrap import interval
from reflexion_lab.analysis.stats.intervals import Estimate
from reflexion_lab.memory.texts import signature
from reflexion_lab.records import Attempt

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS, ROW = 0.06, 0.025
"""How far from 0 and 1 the first row of single attempts lies, and each further one from it."""
NONE = -0.6
"""Where attempts stand that read nothing; bins begin at 0, and each is 1 wide."""
MOST_COUNTS = 3
"""Arms whose counts have room."""
COLUMNS = ("attempts", "arm", "feedback_source", "from_score", "to_score", "mean_score", "k", "n", "share", "low",
           "high", "unknown")  # fmt: skip
NAMES = {False: "first attempts", True: "later attempts"}


class Group(NamedTuple):
    """An arm's attempts of one kind, as they are drawn."""

    found: Similarity
    bins: Mapping[int, Bin]
    without: Estimate | None
    """Share of the attempts that read nothing of other tasks; None where there is none."""


def by_similarity(by_arm: Mapping[Arm, Group], ends: Sequence[float], kind: str, ax: Axes) -> Axes:
    """Draw a curve an arm: the share that passed by the score of the nearest that was read, and a tick for each
    attempt, above 100 % where it passed and below 0 where it failed. At the left end: attempts that read nothing.

    Bins are drawn equally wide, whatever scores they span.

    Parameters
    ----------
    by_arm : Mapping[Arm, Group]
        By arm, with bins between these `ends`.
    kind : str
        Of the attempts, for the title.
    """
    for place, (arm, group) in enumerate(by_arm.items()):
        style, shift = look(place), (place - (len(by_arm) - 1) / 2) * 0.6 / len(by_arm)
        places = {bin + 0.5 + shift: score_bin for bin, score_bin in group.bins.items()}
        _bars(places, [score_bin.passed for score_bin in places.values()], style, ax)
        shares = [score_bin.passed.value for score_bin in places.values()]
        name = named(arm.label, arm.is_upper_bound)
        ax.plot(list(places), shares, **style, linewidth=1.5, markersize=7, zorder=4, label=name, gid="bins")
        if len(by_arm) <= MOST_COUNTS:
            _counts(places, ax)
        if group.without:
            _bars([NONE + shift / 2], [group.without], style, ax)
            ax.plot(NONE + shift / 2, group.without.value, **{**style, "linestyle": ""}, markersize=6, gid="without")
        _points(group, place, ends, style, ax)
    _axes(by_arm, ends, ax)
    ax.set_title(kind, loc="left", fontsize=9)
    if above := [arm.label for arm in by_arm if arm.is_upper_bound]:
        watermark(ax, above)
    return frame(ax, "y")


@figure(80, FEW)
def drawing(arms: Sequence[Arm], seed: int = 0, later: Sequence[bool] = (False, True)) -> Drawing | None:
    """A panel for first attempts and one for later ones; None where no attempt read anything of another task."""
    parts = {is_later: _groups(arms, is_later, seed) for is_later in later}
    parts = {is_later: part for is_later, part in parts.items() if part[0]}
    if not parts:
        return None
    rows = [
        (NAMES[is_later], arm.label, arm.feedback_source, ends[place], ends[place + 1], score_bin.score,
         score_bin.k, score_bin.n, score_bin.passed.value, score_bin.passed.low,
         score_bin.passed.high, group.found.unknown)
        for is_later, (by_arm, ends) in parts.items()
        for arm, group in by_arm.items()
        for place, score_bin in group.bins.items()
    ]  # fmt: skip
    drawn = list(dict.fromkeys(arm for by_arm, _ in parts.values() for arm in by_arm))
    unknown = sum(group.found.unknown for by_arm, _ in parts.values() for group in by_arm.values())
    text = (
        "Hidden verdicts on attempts that read episodes or mistakes of other tasks, by how near the nearest was. "
        "Scores are not recorded; they were computed again from the run folders: Jaccard over the texts that the run "
        f"compared, whatever its retriever. {facts(drawn)} Bins of about equal counts, drawn equally wide; 95 % "
        "intervals: bootstrap over tasks, or score intervals where few tasks speak. Ticks are attempts, above: passed, "
        'below: failed; "none": nothing of other tasks was read. Tasks with near neighbours differ in more than that.'
        + f" Left out, since what they read is not in these runs: {unknown}."
        * bool(unknown)
    )
    panels = [
        functools.partial(by_similarity, by_arm, ends, NAMES[is_later]) for is_later, (by_arm, ends) in parts.items()
    ]
    title = "Passed, by similarity of what was recalled"
    return Drawing("similarity", title, panels, COLUMNS, rows, text, (5.4, 3.6), has_legend=True)


def compared(attempt: Attempt, match: str) -> str:
    """What retrieval compares of an attempt beside its task's text (`memory.texts`)."""
    return {"task_error": signature(attempt.evaluation), "task_code": attempt.trajectory.solution}.get(match, "")


def _groups(arms: Sequence[Arm], is_later: bool, seed: int) -> tuple[dict[Arm, Group], list[float]]:
    """Of the arms that read anything, and the edges of their bins."""
    every = {arm: similarity(arm, compared, is_later) for arm in arms}
    read = {arm: result for arm, result in every.items() if result.near}
    ends = edges([near.score for result in read.values() for near in result.near]) if read else []
    return {
        arm: Group(result, bins(result.near, ends, seed), _without(result, seed)) for arm, result in read.items()
    }, ends


def _without(result: Similarity, seed: int) -> Estimate | None:
    outcomes = [(case, passed) for case, _, passed in result.without]
    return interval(by_task(outcomes), seed) if outcomes else None


def _bars(x: Sequence[float] | Mapping[float, Bin], shares: Sequence[Estimate], style: Style, ax: Axes) -> None:
    low, high = [share.low for share in shares], [share.high for share in shares]
    ax.vlines(list(x), low, high, color=style["color"], linewidth=1.8, alpha=0.5, gid="interval")


def _counts(places: Mapping[float, Bin], ax: Axes) -> None:
    for x, score_bin in places.items():
        ax.annotate(str(score_bin.n), (x, score_bin.passed.value), (5, 5), textcoords="offset points", **SMALL)


def _points(group: Group, place: int, ends: Sequence[float], style: Style, ax: Axes) -> None:
    away = POINTS + ROW * place
    heights = [1 + away if near.passed else -away for near in group.found.near]
    look: Style = {"color": style["color"], "marker": "|", "s": 16, "linewidths": 0.7, "alpha": 0.6}
    ax.scatter([_within(near.score, ends) for near in group.found.near], heights, **look, gid="points")


def _within(score: float, ends: Sequence[float]) -> float:
    """Where a score lies on an axis of equally wide bins."""
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
    ax.set(xlabel="Jaccard similarity of the nearest that was read", ylabel="share of attempts that passed")
    ax.set_yticks((0, 0.25, 0.5, 0.75, 1))
    per_cent(ax.yaxis)
