"""The combined reward: its arithmetic, what is left out of it, and what it never decides."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reflexion_lab.records import Check, Evaluation, Trajectory
from reflexion_lab.tasks.evaluators import static
from reflexion_lab.tasks.evaluators.combined import Combined, weigh
from reflexion_lab.tasks.evaluators.tools import DidNotRun
from reflexion_lab.tasks.evaluators.unit_tests import UnitTests

WEIGHTS = {"tests": 0.5, "types": 0.3, "lint": 0.2}
RIGHT = "def double(x: int) -> int:\n    return 2 * x\n"


def suite(passed, total):
    made = (*(["pass"] * passed), *(["fail"] * (total - passed)))
    return Evaluation(
        passed=passed == total > 0,
        outcome="pass" if passed == total else "fail",
        reward=passed / total if total else 0.0,
        checks=tuple(Check(name="t", outcome=each) for each in made),
        feedback="" if passed == total else "a test failed",
        seconds=0.25,
    )


def tool(kind, errors):
    checks = tuple(Check(name="line", kind=kind, outcome="fail", line=1) for _ in range(errors))
    return Evaluation(
        passed=not errors,
        outcome="fail" if errors else "pass",
        reward=float(not errors),
        checks=checks or (Check(name=kind, kind=kind, outcome="pass"),),
        feedback=f"{errors} {kind} errors" if errors else "",
    )


def unran(kind):
    return Evaluation(passed=False, outcome="harness_error", reward=0.0, issues=(f"{kind} did not run: gone",))


NO_TESTS = Evaluation(passed=False, outcome="no_tests", reward=0.0)


def solved(program):
    return Trajectory(solution=program, strategy="x")


@pytest.mark.parametrize(("types", "lint", "reward"), [(0, 0, 0.8), (0, 2, 0.6), (1, 1, 0.3), (4, 0, 0.5)])
def test_three_tests_of_five_and_the_tools_make_the_reward(types, lint, reward):
    evaluation = weigh(WEIGHTS, suite(3, 5), tool("type", types), tool("lint", lint))
    assert evaluation.reward == pytest.approx(reward)
    assert evaluation.components == {"tests": 0.6, "types": float(not types), "lint": float(not lint)}
    assert (evaluation.passed, evaluation.outcome) == (False, "fail")
    assert evaluation.verification_type == "combined"


def test_all_clean_is_exactly_one():
    evaluation = weigh(WEIGHTS, suite(5, 5), tool("type", 0), tool("lint", 0))
    assert (evaluation.passed, evaluation.reward) == (True, 1.0)


def test_tools_never_take_a_pass_away_nor_give_one():
    assert weigh(WEIGHTS, suite(2, 2), tool("type", 3), tool("lint", 3)).passed
    assert not weigh(WEIGHTS, suite(0, 2), tool("type", 0), tool("lint", 0)).passed


def test_a_part_that_did_not_run_is_left_out_and_said():
    evaluation = weigh(WEIGHTS, suite(3, 5), unran("type_check"), tool("lint", 0))
    assert evaluation.reward == pytest.approx((0.5 * 0.6 + 0.2) / 0.7)
    assert set(evaluation.components) == {"tests", "lint"}
    assert evaluation.issues == ("type_check did not run: gone",)
    assert all(check.kind != "type" for check in evaluation.checks)


def test_without_tests_the_reward_is_that_of_the_tools_and_nothing_passes():
    evaluation = weigh(WEIGHTS, NO_TESTS, tool("type", 0), tool("lint", 1))
    assert (evaluation.passed, evaluation.outcome) == (False, "no_tests")
    assert evaluation.reward == pytest.approx(0.6)
    assert evaluation.issues == ("tests did not run: the task shows none",)


@pytest.mark.parametrize("weights", [WEIGHTS, {"tests": 1.0, "types": 0.0, "lint": 0.0}])
def test_nothing_that_ran_is_a_reward_of_zero_and_no_division(weights):
    evaluation = weigh(weights, NO_TESTS, unran("a"), unran("b"))
    assert (evaluation.reward, evaluation.components) == (0.0, {})
    assert weigh({"tests": 1.0, "types": 0.0, "lint": 0.0}, NO_TESTS, tool("type", 0), tool("lint", 0)).reward == 0.0


shares = st.floats(0, 1e6)


@given(st.tuples(shares, shares, shares), st.integers(0, 5), st.booleans(), st.booleans(), st.booleans())
def test_the_reward_is_a_share_that_no_finding_raises(weights, passed, types_ran, types_clean, lint_clean):
    named = dict(zip(WEIGHTS, weights, strict=True))
    types = tool("type", int(not types_clean)) if types_ran else unran("type_check")
    evaluation = weigh(named, suite(passed, 5), types, tool("lint", int(not lint_clean)))
    assert 0 <= evaluation.reward <= 1
    assert evaluation.reward <= weigh(named, suite(passed, 5), types, tool("lint", 0)).reward


@pytest.mark.parametrize("bad", [-0.1, math.nan, math.inf, "0.5", None])
@pytest.mark.parametrize("name", ["tests_weight", "types_weight", "lint_weight"])
def test_an_impossible_weight_is_refused_by_name(sandbox, name, bad):
    with pytest.raises(ValueError, match=rf"Combined.{name}: got .*, expected (a |0 or more)"):
        Combined(sandbox, **{name: bad})


def test_weights_of_zero_alone_are_refused(sandbox):
    with pytest.raises(ValueError, match=r"evaluator.tests_weight, .*: got 0 in each, expected at least one above 0"):
        Combined(sandbox, tests_weight=0, types_weight=0, lint_weight=0)


@pytest.mark.parametrize(("key", "wrong"), [("type_tool", "ruff"), ("lint_tool", "ty")])
def test_a_tool_of_the_wrong_kind_is_refused_by_name(sandbox, key, wrong):
    with pytest.raises(ValueError, match=f"Combined.{key}: got '{wrong}', expected one of"):
        Combined(sandbox, **{key: wrong})


def test_a_right_and_clean_program_gets_everything(sandbox, task):
    evaluation = Combined(sandbox).evaluate(task, solved(RIGHT))
    assert (evaluation.passed, evaluation.outcome, evaluation.reward) == (True, "pass", 1.0)
    assert evaluation.components == {"tests": 1.0, "types": 1.0, "lint": 1.0}
    assert [check.kind for check in evaluation.checks] == ["test", "type", "lint"]
    assert evaluation.feedback == ""


def test_the_verdict_of_the_tests_is_that_of_the_unit_tests(sandbox, task):
    for program in (RIGHT, "def double(x) -> str:\n    return 2 * x\n", "def double(x):\n    return y\n"):
        alone = UnitTests(sandbox).evaluate(task, solved(program))
        combined = Combined(sandbox).evaluate(task, solved(program))
        assert (combined.passed, combined.outcome) == (alone.passed, alone.outcome)
        assert combined.pass_rate == alone.reward


def test_feedback_names_failing_tests_first_and_then_the_findings(sandbox, task):
    program = "def double(x: int) -> str:\n    return x + undefined\n"
    text = Combined(sandbox).evaluate(task, solved(program)).feedback
    assert text.index("0 of 1 tests passed") < text.index("ty finds") < text.index("ruff finds")
    assert "Undefined name `undefined`" in text
    assert len(text) <= 900


def test_feedback_stays_bounded_whatever_is_found(sandbox, task):
    many = replace(task, visible_tests=tuple(f"assert double({'1' * 200}{n}) == {n}" for n in range(9)))
    program = "\n".join(f"{'a' * 150}{n}: int = '{'b' * 150}'" for n in range(30))
    evaluation = Combined(sandbox).evaluate(many, solved(program))
    assert len(evaluation.feedback) <= 900
    assert "0 of 9 tests passed" in evaluation.feedback


def test_no_program_is_sent_to_no_tool(sandbox, task, monkeypatch):
    monkeypatch.setattr(static, "ask", lambda tool, program: pytest.fail("a tool was asked"))
    static.findings.cache_clear()
    evaluation = Combined(sandbox).evaluate(task, solved(""))
    assert (evaluation.outcome, evaluation.reward, evaluation.components) == ("extraction_failed", 0.0, {"tests": 0.0})
    assert len(evaluation.issues) == 2


def test_a_tool_that_fails_does_not_end_the_run(sandbox, task, monkeypatch):
    def out_of_order(tool, program):
        raise DidNotRun("out of order")

    monkeypatch.setattr(static, "ask", out_of_order)
    static.findings.cache_clear()
    evaluation = Combined(sandbox).evaluate(task, solved(RIGHT))
    assert (evaluation.passed, evaluation.reward, evaluation.components) == (True, 1.0, {"tests": 1.0})
    assert [issue.split(":")[0] for issue in evaluation.issues] == [
        "type_check by ty did not run",
        "lint by ruff did not run",
    ]


def test_confidence_is_the_share_of_the_weights_whose_parts_ran():
    ran = Evaluation(passed=False, outcome="fail", reward=0.0)
    broken = Evaluation(passed=False, outcome="harness_error", reward=0.0)
    assert weigh(WEIGHTS, ran, ran, ran).confidence == pytest.approx(1.0)
    assert weigh(WEIGHTS, ran, broken, ran).confidence == pytest.approx(0.7)
    assert weigh(WEIGHTS, broken, broken, broken).confidence == 0.0


def of_tests(passing, total):
    checks = tuple(Check(name=str(n), outcome="pass" if n < passing else "fail") for n in range(total))
    is_right = passing == total
    return Evaluation(passed=is_right, outcome="pass" if is_right else "fail", reward=passing / total, checks=checks)


CLEAN = Evaluation(passed=True, outcome="pass", reward=1.0)
FINDING = Evaluation(passed=False, outcome="fail", reward=0.0)
DID_NOT_RUN = Evaluation(passed=False, outcome="harness_error", reward=0.0)


@pytest.mark.parametrize("better", [10, 9])
@pytest.mark.parametrize("types", [DID_NOT_RUN, FINDING])
def test_more_tests_outrank_a_type_checker_that_timed_out_or_found_an_error(better, types):
    higher, lower = weigh(WEIGHTS, of_tests(better, 10), types, CLEAN), weigh(WEIGHTS, of_tests(5, 10), CLEAN, CLEAN)
    assert higher.rank > lower.rank


def test_of_programs_that_pass_the_same_tests_the_clean_one_ranks_higher():
    assert weigh(WEIGHTS, of_tests(5, 10), CLEAN, CLEAN).rank > weigh(WEIGHTS, of_tests(5, 10), FINDING, CLEAN).rank
