"""pass@1 over the keys of a sweep: a cell per value of one key, or per pair of values, such as Ω and attempts."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.comparison.grouping import SYMBOLS, names_of
from reflexion_lab.analysis.figures.drawing import Drawing, facts, figure, share_methods
from reflexion_lab.analysis.figures.style import INK, UPPER_BOUND, Axes, share_limits, watermark
from reflexion_lab.analysis.report import cells
from reflexion_lab.analysis.stats.intervals import Rate
from reflexion_lab.errors import ConfigError
from reflexion_lab.io.arrays import np
from reflexion_lab.runner.folder.manifest import is_seeded, settings

Value = float | str
"""Value of a config key; words such as `all` come after the numbers."""
COLUMNS = ("row_key", "row_value", "column_key", "column_value", "series", "arm", "feedback_source", "n", "share",
           "low", "high")  # fmt: skip
Cells = Mapping[tuple[Value, Value], tuple[Arm, Rate]]
"""Arm and share by the values of the key down and the key across."""


def heat_map(grid: Cells, keys: tuple[str, str], limits: tuple[float, float], title: str, ax: Axes) -> Axes:
    """Draw a cell per pair of values, with its rate in per cent, interval and n; empty where there is no arm.

    `keys`: down, "" for a single row, and across; `limits`: shares of the lightest and the darkest cell.
    """
    from matplotlib.colors import LinearSegmentedColormap

    # numbers first, then words
    down, across = (sorted({p[side] for p in grid}, key=lambda each: (isinstance(each, str), each)) for side in (0, 1))
    shares = np.full((len(down), len(across)), np.nan)
    low, high = limits
    for (first, second), (arm, share) in grid.items():
        y, x = down.index(first), across.index(second)
        shares[y, x] = share.value
        text = f"{cells.number(share.value)} %\n{cells.interval(share.low, share.high)}\nn = {len(arm.judged)}"
        text += f"\n{UPPER_BOUND}" * arm.is_upper_bound
        colour = "white" if share.value - low > 0.38 * (high - low) else INK
        ax.text(x, y, text, ha="center", va="center", fontsize=8, color=colour, linespacing=1.4, gid="cell")
    blues = LinearSegmentedColormap.from_list("blues", ("#EAF3FA", "#0072B2", "#00395A"))
    ax.imshow(shares, cmap=blues, vmin=low, vmax=high, aspect="auto", gid="map")
    ax.set_xticks(range(len(across)), [_text(value) for value in across])
    ax.set_yticks(range(len(down)), [_text(value) for value in down])
    ax.set(ylabel=key_name(keys[0]), xlabel=key_name(keys[1]))
    ax.set_title(title, loc="left", fontsize=9)
    ax.tick_params(length=0, colors=INK, labelsize=9)
    ax.spines[:].set_visible(False)
    return watermark(ax) if any(arm.is_upper_bound for arm, _ in grid.values()) else ax


@figure(40, missing=("no swept config key", "runs of a sweep over numbers, or keys="))
def drawing(arms: Sequence[Arm], keys: Sequence[str] = ()) -> Drawing | None:
    """A panel per set of arms that differ in these keys alone; None where none is swept.

    `keys`: one key, or the key down and the key across; by default those that are swept, two at most. Raises
    ConfigError: no arm has such a key.
    """
    selected = tuple(keys or sorted(swept(arms), reverse=True)[:2])
    if not selected:
        return None
    for key in selected:
        if not any(key in config(arm) for arm in arms):
            known = ", ".join(swept(arms)) or "recall.omega"
            raise ConfigError("keys", repr(key), f"a dotted config key of an arm, such as {known}")
    pair = ("", *selected)[-2:]
    grids: dict[str, dict[tuple[Value, Value], tuple[Arm, Rate]]] = {}
    for arm in arms:
        if all(key in config(arm) for key in selected):
            down, across = (value_of(config(arm).get(key, "")) for key in pair)
            grids.setdefault(series(arm, selected), {})[down, across] = arm, arm.share(arm.verdicts())
    sides = range(2 - len(selected), 2)
    grids = {name: grid for name, grid in grids.items() if all(len({p[side] for p in grid}) > 1 for side in sides)}
    if not grids:
        return None
    drawn = [arm for grid in grids.values() for arm, _ in grid.values()]
    rows = [
        (pair[0], first, pair[1], second, name, arm.label, arm.feedback_source, len(arm.judged), share.value, share.low,
         share.high)
        for name, grid in grids.items()
        for (first, second), (arm, share) in grid.items()
    ]  # fmt: skip
    limits = share_limits([share.value for grid in grids.values() for _, share in grid.values()], room=0.0)
    colours = f"Colour: {100 * limits[0]:.0f} to {100 * limits[1]:.0f} %."
    outside = f"In no grid: {len(arms) - len(drawn)} of {len(arms)} arms. " * (len(drawn) < len(arms))
    text = f"{outside}{colours} 95 % intervals: {share_methods(drawn)}. {facts(drawn)}"
    panels = [
        functools.partial(heat_map, grid, (pair[0], pair[1]), limits, name if name != "all arms" else "")
        for name, grid in grids.items()
    ]
    wide, high = (max(len({p[side] for p in grid}) for grid in grids.values()) for side in (1, 0))
    metric = UPPER_BOUND if all(arm.is_upper_bound for arm in drawn) else "pass@1"
    title = f"{metric} over {' and '.join(map(key_name, selected))}"
    return Drawing("heat_map", title, panels, COLUMNS, rows, text, (1.2 + 1.25 * wide, 0.9 + 0.8 * high))


def swept(arms: Sequence[Arm]) -> list[str]:
    """Config keys with numbers in which some arms differ while all else is equal."""
    configs = [config(arm) for arm in arms]
    keys = dict.fromkeys(key for config in configs for key in config)
    return [key for key in keys if not is_seeded(key) and _varies(configs, key)]


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
    left_out = {f"{name}{sign}{config(arm)[key]}" for key in keys for name in names_of(key) for sign in ("=", "")}
    words = [word for word in arm.label.split(" ") if word not in left_out]
    name = " ".join(words) or "all arms"
    return f"{name} ({UPPER_BOUND})" if arm.is_upper_bound else name


def value_of(value: object) -> Value:
    """A number, or the value as text."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _text(value: Value) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def key_name(key: str) -> str:
    """`Ω (recall.omega)`, or the key alone."""
    return f"{SYMBOLS[key]} ({key})" if key in SYMBOLS else key
