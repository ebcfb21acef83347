"""Each rule by itself: when it ends a loop, and under which name."""

import pytest

from reflexion_lab.loop import stop
from reflexion_lab.records import Check, Critique, Step, Usage
from tests import builders as make


def attempt(reward, *checks, passed=False, number=1, **trajectory):
    return make.attempt(*checks, judged={"passed": passed, "reward": reward}, acted=trajectory, number=number)


def check(kind, outcome):
    return Check(name="c", kind=kind, outcome=outcome)


HALF = (check("test", "pass"), check("test", "fail"))


@pytest.mark.parametrize("reward", [0.0, 0.25, 0.75, 1.0])
@pytest.mark.parametrize("outcome", ["pass", "fail"])
def test_the_threshold_counts_tests_whatever_the_reward_is_made_of(reward, outcome):
    record = attempt(reward, *HALF, check("type", outcome), check("lint", outcome))
    assert record.evaluation.pass_rate == 0.5
    assert stop.Passed(0.5).reached(record, []) == "threshold"
    assert stop.Passed(0.51).reached(record, []) is None


def test_clean_types_and_lint_reach_no_threshold_and_what_passed_has_a_reason_of_its_own():
    record = attempt(1.0, check("type", "pass"), check("lint", "pass"))
    assert record.evaluation.pass_rate == 0.0 and stop.Passed(0.01).reached(record, []) is None
    assert stop.Passed(0.5).reached(attempt(1.0, check("test", "pass"), passed=True), []) == "passed"


def ended(rule, *rewards, **trajectory):
    """After which attempt the rule ends a loop with these rewards, and the reason; None when it goes on."""
    items = [attempt(reward, number=n, **trajectory) for n, reward in enumerate(rewards, 1)]
    reasons = [(n, rule.reached(attempt, items[: n - 1])) for n, attempt in enumerate(items, 1)]
    return next(((n, reason) for n, reason in reasons if reason), None)


LEVELLING, EXTRA = stop.DiminishingReturns(0.1, 2), stop.MaxAttempts(2, extra_attempts=2)
ENDS = [
    # So many attempts without a new best.
    (stop.Plateau(2), (0.2, 0.2), None), (stop.Plateau(2), (0.2, 0.2, 0.2), (3, "plateau")),
    (stop.Plateau(2), (0.2, 0.1, 0.2), (3, "plateau")), (stop.Plateau(2), (0.2, 0.1, 0.3, 0.3, 0.1), (5, "plateau")),
    (stop.Plateau(2), (0.1, 0.2, 0.3, 0.4), None), (stop.Plateau(2), (0.0, 0.5, 0.4, 0.6), None),
    # Returns diminish only where there were some.
    (LEVELLING, (0.0, 0.0, 0.0, 0.0), None), (LEVELLING, (0.0, 0.5, 0.52, 0.54), (4, "diminishing_returns")),
    (LEVELLING, (0.0, 0.5, 0.5, 0.5), (4, "diminishing_returns")), (LEVELLING, (0.0, 0.3, 0.6), None),
    (LEVELLING, (0.2, 0.21), None), (LEVELLING, (0.2, 0.21, 0.22), (3, "diminishing_returns")),
    # A gain of exactly the threshold goes on wherever it starts.
    *((LEVELLING, [(start + step) / 10 for step in range(3) if start + step <= 10], None) for start in range(9)),
    # Every new best earns an extra attempt, up to so many.
    (EXTRA, (0.0,) * 6, (2, "max_attempts")), (EXTRA, (0.0, 0.1, 0.1, 0.1), (3, "max_attempts")),
    (EXTRA, (0.0, 0.1, 0.2, 0.3, 0.4, 0.5), (4, "max_attempts")), (EXTRA, (0.5, 0.1, 0.6, 0.2), (2, "max_attempts")),
    (stop.MaxAttempts(2), (0.0, 0.5, 0.9), (2, "max_attempts")), (stop.MaxAttempts(), (0.0,) * 5, (3, "max_attempts")),
    # The first rule with a reason names the end.
    (stop.FirstOf(stop.Plateau(1), stop.MaxAttempts(2)), (0.0, 0.0), (2, "plateau")),
    (stop.FirstOf(stop.Plateau(1), stop.MaxAttempts(2)), (0.0, 0.1), (2, "max_attempts")),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "rewards", "expected"), ENDS)
def test_a_rule_ends_a_loop_by_its_rewards(rule, rewards, expected):
    assert ended(rule, *rewards) == expected


@pytest.mark.parametrize(
    ("limit", "last"), [({"calls": 6}, 2), ({"tokens": 61}, 3), ({"cost": 0.9}, 3), ({"calls": 100, "tokens": 1}, 1)]
)
def test_a_budget_counts_all_roles_and_ends_the_loop_that_reached_it(limit, last):
    actor = Usage(calls=2, prompt_tokens=10, completion_tokens=10, cost=0.2)
    spent = {"usage": actor, "others": {"critic": Usage(calls=1, prompt_tokens=5, cost=0.1)}}
    assert ended(stop.Budget(**limit), 0.0, 0.0, 0.0, 0.0, **spent) == (last, "budget")


def test_no_limit_is_no_budget():
    assert ended(stop.Budget(), 0.0, 0.0, usage=Usage(calls=10**9)) is None


def test_the_time_out_counts_tools_and_every_role():
    critique = Critique(severity=1.0, source="tests", seconds=1.0)
    spent = {"steps": (Step(seconds=2.0, critique=critique),), "others": {"critic": Usage(seconds=3.0)}}
    assert attempt(0.0, usage=Usage(seconds=4.0), **spent).seconds == 10.0
    assert ended(stop.TimeOut(15.0), 0.0, 0.0, usage=Usage(seconds=4.0), **spent) == (2, "timeout")


def test_a_loop_ends_after_the_attempt_in_which_it_was_cancelled():
    answers = iter([False, True, True])
    assert ended(stop.Cancelled(lambda: next(answers)), 0.0, 0.0, 0.0) == (2, "cancelled")
