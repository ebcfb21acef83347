"""The combined reward: its arithmetic, what is left out of it, and what it never decides."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reflexion_lab.records import Check
from reflexion_lab.tasks.evaluators import static
from reflexion_lab.tasks.evaluators.combined import Combined, weigh
from reflexion_lab.tasks.evaluators.unit_tests import UnitTests
from tests.builders import evaluation, trajectory

WEIGHTS = {"tests": 0.5, "types": 0.3, "lint": 0.2}
RIGHT = "def double(x: int) -> int:\n    return 2 * x\n"


def suite(passed, total):
    outcomes = ["pass"] * passed + ["fail"] * (total - passed)
    return evaluation(*(Check(name="t", outcome=outcome) for outcome in outcomes), reward=passed / total)


def tool(kind, errors):
    outcomes = ["fail"] * errors or ["pass"]
    return evaluation(*(Check(name="line", kind=kind, outcome=outcome) for outcome in outcomes))


def unran(kind):
    return evaluation(outcome="harness_error", issues=(f"{kind} did not run: gone",))


NO_TESTS = evaluation(outcome="no_tests")


@pytest.mark.parametrize(("types", "lint", "reward"), [(0, 0, 0.8), (0, 2, 0.6), (1, 1, 0.3), (4, 0, 0.5)])
def test_the_reward_is_the_weighted_mean_of_the_parts(types, lint, reward):
    result = weigh(WEIGHTS, suite(3, 5), tool("type", types), tool("lint", lint))
    assert result.reward == pytest.approx(reward)
    assert result.components == {"tests": 0.6, "types": float(not types), "lint": float(not lint)}
    assert (result.passed, result.outcome) == (False, "fail")
    assert result.verification_type == "combined"


def test_parts_that_did_not_run_are_named_and_the_reward_is_that_of_the_others():
    result = weigh(WEIGHTS, suite(3, 5), unran("type_check"), tool("lint", 0))
    assert result.reward == pytest.approx((0.5 * 0.6 + 0.2) / 0.7)
    assert set(result.components) == {"tests", "lint"}
    assert result.issues == ("type_check did not run: gone",)
    assert all(check.kind != "type" for check in result.checks)
    result = weigh(WEIGHTS, NO_TESTS, tool("type", 0), tool("lint", 1))
    assert (result.passed, result.outcome) == (False, "no_tests")
    assert result.reward == pytest.approx(0.6)
    assert result.issues == ("tests did not run: the task shows none",)


@pytest.mark.parametrize("weights", [WEIGHTS, {"tests": 1.0, "types": 0.0, "lint": 0.0}])
def test_without_any_part_the_reward_is_zero(weights):
    result = weigh(weights, NO_TESTS, unran("a"), unran("b"))
    assert (result.reward, result.components) == (0.0, {})
    assert weigh({"tests": 1.0, "types": 0.0, "lint": 0.0}, NO_TESTS, tool("type", 0), tool("lint", 0)).reward == 0.0


shares = st.floats(0, 1e6)


@given(st.tuples(shares, shares, shares), st.integers(0, 5), st.booleans(), st.booleans(), st.booleans())
def test_the_reward_is_a_share_that_no_finding_raises(weights, passed, types_ran, types_clean, lint_clean):
    named = dict(zip(WEIGHTS, weights, strict=True))
    types = tool("type", int(not types_clean)) if types_ran else unran("type_check")
    result = weigh(named, suite(passed, 5), types, tool("lint", int(not lint_clean)))
    assert 0 <= result.reward <= 1
    assert result.reward <= weigh(named, suite(passed, 5), types, tool("lint", 0)).reward


@pytest.mark.parametrize(("options", "message"), [
    *(({f"{name}_weight": bad}, rf"Combined.{name}_weight: got .*, expected (a |0 or more)")
      for name in WEIGHTS for bad in (-0.1, math.nan, math.inf, "0.5", None)),
    ({"type_tool": "ruff"}, "Combined.type_tool: got 'ruff', expected one of"),
    ({"lint_tool": "ty"}, "Combined.lint_tool: got 'ty', expected one of"),
    ({"tests_weight": 0, "types_weight": 0, "lint_weight": 0},
     r"evaluator.tests_weight, .*: got 0 in each, expected at least one above 0"),
])  # fmt: skip
def test_an_impossible_weight_or_tool_is_refused_by_name(sandbox, options, message):
    with pytest.raises(ValueError, match=message):
        Combined(sandbox, **options)


def test_a_correct_clean_program_has_the_full_reward_and_the_verdict_is_that_of_the_unit_tests(sandbox, task):
    result = Combined(sandbox).evaluate(task, trajectory(RIGHT))
    assert (result.passed, result.outcome, result.reward) == (True, "pass", 1.0)
    assert result.components == {"tests": 1.0, "types": 1.0, "lint": 1.0}
    assert [check.kind for check in result.checks] == ["test", "type", "lint"]
    assert result.feedback == ""
    for program in (RIGHT, "def double(x) -> str:\n    return 2 * x\n", "def double(x):\n    return y\n"):
        alone = UnitTests(sandbox).evaluate(task, trajectory(program))
        combined = Combined(sandbox).evaluate(task, trajectory(program))
        assert (combined.passed, combined.outcome) == (alone.passed, alone.outcome)
        assert combined.pass_rate == alone.reward


def test_feedback_lists_failing_tests_before_findings_and_is_bounded(sandbox, task):
    program = "def double(x: int) -> str:\n    return x + undefined\n"
    text = Combined(sandbox).evaluate(task, trajectory(program)).feedback
    assert text.index("0 of 1 tests passed") < text.index("ty finds") < text.index("ruff finds")
    assert "Undefined name `undefined`" in text
    many = replace(task, visible_tests=tuple(f"assert double({'1' * 200}{n}) == {n}" for n in range(9)))
    program = "\n".join(f"{'a' * 150}{n}: int = '{'b' * 150}'" for n in range(30))
    result = Combined(sandbox).evaluate(many, trajectory(program))
    assert len(text) <= 900 and len(result.feedback) <= 900
    assert "0 of 9 tests passed" in result.feedback


def test_without_a_program_no_tool_runs(sandbox, task, monkeypatch):
    monkeypatch.setattr(static, "ask", lambda tool, program: pytest.fail("a tool was asked"))
    static.findings.cache_clear()
    result = Combined(sandbox).evaluate(task, trajectory(""))
    assert (result.outcome, result.reward, result.components) == ("extraction_failed", 0.0, {"tests": 0.0})
    assert len(result.issues) == 2


def test_confidence_is_the_share_of_the_weights_whose_parts_ran():
    tests, clean, broken = suite(3, 5), tool("type", 0), unran("tool")
    assert weigh(WEIGHTS, tests, clean, clean).confidence == pytest.approx(1.0)
    assert weigh(WEIGHTS, tests, broken, clean).confidence == pytest.approx(0.7)
    assert weigh(WEIGHTS, broken, broken, broken).confidence == 0.0


@pytest.mark.parametrize("better", [10, 9])
@pytest.mark.parametrize("types", [unran("type_check"), tool("type", 1)], ids=["did not run", "error"])
def test_more_passed_tests_outrank_a_clean_type_check(better, types):
    clean = tool("type", 0)
    assert weigh(WEIGHTS, suite(better, 10), types, clean).rank > weigh(WEIGHTS, suite(5, 10), clean, clean).rank


def test_on_equal_tests_the_clean_program_ranks_higher():
    clean, mistyped = (weigh(WEIGHTS, suite(5, 10), tool("type", n), tool("type", 0)).rank for n in (0, 1))
    assert clean > mistyped
