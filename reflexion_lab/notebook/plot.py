"""The figures for notebooks, one function each, which takes and returns an Axes.

    import reflexion_lab as rl

    rl.plot.curves("runs/*")
    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 6), layout="constrained")
    rl.plot.curves(sweep, ax=left), rl.plot.budgets(sweep, ax=right, caption=False)

Common to all:

- `runs`: run folders, patterns such as "runs/*", runs and sweeps. Runs that differ only in their seed are one arm.
- `arm`, `baseline`: an arm's name in full, or in short as figures show it (`Ω3 a4`).
- `ax`: the Axes to draw on; by default those of a new pyplot figure.
- `caption`: write title, n, seeds, feedback source and kind of interval; off for papers, which have their own.

Raises FolderError for a folder that is no run, and ConfigError where the runs have no data for the figure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.comparison import compare
from reflexion_lab.analysis.comparison.grouping import arms
from reflexion_lab.analysis.figures import budgets as _budgets
from reflexion_lab.analysis.figures import calibration as _calibration
from reflexion_lab.analysis.figures import curves as _curves
from reflexion_lab.analysis.figures import differences as _differences
from reflexion_lab.analysis.figures import heat_map as _heat_map
from reflexion_lab.analysis.figures import memory as _memory
from reflexion_lab.analysis.figures import outcome_map as _outcome_map
from reflexion_lab.analysis.figures import retrieval as _retrieval
from reflexion_lab.analysis.figures import transitions as _transitions
from reflexion_lab.analysis.figures.drawing import Drawing, on_axes, readable
from reflexion_lab.analysis.learning.checkpoints import ITEMS, is_frozen
from reflexion_lab.errors import ConfigError
from reflexion_lab.runner.folder.folder import some_folders

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Unit = Literal["completion_tokens", "tokens", "calls", "cost"]
KEY = re.compile(r"[a-z_]+(\.[a-z_]+)+")
"""A dotted config key."""
TOO_SHORT = "no loop with a second attempt", "runs with loop.max_attempts=2 or more"


def __dir__() -> list[str]:
    """Names of the figures."""
    public = {name: value for name, value in globals().items() if name[0] != "_"}
    return [name for name, value in public.items() if getattr(value, "__module__", "") == __name__]


def curves(*runs: object, ax: Axes | None = None, caption: bool = True) -> Axes:
    """Share of tasks solved by attempt, with 95 % intervals: bands, or bars where there are many arms.

    Examples
    --------
    >>> axes = rl.plot.curves(sweep)
    >>> axes.get_xlabel()
    'loop cut at attempt'
    """
    return _drawn("curves", _curves.drawing(_arms(runs), is_single=ax is not None), ax, caption)


def budgets(*runs: object, unit: Unit = "tokens", ax: Axes | None = None, caption: bool = True) -> Axes:
    """Share of tasks solved against mean spending per case, with the convex hull of all arms but upper bounds."""
    missing = f"no run with known spending in {unit}", "at least one, or another unit"
    return _drawn("budgets", _budgets.drawing(_arms(runs), units=(unit,)), ax, caption, missing)


def differences(
    *runs: object,
    baseline: str | None = None,
    unit: Unit | Literal["attempts"] | None = None,
    ax: Axes | None = None,
    caption: bool = True,
) -> Axes:
    """Each arm's paired difference to the baseline at equal budgets; grey: not detectable at 80 % power.

    Parameters
    ----------
    baseline : str | None, optional
        Arm name; by default that of the registered study, else `feedback_only`, `retry` or `simple`, else the lab's
        default cell of a grid, else the first arm that is no upper bound.
    unit : {'attempts', 'completion_tokens', 'tokens', 'calls', 'cost'} | None, optional
        See `notebook.compare.compare`.

    Examples
    --------
    >>> rl.plot.differences(sweep).get_xlabel()
    'solved, percentage points above retry'
    """
    arms = _read(runs)
    comparison, names = compare(arms, baseline, unit), readable(arms)
    refused = "".join(f"; {row.arm}: {row.refused}" for row in comparison.rows if row.refused)
    missing = "no difference to a baseline", f"two arms or more on the same tasks and seeds{refused}"
    short = comparison.renamed({label: arm.label for label, arm in names.items()})
    drawing = _differences.drawing(short, list(names.values()))
    return _drawn("differences", drawing, ax, caption, missing)


def outcome_map(*runs: object, arm: str | None = None, ax: Axes | None = None, caption: bool = True) -> Axes:
    """Hidden outcome of every attempt at every task, the easiest task on top; of one arm.

    Examples
    --------
    >>> rl.plot.outcome_map(run).get_xlabel()
    'attempt'
    """
    return _drawn("outcome_map", _outcome_map.drawing([_single_arm(runs, arm)]), ax, caption)


def transitions(*runs: object, arm: str | None = None, ax: Axes | None = None, caption: bool = True) -> Axes:
    """Programs that each further attempt keeps, repairs and damages, by hidden verdicts; of one arm."""
    return _drawn("transitions", _transitions.drawing([_single_arm(runs, arm)]), ax, caption, TOO_SHORT)


def memory(*runs: object, ax: Axes | None = None, caption: bool = True) -> Axes:
    """Share of tasks solved in each part of the stream, of arms with a curator and those beside them."""
    missing = "no run whose curator shows the order of the stream", "runs with curator="
    return _drawn("memory", _memory.drawing(_arms(runs)), ax, caption, missing)


def retrieval(*runs: object, later: bool = False, ax: Axes | None = None, caption: bool = True) -> Axes:
    """Share of attempts that passed, by the number of items of other loops that they read.

    Parameters
    ----------
    later : bool, default False
        Draw later attempts instead of first ones.
    """
    missing = "no attempt that read an item of another loop", "runs with recall=similar or a shared memory"
    return _drawn("retrieval", _retrieval.drawing(_arms(runs), later=(later,)), ax, caption, missing)


def heat_map(*runs: object, keys: str | tuple[str, ...] = (), ax: Axes | None = None, caption: bool = True) -> Axes:
    """Share of tasks solved over one config key, such as recall.omega, or two, with interval and n in each cell: a map
    for each value of other keys that are swept.

    Parameters
    ----------
    keys : str | tuple[str, ...], optional
        A key, or the key down and the key across, which may also follow the runs; by default those that are swept.
    """
    selected = (keys,) if isinstance(keys, str) else tuple(keys)
    after = [run for run in runs if isinstance(run, str) and KEY.fullmatch(run) and not Path(run).exists()]
    selected, runs = selected or tuple(map(str, after)), tuple(run for run in runs if run not in after)
    missing = "no swept config key", "runs of a sweep over numbers, or keys="
    return _drawn("heat_map", _heat_map.drawing(_arms(runs, *selected), selected), ax, caption, missing)


def calibration(
    *runs: object, source: str | None = None, arm: str | None = None, ax: Axes | None = None, caption: bool = True
) -> Axes:
    """Confidence of reflections against the share of next attempts that passed; of one arm.

    Parameters
    ----------
    source : str | None, optional
        Source of the confidence: `stated`, `class` or `measured`; by default the most frequent.
    """
    missing = "no reflection with a confidence that the next attempt read", "reflector=llm or rules"
    return _drawn("calibration", _calibration.drawing([_single_arm(runs, arm)], source), ax, caption, missing)


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


def _drawn(
    name: str, drawing: Drawing | None, ax: Axes | None, caption: bool, missing: tuple[str, str] = ("", "")
) -> Axes:
    if drawing is None:
        raise ConfigError(name, *missing)
    if len(drawing.panels) > 1 and ax is not None:
        hint = "without ax= they are drawn on a new figure; or pass the runs of one panel"
        raise ConfigError(name, f"one ax= and {len(drawing.panels)} panels", "an Axes for each", hint)
    return on_axes(drawing, ax, caption)
