import pytest
from msgspec.structs import replace

from reflexion_lab.memory.episodic import episode_of
from reflexion_lab.memory.session import (
    described_evaluation,
    described_insights,
    described_reflections,
    session_after,
    session_of,
    session_text,
)
from reflexion_lab.records import Check, Evaluation, Recollection, Session, Step, Task, Trajectory
from tests import builders

FAILED = Evaluation(passed=False, outcome="fail", reward=0.655, issues=("no tests",), suggestions=("add tests",))
ACTIONS = ("", "write_file", "execute_command", "write_file", "", "execute_command", "write_file", "")


def reflected(number, **fields):
    words = {
        "root_cause": f"cause {number}", "what_went_wrong": f"wrong {number}", "what_to_change": f"change {number}",
        "key_insight": f"insight {number}",
    }  # fmt: skip
    return builders.reflection(reflection_id=f"t#{number}", about_attempt=number, **{**words, **fields})


def attempt(number, reflection=None, evaluation=FAILED):
    steps = tuple(Step(action=action) for action in ACTIONS)
    trajectory = Trajectory(solution="x", strategy="react", steps=steps)
    return builders.attempt(number=number, trajectory=trajectory, evaluation=evaluation, reflection=reflection)


def over(*reflections):
    session = Session(session_id="s")
    for number, reflection in enumerate(reflections, 1):
        session = session_after(session, attempt(number, reflection))
    return session


def test_the_newest_five_reflections_with_words_are_kept_newest_first():
    before = over(*map(reflected, range(1, 6)))
    session = session_after(before, attempt(6, reflected(6)))
    assert [reflection.about_attempt for reflection in session.reflections] == [6, 5, 4, 3, 2]
    assert [reflection.about_attempt for reflection in before.reflections] == [5, 4, 3, 2, 1]
    assert session.key_insights == tuple(f"insight {number}" for number in range(1, 7))
    empty = {"root_cause": "", "what_went_wrong": "", "what_to_change": ""}
    rejected = [reflected(number, **empty) for number in range(6, 12)]
    session = over(*map(reflected, range(1, 6)), *rejected)
    assert [reflection.about_attempt for reflection in session.reflections] == [5, 4, 3, 2, 1]


def test_an_attempt_without_reflection_updates_the_evaluation():
    passed = Evaluation(passed=True, outcome="pass", reward=1.0)
    session = session_after(over(reflected(1)), attempt(2, None, passed))
    assert (len(session.reflections), session.key_insights) == (1, ("insight 1",))
    assert session.last_evaluation == passed
    assert session.session_id == "s"


def test_missing_parts_of_a_session_are_described():
    assert described_reflections(()) == "No previous reflections (this is the first attempt)."
    assert described_insights(()) == "No key insights yet."
    assert described_evaluation(None) == "Previous score: N/A\nParts: N/A\nIssues: None\nSuggestions: None"
    text = session_text(Session(session_id="s"))
    assert "Previous score: N/A" in text
    assert "Previous trajectory: N/A" in text
    assert "No key insights yet." in text
    assert "No previous reflections (this is the first attempt)." in text


def test_the_next_prompt_can_carry_all_that_the_session_knows():
    text = session_text(over(reflected(1), reflected(2)))
    for expected in (
        "Previous score: 66 of 100",
        "Issues: no tests",
        "Suggestions: add tests",
        "Turns: 8, Tools: write_file, execute_command, Status: complete",
        "1. insight 2\n2. insight 1",
        "Reflection on attempt 2 (score 66 of 100, confidence 50 %)\n- Root cause: cause 2\n- What went wrong: wrong 2",
        "- What to change: change 1",
    ):
        assert expected in text
    assert text.index("cause 2") < text.index("cause 1")


@pytest.mark.parametrize(
    ("reward", "score"), [(0.0, 0), (0.845, 85), (0.855, 86), (0.285, 29), (0.284, 28), (1.0, 100)]
)
def test_the_score_is_a_hundredfold_reward_with_halves_rounded_up(reward, score):
    text = described_evaluation(Evaluation(passed=False, outcome="fail", reward=reward, components={"no_lint": reward}))
    assert text.startswith(f"Previous score: {score} of 100\nParts: no lint {score} %\n")


