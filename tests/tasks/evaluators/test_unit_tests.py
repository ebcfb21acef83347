import pytest

from reflexion_lab.records import Check, Trajectory
from reflexion_lab.tasks.evaluators.unit_tests import UnitTests, feedback, run_tests


def test_the_evaluator_runs_visible_tests_alone_and_without_tests_or_program_nothing_passes(sandbox, task):
    evaluation = run_tests(sandbox, task, "def double(x):\n    return 2 * x\n", ())
    assert (evaluation.passed, evaluation.outcome, evaluation.reward) == (False, "no_tests", 0.0)
    evaluation = UnitTests(sandbox).evaluate(task, Trajectory(solution="  ", strategy="x"))
    assert (evaluation.outcome, evaluation.reward) == ("extraction_failed", 0.0)
    assert len(evaluation.checks) == len(task.visible_tests)
    hidden_fails = Trajectory(solution="def double(x):\n    return 4\n", strategy="x")
    evaluation = UnitTests(sandbox).evaluate(task, hidden_fails)
    assert evaluation.passed
    assert [check.name for check in evaluation.checks] == list(task.visible_tests)


def test_reward_is_the_share_of_passed_checks(sandbox, task):
    tests = ["assert double(2) == 4", "assert double(0) == 0", "assert double(1) == 1"]
    evaluation = run_tests(sandbox, task, "def double(x):\n    return x * x\n", tests)
    assert evaluation.reward == 1.0
    evaluation = run_tests(sandbox, task, "def double(x):\n    return 2 * x\n", tests)
    assert (evaluation.passed, evaluation.outcome, round(evaluation.reward, 3)) == (False, "fail", 0.667)
    assert "2 of 3 tests passed" in evaluation.feedback
    assert "expected 1, got 2" in evaluation.feedback


def test_feedback_is_bounded_counts_what_it_leaves_out_and_names_the_line():
    checks = [Check(name="assert f(" + "1" * 500 + ")", outcome="fail", message="m" * 500) for _ in range(9)]
    assert len(feedback(checks)) <= 900
    assert feedback([Check(name="x", outcome="pass")]) == ""
    assert "and 2 more" in feedback([Check(name="a", outcome="fail") for _ in range(5)])
    check = Check(name="assert f(1)", outcome="error", error_type="KeyError", message="'a'", line=2)
    assert "KeyError: 'a' (at `return {}[x]`)" in feedback([check], program="def f(x):\n    return {}[x]\n")


@pytest.mark.parametrize(("body", "words"), [
    ("print('bad on line 2, at line 9999999999')\n    return x / 0", "printed: bad on line 2, at line 9999999999"),
    ("import traceback\n    try:\n        x / 0\n    except ZeroDivisionError:\n        traceback.print_exc()",
     'File "<candidate>", `x / 0`'),
    ("s = '\u2028\x0c'\n    y = 1\n    return x / 0", "(at `return x / 0`)"),
    ("s = 1\r\n    y = 1\r    return x / 0", "(at `return x / 0`)"),
])  # fmt: skip
def test_lines_of_the_program_are_quoted_and_what_it_printed_is_its_own(sandbox, task, body, words):
    program = f"def double(x):\n    {body}\n"
    assert words in run_tests(sandbox, task, program, ["assert double(1) == 2"]).feedback
