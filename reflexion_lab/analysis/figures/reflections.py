"""Figures of a run's reflections."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from reflexion_lab.analysis.figures.drawing import Drawing, save
from reflexion_lab.analysis.figures.style import COLOURS, FAINT, INK, SMALL, Style, frame
from reflexion_lab.analysis.learning.calibration import Bin, Calibration
from reflexion_lab.analysis.learning.reflections import Group, ReflectionFigures, reflections
from reflexion_lab.analysis.report import cells
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.stats.intervals import Rate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BARS, FLOOR = 0.2, -0.32
"""Of the bars of n in a reliability diagram: the height of the highest, and where they stand, below the shares."""
TICKS = (0, 0.25, 0.5, 0.75, 1)
COLUMNS = ("figure", "name", "n", "k", "value", "low", "high")


def reliability(calibration: Calibration, ax: Axes, label: str = "") -> Axes:
    """Draw how often reflections of a confidence were followed by a pass, with Wilson intervals, and bars of n below.

    On the diagonal, as often as was said. Below it: too sure.
    """
    confidences = [group.confidence for group in calibration.bins]
    highest = max(group.came_true.n for group in calibration.bins)
    for group in calibration.bins:
        height, middle = BARS * group.came_true.n / highest, (group.low + group.high) / 2
        width = max(0.9 * (group.high - group.low), 0.02)
        ax.bar(middle, height, width, bottom=FLOOR, color=FAINT, gid="n", zorder=1)
        look = {"textcoords": "offset points", "ha": "center", **SMALL}
        ax.annotate(str(group.came_true.n), (middle, FLOOR + height), (0, 2), **look)
    ax.plot((0, 1), (0, 1), color=INK, linewidth=0.9, linestyle=(0, (4, 3)), zorder=2, gid="diagonal")
    low, high = zip(*((group.came_true.low, group.came_true.high) for group in calibration.bins), strict=True)
    ax.vlines(confidences, low, high, color=COLOURS[0], linewidth=2.4, alpha=0.45, zorder=3)
    dots: Style = {"marker": "o", "markersize": 7, "markeredgecolor": "white", "linewidth": 1.2}
    shares = [group.came_true.share for group in calibration.bins]
    ax.plot(confidences, shares, color=COLOURS[0], gid="shares", zorder=4, **dots)
    score = f"Brier {cells.estimate(calibration.brier, digits=3, scale=1)}"
    _title(ax, f"{label}\n{score}".strip())
    ax.set(xlim=(-0.02, 1.02), ylim=(FLOOR, 1.02), yticks=TICKS, xlabel="confidence")
    ax.set_ylabel("share of next attempts that passed", loc="top")
    return frame(ax, "both")


def flag_rates(flags: Mapping[str, Rate], ax: Axes) -> Axes:
    """Draw one bar a flag, the first on top, with its Wilson interval and counts."""
    places = range(len(flags))
    ax.barh(places, [rate.share for rate in flags.values()], height=0.6, color=COLOURS[5], zorder=2)
    for place, rate in zip(places, flags.values(), strict=True):
        ax.hlines(place, rate.low, rate.high, color=INK, linewidth=1.4, zorder=3)
        _at_end(ax, place, rate.high, f"{rate.k}/{rate.n}")
    _title(ax, "Flags, share of reflections")
    ax.set(xlim=(0, 1.18), xticks=TICKS, xlabel="share of reflections")
    return _rows(ax, list(flags))


def effects(groups: Mapping[str, Group], base: Rate, ax: Axes) -> Axes:
    """Draw one line a group, the first on top: success of the retries that read it, less the base rate.

    A group without a difference has its counts alone.
    """
    for place, group in enumerate(groups.values()):
        if effect := group.effect:
            ax.hlines(place, effect.low, effect.high, color=COLOURS[0], linewidth=2.4, alpha=0.45, zorder=3)
            ax.plot(effect.value, place, marker="o", markersize=7, color=COLOURS[0], markeredgecolor="white", zorder=4)
        _at_end(ax, place, group.effect.high if group.effect else 0.0, f"{group.retries.k}/{group.retries.n}")
    ax.axvline(0, color=INK, linewidth=0.9, linestyle=(0, (4, 3)), zorder=2)
    _title(ax, f"Passed after reading, less the base {base.k}/{base.n}")
    ends = (abs(end) for group in groups.values() if (effect := group.effect) for end in (effect.low, effect.high))
    widest = max(0.2, *ends, 0)
    ax.set(xlim=(-1.05 * widest, 1.35 * widest), xlabel="difference of shares")
    return _rows(ax, list(groups))


def drawing(log: Log, label: str, seed: int = 0) -> Drawing | None:
    """A panel on reading, one on flags and one for each source of confidence; None where the run has no reflection."""
    figures = reflections(log, seed)
    if not figures:
        return None
    panels: list[Callable[[Axes], Axes]] = [partial(effects, figures.by_category, figures.base)]
    if figures.every.flags:
        panels.append(partial(flag_rates, figures.every.flags))
    panels += [
        partial(reliability, calibration, label=f"Confidence, {name}")
        for name, calibration in figures.calibration.items()
    ]
    text = _facts(log, figures, label)
    return Drawing("reflections", "Reflections", panels, COLUMNS, list(_table(figures)), text, (4.8, 4.2))


def save_reflections(folder: Path, log: Log, label: str, seed: int = 0) -> Path | None:
    """Write `reflections.png` and `reflections.csv`; returns the figure's path, None without any reflection."""
    drawn = drawing(log, label, seed)
    return save(folder, drawn).path if drawn else None


