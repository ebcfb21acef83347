"""One arm's line in the table of a comparison, and its paired difference to the baseline."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from reflexion_lab.analysis import metrics
from reflexion_lab.analysis.arms import Arm, Case
from reflexion_lab.analysis.comparison.budgets import UNITS, currencies, is_known, matched, per_solved
from reflexion_lab.analysis.estimators import Confusion, feedback_confusion, paired
from reflexion_lab.analysis.learning.transitions import Moves, ends
from reflexion_lab.analysis.stats.bootstrap import FEWEST, difference
from reflexion_lab.analysis.stats.intervals import LEVEL, PAIRED, Estimate, Rate
from reflexion_lab.analysis.stats.matching import Equal, area
from reflexion_lab.analysis.stats.permutation import holm, sign_flip
from reflexion_lab.analysis.stats.power import minimum_detectable, needed
from reflexion_lab.errors import ConfigError, DataError
from reflexion_lab.records import Record, Usage
from reflexion_lab.runner.folder.registration import Registration, exploratory

AS_RUN = "as run"
REMATCHED = f"bootstrap over tasks, each draw matched anew ({PAIRED} where fewer than {FEWEST} differ)"
CLOSE = 1e-9

Verdicts = Mapping[Case, bool]


class Cut(Record, frozen=True, kw_only=True):
    """Two arms at equal mean spending; see `analysis.comparison.budgets`."""

    shorter: str
    """The arm whose loops were cut; "" where both spend the same."""
    spend: float
    """Mean of what a case of the arm has spent, after the cut."""
    baseline_spend: float
    is_matched: bool
    """False where the first attempts alone of the costlier arm cost more than all of the cheaper."""


class Difference(Record, frozen=True, kw_only=True):
    """Shares of cases solved, the arm's minus the baseline's, over the cases that both have."""

    budget: str
    """`as run`, or `equal tokens`, `equal calls`, `equal cost`: what both sides were cut to."""
    cut: Cut | None
    """How they were cut; None where they were not."""
    exploratory: tuple[str, ...]
    """Why this comparison was not registered, a reason each; () where it was."""
    n: int
    """Pairs."""
    seeds: tuple[int, ...]
    estimate: Estimate
    """In [-1, 1]."""
    method: str
    """Of its interval."""
    won: int
    """Cases that the arm alone solved; at an equal budget, with cases cut as one draw of chance had it."""
    lost: int
    """Cases that the baseline alone solved."""
    p: float
    """McNemar's exact test over the pairs, two-sided. With several seeds it takes cases of one task for independent."""
    p_tasks: float
    """The same question with whole tasks as the unit (`statistics.permutation`), `p` again with one seed. At
    an equal budget not below that of `statistics.matching`, whose arms also exchange what they spent: where spendings
    differ much, it alone may fall below anything that so few verdicts could say."""
    p_holm: float
    """`p_tasks` corrected for all arms of the comparison at this budget (`statistics.families`)."""
    needed: tuple[int, int] | None
    """The split of as many discordant pairs, had they been independent, that is just significant; None for none."""
    least: float | None
    """The difference of this split, in (0, 1]."""
    minimum: float | None
    """The true difference that a study of so many tasks and such discordance finds four times in five; None where it
    finds none so often, or no pair is discordant."""

    @property
    def is_detected(self) -> bool:
        """Whether the interval leaves 0 out and p after Holm is below 0.05."""
        return not self.estimate.low <= 0 <= self.estimate.high and self.p_holm < 1 - LEVEL + CLOSE


def compared(
    arm: Verdicts,
    baseline: Verdicts,
    budget: str = AS_RUN,
    cut: Cut | None = None,
    exploratory: Sequence[str] = (),
    equal: Equal | None = None,
) -> Difference:
    """`p_holm` is `p_tasks` until `corrected`.

    Parameters
    ----------
    equal : Equal | None, optional
        The difference at one budget, where both sides were cut to it (`comparison.budgets`): verdicts that were
        cut once know nothing of the chance in the cutting.

    Raises
    ------
    ConfigError
        No case in both.
    """
    both = sorted(arm.keys() & baseline.keys())
    if not both:
        raise ConfigError("verdicts", "no case in both", "the same tasks at the same seeds")
    seeds, tasks = sorted({case.seed for case in both}), sorted({case.task_id for case in both})
    pairs = paired(*({str(place): side[case] for place, case in enumerate(both)} for side in (baseline, arm)))
    first, second = (_array({case: side[case] for case in both}, tasks, seeds) for side in (baseline, arm))
    p = max(sign_flip(first, second), equal.p if equal else 0.0)
    discordant = pairs.repaired + pairs.damaged
    split = needed(discordant)
    return Difference(
        budget=budget,
        cut=cut,
        exploratory=tuple(exploratory),
        n=pairs.n,
        seeds=tuple(seeds),
        estimate=equal.estimate if equal else difference(first, second),
        method=REMATCHED if equal else PAIRED,
        won=pairs.repaired,
        lost=pairs.damaged,
        p=pairs.p,
        p_tasks=p,
        p_holm=p,
        needed=split,
        least=(split[0] - split[1]) / pairs.n if split else None,
        minimum=minimum_detectable(len(tasks), discordant / pairs.n) if discordant else None,
    )


