"""Wrong and weak tests: at the requested rate, equal for all programs of a task, and run on every program."""

import contextlib
import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from experiments.noise_of_feedback.noisy import WEAK, Noisy, wrong_test
from reflexion_lab.records import Evaluation, Trajectory
from reflexion_lab.runner.config.assemble import assemble
from reflexion_lab.runner.config.build import build
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.tasks.evaluators.combined import Combined
from reflexion_lab.tasks.evaluators.static import StaticCheck
from reflexion_lab.tasks.evaluators.trajectory import TrajectoryHeuristics
from reflexion_lab.tasks.evaluators.unit_tests import UnitTests

FOLDER = f"hydra.searchpath=[file://{Path(__file__).parent}/conf]"
RIGHT, WRONG = "def double(x):\n    return 2 * x\n", "def double(x):\n    return 2 * x + 1\n"


def program(text):
    return Trajectory(solution=text, strategy="own")


@pytest.fixture
def many(task):
    """The task with 2,000 tests."""
    return replace(task, visible_tests=tuple(f"assert double({x}) == {2 * x}" for x in range(2000)))


def changed(task, **rates):
    """For each test, whether it is wrong or weak."""
    tests = Noisy(None, **rates).tests(task)
    pairs = zip(task.visible_tests, tests, strict=True)
    return ["" if after == before else "weak" if after == WEAK else "wrong" for before, after in pairs]


@pytest.mark.parametrize("rates", [(0.1, 0.4), (0.4, 0.0), (0.5, 0.5), (1.0, 0.0), (0.0, 1.0)])
def test_tests_are_wrong_and_weak_at_the_given_rates(many, rates):
    """2,000 draws: five standard errors are at most 0.056."""
    kinds = changed(many, wrong_tests=rates[0], weak_tests=rates[1])
    assert [kinds.count(kind) / 2000 for kind in ("wrong", "weak")] == pytest.approx(rates, abs=0.056)


def test_without_a_rate_nothing_changes(many):
    assert set(changed(many)) == {""}


def test_draws_depend_on_seed_task_and_test_alone(many):
    first = changed(many, wrong_tests=0.5)
    assert first == changed(many, wrong_tests=0.5)
    assert first != changed(many, wrong_tests=0.5, seed=1)
    assert first != changed(replace(many, task_id="own/other"), wrong_tests=0.5)
    pairs = list(itertools.pairwise(first))
    both = pairs.count(("wrong", "wrong")) / len(pairs)
    assert both == pytest.approx(0.25, abs=0.05), "neighbours are independent"


def test_a_higher_rate_changes_a_superset(many):
    few, more = (changed(many, wrong_tests=rate, weak_tests=rate) for rate in (0.1, 0.3))
    assert all(not low or low == high for low, high in zip(few, more, strict=True))


@pytest.mark.parametrize(
    ("test", "wrong"),
    [
        ("assert double(2) == 4", "assert double(2) == 5"),
        ("assert 4 == double(2)", "assert 5 == double(2)"),
        ("assert double('ab') == 'abab'", "assert double('ab') == 'aba'"),
        ("assert double('') == ''", "assert double('') == None"),
        ("assert double([1]) == [1, 1]", "assert double([1]) == [1]"),
        ("assert double({}) == {'a': 1, 'b': 2}", "assert double({}) == {'b': 2}"),
        ("assert double(-1.5) == -3.0", "assert double(-1.5) == -2.0"),
        ("assert double(None) is None", "assert double(None) is 0"),
        ("assert double(2) is True", "assert double(2) is False"),
        ("assert double(2)", "assert not double(2)"),
        ("assert double(7) > 5", "assert not double(7) > 5"),
        ("import math\nassert double(2) == 4", "import math\nassert double(2) == 5"),
        ("x = double(2)", "x = double(2)"),
        ("assert double(", "assert double("),
    ],
)
def test_a_wrong_test_demands_another_value(test, wrong):
    assert wrong_test(test) == wrong


