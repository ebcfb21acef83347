"""Figures of the convergence curve. Plots take and return an Axes; only `save_convergence` writes files."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.estimators import Point
from reflexion_lab.analysis.figures.style import COLOURS, FAINT, INK, MARKERS, Style, caption, watermark
from reflexion_lab.analysis.stats.bootstrap import bands
from reflexion_lab.analysis.stats.intervals import Rate
from reflexion_lab.analysis.summary import Log
from reflexion_lab.errors import DataError
from reflexion_lab.records import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABEL_GAP = 0.045
"""Shares closer than this would print their figures on top of each other."""

SOLID = (
    "Solid, with band: passes the hidden tests, as submitted at this cut; Wilson 95 % interval, of several seeds "
    "bootstrap over tasks and seeds."
)
DASHED = "Dashed: passed the feedback tests, which the loop can see."


class Curve(Record, frozen=True, kw_only=True):
    """A convergence curve and what it takes to read it."""

    label: str
    feedback_source: str
    seeds: tuple[int, ...]
    points: tuple[Point, ...]
    """At least one."""

    @classmethod
    def of(cls, log: Log, label: str) -> Curve:
        """The curve of one run.

        Raises:
            DataError: the run has none: no task with a hidden verdict has ended, or not every attempt is graded.
        """
        manifest, points = log.manifest, log.points
        if not points:
            raise DataError(f"run {manifest.run_id}", "no curve", "all attempts graded", "resume it")
        source = manifest.feedback_source
        return cls(label=label, feedback_source=source, seeds=(manifest.seed,), points=tuple(points))

    @classmethod
    def over(cls, arm: Arm, longest: int = 0, seed: int = 0) -> Curve:
        """The curve of an arm over all of its seeds; n counts cases, a task at a seed each.

        With several seeds the intervals are bootstrap bands over tasks and seeds (`statistics.bootstrap.bands`), with
        one they are Wilson's.

        Args:
            longest: attempts up to which it goes; 0 for those of the arm's longest loop.
            seed: of the bootstrap.
        """
        last = longest or arm.longest
        points = [_pooled(points) for points in zip(*(log.curve(last) for log in arm.logs), strict=True)]
        if len(arm.seeds) > 1:
            cases = [arm.outcomes(arm.verdicts(point.attempt)) for point in points]
            ends = bands(cases, seed)
            points = [replace(point, low=end.low, high=end.high) for point, end in zip(points, ends, strict=True)]
        return cls(label=arm.label, feedback_source=arm.feedback_source, seeds=arm.seeds, points=tuple(points))

    @property
    def is_upper_bound(self) -> bool:
        return self.feedback_source == "oracle"

    @property
    def facts(self) -> str:
        """One line for the caption."""
        seeds = f"seed{'s' * (len(self.seeds) != 1)} {', '.join(map(str, self.seeds))}"
        said = {"none": "no feedback", "oracle": "oracle feedback: UPPER BOUND, not pass@1"}
        source = said.get(self.feedback_source, f"{self.feedback_source} feedback")
        unit = "tasks" if len(self.seeds) == 1 else "cases (a task at a seed)"
        return f"{self.label}: n = {self.points[0].n} {unit}, {seeds}, {source}"


def convergence(curve: Curve, ax: Axes) -> Axes:
    """Draw one curve: pass@1 by attempt with its band, and dashed the share that passed its feedback tests.

    Call it again for each further curve; colour, marker and caption go on from there.
    """
    number = sum(line.get_gid() == "pass_at_1" for line in ax.lines)
    style: Style = {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}
    name = "upper bound, not pass@1" if curve.is_upper_bound else "pass@1"
    x, shares = [point.attempt for point in curve.points], [point.pass_at_1 for point in curve.points]
    _band(ax, curve, style["color"])
    solid: Style = {"linewidth": 2.2, "markersize": 7.5, "markeredgecolor": "white", "zorder": 4}
    ax.plot(x, shares, label=f"{curve.label}, {name}", gid="pass_at_1", **style, **solid)
    if curve.feedback_source == "visible":  # by an oracle it is the solid line again; without feedback it is 0
        dashed: Style = {
            "linewidth": 1.2,
            "linestyle": (0, (4, 2)),
            "markersize": 4.5,
            "markerfacecolor": "white",
        }
        passed = [nan if point.visible_pass is None else point.visible_pass for point in curve.points]
        label = f"{curve.label}, feedback tests passed (n = {curve.points[-1].n_feedback})"
        ax.plot(x, passed, label=label, gid="visible_pass", zorder=3, **style, **dashed)
    _figure_at_end(ax, x[-1], shares[-1], style["color"])
    _frame(ax)
    _caption(ax, curve.facts)
    if curve.is_upper_bound:
        watermark(ax, [curve.label])
    return ax


def save_convergence(folder: Path, curves: Sequence[Curve]) -> Path:
    """Write `convergence.png` and, with the same numbers, `convergence.csv`; returns the figure's path.

    Needs no display: the figure is drawn off-screen, in whatever thread this is.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 4.6), facecolor="white")
    FigureCanvasAgg(figure)
    ax = figure.add_subplot()
    for curve in curves:
        convergence(curve, ax)
    path = folder / "convergence.png"
    figure.savefig(path, dpi=150, bbox_inches="tight", pad_inches=0.2)
    _write_table(folder / "convergence.csv", curves)
    return path


