"""An arm in a comparison: its figures, and its paired differences to the baseline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any, cast

from msgspec.structs import replace

from reflexion_lab.analysis import metrics
from reflexion_lab.analysis.arms import Arm, Case
from reflexion_lab.analysis.comparison import arm_metrics  # noqa: F401 registers them
from reflexion_lab.analysis.comparison.budgets import ATTEMPTS, further, is_known, matched
from reflexion_lab.analysis.comparison.lines import AS_RUN, EQUAL_ATTEMPTS, Difference, Line, RetryPrice, compared
from reflexion_lab.analysis.metrics import Value
from reflexion_lab.analysis.stats.clusters import merged
from reflexion_lab.analysis.stats.intervals import TOLERANCE, Estimate, Rate
from reflexion_lab.analysis.stats.matching import area
from reflexion_lab.records import Record
from reflexion_lab.runner.folder.registration import Registration, exploratory

METRIC = "pass_at_1"
"""Name of the metric in a registration; at an equal budget, with a suffix such as `_equal_tokens`."""
NO_PAIR = "no task and seed in common"
PRICES = ("spend", "baseline_spend", "solved", "baseline_solved", "ratio", "break_even")
"""Figures of `RetryPrice`."""


class Row(Record, frozen=True, kw_only=True):
    """An arm beside a baseline. A case is one task at one seed; the cases of a cluster of tasks are one unit."""

    arm: str
    """Its label, or its short name."""
    of: Arm
    curve: tuple[float, ...]
    """Share of cases solved with every loop cut at attempt 1, 2, ... up to the longest loop of all arms."""
    absent: tuple[Case, ...]
    """Cases of the baseline that this arm lacks; excluded from differences."""
    alone: tuple[Case, ...]
    """Cases of this arm that the baseline lacks; excluded from differences."""
    refused: str
    """Why there is no difference; "" if there is one, and for the baseline."""
    unmatched: dict[str, str]
    """By budget, why there is a difference as run but none at that budget."""
    differences: dict[str, Difference]
    """By budget: as run; both arms cut at the same attempt (`equal_attempts`); or the more expensive of the two cut to
    the spending of the cheaper (`equal_tokens`)."""
    metrics: dict[str, Value]
    """Values of registered metrics by `Metric.key`, and the mean height of `curve`, in [0, 1]."""

    @property
    def metric(self) -> str:
        """Key of the share that is compared: `pass_at_1`, or `upper_bound`."""
        return _metric(self.of)

    @property
    def final(self) -> Rate:
        """Share of cases of which the submission passes."""
        return cast(Rate, self.metrics[self.metric])

    @property
    def first(self) -> Rate:
        """Share at attempt 1, the plain single attempt."""
        return cast(Rate, self.metrics[f"{self.metric}_first"])

    def rate(self, key: str) -> Rate | None:
        """The share of this key; None without a value."""
        value = self.metrics.get(key)
        return value if isinstance(value, Rate) else None

    def number(self, key: str) -> float:
        """The value of this key; 0 without one."""
        return metrics.numbers(key, self.metrics.get(key)).get(key, 0)

    @property
    def lines(self) -> Iterator[Line]:
        for name, value in self.metrics.items():
            yield from self._line(name, value)
        if self.refused:
            yield Line(metric=self.metric, budget=AS_RUN, verdict=self.refused)
        for budget, difference in self.differences.items():
            yield difference
            for name in PRICES if difference.price else ():
                for line in self._line(f"price_{name}", getattr(difference.price, name)):
                    yield replace(line, budget=budget, matched=difference.matched)
        for budget, reason in self.unmatched.items():
            yield Line(metric=self.metric, budget=budget, verdict=reason)

    def _line(self, metric: str, value: Value | None) -> Iterator[Line]:
        if isinstance(value, Rate | Estimate):
            is_of_arm = metric in (self.metric, f"{self.metric}_first")
            method = self.of.share_method if is_of_arm else getattr(value, "method", "")
            if (n := getattr(value, "n", None)) != 0:
                yield Line(metric=metric, value=value.value, low=value.low, high=value.high, n=n, method=method)
        elif value is not None:
            yield Line(metric=metric, value=value)


def row(
    arm: Arm,
    base: Arm,
    longest: int,
    units: Sequence[str],
    study: Registration | None = None,
    margin: float | None = None,
) -> Row:
    """The row of an arm in a comparison. `base`: the baseline.

    `longest`: attempts of the longest loop of all arms. `units`: of the equal budgets. `margin`: of equivalence.
    """
    curve = tuple(fmean(arm.verdicts(t).values()) for t in range(1, longest + 1))
    others = base.attempts.keys()
    refused = NO_PAIR if arm.judged.keys().isdisjoint(base.judged) else ""
    partner = None if refused or base is arm else base
    unmatched = _unmatched(arm, partner, units) if partner else {}
    budgets = [AS_RUN, *(f"equal_{unit}" for unit in units)] if partner else []
    return Row(
        arm=arm.label,
        of=arm,
        absent=tuple(sorted(others - arm.attempts.keys())),
        alone=tuple(sorted(arm.attempts.keys() - others)),
        curve=curve,
        refused=refused,
        unmatched=unmatched,
        differences={
            budget: _difference(arm, partner, budget, study, margin)
            for budget in budgets
            if partner and budget not in unmatched
        },
        metrics=metrics.in_arm(arm) | {f"{_metric(arm)}_area": float(area(curve))},
    )


def is_tested(row: Row, bases: Sequence[Arm]) -> bool:
    """Whether a row is in the family of tests: no A/A arm; an upper bound only against another one, since what hidden
    tests add is no effect of an arm.
    """
    return not any(row.of.is_again(base) or row.of.is_upper_bound > base.is_upper_bound for base in bases)


def _metric(arm: Arm) -> str:
    return "upper_bound" if arm.is_upper_bound else METRIC


def _unmatched(arm: Arm, base: Arm, units: Sequence[str]) -> dict[str, str]:
    missing = {
        unit: " or ".join(side.label for side in (arm, base) if not is_known(side, unit))
        for unit in units
        if unit != ATTEMPTS
    }
    return {f"equal_{unit}": f"{unit.replace('_', ' ')} of {names} unknown" for unit, names in missing.items() if names}


def _difference(arm: Arm, base: Arm, budget: str, study: Registration | None, margin: float | None) -> Difference:
    fields: dict[str, Any] = {}
    own, other = arm.verdicts(), base.verdicts()
    reasons = _exploratory(arm, base, METRIC if budget == AS_RUN else f"{METRIC}_{budget}", study, margin)
    if budget == EQUAL_ATTEMPTS:
        t, longer = min(arm.max_attempts, base.max_attempts), max(arm, base, key=lambda side: side.longest)
        own, other = arm.verdicts(t), base.verdicts(t)
        spends = (fmean(min(len(side.attempts[case]), t) for case in own.keys() & other.keys()) for side in (arm, base))
        fields |= {**dict(zip(("spend", "baseline_spend"), spends, strict=True)), "attempts": t, "matched": True}
        if longer.longest > t:
            fields["cut"] = longer.label
        else:  # it cuts nothing, and is registered where the difference as run is
            reasons = reasons and _exploratory(arm, base, METRIC, study, margin)
    elif budget != AS_RUN:
        unit = budget.removeprefix("equal_")
        pair = matched(base, arm, unit)
        own, other = pair.second, pair.first
        each = [further(side, unit, other.keys()) for side in (arm, base)]
        fields |= {
            "equal": pair.equal,
            "cut": ("", base.label, arm.label)[pair.cut_side],
            "spend": pair.second_spend,
            "baseline_spend": pair.first_spend,
            "matched": pair.is_matched,
            "price": RetryPrice(
                spend=each[0].spend, baseline_spend=each[1].spend, solved=each[0].solved, baseline_solved=each[1].solved
            ),
        }
    first = base.verdicts(1)
    fields |= {"budget": budget, "metric": _metric(arm), "reasons": "; ".join(reasons), "margin": margin}
    fields["room"] = fmean(other[case] - first[case] for case in own.keys() & other.keys())
    tested = arm.is_upper_bound <= base.is_upper_bound
    return compared(own, other, clusters=merged(base.clusters, arm.clusters), is_tested=tested, **fields)


def _exploratory(arm: Arm, base: Arm, metric: str, study: Registration | None, margin: float | None) -> list[str]:
    """Why this comparison is exploratory; [] where it was registered."""
    own, others = ([log.manifest for log in side.logs] for side in (arm, base))
    reasons = exploratory(study, metric, own, others)
    if study and margin and abs(margin - (study.equivalence_margin or 0)) > TOLERANCE:
        reasons.append(f"margin {margin:g}, registered was {study.equivalence_margin or 'none'}")
    return reasons
