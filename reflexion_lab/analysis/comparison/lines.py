"""A comparison as lines: one per arm, metric and budget. Table, JSON, screen, notebook and MLflow read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from reflexion_lab.analysis.arms import Case
from reflexion_lab.analysis.figures.style import UPPER_BOUND
from reflexion_lab.analysis.stats.bootstrap import MIN_TASKS, difference, paired_differences
from reflexion_lab.analysis.stats.clusters import ALONE, Clusters, are_shared, by_cluster
from reflexion_lab.analysis.stats.estimators import paired
from reflexion_lab.analysis.stats.intervals import EQUIVALENCE, LEVEL, PAIRED, TOLERANCE, Rate, score_limit
from reflexion_lab.analysis.stats.matching import Equal, break_even
from reflexion_lab.analysis.stats.permutation import holm, sign_flip
from reflexion_lab.analysis.stats.power import effective_pairs, minimum
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Record

AS_RUN, EQUAL_ATTEMPTS = "as_run", "equal_attempts"
PRICE, OPEN = "worse at this budget only", "worse at this budget; at equal attempts undecided"
REMATCHED = f"bootstrap over tasks, each draw matched again ({PAIRED} where fewer than {MIN_TASKS} differ)"
COLUMNS = (
    "arm", "metric", "budget", "baseline", "value", "low", "high", "method", "n", "tasks", "clusters", "won", "lost",
    "p", "p_tasks", "p_holm", "low_90", "high_90", "margin", "minimum", "room", "effective", "detected", "verdict",
    "exploratory", "reasons", "attempts", "spend", "baseline_spend", "matched",
)  # fmt: skip
"""What a line says, in the order of `table.csv`."""


class Line(Record, frozen=True, kw_only=True):
    """A figure of an arm; at a budget the price of a further attempt there, or why there is no difference."""

    arm: str = ""
    metric: str = "pass_at_1"
    """`Metric.key`: `upper_bound` in the place of `pass_at_1` where hidden tests or solutions reached the loops."""
    budget: str = ""
    """`as_run`, or `equal_` and the unit; "" for a figure of the arm alone."""
    baseline: str = ""
    """At a budget, the arm of comparison."""
    value: float | None = None
    """None where there is no difference: `verdict` tells why."""
    low: float | None = None
    high: float | None = None
    method: str = ""
    """Method of the 95 % interval from `low` to `high`."""
    n: int | None = None
    """Cases of a share; pairs of a difference."""
    verdict: str = ""
    """What a difference shows, in words."""
    reasons: str = ""
    """Why it is not the registered comparison; "" if it is."""
    matched: bool | None = None
    """Whether the budgets could be made equal: not if the first attempts alone of the more expensive arm cost more than
    all of the cheaper."""

    @property
    def cells(self) -> dict[str, Any]:
        """Values by column, without what it does not say."""
        values = {name: getattr(self, name, None) for name in COLUMNS}
        return {name: value for name, value in values.items() if value is not None and value != ""}


class RetryPrice(Record, frozen=True, kw_only=True):
    """Price of a further attempt, in one unit of spending, and its success; over the cases of both arms, as run."""

    spend: float
    """Mean spending on a further attempt of the arm (`budgets.further`)."""
    baseline_spend: float
    solved: Rate
    """Share of its further attempts on cases not yet solved that solve them."""
    baseline_solved: Rate

    @property
    def ratio(self) -> float | None:
        """Further attempts of the baseline for the price of one of the arm; None if those of the baseline are free."""
        return self.spend / self.baseline_spend if self.baseline_spend else None

    @property
    def break_even(self) -> float | None:
        """`matching.break_even`; None without a ratio, or without a further attempt of the baseline."""
        is_known = self.ratio is not None and self.baseline_solved.n
        return break_even(self.ratio or 0.0, self.baseline_solved.share) if is_known else None


class Difference(Line, frozen=True, kw_only=True):
    """Share of cases solved, arm minus baseline, over the cases of both: `value` is in [-1, 1]."""

    value: float
    low: float
    high: float
    n: int
    tasks: int
    """Tasks of these pairs."""
    clusters: int
    """Clusters of these tasks: the units of the interval and of `p_tasks`."""
    seeds: tuple[int, ...]
    low_90: float
    """The 90 % interval by the same method: the two one-sided tests of equivalence."""
    high_90: float
    margin: float | None = None
    """Equivalence margin; None for none."""
    won: int
    """Cases solved only by the arm; at an equal budget after one random cut."""
    lost: int
    """Cases solved only by the baseline."""
    p: float
    """Exact two-sided McNemar test over pairs; with several seeds or shared clusters it assumes independent cases."""
    p_tasks: float
    """Sign-flip test with clusters of tasks as units (`permutation.sign_flip`); equals `p` with one seed and tasks that
    stand alone. At an equal budget it is the larger of this and the p-value of `matching.equal`, which also exchanges
    spending: if spending differs strongly, that alone could be smaller than the number of verdicts allows."""
    p_holm: float | None = None
    """`p_tasks` with Holm's correction for all arms of the comparison at this budget but A/A arms, which keep theirs;
    None for an upper bound beside a baseline that is none, which is in no family."""
    effective: int
    """Number of independent pairs that the pairs are worth (`power.effective_pairs`)."""
    minimum: float | None
    """The true difference that a study of this design detects four times in five, at the strictest step of Holm's
    correction (`power.minimum`); None if it detects no difference so often, and none at all in 5 clusters or fewer."""
    room: float | None = None
    """What the baseline's retries add to its first attempts at this budget, over the same cases: the most that an arm
    with equal first attempts can lose by its retries, unless they break right programs. None for verdicts alone."""
    attempts: int | None = None
    """The attempt at which the loops of both arms are cut; None at equal spending."""
    spend: float | None = None
    """Mean spending of a case of the arm, after the cut; attempts, if these are equal; None as run."""
    baseline_spend: float | None = None
    cut: str = ""
    """The arm whose loops were cut; "" for none."""
    price: RetryPrice | None = None
    """At equal spending, the price of a further attempt."""

    @property
    def words(self) -> str:
        """The budget in words: `equal completion tokens`."""
        return self.budget.replace("_", " ")

    @property
    def exploratory(self) -> bool:
        return bool(self.reasons)

    @property
    def detected(self) -> bool | None:
        """Whether the interval leaves 0 out and p after Holm is below 0.05; None without p after Holm."""
        if self.p_holm is None:
            return None
        return not self.low <= 0 <= self.high and self.p_holm < 1 - LEVEL + TOLERANCE

    @property
    def is_loss(self) -> bool:
        """Whether a difference below 0 is detected."""
        return bool(self.detected) and self.value < 0

    @property
    def largest(self) -> float:
        """Upper 95 % limit of the size of the difference, in [0, 1]: the least margin that would show equivalence."""
        centre = abs(self.low_90 + self.high_90) / 2
        return max(abs(self.low_90), abs(self.high_90), score_limit(centre, self.effective))

    @property
    def is_equivalent(self) -> bool:
        """Whether two one-sided tests at 5 % place the difference within the margin (TOST: Schuirmann 1987, Journal of
        Pharmacokinetics and Biopharmaceutics 15:657-680); False without a margin.
        """
        return self.margin is not None and self.largest < self.margin

    @property
    def conclusion(self) -> str:
        """`detected`; `no worse than -4.1, no better than 6.2 (90 %), inside ±10 points`; `not detected, size below
        12.3 points` where no margin is set; or `undecided`; never without the minimum detectable effect beside it.
        """
        margin = f"inside ±{100 * (self.margin or 0):g} points"
        if self.detected:
            return f"detected, {margin}" if self.is_equivalent else "detected"
        if self.is_equivalent:
            low, high = (round(100 * limit, 1) + 0.0 for limit in (self.low_90, self.high_90))
            return f"no worse than {low:.1f}, no better than {high:.1f} (90 %), {margin}"
        is_open = self.margin is not None or self.minimum is None
        return "undecided" if is_open else f"not detected, size below {100 * self.largest:.1f} points"

    def verdict_beside(self, at: Difference | None) -> str:
        """The conclusion; of a loss at equal spending of an arm whose further attempts cost more, what `at`, the
        difference at equal attempts, leaves of it: `PRICE` where equal attempts, two or more, solve the same cases, are
        within the margin, or gain; else `OPEN`, unless they lose, too.
        """
        if self.p_holm is None:
            return UPPER_BOUND
        is_dear = self.price is not None and (self.price.ratio or 0) > 1
        if not (is_dear and self.is_loss) or (at and at.is_loss):
            return self.conclusion
        is_shown = at is not None and (at.is_equivalent or at.detected or at.won + at.lost == 0)
        return PRICE if is_shown and at and at.attempts != 1 else OPEN


def compared(
    own: Mapping[Case, bool],
    baseline: Mapping[Case, bool],
    equal: Equal | None = None,
    clusters: Clusters = ALONE,
    is_tested: bool = True,
    **fields: Any,
) -> Difference:
    """The difference of an arm to the baseline, by hidden verdicts; `p_holm` is `p_tasks` until `corrected`.

    At an equal spending `equal` belongs to it (`comparison.budgets`): verdicts after one cut ignore that the cut is
    random. `is_tested`: whether it gets a verdict. `fields`: further fields of `Difference`. Raises
    ConfigError: no case in both.
    """
    both = sorted(own.keys() & baseline.keys())
    if not both:
        raise ConfigError("verdicts", "no case in both", "the same tasks at the same seeds")
    tasks = [case.task_id for case in both]
    sides = [{case: side[case] for case in both} for side in (baseline, own)]
    pairs = paired(sides[0], sides[1])
    first, second = (by_cluster(zip(tasks, side.values(), strict=True), clusters) for side in sides)
    p = max(sign_flip(first, second), equal.p if equal else 0.0)
    estimate = equal.estimate if equal else difference(first, second)
    narrower = difference(first, second, EQUIVALENCE)
    low_90, high_90 = equal.interval_90 if equal else (narrower.low, narrower.high)
    effective = effective_pairs(paired_differences(first, second))
    method = REMATCHED if equal else PAIRED
    known: dict[str, Any] = {"budget": AS_RUN, "metric": "pass_at_1"} | fields
    return Difference(
        value=estimate.value,
        low=estimate.low,
        high=estimate.high,
        method=method.replace("tasks", "clusters") if are_shared(tasks, clusters) else method,
        n=pairs.n,
        tasks=len(set(tasks)),
        clusters=len(first),
        seeds=tuple(sorted({case.seed for case in both})),
        low_90=low_90,
        high_90=high_90,
        won=pairs.repaired,
        lost=pairs.damaged,
        p=pairs.p,
        p_tasks=p,
        p_holm=p if is_tested else None,
        effective=effective,
        minimum=minimum(pairs.n, len(first), effective, (pairs.repaired + pairs.damaged) / pairs.n),
        **known,
    )


def methods_of(differences: Iterable[Difference]) -> str:
    """Methods of the intervals, each with its budgets: `equal attempts: adjusted t over tasks`; "" for none."""
    budgets: dict[str, dict[str, None]] = {}
    for each in differences:
        budgets.setdefault(each.method, {})[each.words] = None
    return "; ".join(f"{', '.join(names)}: {method}" for method, names in budgets.items())


def corrected(family: Sequence[Difference]) -> list[Difference]:
    """The differences with Holm-adjusted p-values, and the minimum effects that go with them, in input order."""
    adjusted = holm([difference.p_tasks for difference in family])
    least = (minimum(d.n, d.clusters, d.effective, (d.won + d.lost) / d.n, len(family)) for d in family)
    return [replace(d, p_holm=p, minimum=of) for d, p, of in zip(family, adjusted, least, strict=True)]
