"""pass@1 over a numeric config key: Ω, k, attempts, a threshold, a noise rate."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.comparison.grouping import SEEDED, SYMBOLS
from reflexion_lab.analysis.figures.drawing import Drawing, brief, facts, figure, share_methods
from reflexion_lab.analysis.figures.style import (
    UPPER_BOUND,
    bars,
    frame,
    line_only,
    look,
    mark_bounds,
    marker_only,
    named,
    share_axis,
)
from reflexion_lab.analysis.stats.intervals import Estimate
from reflexion_lab.errors import ConfigError
from reflexion_lab.runner.folder.manifest import settings

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Value = float | str
"""Value of a config key; words such as `all` come after the numbers."""
COLUMNS = ("key", "value", "series", "arm", "feedback_source", "n", "share", "low", "high")
MOST = 7
"""Maximum number of curves per panel."""


def over(curves: Mapping[str, Mapping[Value, tuple[Arm, Estimate]]], key: str, ax: Axes) -> Axes:
    """Draw a curve per series: share solved by the value of `key`, with its interval.

    Numbers are placed to scale, logarithmic where they span a factor of 50; words follow at the right. `curves` holds,
    by series and by value, the arm and its share.
    """
    places = _places(dict.fromkeys(value for points in curves.values() for value in points))
    step = 0.02 * (max(places.values()) - min(places.values()) or 1)
    for number, (name, points) in enumerate(curves.items()):
        style, shift = look(number), (number - (len(curves) - 1) / 2) * step
        values = sorted(points, key=lambda value: places[value])
        shares = [points[value][1] for value in values]
        x = [places[value] + shift for value in values]
        bars(x, shares, style["color"], ax)
        y = [share.value for share in shares]
        n_numbers = sum(not isinstance(value, str) for value in values)
        ax.plot(x[:n_numbers], y[:n_numbers], **line_only(style), linewidth=1.6, zorder=3)
        ax.plot(x, y, **marker_only(style), markersize=7, zorder=4, label=name, gid="over")
    ax.set_xticks(list(places.values()), [f"{value:g}" if not isinstance(value, str) else value for value in places])
    ends = [end for points in curves.values() for _, share in points.values() for end in (share.low, share.high)]
    share_axis(ax, ends, "share of tasks solved")
    ax.set(xlabel=key)
    bounds = [arm.label for points in curves.values() for arm, _ in points.values() if arm.is_upper_bound]
    mark_bounds(ax, bounds[:1], height=0.5)
    return frame(ax, "y")


def swept(arms: Sequence[Arm]) -> list[str]:
    """Config keys with numbers in which some arms differ while all else is equal."""
    configs = [config(arm) for arm in arms]
    keys = dict.fromkeys(key for config in configs for key in config)
    return [key for key in keys if key not in SEEDED and not key.endswith(".seed") and _varies(configs, key)]


@figure(40)
def drawings(arms: Sequence[Arm]) -> Iterator[Drawing]:
    """Drawings, one per swept key."""
    for key in swept(arms):
        yield drawing(arms, key)


def drawing(arms: Sequence[Arm], key: str, seed: int = 0) -> Drawing:
    """One curve per set of arms that differ in `key` alone. Raises ConfigError: no arm has this key."""
    having = [arm for arm in arms if key in config(arm)]
    if not having:
        raise ConfigError("key", repr(key), "a dotted config key of an arm, such as recall.omega")
    curves: dict[str, dict[Value, tuple[Arm, Estimate]]] = {}
    for arm in having:
        share = arm.share(arm.verdicts(), seed)
        curves.setdefault(series(arm, (key,)), {})[value_of(config(arm)[key])] = arm, share
    curves = {name: points for name, points in curves.items() if len(points) > 1} or curves
    rows = [
        (key, value, name, arm.label, arm.feedback_source, len(arm.judged), share.value, share.low, share.high)
        for name, points in curves.items()
        for value, (arm, share) in points.items()
    ]
    drawn = [arm for points in curves.values() for arm, _ in points.values()]
    method = f"95 % intervals: {share_methods(drawn)}."
    text = f"{facts(drawn)} {brief(method)}"
    parts = [list(curves.items())[start : start + MOST] for start in range(0, len(curves), MOST)]
    panels = [functools.partial(over, dict(part), key) for part in parts]
    metric = UPPER_BOUND if all(arm.is_upper_bound for arm in drawn) else "pass@1"
    name, title, size = f"over_{key}", f"{metric} over {key}", (6.6, 4.0)
    return Drawing(name, title, panels, COLUMNS, rows, text, size, has_legend=True, method=method)


def config(arm: Arm) -> dict[str, object]:
    """The config of its first run by dotted key."""
    return settings(arm.logs[0].manifest.config)


def _varies(configs: Sequence[Mapping[str, object]], key: str) -> bool:
    groups: dict[str, set[Value]] = {}
    for config in configs:
        if key in config:
            rest = repr(sorted((name, repr(value)) for name, value in config.items() if name not in (key, "seed")))
            groups.setdefault(rest, set()).add(value_of(config[key]))
    return any(len(values) > 1 and any(not isinstance(value, str) for value in values) for values in groups.values())


def series(arm: Arm, keys: Sequence[str]) -> str:
    """The arm's name, in full or in short, without the keys."""
    values = {key: config(arm)[key] for key in keys}
    left_out = {f"{key}={value}" for key, value in values.items()}
    left_out |= {f"{SYMBOLS.get(key, key.rpartition('.')[2] + '=')}{value}" for key, value in values.items()}
    words = [word for word in arm.label.split(" ") if word not in left_out]
    return named(" ".join(words) or "all arms", arm.is_upper_bound)


def value_of(value: object) -> Value:
    """A number, or the value as text."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _places(values: Mapping[Value, object]) -> dict[Value, float]:
    """Position of each value: numbers first."""
    import math

    numbers = sorted(value for value in values if not isinstance(value, str))
    words = sorted(value for value in values if isinstance(value, str))
    is_wide = len(numbers) > 2 and numbers[0] > 0 and numbers[-1] / numbers[0] >= 50
    places: dict[Value, float] = {value: math.log10(value) if is_wide else value for value in numbers}
    last = max(places.values(), default=0.0)
    gap = (last - min(places.values(), default=0.0)) / max(1, len(numbers) - 1) or 1.0
    return places | {word: last + (rank + 1) * gap for rank, word in enumerate(words)}
