"""Equal spending by hand, and what luck does to it."""

from statistics import fmean

import pytest
from msgspec.structs import replace

from reflexion_lab.analysis.arms import Case
from reflexion_lab.analysis.comparison.budgets import accuracy_by_spending, is_known, matched, per_solved, spent
from reflexion_lab.records import Usage

R, W = True, False


HISTORIES = {
    "at once": [(1.0, R)], "second": [(0.0, W), (1.0, R)], "third": [(0.0, W), (0.5, W), (1.0, R)],
    "never": [(0.0, W), (0.0, W), (0.0, W)],
}  # fmt: skip


def dearer(attempt):
    """30 tokens instead of 20."""
    usage = replace(attempt.trajectory.usage, prompt_tokens=20)
    return replace(attempt, trajectory=replace(attempt.trajectory, usage=usage))


def test_a_filtered_prompt_does_not_make_the_tokens_of_an_arm_unknown(make_arm):
    def filtered(attempt):
        """The provider turned the prompt of one first attempt down."""
        if attempt.task_id != "never" or attempt.number > 1:
            return attempt
        trajectory = replace(attempt.trajectory, finish_reason="content_filter", usage=Usage(calls=1, refused=1))
        return replace(attempt, trajectory=trajectory)

    arm, other = make_arm(HISTORIES, change=filtered), make_arm(HISTORIES, label="other")
    assert is_known(arm, "tokens")
    assert spent(arm, "tokens")[Case(0, "never")] == [0, 27, 54]
    assert matched(arm, other, "tokens").is_matched
    lost = make_arm(HISTORIES, label="lost", change=lambda attempt: replace(filtered(attempt), trajectory=replace(
        attempt.trajectory, usage=Usage(calls=1))))  # fmt: skip
    assert not is_known(lost, "tokens")


def test_initial_code_costs_nothing_and_leaves_the_tokens_of_its_arm_known(make_arm):
    def given(attempt):
        free = replace(attempt.trajectory, usage=Usage(), strategy="given")
        return replace(attempt, trajectory=free) if attempt.number == 1 else attempt

    retried = {name: history for name, history in HISTORIES.items() if name != "at once"}
    arm, other = make_arm(retried, change=given), make_arm(retried, label="other", change=given)
    assert is_known(arm, "completion_tokens") and spent(arm, "calls")[Case(0, "never")] == [0, 2, 4]
    assert matched(arm, other, "tokens").is_matched
    assert is_known(make_arm(HISTORIES, change=given), "tokens")  # one of them passes at once
    cases = make_arm(retried, change=lambda attempt: replace(
        given(attempt), trajectory=replace(given(attempt).trajectory, strategy="")))  # fmt: skip
    assert is_known(cases, "tokens"), "a file of cases does not say what was given"
    for lost in ({"usage": Usage()}, {"usage": Usage(), "strategy": "given"}):  # a log may hold no usage
        arm = make_arm(HISTORIES, change=lambda attempt, lost=lost: replace(
            attempt, trajectory=replace(attempt.trajectory, **lost), reflection=None))  # fmt: skip
        assert not is_known(arm, "tokens")


def test_an_attempt_is_paid_with_written_tests_and_other_roles_but_not_its_own_reflection(make_arm):
    arm = make_arm(HISTORIES)
    assert spent(arm, "tokens")[Case(0, "never")] == [20, 47, 74]
    assert spent(arm, "calls")[Case(0, "third")] == [1, 3, 5]
    assert spent(arm, "calls")[Case(0, "at once")] == [1]
    arm = make_arm(HISTORIES, written=Usage(calls=2, prompt_tokens=100, cost=0.5))
    assert spent(arm, "tokens")[Case(0, "second")] == [120, 147]
    assert spent(arm, "calls")[Case(0, "second")] == [3, 5]
    assert spent(arm, "cost")[Case(0, "second")] == [0.5, 0.5]

    def criticised(attempt):
        return replace(attempt, trajectory=replace(attempt.trajectory, others={"critic": Usage(calls=3)}))

    assert spent(make_arm(HISTORIES, change=criticised), "calls")[Case(0, "second")] == [4, 9]


@pytest.mark.parametrize(
    ("tokens", "solved"), [(20, ["at once"]), (41, ["at once", "second"]), (60, ["at once", "second", "third"])]
)
def test_a_cut_arm_submits_what_it_has_by_then(make_arm, tokens, solved):
    """Caps of 20, 47 and 74 tokens: the means of the longer arm are then 20, 40.25 and 53.75."""

    def spends(attempt):
        return replace(attempt, trajectory=replace(attempt.trajectory, usage=Usage(calls=1, prompt_tokens=tokens)))

    single = make_arm({task_id: [(1.0, W)] for task_id in HISTORIES}, label="single", change=spends)
    match = matched(make_arm(HISTORIES), single, "tokens")
    assert [case.task_id for case, passed in match.first.items() if passed] == solved


