"""The panels on reflections as figures of their own: confidence, flags, and what came of reading."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.figures.drawing import Drawing, facts
from reflexion_lab.analysis.figures.reflections import effects, flag_rates, reliability
from reflexion_lab.analysis.learning.calibration import Forecast, calibration
from reflexion_lab.analysis.learning.reflections import forecasts, reflections
from reflexion_lab.analysis.stats.intervals import Rate
from reflexion_lab.errors import ConfigError

COLUMNS = ("arm", "name", "n", "k", "value", "low", "high")
WILSON = "Wilson 95 % intervals, which take cases at one task as independent."


def confidence(arm: Arm, source: str | None = None, seed: int = 0) -> Drawing | None:
    """Of the arm's reflections that the next attempt read, over all seeds; None where there is none.

    Parameters
    ----------
    source : str | None, optional
        Where confidence comes from (`analysis.learning.reflections.forecasts`); by default the most frequent.

    Raises
    ------
    ConfigError
        There is no such source.
    """
    by_source: dict[str, list[Forecast]] = {}
    for log in arm.logs:
        for name, own in forecasts(log).items():
            by_source.setdefault(name, []).extend(own)
    if not by_source:
        return None
    chosen = source or max(by_source, key=lambda name: len(by_source[name]))
    if chosen not in by_source:
        raise ConfigError("source", repr(chosen), f"one of {', '.join(by_source)}")
    figures = calibration(by_source[chosen], seed=seed)
    rows = [_row(arm, f"{group.low:.2f} to {group.high:.2f}", group.came_true) for group in figures.bins]
    text = (
        f"Confidence of {figures.n} reflections ({chosen}) on {figures.tasks} tasks against the feedback verdict on "
        f"the next attempt, which read them. {facts([arm])} {WILSON} Bars are n; dashed is as sure as right. Expected "
        f"calibration error {figures.error:.3f}, by chance up to {figures.error_by_chance:.3f}; Brier: lower is better."
    )
    panel = functools.partial(reliability, figures, label=f"Confidence of reflections, {arm.label}")
    return Drawing("reliability", "", [panel], COLUMNS, rows, text, (4.8, 4.4))


def flagged(arm: Arm) -> Drawing | None:
    """Of all reflections of the arm; None where none has a flag."""
    written = [attempt.reflection for log in arm.logs for attempt in log.every if attempt.reflection]
    counts = Counter(flag for words in written for flag in set(words.flags))
    if not counts:
        return None
    flags = {flag: Rate.of(count, len(written)) for flag, count in counts.most_common()}
    rows = [_row(arm, flag, rate) for flag, rate in flags.items()]
    text = f"Flags by heuristics for English on {len(written)} reflections of {arm.label}. {facts([arm])} {WILSON}"
    size = 5.4, 1.0 + 0.34 * len(flags)
    panel = functools.partial(flag_rates, flags)
    return Drawing("flags", "", [panel], COLUMNS, rows, text, size)


def read(arm: Arm, seed: int = 0) -> Drawing | None:
    """Of the arm's first run, by failure class; None where no retry has read a reflection."""
    first = Arm(arm.label, arm.logs[:1])
    figures = reflections(first.logs[0], seed)
    if not figures or not any(group.retries.n for group in figures.by_category.values()):
        return None
    rows: Sequence[tuple[object, ...]] = [
        (arm.label, name, group.retries.n, group.retries.k, effect.value, effect.low, effect.high)
        for name, group in figures.by_category.items()
        if (effect := group.effect)
    ]
    text = (
        f"Retries of {arm.label} that passed their feedback tests after they had read a reflection, by its failure "
        f"class: k/n, and the difference to the base ({figures.base_of}). {facts([first])} 95 % intervals: bootstrap "
        "over tasks, with few tasks Newcombe 1998. Readers differ in more than the reading."
    )
    size = 5.4, 1.1 + 0.34 * len(figures.by_category)
    panel = functools.partial(effects, figures.by_category, figures.base)
    return Drawing("effects", "", [panel], COLUMNS, rows, text, size)


def _row(arm: Arm, name: str, rate: Rate) -> tuple[object, ...]:
    return arm.label, name, rate.n, rate.k, rate.share, rate.low, rate.high
