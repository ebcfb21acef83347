"""Transitions between attempts: repaired and damaged programs, repairs by failure class, and trends of rewards.

Correct programs stay correct or are damaged, wrong ones are repaired or stay wrong (Huang et al. 2024, arXiv
2310.01798, figure 1), by hidden verdicts.
"""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

from reflexion_lab.analysis.arms import Arm, Case
from reflexion_lab.analysis.stats.bootstrap import difference, rate
from reflexion_lab.analysis.stats.clusters import ALONE, Clusters, by_cluster, count
from reflexion_lab.analysis.stats.estimators import verdict
from reflexion_lab.analysis.stats.intervals import Estimate, Rate
from reflexion_lab.loop.policy import with_parents
from reflexion_lab.loop.selection import submitted_at
from reflexion_lab.loop.stop import program_of
from reflexion_lab.records import Attempt, Episode, Record, base_id


class Moves(Record, frozen=True, kw_only=True):
    """Pairs of hidden verdicts, before and after: C is correct, W is wrong. Intervals are over clusters of tasks."""

    attempt: int | None
    """Place of the later attempt on its path from a fresh draw; None from the first to the submission."""
    tasks: int
    clusters: int
    """Clusters of these tasks, the units of all intervals."""
    cc: int
    cw: int
    """Damaged."""
    wc: int
    """Repaired."""
    ww: int
    unknown: int
    """Pairs without both verdicts, which are not counted."""
    repair: Rate | None
    """wc / (wc + ww); None if none was wrong before."""
    damage: Rate | None
    """cw / (cc + cw); None if none was correct before."""
    gain: Estimate | None
    """(wc - cw) / n; None without pairs, as the shares of all pairs below."""
    wrong_to_right: Rate | None
    """wc / n."""
    right_to_wrong: Rate | None
    """cw / n."""
    unchanged: Rate | None
    """(cc + ww) / n."""

    @property
    def n(self) -> int:
        return self.cc + self.cw + self.wc + self.ww


class Transitions(Record, frozen=True, kw_only=True):
    """Transitions of an arm.

    Loops that continue are not a random sample: a loop ends when feedback passes its program. Damage between attempts
    is thus measured only on correct programs that feedback rejected; `ends` covers all loops.
    """

    arm: str
    feedback_source: str
    is_upper_bound: bool
    programs: tuple[Moves, ...]
    """For each place from 2 on, from the continued program to the next, over the loops that reached it."""


class _Pair(NamedTuple):
    case: Case
    attempt: int
    """Place of the later of the two on its path."""
    before: bool | None
    after: bool | None


def transitions(arm: Arm) -> Transitions:
    programs = [pair for case, attempts in arm.attempts.items() for pair in _continued(arm, case, attempts)]
    longest = max((pair.attempt for pair in programs), default=1)
    return Transitions(
        arm=arm.label,
        feedback_source=arm.feedback_source,
        is_upper_bound=arm.is_upper_bound,
        programs=tuple(
            _moves([pair for pair in programs if pair.attempt == attempt], attempt, arm.clusters)
            for attempt in range(2, longest + 1)
        ),
    )


@functools.lru_cache(maxsize=16)  # five metrics read it
def ends(arm: Arm) -> Moves:
    """From attempt 1 to the submission, over all loops; its gain is that of the whole loop."""
    pairs = [_pair(arm, case, submitted_at(m, 1), submitted_at(m), 0) for case, m in arm.attempts.items()]
    return _moves(pairs, None, arm.clusters)


def _continued(arm: Arm, case: Case, attempts: Sequence[Attempt]) -> Iterator[_Pair]:
    """Each attempt with the one that it continues."""
    places: dict[int, int] = {}
    for before, attempt in with_parents(attempts):
        places[attempt.number] = place = places.get(attempt.parent, 0) + 1
        if before is not None:
            yield _pair(arm, case, before, attempt, place)


def _pair(arm: Arm, case: Case, before: Attempt, after: Attempt, place: int) -> _Pair:
    grades = arm.grades[case]
    return _Pair(case, place, verdict(grades[before.number]), verdict(grades[after.number]))


def _moves(pairs: Sequence[_Pair], attempt: int | None, clusters: Clusters) -> Moves:
    known = [(case.task_id, was, now) for case, _, was, now in pairs if was is not None and now is not None]
    kinds = [(was, now) for _, was, now in known]
    wrong = [(task, now) for task, was, now in known if not was]
    right = [(task, not now) for task, was, now in known if was]

    def share(is_such: Callable[[bool, bool], bool]) -> Rate | None:
        return rate([(task, is_such(was, now)) for task, was, now in known], clusters) if known else None

    before, after = [(task, was) for task, was, _ in known], [(task, now) for task, _, now in known]
    return Moves(
        attempt=attempt,
        tasks=len({task for task, _, _ in known}),
        clusters=count((task for task, _, _ in known), clusters),
        cc=kinds.count((True, True)),
        cw=kinds.count((True, False)),
        wc=kinds.count((False, True)),
        ww=kinds.count((False, False)),
        unknown=len(pairs) - len(known),
        repair=rate(wrong, clusters) if wrong else None,
        damage=rate(right, clusters) if right else None,
        gain=difference(by_cluster(before, clusters), by_cluster(after, clusters)) if known else None,
        wrong_to_right=share(lambda was, now: now and not was),
        right_to_wrong=share(lambda was, now: was and not now),
        unchanged=share(lambda was, now: was == now),
    )


