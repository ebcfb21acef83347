"""Effects of words beside their ceiling: the effect of true words with the same model and prompt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.stats import bootstrap, fieller
from reflexion_lab.analysis.stats.clusters import by_cluster, merged
from reflexion_lab.analysis.stats.intervals import Estimate
from reflexion_lab.records import Record

TRUE_WORDS = ("control:quoted", "control:oracle")
"""Sources of reflections that are true throughout."""


class Ceiling(Record, frozen=True, kw_only=True):
    """The effect of an arm's words and that of a ceiling, over the cases that both share with the baseline."""

    arm: str
    ceiling: str
    """The arm with true words."""
    attempts: int
    """Every loop is cut at this attempt, the smallest maximum of the three arms."""
    n: int
    """Cases."""
    tasks: int
    effect: Estimate
    """Points of the hidden verdict, arm minus baseline."""
    limit: Estimate
    """The same of the ceiling."""
    share: Estimate | None
    """effect / limit (`stats.fieller`); None if the interval of `limit` does not lie above 0."""


def ceilings(arms: Sequence[Arm], baseline: Arm | None) -> tuple[Ceiling, ...]:
    """Every arm with words beside every arm with true words, in the order of the arms; () without a ceiling.

    Parameters
    ----------
    baseline : Arm | None
        The arm without words, or with those that the effects are measured against.
    """
    if baseline is None:
        return ()
    arms = [arm for arm in arms if arm.label != baseline.label and arm.feedback_source == baseline.feedback_source]
    limits = [arm for arm in arms if (sources := _sources(arm)) and sources <= {*TRUE_WORDS}]
    pairs = ((arm, limit) for limit in limits for arm in arms if arm is not limit and _sources(arm))
    return tuple(row for arm, limit in pairs for row in _row(arm, limit, baseline))


def _sources(arm: Arm) -> set[str]:
    """Sources of the reflections with words."""
    reflections = (attempt.reflection for attempts in arm.attempts.values() for attempt in attempts)
    return {reflection.source for reflection in reflections if reflection and any(reflection.texts)}


def _row(arm: Arm, limit: Arm, baseline: Arm) -> Iterator[Ceiling]:
    """Nothing if an arm has a single attempt, hence no retry, or no case is common."""
    t = min(each.max_attempts for each in (arm, limit, baseline))
    verdicts = [each.verdicts(t) for each in (arm, limit, baseline)]
    cases = sorted(verdicts[0].keys() & verdicts[1].keys() & verdicts[2].keys())
    if t < 2 or not cases:
        return
    known = merged(arm.clusters, limit.clusters, baseline.clusters)
    of_arm, of_limit, base = (
        by_cluster(((case.task_id, by_case[case]) for case in cases), known) for by_case in verdicts
    )
    effect, highest = bootstrap.difference(base, of_arm), bootstrap.difference(base, of_limit)
    yield Ceiling(
        arm=arm.label,
        ceiling=limit.label,
        attempts=t,
        n=len(cases),
        tasks=len({case.task_id for case in cases}),
        effect=effect,
        limit=highest,
        share=fieller.ratio(of_arm - base, of_limit - base) if highest.low > 0 else None,
    )
