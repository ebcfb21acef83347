"""Comparison of arms: figures of each, and its paired difference to a baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.comparison.beginnings import began
from reflexion_lab.analysis.comparison.budgets import ATTEMPTS, UNITS, check_unit, currencies, is_known
from reflexion_lab.analysis.comparison.grid import Best, best_cell, default_cell
from reflexion_lab.analysis.comparison.grouping import arms, short_names
from reflexion_lab.analysis.comparison.lines import AS_RUN, EQUAL_ATTEMPTS, Difference, Line, corrected
from reflexion_lab.analysis.comparison.row import Row, is_tested, row
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Manifest, Record
from reflexion_lab.runner.config.build import suggestion
from reflexion_lab.runner.config.choices import by_choice
from reflexion_lab.runner.folder import registration
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.runner.folder.manifest import comparable, flat
from reflexion_lab.runner.folder.registration import Registration

CONTROLS = {
    "feedback_only": "the same loop without reflections",
    "retry": "repeated draws without feedback",
    "simple": "a single attempt",
}
"""Arms that are the default baseline, the first of them that is there, and what each one is."""
BUDGETS = (ATTEMPTS, "completion_tokens", "tokens")
"""Units of the equal budgets by default; and cost."""


class Comparison(Record, frozen=True, kw_only=True):
    """A row per arm, in the order of the arms."""

    benchmark: str
    baseline: str
    reason: str = ""
    """Why this arm is the baseline."""
    units: tuple[str, ...]
    """Units of the equal budgets."""
    unpriced: str
    """Why there is none at equal cost by default; "" if there is, or if another unit was asked for."""
    margin: float | None
    """Equivalence margin of the differences; None for none."""
    rows: tuple[Row, ...]
    best: Best | None = None
    """Of a sweep, the best of three cells or more."""
    left_out: tuple[str, ...] = ()
    """Names of runs that are unfinished, cannot be read, or repeat another."""

    def renamed(self, names: Mapping[str, str]) -> Comparison:
        """The same with other names of its arms, by their labels."""
        unpriced = self.unpriced
        for label in sorted(names, key=len, reverse=True):
            unpriced = unpriced.replace(label, names[label])
        return replace(
            self,
            baseline=names[self.baseline],
            unpriced=unpriced,
            rows=tuple(replace(row, arm=names[row.arm]) for row in self.rows),
            best=self.best and replace(self.best, arm=names[self.best.arm]),
        )

    @property
    def short(self) -> Comparison:
        """The same with short names of its arms (`arms.short_names`)."""
        return self.renamed(short_names([row.arm for row in self.rows]))

    def shown(self, row: Row) -> dict[str, Difference]:
        """The differences of `row` to print, by name: no tokens beside cost, and as run only where it is not at equal
        attempts. Beside a single attempt as run, and what does not end with the same first attempts.
        """
        at = row.differences.get(EQUAL_ATTEMPTS)
        left_out = {"equal_tokens"} if self.units == (*BUDGETS, "cost") else set()
        if at and at.attempts == 1:
            left_out |= {name for name, each in row.differences.items() if name != AS_RUN and not each.won + each.lost}
        elif at and not at.cut:
            left_out |= {AS_RUN}
        return {name: difference for name, difference in row.differences.items() if name not in left_out}

    @property
    def lines(self) -> list[Line]:
        every = ((row, line) for row in self.rows for line in row.lines)
        return [replace(line, arm=row.arm, baseline=self.baseline if line.budget else "") for row, line in every]

    @property
    def document(self) -> dict[str, Any]:
        """The comparison for JSON: its own fields, facts of the `arms`, and `lines`."""
        own = {name: getattr(self, name) for name in self.__struct_fields__ if name != "rows"}
        return own | {"arms": [_facts(row) for row in self.rows], "lines": [line.cells for line in self.lines]}


FACTS = ("feedback_source", "is_upper_bound", "study", "models", "run_ids", "shards", "seeds", "no_verdict", "calls",
         "reflections", "memory")  # fmt: skip
"""What an arm says that is no figure."""


def _facts(row: Row) -> dict[str, Any]:
    known = {name: getattr(row.of, name) for name in FACTS}
    known |= {name: getattr(row, name) for name in ("arm", "absent", "alone", "curve", "refused")}
    return known | {
        "unmatched": {budget.removeprefix("equal_"): reason for budget, reason in row.unmatched.items()},
        "unknown": [unit for unit in UNITS if not is_known(row.of, unit)],
        "currencies": currencies(row.of),
        "began": began(row.of.whole),
    }


def compare(
    arms: Sequence[Arm],
    baseline: str | None = None,
    unit: str | None = None,
    study: Registration | None = None,
    margin: float | None = None,
) -> Comparison:
    """Figures of `arms` and their differences to a baseline.

    Raises ConfigError: a margin out of range; no arm; two arms of one name; an unknown unit or baseline; different
    benchmarks; `cost` without prices. `baseline`: label of an arm, or its short name; by default that of the registered
    study, else `feedback_only`, `retry` or `simple`, else in a grid the cell with the lab's own values, else the first
    arm; an upper bound only where all arms are. `unit`: unit of a budget beside equal attempts: `completion_tokens`,
    `tokens`, `calls` or `cost`; `attempts` for none. By default completion tokens, tokens, and cost where all arms have
    a price in one currency. `study`: registered study; without one every comparison is exploratory. `margin`:
    equivalence margin in (0, 1]; by default that of the study, or none.
    """
    if unit not in (None, ATTEMPTS):
        check_unit(str(unit))
    if margin is None and study:
        margin = study.equivalence_margin or None
    if margin is not None and not 0 < margin <= 1:
        raise ConfigError("margin", margin, "a share in (0, 1]: 0.1 for 10 points")
    _check_names(arms)
    _check_benchmarks(arms)
    base, reason = _baseline(arms, baseline, study)
    longest = max(arm.longest for arm in arms)
    unpriced = _unpriced(arms)
    if unit == "cost" and unpriced:
        raise ConfigError("unit", f"cost, but {unpriced}", "prices in one currency", "take tokens or calls")
    units = BUDGETS + (() if unpriced else ("cost",)) if unit is None else tuple(dict.fromkeys((ATTEMPTS, unit)))
    rows = [row(arm, base, longest, units, study, margin) for arm in arms]
    return Comparison(
        benchmark=arms[0].logs[0].manifest.benchmark,
        baseline=base.label,
        reason=reason,
        units=units,
        unpriced="" if unit else unpriced,
        margin=margin,
        rows=tuple(_corrected(rows, units)),
        best=None if any(row.refused for row in rows) else best_cell(arms, base),
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
            if not comparable(known, manifest):
                benchmarks = " and ".join(
                    f"{it.benchmark} {it.benchmark_digest[:12]} in {arm.label}, {it.run_id}"
                    for arm, it in ((other, known), (arm, manifest))
                )
                hint = "--where benchmark=NAME, or benchmark.load.path=FILE, takes the runs of one"
                raise ConfigError("benchmark", benchmarks, "one benchmark, and the same tasks at a seed", hint)


def _unpriced(arms: Sequence[Arm]) -> str:
    """Why the arms cannot be compared by cost; "" if they can."""
    if free := [arm.label for arm in arms if not is_known(arm, "cost")]:
        return f"{free[0]} has no prices"
    paid = sorted({name for arm in arms for name in currencies(arm)})
    return f"prices are in {', '.join(paid)}" if len(paid) > 1 else ""


def _baseline(arms: Sequence[Arm], label: str | None, study: Registration | None) -> tuple[Arm, str]:
    """The baseline and the reason for it; an upper bound only where all arms are: its difference is none of pass@1."""
    eligible = {arm.label: arm for arm in arms if not arm.is_upper_bound} or {arm.label: arm for arm in arms}
    if label is None:
        if study and study.baseline in eligible:
            return eligible[study.baseline], "registered baseline"
        wanted = {study.baseline.split(" ")[0]: "registered baseline"} if study else {}  # labels depend on --by
        of_controls = (
            (reason, names)
            for control, reason in (wanted | CONTROLS).items()
            if (names := [name for name in eligible if name.split(" ")[0] == control])
        )
        reason, names = next(of_controls, ("", list(eligible)))
        cell = default_cell(names)
        words = ", ".join([reason] * bool(reason) + ["the lab's default"] * bool(cell))
        return eligible[cell or names[0]], words or "the first arm"
    short_of = short_names([arm.label for arm in arms])
    for name, short in short_of.items():
        if label in (name, short):
            if name in eligible:
                return eligible[name], "as asked"
            raise ConfigError("baseline", f"{label!r}, an upper bound", "an arm that saw no hidden test")
    known = ", ".join(short_of[name] for name in eligible)
    raise ConfigError("baseline", repr(label), f"one of the arms: {known}")


def _corrected(rows: Sequence[Row], units: Sequence[str]) -> list[Row]:
    """Rows with verdicts and Holm-adjusted p-values: a family for each budget (`is_tested`)."""
    by_arm = {row.arm: dict(row.differences) for row in rows}
    bases = [row.of for row in rows if not row.differences and not row.refused]
    tested = [row.arm for row in rows if is_tested(row, bases)]
    for name in (AS_RUN, *(f"equal_{unit}" for unit in units)):
        family = {arm: by_arm[arm][name] for arm in tested if name in by_arm[arm]}
        for arm, difference in zip(family, corrected(list(family.values())), strict=True):
            by_arm[arm][name] = difference
    return [replace(row, differences=_judged(by_arm[row.arm])) for row in rows]


def _judged(differences: Mapping[str, Difference]) -> dict[str, Difference]:
    at = differences.get(EQUAL_ATTEMPTS)
    return {name: replace(each, verdict=each.verdict_beside(at)) for name, each in differences.items()}


def side_by_side(
    runs: Sequence[RunFolder],
    baseline: str | None = None,
    by: Sequence[str] = (),
    unit: str | None = None,
    margin: float | None = None,
) -> tuple[list[Arm], Comparison]:
    """Group `runs` into arms and compare them, by the registration of their study if they have one.

    Raises ConfigError: as `arms.arms` and `compare`; or no run has a key of `by`. `runs`: at most one per arm and seed.
    `baseline`, `unit`, `margin`: see `compare`. `by`: see `arms.arms`.
    """
    _check_keys(runs, by)
    grouped = arms(runs, by)
    run_ids = {run_id for arm in grouped for log in (*arm.whole, *arm.checkpoints) for run_id in log.run_ids}
    registered = [run for run in runs if run.manifest.study_digest and run.manifest.run_id in run_ids]
    paths, manifests = [run.path for run in registered], [run.manifest for run in registered]
    study = registration.of_runs(paths, manifests) if registered else None
    left_out = tuple(run.path.name for run in runs if run.manifest.run_id not in run_ids)
    return grouped, replace(compare(grouped, baseline, unit, study, margin), left_out=left_out)


def _check_keys(runs: Sequence[RunFolder], by: Sequence[str]) -> None:
    configs = [(run.manifest.config, run.manifest.provenance.overrides) for run in runs if by]
    known = {key for values in (*(dict(flat(config)) for config, _ in configs), *by_choice(configs)) for key in values}
    for key in (key for key in by if key not in known):
        raise ConfigError("by", repr(key), "a config key of a run", suggestion(key, known))