def _pooled(points: Sequence[Point]) -> Point:
    """One cut of several runs as if they were one."""
    rate = Rate.of(sum(point.solved for point in points), sum(point.n for point in points))
    n_feedback = sum(point.n_feedback for point in points)
    feedback = {
        name: sum((getattr(point, name) or 0) * point.n_feedback for point in points) / n_feedback
        if n_feedback
        else None
        for name in ("visible_pass", "reward")
    }
    return Point(
        attempt=points[0].attempt,
        n=rate.n,
        solved=rate.k,
        pass_at_1=rate.share,
        low=rate.low,
        high=rate.high,
        any_solved=sum(point.any_solved * point.n for point in points) / rate.n,
        n_feedback=n_feedback,
        tokens_cum=sum(point.tokens_cum for point in points),
        **feedback,
    )


def _band(ax: Axes, curve: Curve, colour: str) -> None:
    """The interval; a bar where a lone point leaves a band no width."""
    x, low, high = zip(*((point.attempt, point.low, point.high) for point in curve.points), strict=True)
    if len(x) == 1:
        ax.vlines(x, low, high, color=colour, alpha=0.35, linewidth=6)
    ax.fill_between(x, low, high, color=colour, alpha=0.12, linewidth=0)
    for edge in (low, high):
        ax.plot(x, edge, color=colour, alpha=0.45, linewidth=0.7, label="_edge")


def _figure_at_end(ax: Axes, x: int, share: float, colour: str) -> None:
    """The last share in figures, beside its point and clear of those already there."""
    taken = [text.get_position()[1] for text in ax.texts if text.get_gid() == f"share at {x}"]
    side = 1 if share >= max(taken, default=0) else -1
    steps = (share + sign * step * LABEL_GAP for step in range(len(taken) + 1) for sign in (side, -side))
    y = next(y for y in steps if all(abs(y - other) > 0.99 * LABEL_GAP for other in taken))
    where: Style = {"xytext": (8, y), "textcoords": ("offset points", "data"), "va": "center"}
    look: Style = {"color": colour, "fontsize": 9, "fontweight": "bold", "gid": f"share at {x}"}
    ax.annotate(f"{100 * share:.1f}", (x, share), **where, **look)


def _frame(ax: Axes) -> None:
    """Axes, grid and legend; safe to do again for every curve."""
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    last = ax.dataLim.x1
    ax.set(xlim=(0.75, last + 0.25 + 0.04 * last), ylim=(0, 1))
    ax.set_xlabel("loop cut at attempt", color=INK)
    ax.set_ylabel("share of tasks", color=INK)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    ax.yaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))
    ax.grid(axis="y", color=FAINT, linewidth=0.7)
    ax.set_axisbelow(True)
    ax.tick_params(length=0, colors=INK)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.spines["bottom"].set_color(FAINT)
    place: Style = {"loc": "lower left", "bbox_to_anchor": (0, 1.02), "ncols": 2, "borderaxespad": 0}
    ax.legend(**place, frameon=False, labelcolor=INK, fontsize=9)


def _caption(ax: Axes, facts: str) -> None:
    """Write `facts` below the axes, between those of earlier curves and the lines on how to read them."""
    text = next((text for text in ax.texts if text.get_gid() == "caption"), None) or caption(ax, "").texts[-1]
    earlier = text.get_text().partition(SOLID)[0]
    has_dashes = any(line.get_gid() == "visible_pass" for line in ax.lines)
    text.set_text(f"{earlier}{facts}\n{SOLID}" + f"\n{DASHED}" * has_dashes)


def _write_table(path: Path, curves: Sequence[Curve]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("label", "feedback_source", "seeds", *Point.__struct_fields__))
        for curve in curves:
            head = (curve.label, curve.feedback_source, " ".join(map(str, curve.seeds)))
            writer.writerows((*head, *msgspec.structs.astuple(point)) for point in curve.points)