@pytest.mark.parametrize("value", ["4", "'ab'", "[1]", "{1: 2}", "{'a', 'b'}", "None", "True", "1e16", "1e999", "b'a'"])
def test_the_right_value_fails_a_wrong_test(sandbox, task, value):
    wrong = wrong_test(f"assert double(2) == {value}")
    (check,) = sandbox.run(f"def double(x):\n    return {value}\n", "double", [wrong]).checks
    assert check.outcome == "fail"


def test_a_right_program_fails_and_a_wrong_one_may_pass_a_wrong_test(task, sandbox):
    noisy = Noisy(UnitTests(sandbox), wrong_tests=1.0)
    right, wrong = (noisy.evaluate(task, program(text)) for text in (RIGHT, WRONG))
    assert (right.passed, right.outcome, right.reward) == (False, "fail", 0.0)
    assert right.feedback == "0 of 1 tests passed. Failing:\n- assert double(2) == 5  # expected 5, got 4"
    assert (wrong.passed, wrong.outcome, wrong.reward) == (True, "pass", 1.0)


def test_a_weak_test_passes_all_programs_that_define_the_function(task, sandbox):
    noisy = Noisy(UnitTests(sandbox), weak_tests=1.0)
    for text in (WRONG, "def double(x):\n    raise ValueError\n"):
        evaluation = noisy.evaluate(task, program(text))
        assert (evaluation.passed, evaluation.reward) == (True, 1.0)
    assert {noisy.evaluate(task, program(text)).outcome for text in ("x = 1", "def double(")} == {"error"}


def test_verdict_and_reward_of_an_unchanged_task_are_the_evaluators_own(task, sandbox):
    for text in (RIGHT, WRONG):
        true, noisy = (each.evaluate(task, program(text)) for each in (UnitTests(sandbox), Noisy(UnitTests(sandbox))))
        assert replace(noisy, seconds=0, checks=()) == replace(true, seconds=0, checks=())


def test_combined_types_and_lint_are_those_of_the_true_evaluation(task, sandbox):
    untidy = program("def double(x: int) -> str:\n    return 2 * x\n")
    true, noisy = (
        evaluator.evaluate(task, untidy) for evaluator in (Combined(sandbox), Noisy(Combined(sandbox), wrong_tests=1.0))
    )
    assert (true.components, noisy.components) == (
        {"tests": 1.0, "types": 0.0, "lint": 1.0},
        {"tests": 0.0, "types": 0.0, "lint": 1.0},
    )
    assert noisy.reward == pytest.approx(0.2)
    assert noisy.verification_type == "combined"
    assert "ty finds" in noisy.feedback


def test_an_evaluator_without_tests_is_refused():
    for inner in (StaticCheck("ruff"), TrajectoryHeuristics()):
        with pytest.raises(ValueError, match=r"evaluator\.evaluator: got \w+, which runs no tests"):
            Noisy(inner, wrong_tests=1.0)


def test_what_was_not_tested_gets_no_verdict(task, sandbox):
    class Broken:
        def evaluate(self, task, trajectory):
            return Evaluation(passed=False, outcome="harness_error", reward=0.0)

    noisy = Noisy(UnitTests(sandbox), wrong_tests=0.5, weak_tests=0.5)
    assert noisy.evaluate(replace(task, visible_tests=()), program("x = 1")).outcome == "no_tests"
    assert noisy.evaluate(task, program("")).outcome == "extraction_failed"
    evaluation = Noisy(Broken(), weak_tests=1.0).evaluate(task, program("x = 1"))
    assert (evaluation.passed, evaluation.outcome) == (False, "harness_error")
    evaluation = Noisy(UnitTests(sandbox), wrong_tests=1.0).evaluate(task, program(""))  # wrong tests are shown, too
    assert [check.name for check in evaluation.checks] == [*Noisy(None, wrong_tests=1.0).tests(task)]


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        *(({name: rate}, rf"Noisy\.{name}: got {rate}")
          for name in ("wrong_tests", "weak_tests") for rate in (-0.1, 1.1)),
        ({"wrong_tests": 0.5, "weak_tests": 0.6},
         r"evaluator\.weak_tests: got 0\.6, expected at most 1 with wrong_tests=0\.5"),
    ],
)  # fmt: skip
def test_rates_that_are_no_shares_are_refused_by_name(rates, message):
    with pytest.raises(ValueError, match=message):
        Noisy(None, **rates)