def corrected(family: Sequence[Difference]) -> list[Difference]:
    """All differences of one claim with their p corrected for each other, in the same order."""
    return [
        replace(claim, p_holm=p) for claim, p in zip(family, holm([claim.p_tasks for claim in family]), strict=True)
    ]


def _array(verdicts: Verdicts, tasks: Sequence[str], seeds: Sequence[int]) -> list[list[float]]:
    """Shape (tasks, seeds); not a number where a case is absent."""
    return [[float(verdicts.get(Case(seed, task_id), "nan")) for seed in seeds] for task_id in tasks]


METRIC = "pass_at_1"
"""What a registration calls the share as run, and with `_equal_tokens` and such behind it the share at one budget."""
ONE_SEED = "one seed: ask with --one-seed"


class Tallies(Record, frozen=True, kw_only=True):
    """Counts over all attempts of an arm. The intervals of its rates take attempts as independent."""

    usage: Usage
    """Of all roles, written tests included; a cached reply counts what it took when first drawn."""
    extraction_failures: Rate
    """Attempts in whose reply no program was found."""
    timeouts: Rate
    """Attempts of which a feedback check timed out, or whose first failing hidden check did: grades name no other."""
    harness_errors: Rate
    """Attempts of which the harness itself spoilt a verdict, feedback or hidden: these say nothing of a program."""


class Row(Record, frozen=True, kw_only=True):
    """Figures of one arm. A case is one task at one seed; cases of a task are one cluster."""

    arm: str
    feedback_source: str
    is_upper_bound: bool
    """Hidden tests or solutions reached its loops: `first`, `final` and `curve` are no pass@1."""
    study: str
    """The registered study that all of its runs belong to; "" where there is none."""
    models: dict[str, tuple[str, ...]]
    """Fingerprints by role; several where its runs differ."""
    run_ids: tuple[str, ...]
    seeds: tuple[int, ...]
    n: int
    """Cases with a hidden verdict: n of `curve`, `first` and `final`."""
    tasks: int
    """Distinct ones of these."""
    n_expected: int
    n_logged: int
    """Cases."""
    no_verdict: tuple[Case, ...]
    """Logged cases on which the hidden tests say nothing: they have none, or the harness failed. In no rate's n."""
    absent: tuple[Case, ...]
    """Cases that the baseline has and this arm has not; no difference is about them."""
    alone: tuple[Case, ...]
    """Cases that this arm has and the baseline has not; likewise."""
    no_feedback: int
    """Cases that showed no test: one attempt, submitted as it was."""
    curve: tuple[float, ...]
    """Share of cases solved, had every loop been cut at attempt 1, 2, ... up to the longest loop of all arms."""
    first: Estimate
    """The share at attempt 1, the plain single attempt."""
    final: Estimate
    method: str
    """Of both intervals."""
    area: float
    """Mean height of `curve`, in [0, 1]: higher is more, or sooner."""
    as_run: Difference | None
    """Against the baseline; None for the baseline, and where `refused`."""
    matched: Difference | None
    """The same with the costlier of the two cut to what the cheaper spent."""
    refused: str
    """Why there is no difference; "" where there is one, and for the baseline."""
    unknown: tuple[str, ...]
    """Of `tokens`, `calls` and `cost`, what nobody recorded or priced: zeros in `spent` are no figures then."""
    currencies: tuple[str, ...]
    """In which its runs paid; () where nothing was paid, or nobody said."""
    unmatched: str
    """Why there is a difference as run, and none at an equal budget; "" where there are both, or none."""
    moves: Moves
    """From attempt 1 to what was submitted: repair and damage."""
    feedback: Confusion
    """Feedback verdicts on all attempts against the hidden ones."""
    spent: Tallies
    tokens_per_solved: Estimate | None
    """All tokens over the solved cases, with the bootstrap over tasks; None where none was solved, or tokens are
    unknown."""
    cost_per_solved: Estimate | None
    """Likewise."""
    calls: str
    """Digest of every prompt and reply of its actor, by case and attempt; "" where none was kept."""
    metrics: dict[str, metrics.Value]
    """Registered metrics of attempts, tasks and arms that have a value, by `Metric.key`."""


