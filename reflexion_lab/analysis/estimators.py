"""What a run's records say: pure functions, no files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from reflexion_lab.analysis.stats.intervals import Rate, mcnemar, paired_difference
from reflexion_lab.errors import ConfigError
from reflexion_lab.loop.selection import is_solved, submitted_at, without_verdict
from reflexion_lab.records import UNKNOWN, Attempt, Grade, Record


class Point(Record, frozen=True, kw_only=True):
    """All tasks, had every loop been cut at `attempt`. Shares are of `n` tasks, in [0, 1]."""

    attempt: int
    n: int
    """Tasks with a hidden verdict; the same at every point, since a task whose loop ended earlier keeps its verdict."""
    solved: int
    """Tasks whose submission passes the hidden tests."""
    pass_at_1: float
    """solved / n; in an `oracle` run an upper bound and no pass@1."""
    low: float
    high: float
    """Wilson 95 % interval of `pass_at_1`."""
    any_solved: float
    """Share of tasks of which any attempt passes the hidden tests so far: an oracle's pick, no pass@1."""
    n_feedback: int
    """Tasks whose submission has a feedback verdict."""
    visible_pass: float | None
    """Share of these `n_feedback` tasks whose submission passed its feedback checks; None without any."""
    reward: float | None
    """Mean over these `n_feedback` tasks of the best feedback reward so far; None without any."""
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


def curve(
    attempts: Mapping[str, Sequence[Attempt]],
    grades: Mapping[tuple[str, int], Grade],
    n_attempts: int,
    tokens_before: int = 0,
) -> list[Point]:
    """The convergence curve: one point for each cut from 1 to `n_attempts`; empty without a task that has a verdict.

    Parameters
    ----------
    attempts : Mapping[str, Sequence[Attempt]]
        By task, for tasks whose loops have ended; at least one each.
    grades : Mapping[tuple[str, int], Grade]
        Hidden verdicts on all of these attempts.
    tokens_before : int, default 0
        What was spent before any attempt, on tests that the model wrote; part of every point.

    Raises
    ------
    ConfigError
        `n_attempts` below 1, or an attempt that has no grade yet.
    """
    if n_attempts < 1:
        raise ConfigError("n_attempts", n_attempts, "1 or more")
    if attempts.keys() <= without_verdict(grades.values()):
        return []
    points = (_point(attempts, grades, t) for t in range(1, n_attempts + 1))
    return [replace(point, tokens_cum=tokens_before + point.tokens_cum) for point in points]


def paired(first: Mapping[str, bool], second: Mapping[str, bool]) -> Paired:
    """The second verdict on each task against the first.

    Raises
    ------
    ConfigError
        The two do not cover the same tasks.
    """
    if odd := sorted(first.keys() ^ second.keys()):
        raise ConfigError(", ".join(odd[:3]), "one verdict", "two on each task, of the same tasks")
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
    cut = [[attempt for attempt in history if attempt.number <= t] for history in attempts.values()]
    submitted = [submitted_at(history) for history in cut]
    left_out = without_verdict(grades.values())
    solved = [is_solved(grades, attempt) for attempt in submitted if attempt.task_id not in left_out]
    rate = Rate.of(sum(solved), len(solved))
    any_solved = {
        attempt.task_id
        for history in cut
        for attempt in history
        if attempt.task_id not in left_out and is_solved(grades, attempt)
    }
    passed = [attempt.evaluation.passed for attempt in submitted if attempt.evaluation.outcome not in UNKNOWN]
    rewards = [
        max(attempt.evaluation.reward for attempt in history)
        for history, attempt in zip(cut, submitted, strict=True)
        if attempt.evaluation.outcome not in UNKNOWN
    ]
    return Point(
        attempt=t,
        n=rate.n,
        solved=rate.k,
        pass_at_1=rate.share,
        low=rate.low,
        high=rate.high,
        any_solved=len(any_solved) / rate.n,
        n_feedback=len(passed),
        visible_pass=sum(passed) / len(passed) if passed else None,
        reward=sum(rewards) / len(passed) if passed else None,
        tokens_cum=sum(tokens(attempt) for history in cut for attempt in history),
    )
