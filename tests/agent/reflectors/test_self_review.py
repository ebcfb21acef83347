"""Intrinsic self-correction: a review without feedback, whose verdict ends the loop."""

import pytest
from msgspec.structs import replace

from reflexion_lab.agent.reflectors.llm import ReflectionError
from reflexion_lab.agent.reflectors.self_review import SelfReview
from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.learning.transitions import ends
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.loop.selection import submitted_at
from reflexion_lab.loop.stop import Satisfied
from reflexion_lab.records import Check, Sampling, Task
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.studies.run import carry_out
from reflexion_lab.tasks.evaluators.unit_tests import UnitTests
from tests import builders as make

TASK = Task(task_id="t/1", prompt='def add(a, b):\n    """The sum."""\n', entry_point="add")
UNJUDGED = {"passed": False, "outcome": "no_tests", "reward": 0.0}
SMALL = (
    "model=simulated", "actor=single_shot", "benchmark.load.n=200", "tracker=none", "quiet=true", "temperature=0.8",
    "cache.mode=off", "sandbox.servers=2", "workers=4",
)  # fmt: skip


def reviewed(reply):
    attempt = make.attempt(judged=UNJUDGED)
    return replace(attempt, reflection=SelfReview(make.Replies(reply), Sampling()).reflect(TASK, attempt, []))


@pytest.mark.parametrize(("reply", "category", "change", "reason"), [
    ("REVIEW: It adds.\nVERDICT: correct\nWHAT_TO_CHANGE: nothing", "correct", "", "satisfied"),
    ("REVIEW: It subtracts.\nVERDICT: wrong\nWHAT_TO_CHANGE: I add.", "root_cause", "I add.", None),
    ("**Review:** fine\n**Verdict:** Incorrect.\n**What to change:** the sign", "root_cause", "the sign", None),
    ("<think>VERDICT: wrong</think>REVIEW: fine\nVERDICT: Correct!", "correct", "", "satisfied"),
    ("VERDICT: wrong\nREVIEW: a\nVERDICT: correct\nREVIEW: b", "correct", "", "satisfied"),
    ("VERDICT: The program is correct.", "correct", "", "satisfied"),
    ("VERDICT: It is not correct\nWHAT_TO_CHANGE: the sign", "root_cause", "the sign", None),
    ("VERDICT: My program is wrong", "root_cause", "", None),
    ('{"review": "fine", "verdict": "wrong", "what_to_change": "the sign"}', "root_cause", "the sign", None),
])  # fmt: skip
def test_the_verdict_of_a_review_decides_whether_the_loop_goes_on(reply, category, change, reason):
    attempt = reviewed(reply)
    assert (attempt.reflection.category, attempt.reflection.what_to_change) == (category, change)
    assert attempt.reflection.source == "llm"
    assert Satisfied().reached(attempt, []) == reason


@pytest.mark.parametrize("reply", ["", "Looks good to me.", "VERDICT: perhaps", "VERDICT: correct? No, it is wrong"])
def test_a_reply_without_a_verdict_is_no_review(reply):
    with pytest.raises(ReflectionError, match="expected `correct` or `wrong`"):
        reviewed(reply)
    failed = make.attempt(judged=UNJUDGED, reflection=make.reflection(source="failed"))
    assert Satisfied().reached(failed, []) == "unreadable_review"
    assert Satisfied().reached(make.attempt(judged=UNJUDGED), []) is None


def test_where_no_check_was_run_the_last_program_is_submitted():
    unjudged = [make.attempt(number=number, judged=UNJUDGED) for number in (1, 2, 3)]
    assert [submitted_at(unjudged, t).number for t in (1, 2, 3)] == [1, 2, 3]
    empty = make.attempt(number=3, acted={"solution": ""})
    empty = replace(empty, evaluation=UnitTests(None).evaluate(TASK, empty.trajectory))
    assert empty.evaluation.outcome == "no_tests"
    assert submitted_at([*unjudged[:2], empty]).number == 2
    rewarded = [make.attempt(number=n, judged=UNJUDGED | {"reward": reward}) for n, reward in ((1, 0.9), (2, 0.2))]
    assert submitted_at(rewarded).number == 1
    wrong = Check(name="assert f() == 1", outcome="fail")
    failed = [make.attempt(wrong, number=number) for number in (1, 2)]
    assert submitted_at(failed).number == 1


@pytest.fixture(scope="module")
def arm(tmp_path_factory):
    """Of 200 tasks, two draws each: half of the first programs right, 8 of 10 reviews, 1 of 4 repairs."""
    root = tmp_path_factory.mktemp("intrinsic")
    rates = ("model.first=0.5", "model.spread=0", "model.review=0.8", "model.repair=0.25", "model.damage=0.4")
    for seed in (0, 1):
        carry_out(
            compose("experiment=intrinsic", *SMALL, *rates, f"run_root={root}", "loop.max_attempts=2", f"seed={seed}")
        )
    return Arm("intrinsic", [Log.read(RunFolder(path)) for path in sorted(root.glob("2*"))])


def test_planted_rates_are_recovered(arm):
    moves = ends(arm)
    assert moves.n == 400
    for rate, planted in (
        (moves.repair, 0.8 * 0.25),
        (moves.damage, 0.2 * 0.4),
        (moves.wrong_to_right, 0.5 * 0.8 * 0.25),
        (moves.right_to_wrong, 0.5 * 0.2 * 0.4),
        (moves.unchanged, 1 - 0.5 * (0.8 * 0.25 + 0.2 * 0.4)),
    ):
        assert rate.low <= planted <= rate.high
    assert moves.wrong_to_right.k + moves.right_to_wrong.k + moves.unchanged.k == 400
    assert moves.gain.value == pytest.approx((moves.wc - moves.cw) / 400)


def test_no_test_reaches_the_loop_and_reviews_end_it(arm):
    for of, task_id, attempts in ((log, *each) for log in arm.logs for each in log.attempts.items()):
        assert of.results[task_id].submitted == attempts[-1].number == len(attempts)
        assert all(attempt.evaluation.outcome == "no_tests" for attempt in attempts)
        assert {"satisfied": 1, "max_attempts": 2}[attempts[-1].stop_reason] == len(attempts)
        assert "failed" not in {attempt.reflection.source for attempt in attempts if attempt.reflection}


def test_the_votes_take_as_many_replies_as_the_longest_loop():
    intrinsic, votes = (compose(f"experiment={name}", "model=simulated") for name in ("intrinsic", "self_consistency"))
    assert 2 * intrinsic.loop.max_attempts - 1 == votes.actor.n == 5
