"""Estimators on attempts and grades: convergence curve, paired verdicts, error rates of feedback tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from msgspec.structs import replace

from reflexion_lab.analysis.stats import bootstrap
from reflexion_lab.analysis.stats.clusters import ALONE, Clusters, are_shared, by_cluster
from reflexion_lab.analysis.stats.intervals import Rate, mcnemar, paired_difference
from reflexion_lab.analysis.stats.permutation import sign_flip
from reflexion_lab.errors import ConfigError
from reflexion_lab.loop.selection import is_solved, submitted_at, without_verdict
from reflexion_lab.records import UNKNOWN, Attempt, Evaluation, Grade, Record, SuiteVerdict, WrittenTests


class Point(Record, frozen=True, kw_only=True):
    """All tasks with every loop cut at `attempt`. Shares are of `n` tasks, in [0, 1]."""

    attempt: int
    n: int
    """Tasks with a hidden verdict, the same at every point: a task whose loop ended earlier keeps its verdict."""
    solved: int
    """Tasks whose submission passes the hidden tests."""
    pass_at_1: float
    """solved / n; an upper bound in an `oracle` run."""
    low: float
    high: float
    """95 % interval of `pass_at_1` (`stats.bootstrap.rate`)."""
    any_solved: float
    """Share of tasks with any attempt so far that passes the hidden tests: an oracle's pick, not pass@1."""
    n_feedback: int
    """Tasks whose submission has a feedback verdict."""
    visible_pass: float | None
    """Share of these tasks whose submission passed its feedback checks; None if there are none."""
    reward: float | None
    """Mean over these tasks of the best feedback reward so far; None if there are none."""
    tokens_cum: int
    """Tokens of all roles so far, including written tests and the reflection on attempt `attempt`."""


class Paired(Record, frozen=True, kw_only=True):
    """Paired verdicts, the second compared with the first."""

    n: int
    both: int
    damaged: int
    """Solved only by the first; b in McNemar's test."""
    repaired: int
    """Solved only by the second; c in McNemar's test."""
    neither: int
    difference: float
    """share(second) - share(first), in [-1, 1]."""
    low: float
    high: float
    """95 % interval of the difference (`stats.intervals.over_tasks`)."""
    p: float
    """Exact McNemar test, two-sided; with shared clusters `stats.permutation.sign_flip`."""


def curve(
    attempts: Mapping[str, Sequence[Attempt]],
    grades: Mapping[tuple[str, int], Grade],
    n_attempts: int,
    tokens_before: int = 0,
    clusters: Clusters = ALONE,
) -> list[Point]:
    """Convergence curve: one point for each cut from 1 to `n_attempts`; empty if no task has a hidden verdict.

    Raises ConfigError: `n_attempts` below 1, or an attempt without a grade. `attempts`: by task, for tasks whose loops
    have ended; at least one each. `grades`: hidden verdicts on all of these attempts. `tokens_before`: tokens of
    written tests, part of every point. `clusters`: cluster by task.
    """
    if n_attempts < 1:
        raise ConfigError("n_attempts", n_attempts, "1 or more")
    if attempts.keys() <= without_verdict(chain(*attempts.values()), grades.values()):
        return []
    points = (_point(attempts, grades, t, clusters) for t in range(1, n_attempts + 1))
    return [replace(point, tokens_cum=tokens_before + point.tokens_cum) for point in points]


def verdict(judged: Evaluation | Grade | None) -> bool | None:
    """Whether it passed; None if there is no verdict: no test, or a harness error."""
    return judged.passed if judged and judged.has_verdict else None


def paired(first: Mapping[Any, bool], second: Mapping[Any, bool], clusters: Clusters = ALONE) -> Paired:
    """Compare two verdicts on each of the same tasks (or cases).

    Raises ConfigError: the two do not cover the same tasks. `clusters`: cluster by task (or case).
    """
    if unpaired := sorted(first.keys() ^ second.keys()):
        raise ConfigError(", ".join(map(str, unpaired[:3])), "one verdict", "two on each task, of the same tasks")
    pairs = [(first[key], second[key]) for key in first]
    n11, n10 = pairs.count((True, True)), pairs.count((True, False))
    n01, n00 = pairs.count((False, True)), pairs.count((False, False))
    low, high = paired_difference(n11, n10, n01, n00)
    p = mcnemar(n10, n01)
    if are_shared(first, clusters):
        before, after = (by_cluster(((key, side[key]) for key in first), clusters) for side in (first, second))
        estimate, p = bootstrap.difference(before, after), sign_flip(before, after)
        low, high = estimate.low, estimate.high
    return Paired(
        n=len(pairs),
        both=n11,
        damaged=n10,
        repaired=n01,
        neither=n00,
        difference=(n01 - n10) / len(pairs) if pairs else 0.0,
        low=low,
        high=high,
        p=p,
    )


def tokens(attempt: Attempt) -> int:
    """Tokens of all roles, prompts and replies, including cached calls."""
    return sum(usage.tokens for usage in attempt.usage.values())


