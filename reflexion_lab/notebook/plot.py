"""The lab's figures, one function each, for notebooks: every one takes and returns an Axes.

    import reflexion_lab as rl

    rl.plot.curves("runs/*")
    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 6), layout="constrained")
    rl.plot.curves(sweep, ax=left), rl.plot.budgets(sweep, ax=right, caption=False)

Common to all:

- `runs`: run folders, patterns such as "runs/*", runs and sweeps, as `run_folder.folders` takes them. Runs that differ
  in their seed alone are one arm.
- `ax`: where to draw; without it, on a new figure of pyplot's.
- `caption`: whether n, seeds, feedback source and method stand below; without it for papers, which have their own.

Raises FolderError where a folder is none, and ConfigError where the runs have nothing for a figure to show.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from reflexion_lab.errors import ConfigError
from reflexion_lab.runner.folder.folder import some_folders

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from reflexion_lab.analysis.arms import Arm
    from reflexion_lab.analysis.figures.drawing import Drawing

TOO_SHORT = "no loop with a second attempt", "runs with loop.max_attempts=2 or more"


def __dir__() -> list[str]:
    """The figures alone."""
    return [
        name for name, value in globals().items() if getattr(value, "__module__", "") == __name__ and name[0] != "_"
    ]


def curves(*runs: object, ax: Axes | None = None, caption: bool = True) -> Axes:
    """Share of tasks solved by attempt, with 95 % intervals: bands, or bars where there are many arms."""
    from reflexion_lab.analysis.figures.curves import drawing

    return _drawn("curves", drawing(_arms(runs)), ax, caption)


def budgets(
    *runs: object,
    unit: Literal["tokens", "calls", "cost"] = "tokens",
    ax: Axes | None = None,
    caption: bool = True,
) -> Axes:
    """Share of tasks solved against what a case spends, and the convex hull of all that is no upper bound."""
    from reflexion_lab.analysis.figures.budgets import drawing

    missing = f"no run that says what it spent in {unit}", "one at least, or another unit"
    return _drawn("budgets", drawing(_arms(runs), units=(unit,)), ax, caption, missing)


def differences(
    *runs: object,
    baseline: str | None = None,
    unit: Literal["tokens", "calls", "cost"] = "tokens",
    one_seed: bool = False,
    ax: Axes | None = None,
    caption: bool = True,
) -> Axes:
    """Each arm's paired difference to the baseline, as run and at equal spending; grey: too small to be found.

    Parameters
    ----------
    baseline : str | None, optional
        An arm's name; by default `feedback_only`, or the first arm that is no upper bound.
    one_seed : bool, default False
        Also differences that rest on one seed, which are refused otherwise.
    """
    from reflexion_lab.analysis.comparison import compare
    from reflexion_lab.analysis.figures.differences import drawing
    from reflexion_lab.analysis.figures.drawing import readable, renamed

    arms = _read(runs)
    comparison, names = compare(arms, baseline, unit, one_seed), readable(arms)
    refused = "".join(f"; {row.arm}: {row.refused}" for row in comparison.rows if row.refused)
    missing = "no difference to a baseline", f"two arms or more on the same tasks and seeds{refused}"
    return _drawn("differences", drawing(renamed(comparison, names), list(names.values())), ax, caption, missing)


def outcome_map(*runs: object, arm: str | None = None, ax: Axes | None = None, caption: bool = True) -> Axes:
    """The hidden outcome of every attempt at every task, the easiest task on top; of one arm."""
    from reflexion_lab.analysis.figures.outcome_map import drawing

    return _drawn("outcome_map", drawing([_one(runs, arm)]), ax, caption)


def transitions(*runs: object, arm: str | None = None, ax: Axes | None = None, caption: bool = True) -> Axes:
    """Tasks that each further attempt keeps solved, fixes and breaks, by hidden verdicts; of one arm."""
    from reflexion_lab.analysis.figures.transitions import drawing

    return _drawn("transitions", drawing([_one(runs, arm)]), ax, caption, TOO_SHORT)


def survival(*runs: object, ax: Axes | None = None, caption: bool = True) -> Axes:
    """Share of tasks not solved yet, by attempt (Kaplan-Meier)."""
    from reflexion_lab.analysis.figures.survival import drawing

    return _drawn("survival", drawing(_arms(runs)), ax, caption, TOO_SHORT)


def repairs(
    *runs: object,
    until: Literal["next", "end"] = "next",
    ax: Axes | None = None,
    caption: bool = True,
) -> Axes:
    """Share of failures fixed, by failure class.

    Parameters
    ----------
    until : {'next', 'end'}, default "next"
        `next`: by the next attempt's program; `end`: by what was submitted in the end.
    """
    from reflexion_lab.analysis.figures.repairs import drawing

    missing = "no failed attempt with another behind it", "runs with loop.max_attempts=2 or more"
    return _drawn("repairs", drawing(_arms(runs), until=(until,)), ax, caption, missing)


def similarity(*runs: object, later: bool = False, ax: Axes | None = None, caption: bool = True) -> Axes:
    """Share of attempts that passed, by how near the nearest episode or mistake of another task was that they read.

    Parameters
    ----------
    later : bool, default False
        Of later attempts, instead of the first ones.
    """
    from reflexion_lab.analysis.figures.similarity import drawing

    missing = "no attempt that read an episode or mistake of another task", "runs with recall=similar"
    return _drawn("similarity", drawing(_arms(runs), later=(later,)), ax, caption, missing)


def over(
    *runs: object,
    key: str = "recall.omega",
    ax: Axes | None = None,
    caption: bool = True,
) -> Axes:
    """Share of tasks solved over the values of a config key, such as recall.omega or recall.k."""
    from reflexion_lab.analysis.figures.config_curves import drawing

    return _drawn("over", drawing(_arms(runs), key), ax, caption)


def feedback(*runs: object, ax: Axes | None = None, caption: bool = True) -> Axes:
    """How often the feedback tests are wrong: false positives and false negatives."""
    from reflexion_lab.analysis.figures.feedback import drawing

    missing = "no arm with feedback of its own", "feedback_source=visible or self_tests"
    return _drawn("feedback", drawing(_arms(runs)), ax, caption, missing)


def reliability(
    *runs: object,
    source: str | None = None,
    arm: str | None = None,
    ax: Axes | None = None,
    caption: bool = True,
) -> Axes:
    """Confidence of reflections against how often the next attempt passed; of one arm.

    Parameters
    ----------
    source : str | None, optional
        Where the confidence is from: `stated`, `class` or `measured`; by default the most frequent.
    """
    from reflexion_lab.analysis.figures.reflection_panels import confidence

    missing = "no reflection with a confidence that the next attempt read", "reflector=llm or rules"
    return _drawn("reliability", confidence(_one(runs, arm), source), ax, caption, missing)


def flags(*runs: object, arm: str | None = None, ax: Axes | None = None, caption: bool = True) -> Axes:
    """What is wrong with reflections, as a share of them; of one arm."""
    from reflexion_lab.analysis.figures.reflection_panels import flagged

    return _drawn(
        "flags", flagged(_one(runs, arm)), ax, caption, ("no reflection with a flag", "reflections that were reviewed")
    )


def effects(run: object, ax: Axes | None = None, caption: bool = True, *, arm: str | None = None) -> Axes:
    """Success of the retries that read a reflection, by failure class, less the base rate; of one run. Of several seeds
    of an arm it is the first, and the caption says which.
    """
    from reflexion_lab.analysis.figures.reflection_panels import read

    return _drawn("effects", read(_one([run], arm)), ax, caption, ("no retry that read a reflection", "one at least"))


def _read(runs: Sequence[object]) -> list[Arm]:
    from reflexion_lab.analysis.arms import arms

    return arms(some_folders(*runs))


def _arms(runs: Sequence[object]) -> list[Arm]:
    from reflexion_lab.analysis.figures.drawing import readable

    return list(readable(_read(runs)).values())


def _one(runs: Sequence[object], name: str | None) -> Arm:
    from reflexion_lab.analysis.figures.drawing import readable

    by_name = readable(_read(runs))
    if name is None and len(by_name) == 1:
        return next(iter(by_name.values()))
    if name in by_name:
        return by_name[name]
    expected = "one, since an Axes has room for one; say which by arm=" if name is None else "one of these"
    raise ConfigError("arm", repr(name or len(by_name)), f"{expected}: {', '.join(by_name)}")


def _drawn(
    name: str, drawing: Drawing | None, ax: Axes | None, caption: bool, missing: tuple[str, str] = ("", "")
) -> Axes:
    from reflexion_lab.analysis.figures.drawing import on_axes

    if drawing is None:
        raise ConfigError(name, *missing)
    if len(drawing.panels) > 1:
        raise ConfigError(name, f"{len(drawing.panels)} panels", "one, as fewer arms give", "`report` draws them all")
    return on_axes(drawing, ax, caption)
