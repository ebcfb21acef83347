"""Row of an arm in a comparison, and its paired difference to the baseline.

One file: half of its lines are the sentences below the fields of two records.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import cast

from msgspec.structs import replace

from reflexion_lab.analysis import metrics
from reflexion_lab.analysis.arms import Arm, Case
from reflexion_lab.analysis.comparison import arm_metrics  # noqa: F401 registers them
from reflexion_lab.analysis.comparison.beginnings import Began, began
from reflexion_lab.analysis.comparison.budgets import ATTEMPTS, UNITS, currencies, further, is_known, matched
from reflexion_lab.analysis.figures.style import UPPER_BOUND
from reflexion_lab.analysis.learning.checkpoints import Matrix
from reflexion_lab.analysis.stats.bootstrap import MIN_TASKS, difference, paired_differences
from reflexion_lab.analysis.stats.clusters import ALONE, Clusters, are_shared, by_cluster, merged
from reflexion_lab.analysis.stats.estimators import paired
from reflexion_lab.analysis.stats.intervals import EQUIVALENCE, LEVEL, PAIRED, TOLERANCE, Estimate, Rate, score_limit
from reflexion_lab.analysis.stats.matching import Equal, area, break_even
from reflexion_lab.analysis.stats.permutation import holm, sign_flip
from reflexion_lab.analysis.stats.power import effective_pairs, minimum
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Record, Reflection, Usage
from reflexion_lab.runner.folder.registration import Registration, exploratory

AS_RUN = "as run"
PRICE, OPEN = "worse at this budget only", "worse at this budget; at equal attempts undecided"
REMATCHED = f"bootstrap over tasks, each draw matched again ({PAIRED} where fewer than {MIN_TASKS} differ)"

Verdicts = Mapping[Case, bool]


class Cut(Record, frozen=True, kw_only=True):
    """Two arms at equal attempts, or at equal mean spending; see `analysis.comparison.budgets`."""

    shorter: str
    """The arm whose loops were cut; "" if both spend the same."""
    spend: float
    """Mean spending of a case of the arm, after the cut; attempts, if these are equal."""
    baseline_spend: float
    is_matched: bool
    """False if the first attempts alone of the more expensive arm cost more than all of the cheaper."""
    attempts: int | None = None
    """The attempt at which the loops of both arms are cut; None at equal spending."""


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


class Difference(Record, frozen=True, kw_only=True):
    """Share of cases solved, arm minus baseline, over the cases of both."""

    budget: str
    """`as run`, `equal attempts`, `equal completion tokens`, `equal tokens`, `equal calls`, or `equal cost`."""
    cut: Cut | None
    """The cut to an equal budget; None as run."""
    exploratory: tuple[str, ...]
    """Reasons why this comparison is not the registered one; () if it is."""
    n: int
    """Pairs."""
    tasks: int
    """Tasks of these pairs."""
    clusters: int
    """Clusters of these tasks: the units of the interval and of `p_tasks`."""
    seeds: tuple[int, ...]
    estimate: Estimate
    """In [-1, 1]."""
    interval_90: tuple[float, float]
    """The 90 % interval by the same method: the two one-sided tests of equivalence."""
    margin: float | None
    """Equivalence margin; None for none."""
    method: str
    """Method of the interval."""
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
    p_holm: float
    """`p_tasks` with Holm's correction for all arms of the comparison at this budget."""
    effective: int
    """Number of independent pairs that the pairs are worth (`power.effective_pairs`)."""
    minimum: float | None
    """The true difference that a study of this design detects four times in five, at the strictest step of Holm's
    correction (`power.minimum`); None if it detects no difference so often, and none at all in 5 clusters or fewer."""
    price: RetryPrice | None = None
    """At equal spending, the price of a further attempt."""

    @property
    def is_detected(self) -> bool:
        """Whether the interval leaves 0 out and p after Holm is below 0.05."""
        return not self.estimate.low <= 0 <= self.estimate.high and self.p_holm < 1 - LEVEL + TOLERANCE

    @property
    def is_loss(self) -> bool:
        """Whether a difference below 0 is detected."""
        return self.is_detected and self.estimate.value < 0

    @property
    def largest(self) -> float:
        """Upper 95 % limit of the size of the difference, in [0, 1]: the least margin that would show equivalence."""
        low, high = self.interval_90
        return max(abs(low), abs(high), score_limit(abs(low + high) / 2, self.effective))

    @property
    def is_equivalent(self) -> bool:
        """Whether two one-sided tests at 5 % place the difference within the margin (TOST: Schuirmann 1987, Journal of
        Pharmacokinetics and Biopharmaceutics 15:657-680); False without a margin.
        """
        return self.margin is not None and self.largest < self.margin

    @property
    def verdict(self) -> str:
        """`detected`, `between -4.1 and 6.2 (90 %), inside ±10 points`, `not detected, size below 12.3 points` where no
        margin is set, or `undecided`; never without the minimum detectable effect beside it.
        """
        (low, high), margin = self.interval_90, f"inside ±{100 * (self.margin or 0):g} points"
        if self.is_detected:
            return f"detected, {margin}" if self.is_equivalent else "detected"
        if self.is_equivalent:
            return f"between {round(100 * low, 1) + 0.0:.1f} and {round(100 * high, 1) + 0.0:.1f} (90 %), {margin}"
        is_open = self.margin is not None or self.minimum is None
        return "undecided" if is_open else f"not detected, size below {100 * self.largest:.1f} points"