def _point(
    attempts: Mapping[str, Sequence[Attempt]], grades: Mapping[tuple[str, int], Grade], t: int, clusters: Clusters
) -> Point:
    cut = [[attempt for attempt in history if attempt.number <= t] for history in attempts.values()]
    submitted = [submitted_at(history) for history in cut]
    left_out = without_verdict(chain(*attempts.values()), grades.values())
    solved = {a.task_id: is_solved(grades, a) for a in submitted if a.task_id not in left_out}
    rate = bootstrap.rate(solved.items(), clusters)
    any_solved = {
        attempt.task_id
        for history in cut
        for attempt in history
        if attempt.task_id not in left_out and is_solved(grades, attempt)
    }
    passed: list[bool] = []
    rewards: list[float] = []
    for history, attempt in zip(cut, submitted, strict=True):
        if (is_passed := verdict(attempt.evaluation)) is not None:
            passed.append(is_passed)
            rewards.append(max(attempt.evaluation.reward for attempt in history))
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
    """Confusion matrix of feedback verdicts against hidden ones. Positive: the program passed its feedback tests.

    Intervals are over clusters of tasks.
    """

    true_positives: int
    false_positives: int
    """Pass their feedback tests, fail the hidden ones: the loop stops on a wrong program."""
    false_negatives: int
    """Fail their feedback tests, pass the hidden ones: the loop continues from a correct program."""
    true_negatives: int
    unknown: int
    """Programs without one of the verdicts (no feedback test, or a harness error). In no rate."""
    wrong_if_passed: Rate
    """P(hidden fail | feedback pass), the false discovery rate ("false positives" in Table 2 of the paper)."""
    right_if_failed: Rate
    """P(hidden pass | feedback fail), the false omission rate."""
    false_positive_rate: Rate
    """P(feedback pass | hidden fail)."""
    false_negative_rate: Rate
    """P(feedback fail | hidden pass)."""


class SuiteQuality(Record, frozen=True, kw_only=True):
    """Quality of model-written tests, judged by the canonical solutions. A test is valid if the solution passes it."""

    suites: int
    """Tasks for which the model was asked to write tests."""
    empty: int
    """Of these, tasks without an accepted test: no feedback, and never a pass."""
    tests: int
    """Accepted tests."""
    unjudged: int
    """Of these, tests without a verdict (no canonical solution, unfinished run, or harness error). In no rate."""
    valid: Rate
    """Valid tests, of the judged ones."""
    valid_suites: Rate
    """Suites in which every test is valid, of the suites with a test and with every test judged."""
    invalid_outcomes: dict[str, int]
    """Outcomes of the canonical solutions on invalid tests."""
    dropped: dict[str, int]
    """Rejected tests by reason; duplicates within a task count once."""


def confusion(verdicts: Iterable[tuple[Any, bool | None, bool | None]], clusters: Clusters = ALONE) -> Confusion:
    """Confusion matrix of triples (task, feedback, hidden); None is unknown."""
    cases = list(verdicts)
    counts = Counter((feedback, hidden) for _, feedback, hidden in cases)
    known = [case for case in cases if None not in case[1:]]

    def share(of: bool, among: bool, place: int) -> Rate:
        """Of the cases whose verdict at `place` is `among`, those whose other one is `of`."""
        return bootstrap.rate(((case[0], case[3 - place] is of) for case in known if case[place] is among), clusters)

    tp, fp = counts[True, True], counts[True, False]
    fn, tn = counts[False, True], counts[False, False]
    return Confusion(
        true_positives=tp,
        false_positives=fp,
        false_negatives=fn,
        true_negatives=tn,
        unknown=counts.total() - tp - fp - fn - tn,
        wrong_if_passed=share(False, True, 1),
        right_if_failed=share(True, False, 1),
        false_positive_rate=share(True, False, 2),
        false_negative_rate=share(False, True, 2),
    )


def feedback_confusion(judged: Iterable[tuple[Attempt, Grade]], clusters: Clusters = ALONE) -> Confusion:
    """Confusion matrix of attempts."""
    triples = ((attempt.task_id, verdict(attempt.evaluation), verdict(grade)) for attempt, grade in judged)
    return confusion(triples, clusters)


def assert_confusion(judged: Iterable[tuple[Attempt, Grade]], clusters: Clusters = ALONE) -> Confusion:
    """Confusion matrix of single feedback tests, each against the hidden verdict on its attempt."""
    triples = (
        (attempt.task_id, None if check.outcome in UNKNOWN else check.outcome == "pass", verdict(grade))
        for attempt, grade in judged
        for check in attempt.evaluation.checks
        if check.kind == "test"
    )
    return confusion(triples, clusters)


def suite_quality(
    written: Iterable[WrittenTests], verdicts: Mapping[str, SuiteVerdict], clusters: Clusters = ALONE
) -> SuiteQuality:
    """Quality of the suites; `verdicts` are by task."""
    suites = list(written)
    judged = {task: [c.outcome for c in suite.checks if c.outcome not in UNKNOWN] for task, suite in verdicts.items()}
    outcomes = {suite.task_id: judged.get(suite.task_id, []) for suite in suites}
    every = [(task, outcome) for task, of_suite in outcomes.items() for outcome in of_suite]
    complete = [suite.task_id for suite in suites if 0 < len(suite.tests) == len(outcomes[suite.task_id])]
    tests = sum(len(suite.tests) for suite in suites)
    reasons = (reason.partition(":")[0] for suite in suites for reason in suite.dropped.values())
    return SuiteQuality(
        suites=len(suites),
        empty=sum(not suite.tests for suite in suites),
        tests=tests,
        unjudged=tests - len(every),
        valid=bootstrap.rate(((task, outcome == "pass") for task, outcome in every), clusters),
        valid_suites=bootstrap.rate(((task, {*outcomes[task]} == {"pass"}) for task in complete), clusters),
        invalid_outcomes=dict(Counter(outcome for _, outcome in every if outcome != "pass")),
        dropped=dict(Counter(reasons)),
    )
