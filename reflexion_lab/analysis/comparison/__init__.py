"""Comparison of arms: figures of each, and its paired difference to a baseline."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from msgspec.structs import replace

from reflexion_lab.analysis.arms import Arm, arms, flat
from reflexion_lab.analysis.ceiling import Ceiling, ceilings
from reflexion_lab.analysis.comparison.budgets import check_unit
from reflexion_lab.analysis.comparison.row import Row, corrected, row
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Manifest, Record
from reflexion_lab.runner.folder import registration
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.runner.folder.registration import Registration

PREFERRED = "feedback_only"
"""The default baseline: the same loop without reflections."""


class Comparison(Record, frozen=True, kw_only=True):
    """A row per arm, in the order of the arms."""

    benchmark: str
    baseline: str | None
    """None if every arm is an upper bound."""
    unit: str
    """Unit of the equal budget: `tokens`, `calls` or `cost`."""
    rows: tuple[Row, ...]
    ceilings: tuple[Ceiling, ...] = ()
    """Effects of words beside those of true words; () without an arm of true words."""


def compare(
    arms: Sequence[Arm],
    baseline: str | None = None,
    unit: str = "tokens",
    one_seed: bool = False,
    study: Registration | None = None,
) -> Comparison:
    """Figures of `arms` and their differences to a baseline.

    Parameters
    ----------
    baseline : str | None, optional
        Label of an arm; by default `feedback_only` if present, else the first arm that is not an upper bound.
    unit : str, default "tokens"
        Unit of the equal budget: `tokens`, `calls` or `cost`.
    one_seed : bool, default False
        Include differences based on one seed.
    study : Registration | None, optional
        Registered study; without one every comparison is exploratory.

    Raises
    ------
    ConfigError
        No arm; two arms of one name; an unknown unit or baseline; different benchmarks; no case in common with the
        baseline; `cost` without prices.
    """
    check_unit(unit)
    _check_names(arms)
    _check_benchmarks(arms)
    base = _baseline(arms, baseline)
    longest = max(arm.longest for arm in arms)
    rows = [row(arm, base, longest, unit, one_seed, study) for arm in arms]
    _check_prices(rows, unit)
    return Comparison(
        benchmark=arms[0].logs[0].manifest.benchmark,
        baseline=base.label if base else None,
        unit=unit,
        rows=tuple(_as_family(_as_family(rows, "as_run"), "matched")),
        ceilings=ceilings(arms, base),
    )


def _check_names(arms: Sequence[Arm]) -> None:
    if not arms:
        raise ConfigError("arms", "none", "at least one")
    labels = [arm.label for arm in arms]
    if repeated := [label for label in labels if labels.count(label) > 1]:
        raise ConfigError("arms", f"two of the name {repeated[0]!r}", "different names", "name keys with --by")


def _check_benchmarks(arms: Sequence[Arm]) -> None:
    """All arms need one benchmark, and all runs of a seed the same tasks."""
    manifests = [(arm, log.manifest) for arm in arms for log in arm.logs]
    first: dict[int, tuple[Arm, Manifest]] = {}
    for arm, manifest in manifests:
        for other, known in (manifests[0], first.setdefault(manifest.seed, (arm, manifest))):
            digests = (known.benchmark_digest, manifest.benchmark_digest) if known.seed == manifest.seed else ("", "")
            if known.benchmark != manifest.benchmark or digests[0] != digests[1]:
                sides = (other, known, digests[0]), (arm, manifest, digests[1])
                benchmarks = " and ".join(
                    f"{it.benchmark} {digest[:12]} in {arm.label}, {it.run_id}" for arm, it, digest in sides
                )
                raise ConfigError("benchmark", benchmarks, "one benchmark, and the same tasks at a seed")


def _check_prices(rows: Sequence[Row], unit: str) -> None:
    if unit == "cost" and (free := [row.arm for row in rows if unit in row.unknown]):
        raise ConfigError("unit", f"cost, but {free[0]} has no prices", "runs with them", "take tokens or calls")
    if unit == "cost" and len(paid := sorted({name for row in rows for name in row.currencies})) > 1:
        raise ConfigError("unit", f"cost, in {', '.join(paid)}", "one currency", "take tokens or calls")


def _baseline(arms: Sequence[Arm], label: str | None) -> Arm | None:
    eligible = {arm.label: arm for arm in arms if not arm.is_upper_bound}
    if label is None:
        preferred = (arm for name, arm in eligible.items() if name.split(" ")[0] == PREFERRED)
        return next(preferred, next(iter(eligible.values()), None))
    if label in eligible:
        return eligible[label]
    if any(arm.label == label for arm in arms):
        raise ConfigError("baseline", f"{label!r}, an upper bound", "an arm that saw no hidden test")
    raise ConfigError("baseline", repr(label), f"one of the arms: {', '.join(eligible) or 'all are upper bounds'}")


def _as_family(rows: Sequence[Row], name: str) -> list[Row]:
    """Rows with Holm-adjusted p-values of the differences `name`; upper bounds are not in the family."""
    family = {row.arm: getattr(row, name) for row in rows if getattr(row, name) and not row.is_upper_bound}
    adjusted = dict(zip(family, corrected(list(family.values())), strict=True))
    return [replace(row, **{name: adjusted[row.arm]}) if row.arm in adjusted else row for row in rows]


def side_by_side(
    runs: Sequence[RunFolder],
    baseline: str | None = None,
    by: Sequence[str] = (),
    unit: str = "tokens",
    one_seed: bool = False,
) -> tuple[list[Arm], Comparison]:
    """Group `runs` into arms and compare them, by the registration of their study if they have one.

    Parameters
    ----------
    runs : Sequence[RunFolder]
        At most one per arm and seed.
    baseline, unit, one_seed
        See `compare`.
    by : Sequence[str], default ()
        See `arms.arms`.

    Raises
    ------
    ConfigError
        As `arms` and `compare`; or no run has a key of `by`.
    """
    _check_keys(runs, by)
    grouped = arms(runs, by)
    registered = [run for run in runs if run.manifest.study_digest]
    paths, manifests = [run.path for run in registered], [run.manifest for run in registered]
    study = registration.of_runs(paths, manifests) if registered else None
    return grouped, compare(grouped, baseline, unit, one_seed, study)


def _check_keys(runs: Sequence[RunFolder], by: Sequence[str]) -> None:
    known = list(dict.fromkeys(key for run in runs if by for key, _ in flat(run.manifest.config)))
    for key in by:
        if key not in known:
            similar = (difflib.get_close_matches(key, known, n=1) or ["recall.omega"])[0]
            raise ConfigError("by", repr(key), f"a config key of a run, such as {similar}")