@pytest.mark.parametrize(
    ("evaluation", "issues", "suggestion"),
    [
        ({"checks": [("fail", "ValueError"), ("fail", "ValueError"), ("pass", "")]}, "ValueError in 2 of 3 checks",
         "Check what reaches the failing operation: `c`"),
        ({"checks": [("fail", ""), ("timeout", "")]}, "wrong result in 1 of 2 checks; timeout in 1", "Trace this"),
        ({"outcome": "extraction_failed"}, "extraction failed", "Give the whole function: extraction failed"),
        ({"feedback": "0 of 2 tests passed. Failing:\n- assert"}, "0 of 2 tests passed. Failing:", ""),
        ({"outcome": "pass", "passed": True}, "None", ""),
        ({"issues": ("slow",), "suggestions": ("plan",)}, "slow\nSuggestions: plan", "plan"),
        ({"issues": ("slow",), "suggestions": ("plan",), "checks": [("timeout", "")]}, "timeout in 1 of 1 checks; slow",
         "Find the loop that does not finish here, and bound it: `c`; plan"),
    ],
)  # fmt: skip
def test_no_failure_is_without_issues_beside_the_checks_themselves(evaluation, issues, suggestion):
    checks = [Check(name="c", outcome=outcome, error_type=error) for outcome, error in evaluation.pop("checks", ())]
    fields = {"passed": False, "outcome": "fail", "reward": 0.5, "checks": tuple(checks)} | evaluation
    text = described_evaluation(Evaluation(**fields), shows_checks=True)
    assert f"\nIssues: {issues}" in text
    assert f"\nSuggestions: {suggestion}" in text if suggestion else "Suggestions" not in text


def test_many_issues_are_cut_and_counted_and_a_reflection_with_only_its_cause_shown_is_described():
    issues = tuple(f"issue {number}" for number in range(8))
    text = described_evaluation(Evaluation(passed=False, outcome="fail", reward=0.5, issues=issues))
    assert "issue 4; and 3 more\n" in text
    assert "issue 5" not in text
    in_window, other = builders.reflection(1, root_cause="no return"), builders.reflection(2, root_cause="no return")
    window = Recollection(own=(builders.episode(reflection=in_window),))
    text = session_text(Session(session_id="s", reflections=(other, in_window)), selected=window)
    assert "change 2" in text
    assert "change 1" not in text


def test_a_description_keeps_its_bound_and_breaks_between_lines():
    long = "word\n" * 400
    texts = {"root_cause": long, "what_to_change": f"new {long}", "what_worked": f"old {long}"}
    session = over(*(reflected(n, key_insight=f"{n} {long}", **texts) for n in range(25)))
    full = session_text(session, 10**6)
    assert max(map(len, full.splitlines())) < 200
    assert full.index("1. 24 word") < full.index("20. 5 word")
    for max_chars in (0, 10, 100, 2000, 5000):
        text = session_text(session, max_chars)
        assert len(text) <= max_chars
        assert full.startswith(text)
        assert max_chars < 100 or full[len(text)] == "\n"


def test_a_later_run_begins_where_the_episodes_of_the_earlier_one_ended():
    checks = (
        *(Check(name=name, outcome="pass", kind="test") for name in "ab"),
        Check(name="f(0) == 1", outcome="fail"),
    )
    judged = Evaluation(
        passed=False, outcome="fail", reward=0.5, checks=checks, components={"tests": 2 / 3, "no_lint": 1.0},
        issues=("no tests",), suggestions=("add tests",), feedback="1 of 3 failed",
    )  # fmt: skip
    attempts = [attempt(1, reflected(1)), attempt(2, reflected(2), judged)]
    session, task = Session(session_id="run/t"), Task(task_id="t", prompt="p", entry_point="f")
    for each in attempts:
        session = session_after(session, each)
    past = [episode_of(task, each, "run/t", "arm") for each in attempts]
    later = session_of(past, Session(session_id=""))
    assert later.scores == tuple(f"{score}, 1 run before" for score in session.scores)
    assert session_text(replace(later, scores=session.scores)) == session_text(session)
    assert later.last_evaluation.rank == judged.rank and later.is_progress
