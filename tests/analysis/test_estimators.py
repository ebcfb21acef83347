import gzip
import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from reflexion_lab.analysis.metrics import hidden_base_passed
from reflexion_lab.analysis.stats.estimators import confusion, curve, feedback_confusion, paired, suite_quality
from reflexion_lab.analysis.stats.intervals import wilson
from reflexion_lab.analysis.summary import Log, summary
from reflexion_lab.loop.selection import submitted_at, verdicts_at
from reflexion_lab.records import Check, SuiteVerdict, Task, Usage, WrittenTests
from reflexion_lab.tasks.evaluators.unit_tests import run_tests

verdict = st.tuples(st.sampled_from([-1.0, 0.0, 0.5, 1.0]), st.booleans())
runs = st.dictionaries(st.sampled_from("abcdef"), st.lists(verdict, min_size=1, max_size=4), min_size=1, max_size=6)
with_fixtures = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=80)


def test_the_first_pass_is_submitted_else_the_best_then_earliest(attempt):
    history = [attempt("a", 1, 0.5), attempt("a", 2, 1.0), attempt("a", 3, 1.0)]
    assert submitted_at(history).number == 2
    assert [submitted_at(history, t).number for t in (1, 2, 3, 9)] == [1, 2, 2, 2]  # a cut knows nothing of later ones
    with pytest.raises(ValueError, match="t: got 0, before which there is no attempt, expected 1 or more"):
        submitted_at(history, 0)
    history = [attempt("a", 1, 0.2), attempt("a", 2, 0.5), attempt("a", 3, 0.5), attempt("a", 4, 0.1)]
    assert submitted_at(history).number == 2
    assert [submitted_at(history, t).number for t in (1, 2)] == [1, 2]


@pytest.mark.parametrize(
    ("first", "second", "submitted"),
    [
        # 9 of 10 tests, no type checker; then 5 of 10, types and lint clean
        ({"tests": 9, "reward": 0.929, "confidence": 0.7}, {"tests": 5, "reward": 0.75}, 1),
        # every test, one type error; then 7 of 10 and clean
        ({"tests": 10, "reward": 0.7}, {"tests": 7, "reward": 0.85}, 1),
        # an earlier pass stays, whatever a later one is worth
        ({"tests": 10, "reward": 0.7}, {"tests": 10, "reward": 1.0}, 1),
        ({"tests": 5, "reward": 0.45}, {"tests": 5, "reward": 0.75}, 2),
    ],
)
def test_tests_decide_before_the_reward_what_is_submitted(attempt, first, second, submitted):
    def judged(number, tests, reward, confidence=1.0):
        checks = tuple(Check(name=str(n), outcome="pass" if n < tests else "fail") for n in range(10))
        record = attempt("a", number, reward)
        return replace(
            record,
            evaluation=replace(
                record.evaluation, passed=tests == 10, checks=checks, reward=reward, confidence=confidence
            ),
        )

    assert submitted_at([judged(1, **first), judged(2, **second)]).number == submitted


def test_the_curve_is_what_one_counts_by_hand(records):
    attempts, grades = records(
        {
            "stops early and right": [(1.0, True)], "stops early and wrong": [(1.0, False)],
            "repaired": [(0.0, False), (1.0, True)], "right, but talked out of it": [(0.5, True), (1.0, False)],
            "tie keeps the earlier": [(0.5, False), (0.5, True), (0.25, False)],
        }
    )  # fmt: skip
    points = curve(attempts, grades, 4)  # flat at the end, where every loop has ended
    assert [point.attempt for point in points] == [1, 2, 3, 4]
    assert [point.n for point in points] == [5, 5, 5, 5]
    assert [point.solved for point in points] == [2, 2, 2, 2]
    assert [point.pass_at_1 for point in points] == [0.4, 0.4, 0.4, 0.4]
    assert [point.any_solved for point in points] == [0.4, 0.8, 0.8, 0.8]
    assert [point.visible_pass for point in points] == [0.4, 0.8, 0.8, 0.8]
    assert [point.reward for point in points] == pytest.approx([3 / 5, 4.5 / 5, 4.5 / 5, 4.5 / 5])
    # the actor takes 20 tokens an attempt, a reflection 7: after three failures, then one, then one
    assert [point.tokens_cum for point in points] == [5 * 20 + 3 * 7, 8 * 20 + 4 * 7, *[9 * 20 + 5 * 7] * 2]
    assert (points[0].low, points[0].high) == wilson(2, 5)


