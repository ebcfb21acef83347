"""Which failures are mended: by their class, the share that the next attempt, or the loop's end, has put right."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

from reflexion_lab.analysis.arms import Arm, Case
from reflexion_lab.analysis.learning.transitions import by_task
from reflexion_lab.analysis.stats.bootstrap import interval
from reflexion_lab.analysis.stats.intervals import Estimate
from reflexion_lab.loop.selection import submitted_at
from reflexion_lab.records import UNKNOWN, Evaluation, Record


class Mended(Record, frozen=True, kw_only=True):
    """How many of some failures were put right. The interval takes tasks as clusters."""

    k: int
    n: int
    share: Estimate


class Repairs(Record, frozen=True, kw_only=True):
    """Failures of one class that their loops went on from, and what came of them by hidden verdicts."""

    tasks: int
    """Distinct ones: the clusters of the intervals."""
    next: Mended
    """The next attempt's program passes the hidden tests."""
    end: Mended
    """What the loop submitted in the end passes them."""


class RepairRates(Record, frozen=True, kw_only=True):
    """An arm's repairs. A failure is a program that fails its feedback tests and the hidden ones."""

    arm: str
    feedback_source: str
    is_upper_bound: bool
    by_class: dict[str, Repairs]
    """The most frequent class first."""
    rejected: int
    """Programs left out, since they pass the hidden tests: the feedback was wrong, and there was nothing to mend."""
    unknown: int
    """Left out, since a verdict on it or on what came after says nothing of a program."""


class _Failure(NamedTuple):
    case: Case
    kind: str
    mended_next: bool
    mended_end: bool


def repairs(arm: Arm, kind: Callable[[Evaluation], str], seed: int = 0) -> RepairRates:
    """The repairs of an arm. A loop counts once for every failure that it went on from.

    Parameters
    ----------
    kind : Callable[[Evaluation], str]
        Names the class of a failed evaluation.
    seed : int, default 0
        Of the bootstrap (`statistics.bootstrap`).
    """
    failures: dict[str, list[_Failure]] = {}
    rejected = unknown = 0
    for case, attempts in arm.attempts.items():
        grades, end = arm.grades[case], submitted_at(attempts).number
        for attempt, following in pairwise(attempts):
            verdicts = grades[attempt.number], grades[following.number], grades[end]
            if attempt.evaluation.passed:
                continue
            if attempt.evaluation.outcome in UNKNOWN or any(grade.outcome in UNKNOWN for grade in verdicts):
                unknown += 1
            elif verdicts[0].passed:
                rejected += 1
            else:
                failure = _Failure(case, kind(attempt.evaluation), verdicts[1].passed, verdicts[2].passed)
                failures.setdefault(failure.kind, []).append(failure)
    return RepairRates(
        arm=arm.label,
        feedback_source=arm.feedback_source,
        is_upper_bound=arm.is_upper_bound,
        by_class={name: _repairs(members, seed) for name, members in sorted(failures.items(), key=_frequent_first)},
        rejected=rejected,
        unknown=unknown,
    )


def _frequent_first(item: tuple[str, list[_Failure]]) -> tuple[int, str]:
    return -len(item[1]), item[0]


def _repairs(members: list[_Failure], seed: int) -> Repairs:
    return Repairs(
        tasks=len({failure.case.task_id for failure in members}),
        next=_mended([(failure.case, failure.mended_next) for failure in members], seed),
        end=_mended([(failure.case, failure.mended_end) for failure in members], seed),
    )


def _mended(outcomes: list[tuple[Case, bool]], seed: int) -> Mended:
    return Mended(k=sum(passed for _, passed in outcomes), n=len(outcomes), share=interval(by_task(outcomes), seed))
