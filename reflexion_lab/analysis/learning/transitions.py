"""What one more attempt changes: right and wrong programs, repairs by failure class, and scores.

Right stays right or is damaged, wrong is repaired or stays wrong: Huang et al. 2024 (arXiv 2310.01798, figure 1), by
hidden verdicts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from reflexion_lab.analysis.arms import Arm, Case
from reflexion_lab.analysis.stats.bootstrap import difference, interval
from reflexion_lab.analysis.stats.intervals import Estimate
from reflexion_lab.loop.selection import submitted_at
from reflexion_lab.records import UNKNOWN, Attempt, Evaluation, Record

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray


class Moves(Record, frozen=True, kw_only=True):
    """Pairs of hidden verdicts, before and after; C is correct, W is wrong. Intervals take tasks as clusters."""

    attempt: int | None
    """The later of the two attempts; None where pairs of several are put together."""
    tasks: int
    """Distinct ones: the clusters of every interval."""
    cc: int
    cw: int
    """Damaged."""
    wc: int
    """Repaired."""
    ww: int
    unknown: int
    """Pairs left out, since the harness spoilt a verdict."""
    repair: Estimate | None
    """wc / (wc + ww); None where nothing was wrong before."""
    damage: Estimate | None
    """cw / (cc + cw); None where nothing was right before."""
    gain: Estimate | None
    """(wc - cw) / n; None without any pair."""

    @property
    def n(self) -> int:
        return self.cc + self.cw + self.wc + self.ww


class Transitions(Record, frozen=True, kw_only=True):
    """An arm's moves.

    Loops that go on are no sample of all loops: where feedback passed a program, its loop has ended. What was right and
    went on had been rejected by its feedback, and damage between attempts is measured on that alone; `ends` is about
    all loops.
    """

    arm: str
    feedback_source: str
    is_upper_bound: bool
    programs: tuple[Moves, ...]
    """For each attempt from 2 on: its program against that of the attempt before, over the loops that made it."""
    programs_pooled: Moves
    """All of them together, several pairs a loop."""
    submitted: tuple[Moves, ...]
    """The same of what would have been submitted at either attempt, over the same loops."""
    submitted_pooled: Moves
    ends: Moves
    """Over all loops, however short: what was submitted against attempt 1. Its gain is that of the whole loop."""


class _Pair(NamedTuple):
    case: Case
    attempt: int
    """The later of the two."""
    before: bool | None
    """None where the harness spoilt the verdict."""
    after: bool | None


def transitions(arm: Arm, seed: int = 0) -> Transitions:
    """The moves of an arm.

    Parameters
    ----------
    seed : int, default 0
        Of the bootstrap (`statistics.bootstrap`).
    """
    steps = [
        (case, attempts, before, after)
        for case, attempts in arm.attempts.items()
        for before, after in pairwise(attempts)
    ]
    programs = [_pair(arm, case, before, after, after.number) for case, _, before, after in steps]
    submitted = [
        _pair(arm, case, submitted_at(attempts, before.number), submitted_at(attempts, after.number), after.number)
        for case, attempts, before, after in steps
    ]
    return Transitions(
        arm=arm.label,
        feedback_source=arm.feedback_source,
        is_upper_bound=arm.is_upper_bound,
        programs=tuple(_by_attempt(programs, arm.longest, seed)),
        programs_pooled=_moves(programs, None, seed),
        submitted=tuple(_by_attempt(submitted, arm.longest, seed)),
        submitted_pooled=_moves(submitted, None, seed),
        ends=ends(arm, seed),
    )


def ends(arm: Arm, seed: int = 0) -> Moves:
    """From attempt 1 to what was submitted, over all loops: `Transitions.ends` alone, which is far cheaper."""
    pairs = [_pair(arm, case, submitted_at(m, 1), submitted_at(m), m[-1].number) for case, m in arm.attempts.items()]
    return _moves(pairs, None, seed)


def moves(before: Mapping[Case, bool], after: Mapping[Case, bool], seed: int = 0) -> Moves:
    """From one verdict to another on the cases that both have."""
    pairs = [_Pair(case, 0, passed, after[case]) for case, passed in before.items() if case in after]
    return _moves(pairs, None, seed)


def _pair(arm: Arm, case: Case, before: Attempt, after: Attempt, number: int) -> _Pair:
    verdicts = [
        None if grade.outcome in UNKNOWN else grade.passed
        for grade in (arm.grades[case][attempt.number] for attempt in (before, after))
    ]
    return _Pair(case, number, *verdicts)


def _by_attempt(pairs: Sequence[_Pair], longest: int, seed: int) -> Iterator[Moves]:
    for attempt in range(2, longest + 1):
        yield _moves([pair for pair in pairs if pair.attempt == attempt], attempt, seed)


def _moves(pairs: Sequence[_Pair], attempt: int | None, seed: int) -> Moves:
    known = [(case, was, now) for case, _, was, now in pairs if was is not None and now is not None]
    kinds = [(was, now) for _, was, now in known]
    wrong = [(case, now) for case, was, now in known if not was]
    right = [(case, not now) for case, was, now in known if was]
    before, after = [(case, was) for case, was, _ in known], [(case, now) for case, _, now in known]
    return Moves(
        attempt=attempt,
        tasks=len({case.task_id for case, _, _ in known}),
        cc=kinds.count((True, True)),
        cw=kinds.count((True, False)),
        wc=kinds.count((False, True)),
        ww=kinds.count((False, False)),
        unknown=len(pairs) - len(known),
        repair=interval(by_task(wrong), seed) if wrong else None,
        damage=interval(by_task(right), seed) if right else None,
        gain=difference(by_task(before), by_task(after)) if known else None,
    )


def by_task(outcomes: Iterable[tuple[Case, bool]]) -> NDArray[float64]:
    """A row a task, sorted: 0 and 1, shape (tasks, most outcomes that a task has); not a number where one has fewer.

    It is what `statistics.bootstrap.interval` takes.
    """
    import numpy as np

    rows: dict[str, list[bool]] = {}
    for case, outcome in outcomes:
        rows.setdefault(case.task_id, []).append(outcome)
    outcomes_by_task = np.full((len(rows), max(map(len, rows.values()), default=0)), np.nan)
    for place, task_id in enumerate(sorted(rows)):
        outcomes_by_task[place, : len(rows[task_id])] = rows[task_id]
    return outcomes_by_task


class RepairShare(Record, frozen=True, kw_only=True):
    """How many of some failures were put right. The interval takes tasks as clusters."""

    k: int
    n: int
    share: Estimate


class Repairs(Record, frozen=True, kw_only=True):
    """Failures of one class that their loops went on from, and what came of them by hidden verdicts."""

    tasks: int
    """Distinct ones: the clusters of the intervals."""
    next: RepairShare
    """The next attempt's program passes the hidden tests."""
    end: RepairShare
    """What the loop submitted in the end passes them."""


