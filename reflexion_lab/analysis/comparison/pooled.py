"""The same two arms in several studies, benchmarks or models, pooled by a random-effects model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from reflexion_lab.analysis.comparison import Comparison, side_by_side
from reflexion_lab.analysis.comparison.row import Difference
from reflexion_lab.analysis.stats.meta import Pooled, pooled
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Manifest, Record
from reflexion_lab.runner.folder.folder import RunFolder

NO_STUDY = "no study"


class Effect(Record, frozen=True, kw_only=True):
    """The difference of one study."""

    study: str
    """Name that distinguishes it from the others: registered study, benchmark and model."""
    difference: Difference


class PooledArm(Record, frozen=True, kw_only=True):
    """An arm against the baseline, over studies."""

    arm: str
    budget: str
    """Budget of the differences, as in `Difference`."""
    effects: tuple[Effect, ...]
    pooled: Pooled


class PooledComparison(Record, frozen=True, kw_only=True):
    """A pooled difference per arm and budget."""

    baseline: str
    arms: tuple[PooledArm, ...]
    studies: dict[str, Comparison]
    """By name of the study, the comparison of all of its arms."""
    left_out: tuple[str, ...]
    """Arms and studies without a pooled difference, with the reason."""
    shares_tasks: bool
    """Whether studies have a benchmark in common; their errors are then not independent."""


class _Key(NamedTuple):
    study: str
    digest: str
    """Digest of the registered study."""
    benchmark: str
    model: str

    @classmethod
    def of(cls, manifest: Manifest) -> _Key:
        roles = (f"{role}={name}" for role, name in sorted(manifest.role_fingerprints.items()))
        model = " ".join((manifest.model_fingerprint, *roles))
        return cls(manifest.study or NO_STUDY, manifest.study_digest, manifest.benchmark, model)


def over_studies(
    runs: Sequence[RunFolder],
    baseline: str | None = None,
    by: Sequence[str] = (),
    unit: str | None = None,
    one_seed: bool = False,
    over: str = "tasks",
) -> PooledComparison:
    """Compare the arms of each study, then pool the differences of each arm (`stats.meta.pooled`).

    Runs belong to one study if their registered study, benchmark and models are the same.

    Parameters
    ----------
    runs : Sequence[RunFolder]
        Of two studies or more.
    baseline, by, unit, one_seed, over
        As `side_by_side`; the baseline has to be that of every study.

    Raises
    ------
    ConfigError
        Fewer than two studies; different baselines; no arm with a difference in two studies; as `side_by_side`.
    """
    groups: dict[_Key, list[RunFolder]] = {}
    for run in runs:
        groups.setdefault(_Key.of(run.manifest), []).append(run)
    if len(groups) < 2:
        raise ConfigError("runs", f"{len(groups)} study", "runs that differ in study, benchmark or model")
    labels = _labels(list(groups))
    studies = {
        labels[key]: side_by_side(members, baseline, by, unit, one_seed, over=over)[1]
        for key, members in groups.items()
    }
    baselines = dict.fromkeys(str(comparison.baseline) for comparison in studies.values())
    if len(baselines) > 1:
        raise ConfigError("baseline", " and ".join(baselines), "one for all studies", "name it with --baseline")
    arms, left_out = _pooled_arms(studies)
    if not arms:
        raise ConfigError("arms", "; ".join(left_out) or "no arm", "a difference of one arm in two studies")
    return PooledComparison(
        baseline=next(iter(baselines)),
        arms=tuple(arms),
        studies=studies,
        left_out=tuple(left_out),
        shares_tasks=len({key.benchmark for key in groups}) < len(groups),
    )


def _labels(keys: Sequence[_Key]) -> dict[_Key, str]:
    """By key, the parts in which the studies differ."""
    varying = [place for place, values in enumerate(zip(*keys, strict=True)) if len(set(values)) > 1]
    names = [place for place in varying if _Key._fields[place] != "digest"]
    is_distinct = len({tuple(key[place] for place in names) for key in keys}) == len(keys)
    return {key: ", ".join(key[place] for place in (names if is_distinct else varying)) for key in keys}


def _pooled_arms(studies: dict[str, Comparison]) -> tuple[list[PooledArm], list[str]]:
    effects: dict[tuple[str, str], list[Effect]] = {}
    left_out = []
    for study, comparison in studies.items():
        for row in comparison.rows:
            if row.arm == comparison.baseline:
                continue
            if row.is_upper_bound or row.refused:
                left_out.append(f"{row.arm} in {study}: {row.refused or 'an upper bound'}")
                continue
            for difference in row.differences.values():
                if reason := _without_error(difference):
                    left_out.append(f"{row.arm} in {study}, {difference.budget}: {reason}")
                else:
                    effect = Effect(study=study, difference=difference)
                    effects.setdefault((row.arm, difference.budget), []).append(effect)
            left_out += (f"{row.arm} in {study}: {reason}" for reason in dict.fromkeys(row.unmatched.values()))
    arms = []
    for (arm, budget), members in effects.items():
        if len(members) < 2:
            left_out.append(f"{arm}, {budget}: in {members[0].study} alone")
            continue
        differences = [effect.difference for effect in members]
        errors = [each.error for each in differences if each.error is not None]
        model = pooled([each.estimate.value for each in differences], errors)
        arms.append(PooledArm(arm=arm, budget=budget, effects=tuple(members), pooled=model))
    return arms, left_out


def _without_error(difference: Difference) -> str:
    """Why a difference cannot be pooled; "" if it can."""
    if difference.cut and not difference.cut.is_matched:
        return "not matched"
    return "too few clusters for a standard error" if difference.error is None else ""