def compared(
    arm: Verdicts,
    baseline: Verdicts,
    budget: str = AS_RUN,
    cut: Cut | None = None,
    exploratory: Sequence[str] = (),
    equal: Equal | None = None,
    clusters: Clusters = ALONE,
    margin: float | None = None,
) -> Difference:
    """The difference of an arm to the baseline, by hidden verdicts; `p_holm` is `p_tasks` until `corrected`.

    At an equal budget `cut` and `equal` belong to it (`comparison.budgets`): verdicts after one cut ignore that the cut
    is random. Other parameters are fields of `Difference`. Raises ConfigError: no case in both.
    """
    both = sorted(arm.keys() & baseline.keys())
    if not both:
        raise ConfigError("verdicts", "no case in both", "the same tasks at the same seeds")
    tasks = [case.task_id for case in both]
    sides = [{case: side[case] for case in both} for side in (baseline, arm)]
    pairs = paired(sides[0], sides[1])
    first, second = (by_cluster(zip(tasks, side.values(), strict=True), clusters) for side in sides)
    p = max(sign_flip(first, second), equal.p if equal else 0.0)
    discordant = pairs.repaired + pairs.damaged
    cases = paired_differences(first, second)
    estimate = equal.estimate if equal else difference(first, second)
    narrower = difference(first, second, EQUIVALENCE)
    interval_90 = equal.interval_90 if equal else (narrower.low, narrower.high)
    effective = effective_pairs(cases)
    method = REMATCHED if equal else PAIRED
    method = method.replace("tasks", "clusters") if are_shared(tasks, clusters) else method
    return Difference(
        budget=budget,
        cut=cut,
        exploratory=tuple(exploratory),
        n=pairs.n,
        tasks=len(set(tasks)),
        clusters=len(first),
        seeds=tuple(sorted({case.seed for case in both})),
        estimate=estimate,
        interval_90=interval_90,
        margin=margin,
        method=method,
        won=pairs.repaired,
        lost=pairs.damaged,
        p=pairs.p,
        p_tasks=p,
        p_holm=p,
        effective=effective,
        minimum=minimum(pairs.n, len(first), effective, discordant / pairs.n),
    )


def methods_of(differences: Iterable[Difference]) -> str:
    """Methods of the intervals, each with its budgets: `equal attempts: adjusted t over tasks`; "" for none."""
    budgets: dict[str, dict[str, None]] = {}
    for each in differences:
        budgets.setdefault(each.method, {})[each.budget] = None
    return "; ".join(f"{', '.join(names)}: {method}" for method, names in budgets.items())


