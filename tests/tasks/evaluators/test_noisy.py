"""Errors put into feedback: at the rate asked for, alike for equal programs, and never hidden."""

import os
import subprocess
import sys

import pytest
from msgspec.structs import replace

from reflexion_lab.records import Check, Evaluation, Trajectory
from reflexion_lab.runner.config.build import build
from reflexion_lab.runner.config.compose import assemble, compose
from reflexion_lab.tasks.evaluators.combined import Combined
from reflexion_lab.tasks.evaluators.noisy import FALSE_NEGATIVE, FALSE_POSITIVE, Noisy
from reflexion_lab.tasks.evaluators.static import StaticCheck
from reflexion_lab.tasks.evaluators.trajectory import TrajectoryHeuristics
from reflexion_lab.tasks.evaluators.unit_tests import UnitTests


def program(text):
    return Trajectory(solution=text, strategy="own")


class Says:
    """Passes programs that begin with "right"; three tests."""

    def evaluate(self, task, trajectory):
        passed = trajectory.solution.startswith("right")
        outcome = "pass" if passed else "fail"
        checks = tuple(Check(name=f"assert {n}", outcome=outcome, message="" if passed else "no") for n in range(3))
        return Evaluation(passed=passed, outcome=outcome, reward=float(passed), checks=checks)


def verdicts(task, kind, count=2000, **rates):
    noisy = Noisy(Says(), **rates)
    return [noisy.evaluate(task, program(f"{kind} {number}")).passed for number in range(count)]


@pytest.mark.parametrize("rate", [0.1, 0.4])
def test_verdicts_are_flipped_at_the_given_rate(task, rate):
    """2,000 draws: five standard errors are at most 0.055."""
    assert 1 - sum(verdicts(task, "right", false_negative=rate)) / 2000 == pytest.approx(rate, abs=0.055)
    assert sum(verdicts(task, "wrong", false_positive=rate)) / 2000 == pytest.approx(rate, abs=0.055)


def test_each_rate_flips_only_its_own_kind_of_verdict(task):
    assert all(verdicts(task, "right", 200)) and not any(verdicts(task, "wrong", 200))
    assert not any(verdicts(task, "wrong", false_negative=1.0))
    assert all(verdicts(task, "right", false_positive=1.0))
    assert not any(verdicts(task, "right", false_negative=1.0))
    assert all(verdicts(task, "wrong", false_positive=1.0))


def test_equal_programs_get_equal_verdicts_by_seed(task):
    first = verdicts(task, "right", 200, false_negative=0.5)
    assert first == verdicts(task, "right", 200, false_negative=0.5)
    assert first != verdicts(task, "right", 200, false_negative=0.5, seed=1)


def test_a_higher_rate_flips_a_superset(task):
    few, many = (verdicts(task, "right", false_negative=rate) for rate in (0.1, 0.3))
    assert all(low or not high for low, high in zip(few, many, strict=True))


def test_a_false_negative_looks_like_a_wrong_test(task, sandbox):
    right = program("def double(x):\n    return 2 * x\n")
    evaluation = Noisy(UnitTests(sandbox), false_negative=1.0).evaluate(task, right)
    assert (evaluation.passed, evaluation.outcome, evaluation.reward) == (False, "fail", 0.0)
    assert evaluation.feedback == "0 of 1 tests passed. Failing:\n- assert double(2) == 4  # expected 4, got 5"
    assert (evaluation.verification_type, evaluation.injected) == ("unit_tests", FALSE_NEGATIVE)


@pytest.mark.parametrize(
    ("body", "test"),
    [
        ("x", "assert double(2) == 2"),
        ("x", "assert 2 == double(2)"),
        ("x", "assert double('ab') == 'ab'"),
        ("x", "assert double('') == ''"),
        ("x", "assert double([1, 2]) == [1, 2]"),
        ("x", "assert double([]) == []"),
        ("x", "assert double({'a': 1}) == {'a': 1}"),
        ("x", "assert double(-1.5) == -1.5"),
        ("x", "assert double(None) is None"),
        ("x > 0", "assert double(2) is True"),
        ("x > 0", "assert double(2)"),
        ("x > 0", "assert not double(-2)"),
        ("x", "assert double(7) > 5"),
    ],
)
def test_a_false_negative_has_the_fields_and_words_of_a_true_one(task, sandbox, body, test):
    """The same test, failed by a program that gives the invented value."""
    changed = replace(task, visible_tests=(test,))
    right = program(f"def double(x):\n    return {body}\n")
    evaluation = Noisy(UnitTests(sandbox), false_negative=1.0).evaluate(changed, right)
    (check,) = evaluation.checks
    returns = check.actual or "-1"
    true = UnitTests(sandbox).evaluate(changed, program(f"def double(x):\n    return {returns}\n"))
    assert not true.passed
    seconds = {"seconds": 0.0, "actual": ""}
    assert replace(check, **seconds) == replace(true.checks[0], **seconds)
    assert evaluation.feedback == true.feedback


