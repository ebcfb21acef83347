"""How far feedback tests can be trusted, on counts made by hand and on those of recorded runs."""

import gzip
import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from reflexion_lab.analysis.estimators import confusion, feedback_confusion, suite_quality
from reflexion_lab.analysis.stats.intervals import wilson
from reflexion_lab.analysis.summary import Log, summary
from reflexion_lab.records import Check, SuiteVerdict, Task, Usage, WrittenTests
from reflexion_lab.tasks.evaluators.unit_tests import run_tests

RUN = {
    "right at once": [(1.0, True)],
    "false pass": [(1.0, False)],
    "false pass too": [(1.0, False)],
    "false alarm": [(0.5, True), (0.0, False), (0.0, False)],
    "right alarm": [(0.0, False), (1.0, True)],
    "no tests": [(-1.0, True)],
}


def counts(found):
    return found.true_positives, found.false_positives, found.false_negatives, found.true_negatives


def test_rates_are_shares_of_what_they_are_conditioned_on():
    found = confusion(
        [(True, True)] * 5 + [(True, False)] * 3 + [(False, True)] * 2 + [(False, False)] * 10 + [(None, True)]
    )
    assert counts(found) == (5, 3, 2, 10)
    assert found.unknown == 1
    assert (found.wrong_if_passed.k, found.wrong_if_passed.n) == (3, 8)
    assert (found.right_if_failed.k, found.right_if_failed.n) == (2, 12)
    assert (found.false_positive_rate.k, found.false_positive_rate.n) == (3, 13)
    assert (found.false_negative_rate.k, found.false_negative_rate.n) == (2, 7)
    assert (found.wrong_if_passed.low, found.wrong_if_passed.high) == wilson(3, 8)


def test_no_verdict_is_no_rate():
    found = confusion([(None, True), (True, None), (None, None)])
    assert counts(found) == (0, 0, 0, 0)
    assert found.unknown == 3
    assert (found.wrong_if_passed.n, found.wrong_if_passed.low, found.wrong_if_passed.high) == (0, 0.0, 1.0)


@pytest.fixture
def figures(write_run):
    return summary(Log.read(write_run(RUN)))


def test_attempt_1_submissions_and_all_attempts_are_counted_apart(figures):
    assert counts(figures.feedback_first) == (1, 2, 1, 1)
    assert counts(figures.feedback) == (2, 2, 1, 0)  # of the false alarm attempt 1 is submitted, which is right
    assert counts(figures.feedback_attempts) == (2, 2, 1, 3)
    assert figures.feedback_first.unknown == figures.feedback.unknown == figures.feedback_attempts.unknown == 1


def test_harness_errors_are_no_verdict(records):
    attempts, grades = records({"a": [(1.0, False)]})
    (attempt,), grade = attempts["a"], grades["a", 1]
    spoilt = replace(attempt, evaluation=replace(attempt.evaluation, outcome="harness_error"))
    found = feedback_confusion([(spoilt, grade), (attempt, replace(grade, outcome="harness_error"))])
    assert (counts(found), found.unknown) == ((0, 0, 0, 0), 2)


def test_until_all_is_graded_only_submissions_are_judged(write_run):
    figures = summary(Log.read(write_run(RUN, sealed=False)))
    assert figures.feedback_first is figures.feedback_attempts is None
    assert counts(figures.feedback) == (2, 2, 1, 0)


def written(task_id, *tests, **dropped):
    return WrittenTests(task_id=task_id, tests=tests, dropped=dropped, usage=Usage(calls=1, prompt_tokens=7))


def verdict(task_id, *outcomes):
    return SuiteVerdict(task_id=task_id, checks=tuple(Check(name="t", outcome=outcome) for outcome in outcomes))


SUITES = [
    written("all valid", "t1", "t2", x="duplicate"),
    written("one wrong", "t1", "t2", "t3", x="undefined name: a", y="undefined name: b"),
    written("hangs", "t1"),
    written("empty", x="no call"),
    written("no solution", "t1", "t2"),
    written("spoilt", "t1", "t2"),
]
VERDICTS = {
    "all valid": verdict("all valid", "pass", "pass"),
    "one wrong": verdict("one wrong", "pass", "fail", "pass"),
    "hangs": verdict("hangs", "timeout"),
    "spoilt": verdict("spoilt", "pass", "harness_error"),
}


def test_tests_and_suites_are_judged_by_the_canonical_solutions():
    found = suite_quality(SUITES, VERDICTS)
    assert (found.suites, found.empty, found.tests, found.unjudged) == (6, 1, 10, 3)
    assert (found.valid.k, found.valid.n) == (5, 7)
    assert (found.valid.low, found.valid.high) == wilson(5, 7)
    assert (found.valid_suites.k, found.valid_suites.n) == (1, 3)
    assert found.invalid_outcomes == {"fail": 1, "timeout": 1}
    assert found.dropped == {"duplicate": 1, "undefined name": 2, "no call": 1}


def test_a_run_on_written_tests_says_what_they_were_worth_and_what_they_cost(write_run):
    folder = write_run({"all valid": [(0.0, False), (1.0, True)], "one wrong": [(1.0, False)]})
    without = Log.read(folder)
    for suite in SUITES:
        folder.append("written_tests.jsonl", suite)
    for one in VERDICTS.values():
        folder.append("suite_verdicts.jsonl", one)
    folder.close()
    log = Log.read(folder)
    assert summary(without).suites is None
    found = summary(log)
    assert (found.suites.suites, found.suites.valid.k, found.suites.valid.n) == (2, 4, 5)  # of tasks that have ended
    assert found.usage["suite_writer"] == Usage(calls=2, prompt_tokens=14)
    spent = [(point.tokens_cum, before.tokens_cum) for point, before in zip(log.points, without.points, strict=True)]
    assert [now - then for now, then in spent] == [14, 14]


def test_the_known_figures_of_gpt_4s_tests_on_mbpp(recorded_runs, sandbox):
    """Reflexion's run on MBPP, attempt 1: five tests by GPT-4 a task, against those of MBPP; 377 programs."""
    with gzip.open(recorded_runs / "transcripts" / "noah_mbpp_gpt4.jsonl.gz", "rt") as lines:
        rows = {row["problem"]: row for row in map(json.loads, lines)}

    def executed(row):
        task = Task(task_id=row["problem"], prompt=row["prompt"], entry_point=row["entry_point"])
        code = row["attempts"][0]["code"]
        own = run_tests(sandbox, task, code, row["visible_tests"])
        return own.passed, run_tests(sandbox, task, code, [row["test"]]).passed

    first = {problem: row["attempts"][0] for problem, row in rows.items()}
    known = {problem: (not made["feedback"]["recomputed_failed"], made["own_pass"]) for problem, made in first.items()}
    assert counts(confusion(known.values())) == (212, 27, 99, 39)
    with ThreadPoolExecutor(4) as pool:
        found = dict(zip(rows, pool.map(executed, rows.values()), strict=True))
    # Its tests call `math.isclose`, and nobody imports `math`: an error where they run beside the program, a pass where
    # only values are compared.
    unsure = {"mbpp_606_radian_degree"}
    assert {problem for problem in rows if found[problem] != known[problem]} <= unsure
    settled = confusion(found[problem] for problem in rows.keys() - unsure)
    assert counts(settled) == (212, 27, 98, 39)
    assert settled.wrong_if_passed.share == pytest.approx(27 / 239)
