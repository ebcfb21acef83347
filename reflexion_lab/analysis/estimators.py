"""What a run's records say: pure functions, no files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from reflexion_lab.records import Attempt, Grade, Record
from reflexion_lab.statistics.intervals import Rate, mcnemar, paired_difference


class Point(Record, frozen=True, kw_only=True):
    """All tasks, had every loop been cut at `attempt`. Shares are of `n` tasks, in [0, 1]."""

    attempt: int
    n: int
    """Tasks; the same at every point, since a task whose loop ended earlier keeps its verdict."""
    solved: int
    """Tasks whose submission passes the hidden tests."""
    pass_at_1: float
    """solved / n; in an `oracle` run an upper bound and no pass@1."""
    low: float
    high: float
    """Wilson 95 % interval of `pass_at_1`."""
    any_solved: float
    """Share of tasks of which any attempt passes the hidden tests so far: an oracle's pick, no pass@1."""
    visible_pass: float
    """Share of tasks whose submission passed its feedback checks."""
    reward: float
    """Mean over tasks of the best feedback reward so far."""
    tokens_cum: int
    """Tokens of all roles so far, those for written tests and the reflection after attempt `attempt` included."""


class Paired(Record, frozen=True, kw_only=True):
    """Two verdicts on each of the same tasks: the second against the first."""

    n: int
    both: int
    damaged: int
    """Solved by the first alone; b in McNemar's test."""
    repaired: int
    """Solved by the second alone; c in McNemar's test."""
    neither: int
    difference: float
    """share(second) - share(first), in [-1, 1]."""
    low: float
    high: float
    """95 % interval of the difference (Newcombe 1998, method 10)."""
    p: float
    """McNemar's exact test, two-sided."""


def submitted_at(attempts: Sequence[Attempt], t: int | None = None) -> Attempt:
    """What would have been submitted had the loop been cut at attempt `t`; without `t`, what was.

    The first attempt that passed its feedback checks, else the one of most worth by them (reward, weighed by the
    evaluator's confidence), the earlier on a tie. A runner that decides what to submit and a curve that cuts loops
    short both ask here.

    Raises:
        ValueError: no attempt up to `t`.
    """
    made = [attempt for attempt in attempts if t is None or attempt.number <= t]
    if not made:
        raise ValueError(f"no attempt up to t = {t} found; expected one at least, and t of 1 or more")
    return max(made, key=lambda made: (made.evaluation.passed, made.evaluation.worth, -made.number))


def verdicts_at(
    attempts: Mapping[str, Sequence[Attempt]], grades: Mapping[tuple[str, int], Grade], t: int | None = None
) -> dict[str, bool]:
    """By task, the hidden verdict on what `submitted_at` picks.

    Raises:
        ValueError: an attempt that is needed has no grade yet.
    """
    return {task_id: _solved(grades, submitted_at(made, t)) for task_id, made in attempts.items()}


def curve(
    attempts: Mapping[str, Sequence[Attempt]],
    grades: Mapping[tuple[str, int], Grade],
    n_attempts: int,
    tokens_before: int = 0,
) -> list[Point]:
    """The convergence curve: one point for each cut from 1 to `n_attempts`; empty where there is no task.

    Args:
        attempts: by task, for tasks whose loops have ended; at least one each.
        grades: hidden verdicts on all of these attempts.
        tokens_before: what was spent before any attempt, on tests that the model wrote; part of every point.

    Raises:
        ValueError: `n_attempts` below 1, or an attempt that has no grade yet.
    """
    if n_attempts < 1:
        raise ValueError(f"n_attempts: {n_attempts} found; expected 1 or more")
    if not attempts:
        return []
    points = (_point(attempts, grades, t) for t in range(1, n_attempts + 1))
    return [replace(point, tokens_cum=tokens_before + point.tokens_cum) for point in points]


def paired(first: Mapping[str, bool], second: Mapping[str, bool]) -> Paired:
    """The second verdict on each task against the first.

    Raises:
        ValueError: the two do not cover the same tasks.
    """
    if odd := sorted(first.keys() ^ second.keys()):
        raise ValueError(f"{', '.join(odd[:3])}: one verdict found; expected two on each task, of the same tasks")
    pairs = [(first[task_id], second[task_id]) for task_id in first]
    n11, n10 = pairs.count((True, True)), pairs.count((True, False))
    n01, n00 = pairs.count((False, True)), pairs.count((False, False))
    low, high = paired_difference(n11, n10, n01, n00)
    return Paired(
        n=len(pairs),
        both=n11,
        damaged=n10,
        repaired=n01,
        neither=n00,
        difference=(n01 - n10) / len(pairs) if pairs else 0.0,
        low=low,
        high=high,
        p=mcnemar(n10, n01),
    )


def tokens(attempt: Attempt) -> int:
    """Tokens of all roles, prompts and replies; a cached reply counts what it took when first drawn."""
    return sum(usage.tokens for usage in attempt.usage.values())


def _point(attempts: Mapping[str, Sequence[Attempt]], grades: Mapping[tuple[str, int], Grade], t: int) -> Point:
    made = [[attempt for attempt in history if attempt.number <= t] for history in attempts.values()]
    picked = [submitted_at(history) for history in made]
    rate = Rate.of(sum(_solved(grades, attempt) for attempt in picked), len(made))
    return Point(
        attempt=t,
        n=rate.n,
        solved=rate.k,
        pass_at_1=rate.share,
        low=rate.low,
        high=rate.high,
        any_solved=sum(max(_solved(grades, attempt) for attempt in history) for history in made) / rate.n,
        visible_pass=sum(attempt.evaluation.passed for attempt in picked) / rate.n,
        reward=sum(max(attempt.evaluation.reward for attempt in history) for history in made) / rate.n,
        tokens_cum=sum(tokens(attempt) for history in made for attempt in history),
    )


def _solved(grades: Mapping[tuple[str, int], Grade], attempt: Attempt) -> bool:
    grade = grades.get((attempt.task_id, attempt.number))
    if grade is None:
        raise ValueError(
            f"task {attempt.task_id}, attempt {attempt.number}: no hidden verdict found; "
            "expected one for every attempt; was the run cut off before its end? Resume it"
        )
    return grade.passed
