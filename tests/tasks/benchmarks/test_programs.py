"""The thirty problems of our own: their programs pass, wrong ones fail, and no prompt shows a hidden test."""

import pytest

from reflexion_lab.audit.lint_dataset import lint, run_programs
from reflexion_lab.tasks.benchmarks.programs import programs
from reflexion_lab.tasks.benchmarks.similar import repeated
from reflexion_lab.tasks.sandbox.programs import case

TASKS = programs().tasks


def test_every_program_passes_and_nothing_is_amiss(sandbox):
    linted = lint(TASKS, sandbox, mutants=0, workers=2)
    assert len(TASKS) == 30 and {f.check for f in linted.findings} <= {"mutants fail"} and not linted.errors


@pytest.mark.parametrize("name", ["lowest_balance", "tilings", "vowel_run", "spiral"])
def test_every_mutant_that_differs_fails_a_hidden_test(sandbox, name):
    trial = run_programs(programs()[f"programs/{name}"], sandbox, 99, 0)
    assert trial.mutants and not trial.survivors


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.task_id)
def test_samples_are_in_the_statement_and_hidden_inputs_are_others(task):
    visible = {case(test).input for test in task.visible_tests}
    hidden = [case(test).input for test in task.hidden_tests]
    assert len(hidden) == len(set(hidden)) >= 6 and not visible & set(hidden) and len(visible) >= 2
    assert all(
        text.strip() in task.prompt for test in task.visible_tests for text in (case(test).input, case(test).output)
    )


def test_tasks_that_are_alike_are_of_one_cluster():
    assert repeated(TASKS, 0.8) == []
