"""Figures of reflections: their effect when read, flags and confidence; of a run together, of an arm one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.figures.drawing import Drawing, facts, feedback_words, save
from reflexion_lab.analysis.figures.style import COLOURS, FAINT, INK, SMALL, Style, bars, dot, frame, rows
from reflexion_lab.analysis.learning.calibration import Calibration, Forecast, calibration
from reflexion_lab.analysis.learning.reflections import Group, ReflectionFigures, forecasts, reflections
from reflexion_lab.analysis.report import cells
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.stats.intervals import Rate
from reflexion_lab.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BARS, FLOOR = 0.2, -0.32
"""Bars of n in a reliability diagram: height of the highest, and their base line below the shares."""
TICKS = (0, 0.25, 0.5, 0.75, 1)
COLUMNS = ("figure", "name", "n", "k", "value", "low", "high")
WILSON = "Wilson 95 % intervals, which assume that cases at one task are independent."
EFFECT_INTERVALS = "bootstrap over tasks, with few tasks Newcombe 1998"
READERS = "Readers differ in more than the reading."


def reliability(calibrated: Calibration, ax: Axes, label: str = "") -> Axes:
    """Draw the share of passes after reflections of each confidence, with Wilson intervals, and bars of n below.

    On the diagonal, confidence is calibrated; below it, too high.
    """
    confidences = [group.confidence for group in calibrated.bins]
    highest = max(group.came_true.n for group in calibrated.bins)
    for group in calibrated.bins:
        height, middle = BARS * group.came_true.n / highest, (group.low + group.high) / 2
        width = max(0.9 * (group.high - group.low), 0.02)
        ax.bar(middle, height, width, bottom=FLOOR, color=FAINT, gid="n", zorder=1)
        look = {"textcoords": "offset points", "ha": "center", **SMALL}
        ax.annotate(str(group.came_true.n), (middle, FLOOR + height), (0, 2), **look)
    ax.plot((0, 1), (0, 1), color=INK, linewidth=0.9, linestyle=(0, (4, 3)), zorder=2, gid="diagonal")
    bars(confidences, [group.came_true for group in calibrated.bins], COLOURS[0], ax)
    dots: Style = {"marker": "o", "markersize": 7, "markeredgecolor": "white", "linewidth": 1.2}
    shares = [group.came_true.share for group in calibrated.bins]
    ax.plot(confidences, shares, color=COLOURS[0], gid="shares", zorder=4, **dots)
    score = f"Brier {cells.estimate(calibrated.brier, digits=3, scale=1)}"
    _title(ax, f"{label}\n{score}".strip())
    ax.set(xlim=(-0.02, 1.02), ylim=(FLOOR, 1.02), yticks=TICKS, xlabel="confidence")
    ax.set_ylabel("share of next attempts that passed", loc="top")
    return frame(ax, "both")


def flag_rates(flags: Mapping[str, Rate], ax: Axes) -> Axes:
    """Draw one bar per flag, the first on top, with its Wilson interval and counts."""
    places = range(len(flags))
    ax.barh(places, [rate.share for rate in flags.values()], height=0.6, color=COLOURS[5], zorder=2)
    for place, rate in zip(places, flags.values(), strict=True):
        ax.hlines(place, rate.low, rate.high, color=INK, linewidth=1.4, zorder=3)
        _at_end(ax, place, rate.high, f"{rate.k}/{rate.n}")
    _title(ax, "Flags, share of reflections")
    ax.set(xlim=(0, 1.18), xticks=TICKS, xlabel="share of reflections")
    return rows(list(flags), ax)


def effects(groups: Mapping[str, Group], base: Rate, ax: Axes) -> Axes:
    """Draw one line per group, the first on top: success of the retries that read it, less the base rate.

    A group without a difference has only its counts.
    """
    for place, group in enumerate(groups.values()):
        if effect := group.effect:
            dot(effect.value, effect, place, ax, marker="o", color=COLOURS[0])
        _at_end(ax, place, group.effect.high if group.effect else 0.0, f"{group.retries.k}/{group.retries.n}")
    ax.axvline(0, color=INK, linewidth=0.9, linestyle=(0, (4, 3)), zorder=2)
    _title(ax, f"Passed after reading, less the base {base.k}/{base.n}")
    ends = (abs(end) for group in groups.values() if (effect := group.effect) for end in (effect.low, effect.high))
    widest = max(0.2, *ends, 0)
    ax.set(xlim=(-1.05 * widest, 1.35 * widest), xlabel="difference of shares")
    return rows(list(groups), ax)


def drawing(log: Log, label: str, seed: int = 0) -> Drawing | None:
    """A panel on reading, one on flags and one for each source of confidence; None without any reflection."""
    figures = reflections(log, seed)
    if not figures:
        return None
    panels: list[Callable[[Axes], Axes]] = [partial(effects, figures.by_category, figures.base)]
    if figures.every.flags:
        panels.append(partial(flag_rates, figures.every.flags))
    panels += [
        partial(reliability, calibrated, label=f"Confidence, {name}")
        for name, calibrated in figures.calibration.items()
    ]
    source = feedback_words(log.manifest.feedback_source, log.is_upper_bound)
    text = (
        f"{label}: {figures.n} reflections on {figures.tasks} tasks, {figures.every.read.k} of them read later; "
        f"seed {log.manifest.seed}, {source}. Wilson 95 % intervals."
    )
    rows, method = list(_table(figures)), _method(figures)
    return Drawing("reflections", "Reflections", panels, COLUMNS, rows, text, (4.8, 4.2), method=method)


def save_reflections(folder: Path, log: Log, label: str, seed: int = 0) -> Path | None:
    """Write `reflections.png` and `reflections.csv`; returns the path of the figure, None without any reflection."""
    drawn = drawing(log, label, seed)
    return save(folder, drawn).path if drawn else None


def confidence(arm: Arm, source: str | None = None, seed: int = 0) -> Drawing | None:
    """Reliability of the arm's reflections that the next attempt read, over all seeds; None without any.

    `source` of the confidence (`analysis.learning.reflections.forecasts`) is by default the most frequent. Raises
    ConfigError: there is no such source.
    """
    by_source: dict[str, list[Forecast]] = {}
    for log in arm.logs:
        for name, own in forecasts(log).items():
            by_source.setdefault(name, []).extend(own)
    if not by_source:
        return None
    selected = source or max(by_source, key=lambda name: len(by_source[name]))
    if selected not in by_source:
        raise ConfigError("source", repr(selected), f"one of {', '.join(by_source)}")
    figures = calibration(by_source[selected], seed=seed)
    text = (
        f"{facts([arm])} {figures.n} reflections, confidence: {selected}. Wilson 95 % intervals. Bars: n; dashed: "
        "calibrated."
    )
    method = (
        f"Confidence of reflections on {figures.tasks} tasks against the feedback verdict on the next attempt, which "
        f"read them. {WILSON} Expected calibration error {figures.error:.3f}, by chance up to "
        f"{figures.error_by_chance:.3f}; Brier: lower is better."
    )
    panel = partial(reliability, figures, label=f"Confidence of reflections, {arm.label}")
    return Drawing("reliability", "", [panel], (), (), text, (4.8, 4.4), method=method)


def flagged(arm: Arm) -> Drawing | None:
    """Flags of all reflections of the arm; None without any."""
    written = [attempt.reflection for log in arm.logs for attempt in log.every if attempt.reflection]
    counts = Counter(flag for words in written for flag in set(words.flags))
    if not counts:
        return None
    flags = {flag: Rate.of(count, len(written)) for flag, count in counts.most_common()}
    text = f"{facts([arm])} {len(written)} reflections of {arm.label}. Wilson 95 % intervals."
    size, method = (5.4, 1.0 + 0.34 * len(flags)), f"Flags by heuristics for English. {WILSON}"
    return Drawing("flags", "", [partial(flag_rates, flags)], (), (), text, size, method=method)


def read(arm: Arm, seed: int = 0) -> Drawing | None:
    """Effect of reading by failure class, in the arm's first run; None where no retry read a reflection."""
    first = Arm(arm.label, arm.logs[:1])
    figures = reflections(first.logs[0], seed)
    if not figures or not any(group.retries.n for group in figures.by_category.values()):
        return None
    text = f"{facts([first])} {arm.label}, k/n retries; base: {figures.base_of}. 95 % intervals: bootstrap. {READERS}"
    method = (
        "Retries that passed their feedback tests after they had read a reflection, by its failure class, and the "
        f"difference to the base. 95 % intervals: {EFFECT_INTERVALS}."
    )
    panel, size = partial(effects, figures.by_category, figures.base), (5.4, 1.1 + 0.34 * len(figures.by_category))
    return Drawing("effects", "", [panel], (), (), text, size, method=method)