class Reactions(NamedTuple):
    """Reactions to feedback: of attempts that failed feedback checks and were continued, by the next attempt (Feedback
    Friction, arXiv 2506.11930). None where none was.
    """

    uptake: Rate | None
    """Another behaviour on the failed checks: outcome, value or error."""
    resistance: Rate | None
    """The same program but for blank lines and trailing spaces."""


def reactions(loops: Iterable[Sequence[Attempt]], clusters: Clusters = ALONE) -> Reactions:
    """Reactions in these loops, from records alone."""
    pairs = [
        (base_id(after.task_id), before, after)
        for attempts in loops
        for before, after in with_parents(attempts)
        if before and after.evaluation.has_verdict and _failed(before, before)
    ]
    changed = [(task, _failed(before, before) != _failed(after, before)) for task, before, after in pairs]
    equal = [(task, program_of(before) == program_of(after)) for task, before, after in pairs]
    return Reactions(*(rate(each, clusters) if each else None for each in (changed, equal)))


def _failed(attempt: Attempt, before: Attempt) -> list[tuple[str, str, str]]:
    """Results of an attempt in the checks, by position, that `before` failed."""
    pairs = zip(before.evaluation.checks, attempt.evaluation.checks, strict=False)
    return [(now.outcome, now.actual, now.error_type) for was, now in pairs if was.outcome != "pass"]


FEWEST = 3
"""Minimum number of scores of a trend."""
STEADY = 0.02
"""Maximum total change of a steady trend, relative to the largest score."""


def learning_rate(scores: Sequence[float]) -> float:
    """(s[n] - s[1]) / n for n scores; 0.0 without scores."""
    return (scores[-1] - scores[0]) / len(scores) if scores else 0.0


def trend(scores: Sequence[float]) -> str:
    """`improving`, `steady` or `declining`, by the least-squares line; `insufficient` for fewer than 3 scores.

    The rise from the first score to the last is (n - 1) * sum((i - mean i) * s[i]) / sum((i - mean i)^2). The trend is
    steady if |rise| < 0.02 * max |s|.
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
    """e[1] - e[n] for counts of errors; 0 without counts."""
    return errors[0] - errors[-1] if errors else 0


def diminishing_returns(scores: Sequence[float]) -> bool:
    """Whether the mean gain of the later steps is at least 0 and at most half that of the earlier steps.

    The middle one of an odd number of steps is a later step. False for fewer than 3 scores or without an earlier gain.
    """
    steps = [after - before for before, after in pairwise(scores)]
    half = len(steps) // 2
    if not half:
        return False
    earlier, later = sum(steps[:half]) / half, sum(steps[half:]) / (len(steps) - half)
    return earlier > 0 and 0 <= later <= earlier / 2


def breakthroughs(scores: Sequence[float]) -> tuple[int, ...]:
    """Attempts (from 2) whose score exceeds all earlier scores.

    `Attempt.delta.is_improvement` is weaker: it compares with the previous attempt alone.
    """
    return tuple(i + 1 for i in range(1, len(scores)) if scores[i] > max(scores[:i]))


def learning_of(episodes: Iterable[Episode]) -> dict[str, Rate | float | dict[str, int]]:
    """Measures by feedback verdicts; without a case, they are absent. Those of rewards are over loops with a retry.
    The last pair a loop with the one before it at its task: a failure after a success is negative transfer.
    """
    loops: dict[str, list[Episode]] = defaultdict(list)
    tasks: dict[str, list[int]] = defaultdict(list)
    for episode in sorted(episodes, key=lambda episode: (episode.timestamp, episode.attempt_number)):
        loops[episode.session_id or episode.task_id].append(episode)
    for loop in loops.values():
        tasks[loop[0].task_id].append(next((n for n, episode in enumerate(loop, 1) if episode.passed), 0))
    ends = [(task, end) for task, of_task in tasks.items() for end in of_task]
    pairs = [(task, *pair) for task, of_task in tasks.items() for pair in pairwise(of_task)]
    retried = [[episode.reward for episode in loop] for loop in loops.values() if len(loop) > 1]
    errors = [[int(e.metadata["errors"]) for e in loop if "errors" in e.metadata] for loop in loops.values()]
    words = [episode.reflection for loop in loops.values() for episode in loop if episode.reflection]
    lessons = [lesson for reflection in words for lesson in (*reflection.lessons, reflection.key_insight) if lesson]
    measures: dict[str, Rate | float | dict[str, int] | None] = {
        "loops solved": rate((task, bool(end)) for task, end in ends),
        "attempts": sum(map(len, loops.values())),
        "attempts to success": _mean(end for _, end in ends if end),
        "loops with a retry": len(retried),
        "learning rate per attempt": _mean(map(learning_rate, retried)),
        "failing checks removed per loop": _mean(errors_removed(known) for known in errors if len(known) > 1),
        "trend of rewards": dict(Counter(map(trend, retried))),
        "breakthroughs": dict(Counter(f"at attempt {n}" for loop in retried for n in breakthroughs(loop))),
        "lessons": {"in all": len(lessons), "distinct": len({" ".join(each.casefold().split()) for each in lessons})},
        "mean confidence": _mean(reflection.confidence for reflection in words),
        "failures by category": dict(Counter(str(reflection.category) for reflection in words)),
        "solved after a failure": rate((task, bool(later)) for task, first, later in pairs if not first),
        "lost after a success": rate((task, not later) for task, first, later in pairs if first),
        "attempts saved": _mean(first - later for _, first, later in pairs if first and later),
    }
    return {name: v for name, v in measures.items() if v is not None and not (isinstance(v, Rate) and not v.n)}


def _mean(values: Iterable[float]) -> float | None:
    return fmean(known) if (known := list(values)) else None