def row(
    arm: Arm, base: Arm | None, longest: int, unit: str, one_seed: bool = False, study: Registration | None = None
) -> Row:
    """`longest`: attempts of the longest loop of all arms. Raises DataError where `base` has no case of this arm's."""
    manifests = [log.manifest for log in arm.logs]
    curve = [arm.verdicts(t) for t in range(1, longest + 1)]
    shares = tuple(sum(verdicts.values()) / len(verdicts) for verdicts in curve)
    others = base.attempts.keys() if base else arm.attempts.keys()
    refused = _refused(arm, base, one_seed)
    has_partner = base is not None and base is not arm and not refused
    unmatched = _unmatched(arm, base, unit) if base and has_partner else ""
    unknown = tuple(name for name in UNITS if not is_known(arm, name))
    return Row(
        arm=arm.label,
        feedback_source=arm.feedback_source,
        is_upper_bound=arm.is_upper_bound,
        study=manifests[0].study if len({manifest.study_digest for manifest in manifests}) == 1 else "",
        models=_models(arm),
        run_ids=tuple(manifest.run_id for manifest in manifests),
        seeds=arm.seeds,
        n=len(arm.judged),
        tasks=len(arm.tasks),
        n_expected=sum(manifest.n_expected for manifest in manifests),
        n_logged=len(arm.attempts),
        no_verdict=arm.no_verdict,
        absent=tuple(sorted(others - arm.attempts.keys())),
        alone=tuple(sorted(arm.attempts.keys() - others)),
        no_feedback=sum(attempts[0].evaluation.outcome == "no_tests" for attempts in arm.attempts.values()),
        curve=shares,
        first=arm.share(curve[0]),
        final=arm.share(curve[-1]),
        method=arm.share_method,
        area=float(area(shares)),
        as_run=_as_run(arm, base, study) if base and has_partner else None,
        matched=_matched(arm, base, unit, study) if base and has_partner and not unmatched else None,
        refused=refused,
        unknown=unknown,
        currencies=currencies(arm),
        unmatched=unmatched,
        moves=ends(arm),
        feedback=feedback_confusion(
            (attempt, arm.grades[case][attempt.number])
            for case, attempts in arm.attempts.items()
            for attempt in attempts
        ),
        spent=_tallies(arm),
        tokens_per_solved=None if "tokens" in unknown else per_solved(arm, "tokens"),
        cost_per_solved=None if "cost" in unknown else per_solved(arm, "cost"),
        calls=_calls(arm),
        metrics=metrics.in_arm(arm),
    )


def _calls(arm: Arm) -> str:
    calls = [
        (case, [([message.content for message in t.messages], t.reply) for t in (a.trajectory for a in attempts)])
        for case, attempts in sorted(arm.attempts.items())
    ]
    is_kept = any(prompts for _, attempts in calls for prompts, _ in attempts)
    return hashlib.sha256(repr(calls).encode(errors="replace")).hexdigest() if is_kept else ""


def _tallies(arm: Arm) -> Tallies:
    judged = [
        (attempt, arm.grades[case][attempt.number]) for case, attempts in arm.attempts.items() for attempt in attempts
    ]
    n = len(judged)
    written = (suite.usage for log in arm.logs for suite in log.written.values())
    own = (usage for attempt, _ in judged for usage in attempt.usage.values())
    return Tallies(
        usage=sum((*written, *own), Usage()),
        extraction_failures=Rate.of(sum(metrics.extraction_failures(*pair) for pair in judged), n),
        timeouts=Rate.of(sum(metrics.timeouts(*pair) for pair in judged), n),
        harness_errors=Rate.of(sum(metrics.harness_error(*pair) for pair in judged), n),
    )


def _refused(arm: Arm, base: Arm | None, one_seed: bool) -> str:
    """Raises DataError."""
    if base is None or base is arm:
        return ""
    shared = {case.seed for case in arm.judged.keys() & base.judged.keys()}
    if not shared:
        both = " and ".join(f"{side.label} (seeds {', '.join(map(str, side.seeds))})" for side in (arm, base))
        raise DataError("arms", f"no case in both {both}", "the same tasks at the same seeds")
    return ONE_SEED if len(shared) == 1 and not one_seed else ""


def _unmatched(arm: Arm, base: Arm, unit: str) -> str:
    missing = " or ".join(side.label for side in (arm, base) if not is_known(side, unit))
    return f"{unit} of {missing} unknown" if missing else ""


def _as_run(arm: Arm, base: Arm, study: Registration | None) -> Difference:
    return compared(arm.verdicts(), base.verdicts(), AS_RUN, None, _exploratory(arm, base, METRIC, study))


def _matched(arm: Arm, base: Arm, unit: str, study: Registration | None) -> Difference:
    reasons = _exploratory(arm, base, f"{METRIC}_equal_{unit}", study)
    pair = matched(base, arm, unit)
    cut = Cut(
        shorter=("", base.label, arm.label)[pair.cut_side],
        spend=pair.second_spend,
        baseline_spend=pair.first_spend,
        is_matched=pair.is_matched,
    )
    return compared(pair.second, pair.first, f"equal {unit}", cut, reasons, pair.equal)


def _exploratory(arm: Arm, base: Arm, metric: str, study: Registration | None) -> list[str]:
    """Why this comparison is exploratory; [] where it was registered."""
    manifests = [log.manifest for side in (arm, base) for log in side.logs]
    return exploratory(study, arm.label, metric, baseline=base.label, runs=manifests)


def _models(arm: Arm) -> dict[str, tuple[str, ...]]:
    fingerprints: dict[str, dict[str, None]] = {}
    for log in arm.logs:
        for role, fingerprint in {"actor": log.manifest.model_fingerprint, **log.manifest.role_fingerprints}.items():
            fingerprints.setdefault(role, {})[fingerprint] = None
    return {role: tuple(names) for role, names in fingerprints.items()}