@pytest.mark.parametrize("rates", [{"false_negative": 1.0}, {"false_positive": 1.0}])
def test_over_combined_types_and_lint_stay_and_the_reward_follows(task, sandbox, rates):
    two = replace(task, visible_tests=("assert double(2) == 4", "assert double(0) == 0"))
    body = "2 * x" if "false_negative" in rates else "7"
    untidy = program(f"def double(x: int) -> str:\n    return {body}\n")
    true, turned = (maker.evaluate(two, untidy) for maker in (Combined(sandbox), Noisy(Combined(sandbox), **rates)))
    tests = 0.5 if "false_negative" in rates else 1.0
    assert turned.passed is not true.passed
    assert turned.components == {"tests": tests, "types": 0.0, "lint": 1.0}
    assert turned.reward == pytest.approx(0.5 * tests + 0.2)
    assert turned.verification_type == "combined"
    assert [check for check in turned.checks if check.kind != "test"] == [
        check for check in true.checks if check.kind != "test"
    ]
    assert "ty finds" in turned.feedback
    assert ("1 of 2 tests passed" in turned.feedback) == ("false_negative" in rates)


def test_an_evaluator_without_tests_is_refused(sandbox):
    for inner in (StaticCheck("ruff"), TrajectoryHeuristics()):
        with pytest.raises(ValueError, match=r"evaluator\.evaluator: got \w+, which runs no tests"):
            Noisy(inner, false_negative=1.0)


def test_react_is_refused_since_its_own_test_runs_would_be_true():
    with pytest.raises(ValueError, match="got noisy with actor=react"):
        assemble(compose("evaluator=noisy", "actor=react", "model=simulated", "benchmark.limit=1"))


def test_one_test_of_several_fails_at_a_false_negative(task):
    evaluation = Noisy(Says(), false_negative=1.0).evaluate(task, program("right"))
    assert [check.outcome for check in evaluation.checks].count("fail") == 1
    assert evaluation.reward == evaluation.pass_rate == pytest.approx(2 / 3)


def test_a_false_positive_is_a_pass_without_a_trace_of_the_failure(task, sandbox):
    evaluation = Noisy(UnitTests(sandbox), false_positive=1.0).evaluate(task, program("def double(x):\n    return x\n"))
    assert (evaluation.passed, evaluation.outcome, evaluation.reward, evaluation.feedback) == (True, "pass", 1.0, "")
    assert {(check.outcome, check.message, check.actual) for check in evaluation.checks} == {("pass", "", "")}
    assert (evaluation.verification_type, evaluation.injected) == ("unit_tests", FALSE_POSITIVE)


def test_untested_programs_get_no_verdict(task, sandbox):
    noisy = Noisy(UnitTests(sandbox), false_negative=1.0, false_positive=1.0)
    assert noisy.evaluate(replace(task, visible_tests=()), program("x = 1")).outcome == "no_tests"
    assert noisy.evaluate(task, program("")).outcome == "extraction_failed"


def test_a_harness_error_gets_no_verdict(task):
    class Broken:
        def evaluate(self, task, trajectory):
            return Evaluation(passed=False, outcome="harness_error", reward=0.0)

    evaluation = Noisy(Broken(), false_negative=1.0, false_positive=1.0).evaluate(task, program("x = 1"))
    assert (evaluation.passed, evaluation.outcome, evaluation.injected) == (False, "harness_error", "")


@pytest.mark.parametrize("name", ["false_negative", "false_positive"])
@pytest.mark.parametrize("rate", [-0.1, 1.1])
def test_a_rate_that_is_no_share_is_named(name, rate):
    with pytest.raises(ValueError, match=rf"Noisy\.{name}: got {rate}"):
        Noisy(Says(), **{name: rate})


def test_the_config_wraps_unit_tests_with_the_runs_seed(sandbox):
    cfg = compose("evaluator=noisy", "evaluator.false_negative=0.2", "seed=7")
    noisy = build(cfg.evaluator, "evaluator", {"sandbox": sandbox})
    assert (type(noisy.evaluator), noisy.false_negative, noisy.seed) == (UnitTests, 0.2, 7)


@pytest.mark.parametrize("seed", ["1", "2"])
def test_an_invented_value_is_equal_in_every_process_and_wrong(seed):
    code = "from reflexion_lab.tasks.evaluators.noisy import _values\n" + "".join(
        f"print(_values({f'assert f(1) == {value}'!r}))\n" for value in ("{'a', 'b', 'c'}", "1e16", "1e999")
    )
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    printed = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert printed.stdout.splitlines() == [
        "(\"{'a', 'b', 'c'}\", \"{'b', 'c'}\")",
        "('1e+16', '0')",
        "('inf', '0')",
    ]