def test_the_config_wraps_unit_tests_with_the_runs_seed(sandbox):
    cfg = compose(FOLDER, "evaluator=noisy", "evaluator.wrong_tests=0.2", "seed=7")
    noisy = build(cfg.evaluator, "evaluator", {"sandbox": sandbox})
    assert (type(noisy.evaluator), noisy.wrong_tests, noisy.seed) == (UnitTests, 0.2, 7)


SETS = {
    "assert f(1) == {'a', 'b', 'c'}": "assert f(1) == {'b', 'c'}",
    "assert f(1) == [{1: {'e', 'f'}}, ({'c', 'd'},), 2]": "assert f(1) == [{1: {'e', 'f'}}, ({'c', 'd'},)]",
}


@pytest.mark.parametrize("seed", ["1", "2"])
def test_a_wrong_test_of_sets_is_equal_in_every_process(seed):
    code = "from experiments.noise_of_feedback.noisy import wrong_test\n"
    code += "".join(f"print(wrong_test({test!r}))\n" for test in SETS)
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    printed = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert printed.stdout.splitlines() == list(SETS.values())


def run(tmp_path, *overrides):
    cfg = compose(
        *(FOLDER, "model=simulated", "actor=single_shot", "evaluator=noisy", "benchmark.limit=12", "quiet=true"),
        *("tracker=none", f"run_root={tmp_path}", "recall.max_tokens=4000", "loop.stuck_after=null", *overrides),
    )
    with contextlib.closing(assemble(cfg)) as lab:
        lab.runner.run()
        return lab.folder


def hidden(folder):
    """Share of right programs among what was submitted."""
    grades = folder.grades
    return [grades[task_id, result.submitted].passed for task_id, result in folder.results.items()]


def test_wrong_tests_and_sure_damage_spoil_what_was_right(tmp_path):
    noise = ("evaluator.wrong_tests=1", "model.first=1", "model.damage=1", "model.repair=0", "loop.max_attempts=2")
    folder = run(tmp_path, *noise)
    assert {len(attempts) for attempts in folder.attempts.values()} == {2}
    assert not any(attempts[0].evaluation.passed for attempts in folder.attempts.values())
    assert all("wrong draft" in attempts[1].trajectory.solution for attempts in folder.attempts.values())


def test_weak_tests_end_the_loop_on_a_wrong_program(tmp_path):
    folder = run(tmp_path, "evaluator.weak_tests=1", "model.first=0")
    assert not any(hidden(folder))
    assert {result.stop_reason for result in folder.results.values()} == {"passed"}


@pytest.mark.parametrize("partial", [0, 0.5])
@pytest.mark.slow
def test_tests_that_are_all_wrong_do_not_tell_right_from_wrong(tmp_path, partial):
    """Nothing right passes one of them, so no more right programs are submitted than by the first attempts."""
    settings = ("benchmark.limit=40", "model.first=0.5", "model.damage=0.2", f"model.partial={partial}")
    folder = run(tmp_path, "evaluator.wrong_tests=1", *settings)
    grades = folder.grades
    firsts = [grades[task_id, 1].passed for task_id in folder.results]
    rights = [a for every in folder.attempts.values() for a in every if grades[a.task_id, a.number].passed]
    assert {attempt.evaluation.reward for attempt in rights} == {0.0}
    assert 0 < sum(hidden(folder)) <= sum(firsts) < 40
