"""Repairs and damage by hand, and how often their intervals hold the truth."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from reflexion_lab.analysis.arms import Arm, Case
from reflexion_lab.analysis.learning.transitions import ends, moves, transitions
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.stats.intervals import wilson
from reflexion_lab.runner.folder.folder import RunFolder

R, W = True, False


@pytest.fixture
def make_arm(write_run, tmp_path):
    """An arm of one run for each table of verdicts, (feedback reward, hidden verdict) by task; seeds from 0."""

    def make(*tables, **options):
        logs = []
        for seed, verdicts in enumerate(tables):
            folder = write_run(verdicts, seed=seed, **options)
            folder.path.rename(tmp_path / f"seed-{seed}")
            logs.append(Log.read(RunFolder.existing(tmp_path / f"seed-{seed}")))
        return Arm("reflexion", logs)

    return make


def counts(found):
    return found.cc, found.cw, found.wc, found.ww


HISTORIES = {
    "ended at once": [(1.0, R)],
    "repaired": [(0.0, W), (1.0, R)],
    "damaged": [(0.5, R), (1.0, W)],
    "damaged, and never submitted": [(0.5, R), (0.2, W), (0.1, W)],
    "never right": [(0.0, W), (0.0, W), (0.0, W)],
    "rejected, and right all along": [(0.3, R), (0.2, R), (0.1, R)],
}


def test_programs_move_as_one_counts_by_hand(make_arm):
    found = transitions(make_arm(HISTORIES))
    second, third = found.programs
    assert (second.attempt, third.attempt) == (2, 3)
    assert counts(second) == (1, 2, 1, 1)
    assert counts(third) == (1, 0, 0, 2)
    assert counts(found.programs_pooled) == (2, 2, 1, 3)
    assert (found.programs_pooled.n, found.programs_pooled.tasks) == (8, 5)
    assert found.programs_pooled.repair.value == 1 / 4
    assert found.programs_pooled.damage.value == 2 / 4
    assert found.programs_pooled.gain.value == -1 / 8


def test_what_is_submitted_moves_less_than_programs(make_arm):
    found = transitions(make_arm(HISTORIES))
    assert counts(found.submitted[0]) == (2, 1, 1, 1)
    assert counts(found.submitted[1]) == (2, 0, 0, 1)
    assert counts(found.submitted_pooled) == (4, 1, 1, 2)


def test_the_ends_are_over_all_loops_and_gain_what_the_curve_gains(make_arm):
    arm = make_arm(HISTORIES, {**HISTORIES, "damaged": [(1.0, R)]})
    found = transitions(arm)
    assert found.ends.n == 12
    assert ends(arm) == found.ends
    assert counts(found.ends) == (7, 1, 2, 2)
    first, last = arm.verdicts(1), arm.verdicts()
    assert found.ends.gain.value == pytest.approx((sum(last.values()) - sum(first.values())) / 12)


@pytest.mark.parametrize("t", [2, 3])
def test_each_attempt_gains_what_the_curve_gains_there(make_arm, t):
    arm = make_arm(HISTORIES, HISTORIES)
    moves = transitions(arm).submitted[t - 2]
    assert moves.wc - moves.cw == sum(arm.verdicts(t).values()) - sum(arm.verdicts(t - 1).values())


def test_moves_of_verdicts_are_those_of_the_arm(make_arm):
    arm = make_arm(HISTORIES, HISTORIES)
    assert moves(arm.verdicts(1), arm.verdicts()) == transitions(arm).ends


def test_moves_are_about_the_cases_that_both_have():
    found = moves({Case(0, "a"): R, Case(0, "b"): W}, {Case(0, "b"): R, Case(1, "b"): W})
    assert counts(found) == (0, 0, 1, 0)
    assert found.damage is None


def test_one_seed_at_one_attempt_has_wilsons_interval(make_arm):
    found = transitions(make_arm(HISTORIES)).programs[0]
    assert (found.repair.low, found.repair.high) == wilson(1, 2)
    assert (found.damage.low, found.damage.high) == wilson(2, 3)


def test_several_moves_of_a_task_are_no_more_than_a_task_worth(make_arm):
    stubborn = {f"t{i}": [(0.0, W)] * 5 for i in range(8)}
    found = transitions(make_arm(stubborn, stubborn))
    assert found.programs_pooled.ww == 64
    assert (found.programs_pooled.repair.low, found.programs_pooled.repair.high) == wilson(0, 8)


def test_loops_that_all_end_at_once_have_no_moves_and_no_rates(make_arm):
    found = transitions(make_arm({"a": [(1.0, R)], "b": [(1.0, W)]}))
    assert found.programs == found.submitted == ()
    assert counts(found.programs_pooled) == (0, 0, 0, 0)
    assert found.programs_pooled.gain is found.programs_pooled.repair is found.programs_pooled.damage is None
    assert counts(found.ends) == (1, 0, 0, 1)


def test_a_verdict_that_the_harness_spoilt_is_no_move(make_arm):
    arm = make_arm(HISTORIES)
    for case, number in ((Case(0, "damaged"), 2), (Case(0, "never right"), 3)):
        arm.grades[case][number] = replace(arm.grades[case][number], outcome="harness_error", passed=False)
    found = transitions(arm)
    assert counts(found.programs[0]) == (1, 1, 1, 1)
    assert [one.unknown for one in found.programs] == [1, 1]
    assert found.ends.unknown == 1


def test_an_upper_bound_says_so(make_arm):
    found = transitions(make_arm(HISTORIES, feedback_source="oracle"))
    assert (found.arm, found.feedback_source, found.is_upper_bound) == ("reflexion", "oracle", True)


def test_the_rates_hold_the_truth_about_as_often_as_they_say():
    """60 tasks at 3 seeds and 4 attempts, none ended by its feedback: each task is repaired at its own rate."""
    rng = np.random.default_rng(1)
    cases = [Case(seed, f"{task}:{t}") for task in range(60) for seed in range(3) for t in range(3)]
    owners = [Case(case.seed, case.task_id.split(":")[0]) for case in cases]
    held = 0
    for _ in range(200):
        chances = np.repeat(rng.beta(1.0, 3.0, 60), 9)
        drawn = (rng.random(540) < chances).tolist()
        after = dict(zip(((*owner, place) for place, owner in enumerate(owners)), drawn, strict=True))
        found = rates({Case(place, owner[1]): passed for (*owner, place), passed in after.items()})
        held += found.repair.low <= 0.25 <= found.repair.high
    assert 0.91 <= held / 200 <= 0.99


def rates(after):
    """Of cases that were all wrong; each case has a seed of its own, so that a task has nine."""
    return moves(dict.fromkeys(after, W), after)
