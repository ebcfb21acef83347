from __future__ import annotations

import random
from itertools import pairwise

import pytest
from msgspec.structs import replace

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.learning.transitions import repairs, transitions
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.stats.intervals import wilson


def outcome(evaluation):
    return evaluation.outcome


def arm_of(folder):
    return Arm("reflexion", [Log.read(folder)])


def drawn(tasks, seed=0):
    rng, found = random.Random(seed), {}
    for task in range(tasks):
        history = []
        while len(history) < 4 and not (history and history[-1][0] == 1):
            right = rng.random() < 0.4
            history.append((1.0 if rng.random() < (0.9 if right else 0.1) else 0.5, right))
        found[f"t{task}"] = history
    return found


def test_repairs_of_all_classes_are_the_wrong_to_right_moves_of_the_transitions(write_run):
    arm = arm_of(write_run(drawn(60)))
    found, moves = repairs(arm, outcome), transitions(arm).programs_pooled
    (fail,) = found.by_class.values()
    assert (fail.next.k, fail.next.n) == (moves.wc, moves.wc + moves.ww)
    assert fail.next.share == moves.repair
    assert found.rejected == moves.cc + moves.cw > 0


def test_the_end_is_the_hidden_verdict_on_what_was_submitted(write_run):
    verdicts = drawn(60, seed=3)
    (fail,) = repairs(arm_of(write_run(verdicts)), outcome).by_class.values()
    k = n = 0
    for history in verdicts.values():
        best = max(range(len(history)), key=lambda place: (history[place][0], -place))
        for one, _ in pairwise(history):
            if one[0] < 1 and not one[1]:
                k, n = k + history[best][1], n + 1
    assert (fail.end.k, fail.end.n) == (k, n)
    assert fail.end.share.value == pytest.approx(k / n)


def test_classes_are_told_apart_and_the_most_frequent_comes_first(write_run, attempt):
    made = {}
    for task in range(6):
        first = attempt(f"t{task}", 1, 0.0)
        kind = "timeout" if task < 2 else "error"
        made[f"t{task}"] = [
            replace(first, evaluation=replace(first.evaluation, outcome=kind)),
            attempt(f"t{task}", 2, float(task == 0)),
        ]
    found = repairs(arm_of(write_run(made=made)), outcome).by_class
    assert {name: (one.next.k, one.next.n) for name, one in found.items()} == {"error": (0, 4), "timeout": (1, 2)}
    assert list(found) == ["error", "timeout"]
    assert (found["error"].next.share.low, found["error"].next.share.high) == pytest.approx(wilson(0, 4))


def test_a_loop_that_ended_on_its_failure_had_nothing_to_mend_it(write_run):
    assert not repairs(arm_of(write_run({"a": [(0.5, False)], "b": [(1.0, True)]})), outcome).by_class


def test_failures_that_nobody_could_judge_are_counted_apart(write_run):
    found = repairs(arm_of(write_run({"a": [(-1.0, False), (1.0, True)], "b": [(0.5, False), (1.0, True)]})), outcome)
    assert found.unknown == 1
    assert found.by_class["fail"].next.n == 1


def test_several_failures_of_one_task_are_one_cluster(write_run):
    (found,) = repairs(arm_of(write_run({"a": [(0.5, False)] * 3 + [(1.0, True)]})), outcome).by_class.values()
    assert (found.tasks, found.next.k, found.next.n, found.end.k) == (1, 1, 3, 3)
    assert found.end.share.low == pytest.approx(wilson(1, 1)[0])
