"""Estimators on attempts and grades: convergence curve, paired verdicts, and the trust that feedback tests deserve."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from reflexion_lab.analysis.stats.intervals import Rate, mcnemar, paired_difference
from reflexion_lab.errors import ConfigError
from reflexion_lab.loop.selection import is_solved, submitted_at, without_verdict
from reflexion_lab.records import UNKNOWN, Attempt, Check, Evaluation, Grade, Record, SuiteVerdict, WrittenTests


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
    """95 % interval of the difference (`stats.intervals.over_tasks`)."""
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


class Confusion(Record, frozen=True, kw_only=True):
    """Feedback verdicts on programs against the hidden ones. "Positive" is a program that passed its feedback tests.

    The intervals take programs as independent; attempts at one task are not, and theirs are too narrow.
    """

    true_positives: int
    false_positives: int
    """Passed its feedback tests, fails the hidden ones: the loop stops on a wrong program."""
    false_negatives: int
    """Failed its feedback tests, passes the hidden ones: the loop goes on from a right program."""
    true_negatives: int
    unknown: int
    """Programs without one of the verdicts: no feedback test, or a harness error. Part of no rate."""
    wrong_if_passed: Rate
    """P(hidden fail | feedback pass): what Reflexion's table 2 calls the false positives of a suite."""
    right_if_failed: Rate
    """P(hidden pass | feedback fail)."""
    false_positive_rate: Rate
    """P(feedback pass | hidden fail)."""
    false_negative_rate: Rate
    """P(feedback fail | hidden pass)."""


class SuiteQuality(Record, frozen=True, kw_only=True):
    """Tests that a model wrote, judged by the canonical solutions. A test is valid where the solution passes it."""

    suites: int
    """Tasks that the model was asked to write tests for."""
    empty: int
    """Of these, without a test that was kept: no feedback, and never a pass."""
    tests: int
    """Tests that were kept."""
    unjudged: int
    """Of these, without a verdict: no canonical solution, the run is not over, or a harness error. Part of no rate."""
    valid: Rate
    """Valid tests of the judged ones."""
    valid_suites: Rate
    """Suites whose every test is valid, of those that hold a test and of which every test is judged."""
    invalid_outcomes: dict[str, int]
    """What the canonical solutions met in invalid tests."""
    dropped: dict[str, int]
    """By reason, what the model wrote and nobody kept; the same words twice for one task count once."""


def confusion(verdicts: Iterable[tuple[bool | None, bool | None]]) -> Confusion:
    """Of pairs (feedback, hidden): True passes, False fails, None is unknown."""
    counted = Counter(verdicts)
    tp, fp = counted[True, True], counted[True, False]
    fn, tn = counted[False, True], counted[False, False]
    return Confusion(
        true_positives=tp,
        false_positives=fp,
        false_negatives=fn,
        true_negatives=tn,
        unknown=counted.total() - tp - fp - fn - tn,
        wrong_if_passed=Rate.of(fp, tp + fp),
        right_if_failed=Rate.of(fn, fn + tn),
        false_positive_rate=Rate.of(fp, fp + tn),
        false_negative_rate=Rate.of(fn, fn + tp),
    )


def feedback_confusion(judged: Iterable[tuple[Attempt, Grade]]) -> Confusion:
    """The feedback verdict on each attempt against its hidden one."""
    return confusion((_verdict(attempt.evaluation), _verdict(grade)) for attempt, grade in judged)


def assert_confusion(judged: Iterable[tuple[Attempt, Grade]]) -> Confusion:
    """The verdict of every single feedback test on each attempt against the attempt's hidden one."""
    return confusion(
        (None if check.outcome in UNKNOWN else check.outcome == "pass", _verdict(grade))
        for attempt, grade in judged
        for check in attempt.evaluation.checks
        if check.kind == "test"
    )


def suite_quality(written: Iterable[WrittenTests], verdicts: Mapping[str, SuiteVerdict]) -> SuiteQuality:
    """`verdicts` by task; a suite without one is unjudged."""
    suites = list(written)
    judged = {suite.task_id: _judged(verdicts.get(suite.task_id)) for suite in suites}
    checks = [check for checks_of_suite in judged.values() for check in checks_of_suite]
    complete = [judged[suite.task_id] for suite in suites if 0 < len(suite.tests) == len(judged[suite.task_id])]
    invalid = [check.outcome for check in checks if check.outcome != "pass"]
    tests = sum(len(suite.tests) for suite in suites)
    reasons = (reason.partition(":")[0] for suite in suites for reason in suite.dropped.values())
    return SuiteQuality(
        suites=len(suites),
        empty=sum(not suite.tests for suite in suites),
        tests=tests,
        unjudged=tests - len(checks),
        valid=Rate.of(len(checks) - len(invalid), len(checks)),
        valid_suites=Rate.of(sum(all(check.outcome == "pass" for check in suite) for suite in complete), len(complete)),
        invalid_outcomes=dict(Counter(invalid)),
        dropped=dict(Counter(reasons)),
    )


def _verdict(judged: Evaluation | Grade) -> bool | None:
    return None if judged.outcome in UNKNOWN else judged.passed


def _judged(verdict: SuiteVerdict | None) -> list[Check]:
    return [check for check in verdict.checks if check.outcome not in UNKNOWN] if verdict else []
