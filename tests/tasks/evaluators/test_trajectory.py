"""The heuristics: their table of scores, and what they never claim."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflexion_lab.records import Check, Step, Task, Trajectory
from reflexion_lab.tasks.evaluators.trajectory import TrajectoryHeuristics, summary_of

TASK = Task(task_id="own/t", prompt="", entry_point="f")


def turned(turns, errors=0, status="complete", action="run_code", solution="x = 1", **fields):
    steps = tuple(Step(action=action, error="boom" if i < errors else "") for i in range(turns))
    return Trajectory(solution=solution, strategy="react", steps=steps, status=status, **fields)


def judged(trajectory, max_turns=10):
    return TrajectoryHeuristics(max_turns).evaluate(TASK, trajectory)


@pytest.mark.parametrize(("trajectory", "max_turns", "parts", "score"), [
    (turned(1), 10, (100, 100, 95), 99),
    (turned(5, 1), 10, (100, 60, 65), 81),
    (turned(12, status="unfinished"), 20, (60, 100, 70), 74),
    (turned(1, 1, status="stuck"), 10, (20, 40, 85), 39),
    (turned(10), 10, (100, 100, 50), 90),
    (turned(3), 0, (100, 100, 20), 84),
    (turned(6, 1), 10, (100, 80, 60), 86),
    (turned(2, status="unfinished", action=""), 10, (30, 100, 90), 63),
    (turned(2, status="unfinished", action="", files_modified=("a.py",)), 10, (60, 100, 90), 78),
    (turned(40, 40), 10, (100, 40, 20), 66),
    (turned(17, 1), 20, (100, 80, 47.5), 84),
    (turned(15, 1), 20, (100, 80, 52.5), 85),  # 84.5
    (turned(13, 1), 20, (100, 80, 57.5), 86),  # 85.5
])  # fmt: skip
def test_scores_follow_the_table(trajectory, max_turns, parts, score):
    evaluation = judged(trajectory, max_turns)
    assert list(evaluation.components) == ["task_completion", "code_quality", "efficiency"]
    assert tuple(100 * part for part in evaluation.components.values()) == pytest.approx(parts)
    assert evaluation.reward == score / 100
    assert evaluation.feedback.startswith(f"Score {score} of 100: task completion {parts[0]} %")


@pytest.mark.parametrize(("solution", "outcomes", "quality"), [
    ("x = 1", ["fail"] * 3, 1), ("x = 1", ["error"] * 3, 0.4), ("x = 1", ["pass"] * 5 + ["timeout"], 0.8),
    ("x = 1", ["pass", "pass", "error"], 0.6), ("x = ", [], 0.4), ("x = ", ["error"], 0.4), ("x = 1", [], 1),
])  # fmt: skip
def test_code_quality_sees_checks_that_raised_and_syntax(solution, outcomes, quality):
    checks = [Check(name="c", outcome=outcome) for outcome in outcomes]
    evaluation = TrajectoryHeuristics().evaluate(TASK, turned(1, solution=solution), checks)
    assert evaluation.components["code_quality"] == quality
    assert ("The program is not valid Python" in evaluation.issues) == (solution == "x = ")


def test_issues_and_suggestions_follow_what_went_wrong():
    smooth = judged(turned(1))
    assert (smooth.issues, smooth.suggestions) == ((), ())
    assert judged(Trajectory(solution="x = 1", strategy="single_shot")).components == smooth.components  # one turn
    empty = judged(Trajectory(solution=" ", strategy="single_shot"))
    assert empty.reward <= 0.2
    assert "No tangible output produced" in empty.issues
    silent, loud = judged(turned(1, 0, status="stuck")), judged(turned(1, 1, status="stuck"))
    assert silent == loud  # a stuck turn is an error even if it reports none
    assert any("failed" in issue for issue in silent.issues)
    assert any("1 errors" in issue for issue in silent.issues)
    assert any("Escalate" in suggestion for suggestion in silent.suggestions)
    assert not any("turn count" in issue for issue in judged(turned(10)).issues)
    assert any("High turn count: 11" in issue for issue in judged(turned(11)).issues)


def test_the_summary_names_turns_tools_in_order_of_use_and_status():
    actions = ("write_file", "", "execute_command", "write_file")
    steps = tuple(Step(action=action) for action in actions)
    trajectory = Trajectory(solution="x", strategy="x", steps=steps)
    assert summary_of(trajectory) == "Turns: 4, Tools: write_file, execute_command, Status: complete"
    assert summary_of(turned(0)) == "Turns: 1, Tools: none, Status: complete"
    assert summary_of(turned(0, status="stuck", solution="")) == "Turns: 0, Tools: none, Status: stuck"


@given(st.integers(0, 60), st.integers(0, 60), st.sampled_from(["complete", "stuck", "unfinished"]), st.integers(0, 60))
def test_no_score_is_ever_a_pass(turns, errors, status, max_turns):
    evaluation = judged(turned(turns, errors, status), max_turns)
    assert 0 <= evaluation.reward <= 1
    assert all(0 <= part <= 1 for part in evaluation.components.values())
    assert (evaluation.passed, evaluation.outcome, evaluation.pass_rate) == (False, "no_tests", 0.0)
    assert evaluation.verification_type == "trajectory"


def test_an_impossible_number_of_turns_is_refused_by_name():
    for wrong in (-1, "many", 2.5):
        with pytest.raises(ValueError, match=rf"max_turns: got {wrong!r}, expected (an int of )?0 or more"):
            TrajectoryHeuristics(wrong)