def corrected(family: Sequence[Difference]) -> list[Difference]:
    """The differences with Holm-adjusted p-values, and the minimum effects that go with them, in input order."""
    adjusted = holm([difference.p_tasks for difference in family])
    return [
        replace(difference, p_holm=p, minimum=_minimum(difference, len(family)))
        for difference, p in zip(family, adjusted, strict=True)
    ]


def _minimum(difference: Difference, comparisons: int) -> float | None:
    discordance = (difference.won + difference.lost) / difference.n
    return minimum(difference.n, difference.clusters, difference.effective, discordance, comparisons)


METRIC = "pass_at_1"
"""Name of the metric in a registration; at an equal budget, with a suffix such as `_equal_tokens`."""
NO_PAIR = "no task and seed in common"


class Row(Record, frozen=True, kw_only=True):
    """Figures of one arm. A case is one task at one seed; the cases of a cluster of tasks are one unit."""

    arm: str
    feedback_source: str
    is_upper_bound: bool
    """Whether hidden tests or solutions reached its loops, so that no share of it is pass@1."""
    study: str
    """The registered study of all of its runs; "" for none, or if a run deviates."""
    models: dict[str, tuple[str, ...]]
    """Fingerprints by role; several if its runs differ."""
    run_ids: tuple[str, ...]
    """By seed; several of a run over shards, with commas."""
    shards: tuple[str, ...] = ()
    """Runs that lack a shard, such as `3 of 4 shards at seed 0`."""
    seeds: tuple[int, ...]
    n: int
    """Cases with a hidden verdict: n of `curve` and `final`."""
    tasks: int
    """Tasks of these cases."""
    clusters: int
    """Clusters of these tasks; as many as tasks if every task stands alone."""
    n_expected: int
    n_logged: int
    """Cases."""
    no_verdict: tuple[Case, ...]
    """Logged cases without a hidden verdict (no hidden tests, or a harness failure). No rate counts them."""
    absent: tuple[Case, ...]
    """Cases of the baseline that this arm lacks; excluded from differences."""
    alone: tuple[Case, ...]
    """Cases of this arm that the baseline lacks; excluded from differences."""
    train: int
    """Train cases of a split benchmark, from which memory learnt; no figure counts them."""
    no_feedback: int
    """Cases that show no test: their single attempt is the submission."""
    curve: tuple[float, ...]
    """Share of cases solved with every loop cut at attempt 1, 2, ... up to the longest loop of all arms."""
    method: str
    """Method of the interval of `final`."""
    area: float
    """Mean height of `curve`, in [0, 1]."""
    as_run: Difference | None
    """Difference to the baseline; None for the baseline itself, and if `refused`."""
    equal: dict[str, Difference]
    """By unit, the difference at an equal budget: both arms cut at the same attempt, or the more expensive of the two
    cut to the spending of the cheaper."""
    refused: str
    """Why there is no difference; "" if there is one, and for the baseline."""
    unknown: tuple[str, ...]
    """Units of `UNITS` that were not recorded or priced; their zeros in `usage` have no meaning."""
    currencies: tuple[str, ...]
    """Currencies of its price lists; () without prices."""
    unmatched: dict[str, str]
    """By unit, why there is a difference as run but none at that budget."""
    usage: Usage
    """Usage of all roles, including written tests, curators and cached calls."""
    calls: str
    """Digest of every prompt and reply of its actor, by case and attempt; "" if texts were not stored."""
    metrics: dict[str, metrics.Value]
    """Values of registered metrics by `Metric.key`."""
    reflections: dict[str, int]
    """By source, those with words, and those that failed without any."""
    memory: Matrix | None
    """Gains, retention and losses of its memory over the stream; None without runs on its frozen memory."""
    began: Began
    """With what its runs began."""

    @property
    def metric(self) -> str:
        """Key of the share that is compared: `pass_at_1`, or `upper_bound`."""
        return "upper_bound" if self.is_upper_bound else METRIC

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

    @property
    def differences(self) -> dict[str, Difference]:
        """By name, `as_run` and `equal_UNIT`, the differences to the baseline."""
        as_run = {"as_run": self.as_run} if self.as_run else {}
        return as_run | {f"equal_{unit}": difference for unit, difference in self.equal.items()}

    def loss(self, difference: Difference) -> str:
        """What a loss at equal spending shows of an arm whose further attempts cost more: `PRICE` where equal attempts,
        two or more, solve the same cases, are within the margin, or gain; "" where they lose, too; else `OPEN`.
        """
        at, price = self.equal.get(ATTEMPTS), difference.price
        if price is None or (price.ratio or 0) <= 1 or not difference.is_loss or (at and at.is_loss):
            return ""
        is_shown = at is not None and (at.is_equivalent or at.is_detected or at.won + at.lost == 0)
        return PRICE if is_shown and at and at.cut and at.cut.attempts != 1 else OPEN

    def claim(self, difference: Difference) -> str:
        """`UPPER BOUND`, or what the difference shows."""
        return UPPER_BOUND if self.is_upper_bound else self.loss(difference) or difference.verdict


