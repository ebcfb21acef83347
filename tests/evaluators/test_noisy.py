"""Errors put into feedback: at the rate asked for, alike for equal programs, and never hidden."""

import pytest

from reflexion_lab.config import compose
from reflexion_lab.evaluators.noisy import FALSE_NEGATIVE, FALSE_POSITIVE, Noisy
from reflexion_lab.evaluators.unit_tests import UnitTests
from reflexion_lab.parts import instantiate
from reflexion_lab.records import Check, Evaluation, Trajectory
from reflexion_lab.wiring import wire


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


def test_without_rates_every_verdict_stands(task):
    assert all(verdicts(task, "right"))
    assert not any(verdicts(task, "wrong"))


@pytest.mark.parametrize("rate", [0.1, 0.4])
def test_verdicts_are_turned_at_the_rate_asked_for(task, rate):
    """2,000 draws: five standard errors are at most 0.055."""
    assert 1 - sum(verdicts(task, "right", false_negative=rate)) / 2000 == pytest.approx(rate, abs=0.055)
    assert sum(verdicts(task, "wrong", false_positive=rate)) / 2000 == pytest.approx(rate, abs=0.055)


def test_each_rate_touches_its_own_kind_of_verdict_alone(task):
    assert not any(verdicts(task, "wrong", false_negative=1.0))
    assert all(verdicts(task, "right", false_positive=1.0))
    assert not any(verdicts(task, "right", false_negative=1.0))
    assert all(verdicts(task, "wrong", false_positive=1.0))


def test_equal_programs_of_a_task_fare_alike_and_a_seed_draws_others(task):
    first = verdicts(task, "right", 200, false_negative=0.5)
    assert first == verdicts(task, "right", 200, false_negative=0.5)
    assert first != verdicts(task, "right", 200, false_negative=0.5, seed=1)


def test_a_higher_rate_turns_all_that_a_lower_one_turns(task):
    few, many = (verdicts(task, "right", false_negative=rate) for rate in (0.1, 0.3))
    assert all(low or not high for low, high in zip(few, many, strict=True))


def test_a_false_negative_reads_like_a_wrong_test(task, sandbox):
    right = program("def double(x):\n    return 2 * x\n")
    found = Noisy(UnitTests(sandbox), false_negative=1.0).evaluate(task, right)
    assert (found.passed, found.outcome, found.reward) == (False, "fail", 0.0)
    assert "assert double(2) == 4  # the assertion is false" in found.feedback
    assert found.verification_type == FALSE_NEGATIVE
    assert "inject" not in found.feedback + "".join(found.issues)


def test_one_test_of_several_fails_at_a_false_negative(task):
    found = Noisy(Says(), false_negative=1.0).evaluate(task, program("right"))
    assert [check.outcome for check in found.checks].count("fail") == 1
    assert found.reward == found.pass_rate == pytest.approx(2 / 3)


def test_a_false_positive_is_a_pass_without_a_trace_of_the_failure(task, sandbox):
    found = Noisy(UnitTests(sandbox), false_positive=1.0).evaluate(task, program("def double(x):\n    return x\n"))
    assert (found.passed, found.outcome, found.reward, found.feedback) == (True, "pass", 1.0, "")
    assert {(check.outcome, check.message, check.actual) for check in found.checks} == {("pass", "", "")}
    assert found.verification_type == FALSE_POSITIVE


def test_what_was_never_tested_is_not_turned_into_a_verdict(task, sandbox):
    from msgspec.structs import replace

    noisy = Noisy(UnitTests(sandbox), false_negative=1.0, false_positive=1.0)
    assert noisy.evaluate(replace(task, visible_tests=()), program("x = 1")).outcome == "no_tests"
    assert noisy.evaluate(task, program("")).outcome == "extraction_failed"


@pytest.mark.parametrize("name", ["false_negative", "false_positive"])
@pytest.mark.parametrize("rate", [-0.1, 1.1])
def test_a_rate_that_is_no_share_is_named(name, rate):
    with pytest.raises(ValueError, match=rf"evaluator\.{name}: {rate} found"):
        Noisy(Says(), **{name: rate})


def test_the_config_wraps_the_unit_tests_and_takes_the_seed_of_the_run(sandbox):
    cfg = compose("evaluator=noisy", "evaluator.false_negative=0.2", "seed=7")
    noisy = wire(instantiate(cfg.evaluator), {"sandbox": sandbox}, "evaluator")
    assert (type(noisy.evaluator), noisy.false_negative, noisy.seed) == (UnitTests, 0.2, 7)