def _method(figures: ReflectionFigures) -> str:
    errors = ", ".join(
        f"{name} {calibrated.error:.3f} (by chance up to {calibrated.error_by_chance:.3f})"
        for name, calibrated in figures.calibration.items()
    )
    text = (
        f"Passed: feedback tests. Shares: {WILSON} Passed after reading, by failure class: k/n retries, and the "
        f"difference to the base ({figures.base_of}); 95 %: {EFFECT_INTERVALS}. {READERS}"
    )
    calibrated = f" Confidence: bars are n; dashed: calibrated. Expected calibration error: {errors}."
    return text + calibrated * bool(errors)


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
    for name, calibrated in figures.calibration.items():
        brier = calibrated.brier
        yield ("brier", name, calibrated.n, "", brier.value, brier.low, brier.high)
        for part in calibrated.bins:
            between = f"{name} {part.low:.2f} to {part.high:.2f}, mean {part.confidence:.3f}"
            yield _rate("reliability", between, part.came_true)


def _rate(figure: str, name: str, rate: Rate) -> tuple[object, ...]:
    return figure, name, rate.n, rate.k, rate.share, rate.low, rate.high


def _at_end(ax: Axes, place: int, x: float, text: str) -> None:
    ax.annotate(text, (x, place), (5, 0), textcoords="offset points", va="center", **SMALL)


def _title(ax: Axes, text: str) -> None:
    ax.set_title(text, loc="left", fontsize=10, color=INK)