def row(
    arm: Arm,
    base: Arm | None,
    longest: int,
    units: Sequence[str],
    study: Registration | None = None,
    margin: float | None = None,
) -> Row:
    """The row of an arm in a comparison; without differences if `base`, the baseline, is None.

    `longest`: attempts of the longest loop of all arms. `units`: of the equal budgets. `margin`: of equivalence.
    """
    manifests = [log.manifest for log in arm.logs]
    curve = [arm.verdicts(t) for t in range(1, longest + 1)]
    shares = tuple(fmean(verdicts.values()) for verdicts in curve)
    others = base.attempts.keys() if base else arm.attempts.keys()
    refused = NO_PAIR if base and arm.judged.keys().isdisjoint(base.judged) else ""
    partner = None if refused or base is arm else base
    unmatched = _unmatched(arm, partner, units) if partner else {}
    return Row(
        arm=arm.label,
        feedback_source=arm.feedback_source,
        is_upper_bound=arm.is_upper_bound,
        study=arm.logs[0].study if len({(log.study, log.manifest.study_digest) for log in arm.logs}) == 1 else "",
        models=_models(arm),
        run_ids=tuple(", ".join(log.run_ids) for log in arm.logs),
        shards=tuple(f"{log.shards} at seed {log.manifest.seed}" for log in arm.logs if log.lacks_shards),
        seeds=arm.seeds,
        n=len(arm.judged),
        tasks=len(arm.tasks),
        clusters=arm.n_clusters,
        n_expected=sum(manifest.n_expected for manifest in manifests),
        n_logged=len(arm.attempts),
        no_verdict=arm.no_verdict,
        absent=tuple(sorted(others - arm.attempts.keys())),
        alone=tuple(sorted(arm.attempts.keys() - others)),
        train=arm.train,
        no_feedback=sum(attempts[0].evaluation.outcome == "no_tests" for attempts in arm.attempts.values()),
        curve=shares,
        method=arm.share_method,
        area=float(area(shares)),
        as_run=_as_run(arm, partner, study, margin) if partner else None,
        equal={name: _equal(arm, partner, name, study, margin) for name in units if name not in unmatched}
        if partner
        else {},
        refused=refused,
        unknown=tuple(unit for unit in UNITS if not is_known(arm, unit)),
        currencies=currencies(arm),
        unmatched=unmatched,
        usage=arm.usage,
        calls=_calls(arm),
        metrics=metrics.in_arm(arm),
        reflections=dict(Counter(words.source for words in _words(arm))),
        memory=arm.memory,
        began=began(arm.whole),
    )


def _calls(arm: Arm) -> str:
    calls = [
        (case, [([message.content for message in t.messages], t.reply) for t in (a.trajectory for a in attempts)])
        for case, attempts in sorted(arm.attempts.items())
    ]
    is_kept = any(prompts for _, attempts in calls for prompts, _ in attempts)
    return hashlib.sha256(repr(calls).encode(errors="replace")).hexdigest() if is_kept else ""


def _words(arm: Arm) -> Iterator[Reflection]:
    every = (attempt.reflection for attempts in arm.attempts.values() for attempt in attempts)
    return (reflection for reflection in every if reflection and reflection.is_told)


