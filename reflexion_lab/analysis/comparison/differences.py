"""An arm against the baseline on the very same cases, and whether so few of them could have shown it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from reflexion_lab.analysis.arms import Case
from reflexion_lab.analysis.estimators import paired
from reflexion_lab.analysis.stats.bootstrap import FEWEST, difference
from reflexion_lab.analysis.stats.intervals import LEVEL, Estimate
from reflexion_lab.analysis.stats.matching import Equal
from reflexion_lab.analysis.stats.permutation import holm, sign_flip
from reflexion_lab.analysis.stats.power import minimum_detectable, needed
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Record

AS_RUN = "as run"
NEWCOMBE = "Newcombe's method 10"
BOOTSTRAP = f"bootstrap over tasks (Newcombe's method 10, discounted, where fewer than {FEWEST} differ)"
REMATCHED = "bootstrap over tasks, each draw matched anew"
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
    """False where the first attempts alone of the dearer arm cost more than all of the cheaper."""


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
    """The difference that this split makes, or the registered one where that is larger, in (0, 1]: what is smaller has
    not been detected."""
    minimum: float | None
    """The true difference that a study of so many tasks and such discordance finds four times in five; None where it
    finds none so often, or no pair is discordant."""

    @property
    def is_detected(self) -> bool:
        """The interval leaves 0 out, the difference is not below the least, and p after Holm is below 0.05."""
        estimate = self.estimate
        is_seen = self.least is not None and abs(estimate.value) >= self.least - CLOSE
        return is_seen and not estimate.low <= 0 <= estimate.high and self.p_holm < 1 - LEVEL + CLOSE


def compared(
    arm: Verdicts,
    baseline: Verdicts,
    budget: str = AS_RUN,
    cut: Cut | None = None,
    exploratory: Sequence[str] = (),
    least: float = 0.0,
    equal: Equal | None = None,
) -> Difference:
    """`p_holm` is `p_tasks` until `corrected`.

    Parameters
    ----------
    equal : Equal | None, optional
        The difference at one budget, where both sides were cut to it (`comparison.budgets`): verdicts that were
        cut once know nothing of the chance in the cutting.
    least : float, default 0.0
        A registered minimum; what is smaller counts as not detected.

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
    if len(seeds) > 1:
        estimate, method = difference(first, second), BOOTSTRAP
    else:
        estimate, method = Estimate(value=pairs.difference, low=pairs.low, high=pairs.high), NEWCOMBE
    p = max(sign_flip(first, second), equal.p if equal else 0.0)
    discordant = pairs.repaired + pairs.damaged
    split = needed(discordant)
    return Difference(
        budget=budget,
        cut=cut,
        exploratory=tuple(exploratory),
        n=pairs.n,
        seeds=tuple(seeds),
        estimate=equal.estimate if equal else estimate,
        method=REMATCHED if equal else method,
        won=pairs.repaired,
        lost=pairs.damaged,
        p=pairs.p,
        p_tasks=p,
        p_holm=p,
        needed=split,
        least=max(least, (split[0] - split[1]) / pairs.n) if split else None,
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
