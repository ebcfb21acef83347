"""The figures for notebooks, one function each, which takes and returns an Axes.

    import reflexion_lab as rl

    rl.plot.curves("runs/*")
    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 6), layout="constrained")
    rl.plot.curves(sweep, ax=left), rl.plot.budgets(sweep, ax=right, caption=False)

Functions: `curves`, `budgets(unit=)`, `differences(baseline=, unit=)`, `heat_map(keys=)`, `transitions(arm=)`,
`outcome_map(arm=)`, `calibration(source=, arm=)`, `memory`, `retrieval(later=)`, and your own that are registered with
`@figure`; `rl.plot.NAME?` says what each draws. Common to all:

- `runs`: run folders, patterns such as "runs/*", runs and sweeps. Runs that differ only in their seed are one arm.
- `arm`, `baseline`: an arm's name in full, or in short as figures show it (`Ω3 a4`).
- `ax`: the Axes to draw on; by default those of a new pyplot figure.
- `caption`: write title, n, seeds, feedback source and kind of interval; off for papers, which have their own.

Raises FolderError for a folder that is no run, and ConfigError where the runs have no data for the figure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.comparison import compare
from reflexion_lab.analysis.comparison.grouping import arms
from reflexion_lab.analysis.figures.drawing import Registered, on_axes, readable, registered
from reflexion_lab.analysis.learning.checkpoints import ITEMS, is_frozen
from reflexion_lab.errors import ConfigError
from reflexion_lab.runner.folder.folder import some_folders

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KEY = re.compile(r"[a-z_]+(\.[a-z_]+)+")
"""A dotted config key."""


def __dir__() -> list[str]:
    return list(registered())


def __getattr__(name: str) -> Callable[..., Axes]:
    figures = {} if name.startswith("_") else registered()
    if name not in figures:
        raise AttributeError(f"module {__name__!r} has no figure {name!r}; it has {', '.join(figures)}")
    entry = figures[name]

    def draw(
        *runs: object, ax: Axes | None = None, caption: bool = True, arm: str | None = None, **options: Any
    ) -> Axes:
        missing = entry.missing
        if entry.is_compared:
            drawing, refused = _compared(entry, runs, **options)
            missing = missing[0], missing[1] + refused
        elif entry.is_single:
            drawing = entry.of([_single_arm(runs, arm)], **options)
        elif name == "heat_map":
            drawing = _over_keys(entry, runs, **options)
        else:
            drawing = entry.of(_arms(runs), **{**(entry.alone if ax or name != "curves" else {}), **options})
        if drawing is None:
            raise ConfigError(name, *missing)
        if len(drawing.panels) > 1 and ax is not None:
            hint = "without ax= they are drawn on a new figure; or pass the runs of one panel"
            raise ConfigError(name, f"one ax= and {len(drawing.panels)} panels", "an Axes for each", hint)
        return on_axes(drawing, ax, caption)

    draw.__name__, draw.__qualname__, draw.__doc__ = name, name, entry.of.__doc__
    return draw


def _compared(
    entry: Registered, runs: Sequence[object], baseline: str | None = None, unit: str | None = None
) -> tuple[Any, str]:
    """The drawing, and which arms have no difference, and why. Parameters: see `analysis.comparison.compare`."""
    each = _read(runs)
    comparison, names = compare(each, baseline, unit), readable(each)
    refused = "".join(f"; {row.arm}: {row.refused}" for row in comparison.rows if row.refused)
    short = comparison.renamed({label: arm.label for label, arm in names.items()})
    return entry.of(short, list(names.values())), refused


def _over_keys(entry: Registered, runs: Sequence[object], keys: str | Sequence[str] = ()) -> Any:
    """`keys`: a key, or the key down and the key across, which may also follow the runs; by default the swept ones."""
    selected = (keys,) if isinstance(keys, str) else tuple(keys)
    after = [run for run in runs if isinstance(run, str) and KEY.fullmatch(run) and not Path(run).exists()]
    selected, runs = selected or tuple(map(str, after)), tuple(run for run in runs if run not in after)
    return entry.of(_arms(runs, *selected), selected)


def _read(runs: Sequence[object], frozen: Literal["checkpoints", "arms"] = "checkpoints") -> list[Arm]:
    return arms(some_folders(*runs), frozen=frozen)


def _arms(runs: Sequence[object], *keys: str) -> list[Arm]:
    """Runs on frozen memory are arms of a drawing over a key of its items."""
    are_arms = any(key.startswith(ITEMS) for key in keys)
    every = _read(runs, "arms" if are_arms else "checkpoints")
    if f"{ITEMS}.after" in keys:  # null in a run that learns, too
        every = [arm for arm in every if is_frozen(arm.logs[0])]
    return list(readable(every).values())


def _single_arm(runs: Sequence[object], name: str | None) -> Arm:
    by_name = readable(_read(runs))
    if name is None and len(by_name) == 1:
        return next(iter(by_name.values()))
    for label, arm in by_name.items():
        if name in (label, arm.label):
            return arm
    expected = "one, since an Axes has room for one; name it with arm=" if name is None else "one of these"
    raise ConfigError("arm", repr(name or len(by_name)), f"{expected}: {', '.join(a.label for a in by_name.values())}")