def _unmatched(arm: Arm, base: Arm, units: Sequence[str]) -> dict[str, str]:
    missing = {
        unit: " or ".join(side.label for side in (arm, base) if not is_known(side, unit))
        for unit in units
        if unit != ATTEMPTS
    }
    return {unit: f"{unit.replace('_', ' ')} of {names} unknown" for unit, names in missing.items() if names}


def _as_run(arm: Arm, base: Arm, study: Registration | None, margin: float | None) -> Difference:
    reasons, clusters = _exploratory(arm, base, METRIC, study, margin), merged(base.clusters, arm.clusters)
    return compared(arm.verdicts(), base.verdicts(), AS_RUN, None, reasons, clusters=clusters, margin=margin)


def _equal(arm: Arm, base: Arm, unit: str, study: Registration | None, margin: float | None) -> Difference:
    is_counted = unit == ATTEMPTS
    return _at_equal_attempts(arm, base, study, margin) if is_counted else _matched(arm, base, unit, study, margin)


def _at_equal_attempts(arm: Arm, base: Arm, study: Registration | None, margin: float | None) -> Difference:
    """Both arms cut at the attempts that each was allowed; where that cuts nothing, registered as run is registered."""
    t, longer = min(arm.max_attempts, base.max_attempts), max(arm, base, key=lambda side: side.longest)
    shorter = longer.label if longer.longest > t else ""
    reasons = _exploratory(arm, base, f"{METRIC}_equal_{ATTEMPTS}", study, margin)
    if not shorter:
        reasons = reasons and _exploratory(arm, base, METRIC, study, margin)
    arm_verdicts, base_verdicts = arm.verdicts(t), base.verdicts(t)
    shared = arm_verdicts.keys() & base_verdicts.keys()
    spends = [fmean(min(len(side.attempts[case]), t) for case in shared) for side in (arm, base)]
    cut = Cut(shorter=shorter, spend=spends[0], baseline_spend=spends[1], is_matched=True, attempts=t)
    clusters = merged(base.clusters, arm.clusters)
    return compared(arm_verdicts, base_verdicts, f"equal {ATTEMPTS}", cut, reasons, clusters=clusters, margin=margin)


def _matched(arm: Arm, base: Arm, unit: str, study: Registration | None, margin: float | None) -> Difference:
    reasons = _exploratory(arm, base, f"{METRIC}_equal_{unit}", study, margin)
    pair = matched(base, arm, unit)
    cut = Cut(
        shorter=("", base.label, arm.label)[pair.cut_side],
        spend=pair.second_spend,
        baseline_spend=pair.first_spend,
        is_matched=pair.is_matched,
    )
    clusters, budget = merged(base.clusters, arm.clusters), f"equal {unit.replace('_', ' ')}"
    difference = compared(pair.second, pair.first, budget, cut, reasons, pair.equal, clusters, margin)
    own, other = (further(side, unit, pair.first.keys()) for side in (arm, base))
    price = RetryPrice(spend=own.spend, baseline_spend=other.spend, solved=own.solved, baseline_solved=other.solved)
    return replace(difference, price=price)


def _exploratory(arm: Arm, base: Arm, metric: str, study: Registration | None, margin: float | None) -> list[str]:
    """Why this comparison is exploratory; [] where it was registered."""
    own, others = ([log.manifest for log in side.logs] for side in (arm, base))
    reasons = exploratory(study, metric, own, others)
    if study and margin and abs(margin - (study.equivalence_margin or 0)) > TOLERANCE:
        reasons.append(f"margin {margin:g}, registered was {study.equivalence_margin or 'none'}")
    return reasons


def _models(arm: Arm) -> dict[str, tuple[str, ...]]:
    fingerprints: dict[str, dict[str, None]] = {}
    for log in arm.logs:
        for role, fingerprint in {"actor": log.manifest.model_fingerprint, **log.manifest.role_fingerprints}.items():
            fingerprints.setdefault(role, {})[fingerprint] = None
    return {role: tuple(names) for role, names in fingerprints.items()}