def test_a_damaged_submission_is_found_by_the_cap(make_arm):
    damaged = make_arm({"a": [(0.5, R), (1.0, W)]})
    assert matched(damaged, make_arm({"a": [(1.0, W)]}, label="single"), "tokens").first == {Case(0, "a"): R}
    assert matched(damaged, make_arm({"a": [(0.0, W)] * 3}, label="long"), "tokens").first == {Case(0, "a"): W}


def test_the_dearer_arm_is_cut_to_the_mean_of_the_cheaper(make_arm):
    many = {f"{name} {i}": history for i in range(10) for name, history in HISTORIES.items()}
    cheap, dear = make_arm(many, label="cheap"), make_arm(many, label="dear", change=dearer)
    for match, place in ((matched(cheap, dear, "tokens"), 2), (matched(dear, cheap, "tokens"), 1)):
        assert match.cut_side == place
        assert match.is_matched
        own, other = (match.first_spend, match.second_spend)[:: 1 if place == 1 else -1]
        assert other == fmean(ends[-1] for ends in spent(cheap, "tokens").values()) == 53.75
        assert other - 37 / 40 < own <= other  # one more attempt of one more case would be too much
    match = matched(cheap, dear, "tokens")
    assert match.first == cheap.verdicts()
    assert sum(match.second.values()) < sum(match.first.values())
    assert match.equal.estimate.value < 0


def test_cases_of_equal_spending_are_cut_in_random_order(make_arm):
    """Retries cost one call: to cut all of them at once would fall far below what may be spent."""
    short = {f"t{i}": [(0.0, W)] + [(1.0, R)] * (i % 2) for i in range(40)}
    long = {f"t{i}": [(0.0, W), (1.0, R)] for i in range(40)}
    cheap, dear = make_arm(short, label="cheap"), make_arm(long, label="dear")
    match = matched(cheap, dear, "calls")
    assert (match.first_spend, match.second_spend) == (2.0, 2.0)
    assert sum(match.second.values()) == 20
    assert match == matched(cheap, dear, "calls")
    assert match.second != matched(cheap, dear, "calls", seed=1).second
    assert match.equal.estimate.value == pytest.approx(0.0)


def test_arms_that_spend_the_same_are_not_cut(make_arm):
    first, other = make_arm(HISTORIES, label="one"), make_arm(HISTORIES, label="other")
    for unit in ("tokens", "calls"):
        match = matched(first, other, unit)
        assert (match.cut_side, match.is_matched) == (0, True)
        assert match.first == match.second == first.verdicts()
        assert match.equal.p == 1.0


def test_first_attempts_that_cost_too_much_are_kept_and_said(make_arm):
    single = {task_id: history[:1] for task_id, history in HISTORIES.items()}
    match = matched(make_arm(single, label="cheap"), make_arm(HISTORIES, label="dear", change=dearer), "tokens")
    assert not match.is_matched
    assert match.second_spend == 30 > match.first_spend == 20
    assert sum(match.second.values()) == 1


def test_only_cases_that_both_have_are_matched_and_arms_without_any_refused(make_arm):
    more = make_arm({**HISTORIES, "alone": [(0.0, W)] * 5}, HISTORIES, label="more")
    less = make_arm(HISTORIES, label="less")
    match = matched(more, less, "tokens")
    assert match.first.keys() == match.second.keys() == less.attempts.keys()
    assert match.cut_side == 0
    with pytest.raises(ValueError, match="got no case in both"):
        matched(make_arm({"a": [(1.0, R)]}, label="one"), make_arm({"b": [(1.0, R)]}, label="other"), "calls")


@pytest.mark.parametrize("work", [spent, accuracy_by_spending, per_solved])
def test_an_unknown_unit_is_refused(make_arm, work):
    with pytest.raises(ValueError, match="unit: got 'hours'"):
        work(make_arm(HISTORIES), "hours")


def test_the_curve_over_spending_is_that_over_attempts_and_a_solved_task_costs_all_that_was_paid(make_arm):
    arm = make_arm(HISTORIES)
    spots = accuracy_by_spending(arm, "tokens")
    assert [spot.attempt for spot in spots] == [1, 2, 3]
    assert [spot.spend for spot in spots] == [20, (20 + 3 * 47) / 4, (20 + 47 + 2 * 74) / 4]
    assert [spot.pass_at_1.value for spot in spots] == [0.25, 0.5, 0.75]
    tokens = per_solved(make_arm(HISTORIES, HISTORIES), "tokens")
    assert tokens.value == pytest.approx((20 + 47 + 74 + (74 + 7)) / 3)  # with the last reflection, which nobody read
    assert tokens.low <= tokens.value <= tokens.high
    assert per_solved(make_arm({"a": [(0.0, W)]}, label="none"), "tokens") is None