def _facts(log: Log, figures: ReflectionFigures, label: str) -> str:
    source = log.manifest.feedback_source
    source_text = "no feedback" if source == "none" else f"{source} feedback"
    source_text += ": UPPER BOUND, not pass@1" if log.is_upper_bound else ""
    errors = ", ".join(
        f"{name} {calibration.error:.3f} (by chance up to {calibration.error_by_chance:.3f})"
        for name, calibration in figures.calibration.items()
    )
    lines = [
        f"{label}: {figures.n} reflections on {figures.tasks} tasks, {figures.every.read.k} of them read later; "
        f"seed {log.manifest.seed}, {source_text}.",
        "Passed: feedback tests. Shares have Wilson 95 % intervals, which take cases at one task as independent.",
        f"Passed after reading, by failure class: k/n retries, and the difference to the base ({figures.base_of});",
        "95 %: bootstrap over tasks, with few tasks Newcombe 1998. Readers differ in more than the reading.",
    ]
    if errors:
        lines += ["Confidence: bars are n; dashed is as sure as right.", f"Expected calibration error: {errors}."]
    return "\n".join(lines)


def _table(figures: ReflectionFigures) -> Iterator[tuple[object, ...]]:
    groups = {"all": figures.every}
    groups |= {f"by {name}": group for name, group in figures.by_source.items()}
    groups |= {f"class {name}": group for name, group in figures.by_category.items()}
    yield _rate("base", figures.base_of, figures.base)
    for name, group in groups.items():
        yield _rate("read", name, group.read)
        yield _rate("passed", name, group.retries)
        if group.hidden:
            yield _rate("hidden passed", name, group.hidden)
        if effect := group.effect:
            yield ("effect", name, group.retries.n, "", effect.value, effect.low, effect.high)
        yield from (_rate(f"flag {flag}", name, rate) for flag, rate in group.flags.items())
    for name, calibration in figures.calibration.items():
        brier = calibration.brier
        yield ("brier", name, calibration.n, "", brier.value, brier.low, brier.high)
        yield from (_rate("reliability", f"{name} {_between(part)}", part.came_true) for part in calibration.bins)


def _between(part: Bin) -> str:
    return f"{part.low:.2f} to {part.high:.2f}, mean {part.confidence:.3f}"


def _rate(figure: str, name: str, rate: Rate) -> tuple[object, ...]:
    return figure, name, rate.n, rate.k, rate.share, rate.low, rate.high


def _at_end(ax: Axes, place: int, x: float, text: str) -> None:
    ax.annotate(text, (x, place), (5, 0), textcoords="offset points", va="center", **SMALL)


def _title(ax: Axes, text: str) -> None:
    ax.set_title(text, loc="left", fontsize=10, color=INK)


def _rows(ax: Axes, names: list[str]) -> Axes:
    """Names down the side, the first on top."""
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.4, -0.6)
    return frame(ax, "x")