class RepairRates(Record, frozen=True, kw_only=True):
    """An arm's repairs. A failure is a program that fails its feedback tests and the hidden ones."""

    arm: str
    feedback_source: str
    is_upper_bound: bool
    by_class: dict[str, Repairs]
    """The most frequent class first."""
    rejected: int
    """Programs left out, since they pass the hidden tests: the feedback was wrong, and there was nothing to repair."""
    unknown: int
    """Left out, since a verdict on it or on what came after says nothing of a program."""


class _Failure(NamedTuple):
    case: Case
    kind: str
    repaired_next: bool
    repaired_end: bool


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
        next=_repair_share([(failure.case, failure.repaired_next) for failure in members], seed),
        end=_repair_share([(failure.case, failure.repaired_end) for failure in members], seed),
    )


def _repair_share(outcomes: list[tuple[Case, bool]], seed: int) -> RepairShare:
    return RepairShare(
        k=sum(passed for _, passed in outcomes), n=len(outcomes), share=interval(by_task(outcomes), seed)
    )


TRENDS = ("improving", "steady", "declining", "insufficient")
FEWEST = 3
"""Scores that a trend needs."""
STEADY = 0.02
"""A rise or fall, over all attempts, below this share of the largest score is none."""


def deltas(scores: Sequence[float]) -> tuple[float, ...]:
    """d[0] = 0, d[i] = s[i] - s[i-1]; aligned with `scores`."""
    return (0.0, *(after - before for before, after in pairwise(scores)))[: len(scores)]


def learning_rate(scores: Sequence[float]) -> float:
    """(s[n] - s[1]) / n, over n scores; 0.0 for none."""
    return (scores[-1] - scores[0]) / len(scores) if scores else 0.0


def trend(scores: Sequence[float]) -> str:
    """By the rise of the least-squares line from the first score to the last; `insufficient` for fewer than 3.

    rise = (n - 1) * sum((i - mean i) * s[i]) / sum((i - mean i)^2). It is `steady` where
    |rise| < 0.02 * max |s|.
    """
    n = len(scores)
    if n < FEWEST:
        return "insufficient"
    offsets = [i - (n - 1) / 2 for i in range(n)]
    slope = sum(offset * score for offset, score in zip(offsets, scores, strict=True))
    rise = (n - 1) * slope / sum(offset * offset for offset in offsets)
    if rise == 0 or abs(rise) < STEADY * max(map(abs, scores)):
        return "steady"
    return "improving" if rise > 0 else "declining"


def errors_removed(errors: Sequence[int]) -> int:
    """e[1] - e[n], over counts of errors; 0 for none."""
    return errors[0] - errors[-1] if errors else 0


def diminishing_returns(scores: Sequence[float]) -> bool:
    """Whether the later steps gain, in the mean, at most half of what the earlier ones gained, and lose nothing.

    Steps are cut in two halves; the middle one of an odd number belongs to the later half. False for fewer than 3
    scores, and where the earlier steps gained nothing.
    """
    steps = deltas(scores)[1:]
    half = len(steps) // 2
    if not half:
        return False
    earlier, later = sum(steps[:half]) / half, sum(steps[half:]) / (len(steps) - half)
    return earlier > 0 and 0 <= later <= earlier / 2


def breakthroughs(scores: Sequence[float]) -> tuple[int, ...]:
    """Attempts, 1-based, whose score is above every earlier one; the first is none.

    (`Attempt.delta.is_improvement` is weaker: above the attempt just before, which may have been a relapse.)
    """
    return tuple(i + 1 for i in range(1, len(scores)) if scores[i] > max(scores[:i]))