def test_a_curve_needs_tasks_attempts_and_grades(records):
    attempts, grades = records({"a": [(0.0, False), (1.0, True)]})
    assert curve({}, {}, 3) == []
    with pytest.raises(ValueError, match="n_attempts: got 0"):
        curve(attempts, grades, 0)
    del grades["a", 1]
    with pytest.raises(ValueError, match="task a, attempt 1: got no hidden verdict"):
        curve(attempts, grades, 2)


@with_fixtures
@given(verdicts=runs)
def test_cumulative_figures_never_shrink_and_bound_pass_at_1(records, verdicts):
    points = curve(*records(verdicts), 5)
    for point in points:
        assert 0 <= point.low <= point.pass_at_1 <= point.any_solved <= 1
        assert point.pass_at_1 <= point.high <= 1
    for figure in ("any_solved", "tokens_cum"):
        values = [getattr(point, figure) for point in points]
        assert values == sorted(values), figure
    for figure in ("visible_pass", "reward"):  # n grows where an attempt without a feedback verdict was submitted first
        sums = [round((getattr(point, figure) or 0) * point.n_feedback, 9) for point in points]
        assert sums == sorted(sums), figure


@with_fixtures
@given(verdicts=runs)
def test_oracle_feedback_makes_pass_at_1_the_visible_pass(records, verdicts):
    oracle = {task_id: [(reward, reward == 1) for reward, _ in history] for task_id, history in verdicts.items()}
    for point in curve(*records(oracle), 5):
        assert point.pass_at_1 == point.any_solved
        assert point.visible_pass == (point.pass_at_1 if point.n_feedback == point.n else point.visible_pass)


def test_the_last_point_is_what_was_submitted(records):
    attempts, grades = records({"a": [(0.5, True), (0.5, False)], "b": [(0.0, False), (1.0, True)]})
    assert verdicts_at(attempts, grades) == verdicts_at(attempts, grades, 2) == {"a": True, "b": True}


def test_paired_counts_repairs_and_damage_knows_nothing_of_nothing_and_refuses_other_tasks():
    first = {"a": True, "b": True, "c": False, "d": False, "e": False}
    second = {"e": True, "d": True, "c": False, "b": False, "a": True}
    pair = paired(first, second)
    assert (pair.n, pair.both, pair.damaged, pair.repaired, pair.neither) == (5, 1, 1, 2, 1)
    assert pair.difference == pytest.approx(0.2)
    assert pair.low < pair.difference < pair.high
    assert pair.p == 1.0
    pair = paired({}, {})
    assert (pair.difference, pair.low, pair.high, pair.p) == (0.0, -1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="b, c: got one verdict"):
        paired({"a": True, "b": True}, {"a": True, "c": True})


FEEDBACK_RUN = {
    "right at once": [(1.0, True)], "false pass": [(1.0, False)], "false pass too": [(1.0, False)],
    "false alarm": [(0.5, True), (0.0, False), (0.0, False)], "right alarm": [(0.0, False), (1.0, True)],
    "no tests": [(-1.0, True)],
}  # fmt: skip


def counts(table):
    return table.true_positives, table.false_positives, table.false_negatives, table.true_negatives


def test_rates_are_shares_of_what_they_are_conditioned_on():
    pairs = [(True, True)] * 5 + [(True, False)] * 3 + [(False, True)] * 2 + [(False, False)] * 10 + [(None, True)]
    result = confusion((task, *pair) for task, pair in enumerate(pairs))
    assert counts(result) == (5, 3, 2, 10)
    assert result.unknown == 1
    assert (result.wrong_if_passed.k, result.wrong_if_passed.n) == (3, 8)
    assert (result.right_if_failed.k, result.right_if_failed.n) == (2, 12)
    assert (result.false_positive_rate.k, result.false_positive_rate.n) == (3, 13)
    assert (result.false_negative_rate.k, result.false_negative_rate.n) == (2, 7)
    assert (result.wrong_if_passed.low, result.wrong_if_passed.high) == wilson(3, 8)


def test_no_verdict_is_no_rate():
    result = confusion([("a", None, True), ("b", True, None), ("c", None, None)])
    assert counts(result) == (0, 0, 0, 0)
    assert result.unknown == 3
    assert (result.wrong_if_passed.n, result.wrong_if_passed.low, result.wrong_if_passed.high) == (0, 0.0, 1.0)


@pytest.fixture
def figures(write_run):
    return summary(Log.read(write_run(FEEDBACK_RUN)))


def test_attempt_1_submissions_and_all_attempts_are_counted_apart(figures):
    assert counts(figures.feedback_first) == (1, 2, 1, 1)
    assert counts(figures.feedback) == (2, 2, 1, 0)  # of the false alarm attempt 1 is submitted, which is right
    assert counts(figures.feedback_attempts) == (2, 2, 1, 3)
    assert figures.feedback_first.unknown == figures.feedback.unknown == figures.feedback_attempts.unknown == 1


