"""Arms side by side, and each against a baseline: the least that an honest table of Reflexion has to say."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from msgspec.structs import replace

from reflexion_lab.analysis.arms import Arm, arms, flat
from reflexion_lab.analysis.comparison.budgets import UNITS
from reflexion_lab.analysis.comparison.row import Row, corrected, row
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Manifest, Record
from reflexion_lab.runner.folder import registration
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.runner.folder.registration import Registration

PREFERRED = "feedback_only"
"""The baseline where there is such an arm: the same loop without anybody's words."""


class Comparison(Record, frozen=True, kw_only=True):
    """Rows in the order of the arms."""

    benchmark: str
    baseline: str | None
    """None where every arm is an upper bound."""
    unit: str
    """What the second difference of a row is matched by: `tokens`, `calls` or `cost`."""
    rows: tuple[Row, ...]


def compare(
    arms: Sequence[Arm],
    baseline: str | None = None,
    unit: str = "tokens",
    one_seed: bool = False,
    study: Registration | None = None,
) -> Comparison:
    """All figures of `arms`.

    Parameters
    ----------
    baseline : str | None, optional
        An arm's label; by default `feedback_only` where there is such an arm, else the first one that is no
        upper bound.
    unit : str, default "tokens"
        `tokens`, `calls` or `cost`, which the second difference is matched by.
    one_seed : bool, default False
        Also say differences that rest on one seed, which are refused otherwise.
    study : Registration | None, optional
        What was registered; without it every comparison is exploratory.

    Raises
    ------
    ConfigError
        No arm; two of one name; an unknown unit or baseline; arms of different benchmarks, or without a
        case in common with the baseline; `cost` of arms that have none.
    """
    if unit not in UNITS:
        raise ConfigError("unit", repr(unit), f"one of {', '.join(UNITS)}")
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
    )


def _check_names(arms: Sequence[Arm]) -> None:
    """Raises ConfigError."""
    if not arms:
        raise ConfigError("arms", "none", "one at least")
    labels = [arm.label for arm in arms]
    if twice := [label for label in labels if labels.count(label) > 1]:
        raise ConfigError("arms", f"two of the name {twice[0]!r}", "names that differ", "name keys with --by")


def _check_benchmarks(arms: Sequence[Arm]) -> None:
    """Raises ConfigError where arms, or runs of one seed, are of different data."""
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
    """Raises ConfigError."""
    if unit == "cost" and (free := [row.arm for row in rows if unit in row.unknown]):
        raise ConfigError("unit", f"cost, but {free[0]} has no prices", "runs with them", "take tokens or calls")
    if unit == "cost" and len(paid := sorted({name for row in rows for name in row.currencies})) > 1:
        raise ConfigError("unit", f"cost, in {', '.join(paid)}", "one currency", "take tokens or calls")


def _baseline(arms: Sequence[Arm], label: str | None) -> Arm | None:
    """Raises ConfigError."""
    able = {arm.label: arm for arm in arms if not arm.is_upper_bound}
    if label is None:
        named = (arm for name, arm in able.items() if name.split(" ")[0] == PREFERRED)
        return next(named, next(iter(able.values()), None))
    if label in able:
        return able[label]
    if any(arm.label == label for arm in arms):
        raise ConfigError("baseline", f"{label!r}, an upper bound", "an arm that saw no hidden test")
    raise ConfigError("baseline", repr(label), f"one of the arms: {', '.join(able) or 'all are upper bounds'}")


def _as_family(rows: Sequence[Row], name: str) -> list[Row]:
    """The rows with the p of their differences `name` corrected for each other; an upper bound claims nothing."""
    claims = {row.arm: claim for row in rows if (claim := getattr(row, name)) and not row.is_upper_bound}
    after = dict(zip(claims, corrected(list(claims.values())), strict=True))
    return [replace(row, **{name: after[row.arm]}) if row.arm in after else row for row in rows]


def side_by_side(
    runs: Sequence[RunFolder],
    baseline: str | None = None,
    by: Sequence[str] = (),
    unit: str = "tokens",
    one_seed: bool = False,
) -> tuple[list[Arm], Comparison]:
    """The arms that `runs` make, compared; what their study registered is held apart from what is exploratory.

    Parameters
    ----------
    runs : Sequence[RunFolder]
        At most one an arm and seed.
    baseline, unit, one_seed : str | None, optional
        As of `comparison.compare`.
    by : Sequence[str], default ()
        As of `arms.arms`.

    Raises
    ------
    ConfigError
        As `arms` and `compare`, what is wrong, and of which run; or no run has a key of `by`.
    """
    _check(runs, by)
    grouped = arms(runs, by)
    mine = [run for run in runs if run.manifest.study_digest]
    study = registration.of_runs([run.path for run in mine], [run.manifest for run in mine]) if mine else None
    return grouped, compare(grouped, baseline, unit, one_seed, study)


def _check(runs: Sequence[RunFolder], by: Sequence[str]) -> None:
    known = list(dict.fromkeys(key for run in runs if by for key, _ in flat(run.manifest.config)))
    for key in by:
        if key not in known:
            near = (difflib.get_close_matches(key, known, n=1) or ["recall.omega"])[0]
            raise ConfigError("by", repr(key), f"a config key of a run, such as {near}")
