"""What the threshold counts."""

import pytest

from reflexion_lab.loop.stop import Passed
from reflexion_lab.records import Attempt, Check, Evaluation, MemoryState, Trajectory


def attempt(reward, *checks, passed=False):
    return Attempt(
        task_id="t",
        number=1,
        recalled=(),
        trajectory=Trajectory(solution="x", strategy="x"),
        evaluation=Evaluation(passed=passed, outcome="pass" if passed else "fail", reward=reward, checks=checks),
        memory=MemoryState(capacity=1, size=0, in_context=0, total=0),
    )


def check(kind, outcome):
    return Check(name="c", kind=kind, outcome=outcome)


HALF = (check("test", "pass"), check("test", "fail"))


@pytest.mark.parametrize("reward", [0.0, 0.25, 0.75, 1.0])
@pytest.mark.parametrize("outcome", ["pass", "fail"])
def test_the_threshold_counts_tests_whatever_the_reward_is_made_of(reward, outcome):
    made = attempt(reward, *HALF, check("type", outcome), check("lint", outcome))
    assert made.evaluation.pass_rate == 0.5
    assert Passed(0.5).reached(made, []) == "threshold"
    assert Passed(0.51).reached(made, []) is None


def test_clean_types_and_lint_reach_no_threshold():
    made = attempt(1.0, check("type", "pass"), check("lint", "pass"))
    assert made.evaluation.pass_rate == 0.0
    assert Passed(0.01).reached(made, []) is None


def test_what_passed_has_the_reason_of_its_own_name():
    assert Passed(0.5).reached(attempt(1.0, check("test", "pass"), passed=True), []) == "passed"