def test_harness_errors_are_no_verdict(records):
    attempts, grades = records({"a": [(1.0, False)]})
    (attempt,), grade = attempts["a"], grades["a", 1]
    spoilt = replace(attempt, evaluation=replace(attempt.evaluation, outcome="harness_error"))
    cases = [(spoilt, grade), (attempt, replace(grade, outcome="harness_error"))]
    table = feedback_confusion(cases)
    assert (counts(table), table.unknown) == ((0, 0, 0, 0), 2)
    by_base = [hidden_base_passed([a], {1: replace(g, base_passed=True)}) for a, g in [*cases, (attempt, grade)]]
    assert by_base == [None, None, True]


def test_until_all_is_graded_only_submissions_are_judged(write_run):
    figures = summary(Log.read(write_run(FEEDBACK_RUN, sealed=False)))
    assert figures.feedback_first is figures.feedback_attempts is None
    assert counts(figures.feedback) == (2, 2, 1, 0)


def written(task_id, *tests, **dropped):
    return WrittenTests(task_id=task_id, tests=tests, dropped=dropped, usage=Usage(calls=1, prompt_tokens=7))


def suite_verdict(task_id, *outcomes):
    return SuiteVerdict(task_id=task_id, checks=tuple(Check(name="t", outcome=outcome) for outcome in outcomes))


SUITES = [
    written("all valid", "t1", "t2", x="duplicate"),
    written("one wrong", "t1", "t2", "t3", x="undefined name: a", y="undefined name: b"), written("hangs", "t1"),
    written("empty", x="no call"), written("no solution", "t1", "t2"), written("spoilt", "t1", "t2"),
]  # fmt: skip
VERDICTS = {
    "all valid": suite_verdict("all valid", "pass", "pass"),
    "one wrong": suite_verdict("one wrong", "pass", "fail", "pass"),
    "hangs": suite_verdict("hangs", "timeout"),
    "spoilt": suite_verdict("spoilt", "pass", "harness_error"),
}


def test_tests_and_suites_are_judged_by_the_canonical_solutions():
    quality = suite_quality(SUITES, VERDICTS)
    assert (quality.suites, quality.empty, quality.tests, quality.unjudged) == (6, 1, 10, 3)
    assert (quality.valid.k, quality.valid.n) == (5, 7)
    assert (quality.valid.low, quality.valid.high) == (0.0, 1.0)  # of three tasks
    assert (quality.valid_suites.k, quality.valid_suites.n) == (1, 3)
    assert quality.invalid_outcomes == {"fail": 1, "timeout": 1}
    assert quality.dropped == {"duplicate": 1, "undefined name": 2, "no call": 1}
    pairs = {"all valid": "c", "one wrong": "c"}
    assert [rate.units for rate in (quality.valid, quality.valid_suites)] == ["4 tasks", ""]
    clustered = suite_quality(SUITES, VERDICTS, pairs)
    assert [rate.units for rate in (clustered.valid, clustered.valid_suites)] == ["3 clusters", "2 clusters"]


def test_self_tests_run_reports_test_quality_and_cost(write_run):
    folder = write_run({"all valid": [(0.0, False), (1.0, True)], "one wrong": [(1.0, False)]})
    without = Log.read(folder)
    for suite in SUITES:
        folder.append("written_tests.jsonl", suite)
    for verdict in VERDICTS.values():
        folder.append("suite_verdicts.jsonl", verdict)
    folder.close()
    log = Log.read(folder)
    assert summary(without).suites is None
    result = summary(log)
    assert (result.suites.suites, result.suites.valid.k, result.suites.valid.n) == (2, 4, 5)  # of tasks that have ended
    assert result.usage["suite_writer"] == Usage(calls=2, prompt_tokens=14)
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
    known = {problem: (not row["feedback"]["recomputed_failed"], row["own_pass"]) for problem, row in first.items()}
    assert counts(confusion((problem, *pair) for problem, pair in known.items())) == (212, 27, 99, 39)
    with ThreadPoolExecutor(4) as pool:
        mapping = dict(zip(rows, pool.map(executed, rows.values()), strict=True))
    # Its tests call `math.isclose`, and nobody imports `math`: an error where they run beside the program, a pass where
    # only values are compared.
    unsure = {"mbpp_606_radian_degree"}
    assert {problem for problem in rows if mapping[problem] != known[problem]} <= unsure
    settled = confusion((problem, *mapping[problem]) for problem in rows.keys() - unsure)
    assert counts(settled) == (212, 27, 98, 39)
    assert settled.wrong_if_passed.share == pytest.approx(27 / 239)
