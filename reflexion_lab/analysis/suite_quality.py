"""How far feedback tests can be trusted: their verdicts against hidden ones, and written tests against the solution."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from reflexion_lab.analysis.stats.intervals import Rate
from reflexion_lab.records import UNKNOWN, Attempt, Check, Evaluation, Grade, Record, SuiteVerdict, WrittenTests


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
