import pytest
from msgspec.structs import replace

from reflexion_lab.judge import AskedTwice, HiddenTests


def test_a_second_grade_before_the_seal_is_refused(sandbox, task):
    judge = HiddenTests(sandbox)
    grade = judge.grade(task, 1, "def double(x):\n    return 2 * x\n")
    assert (grade.passed, grade.checks_passed, grade.checks_total, grade.sealed) == (True, 2, 2, False)
    with pytest.raises(AskedTwice, match="own/double"):
        judge.grade(task, 2, "def double(x):\n    return 2 * x\n")


def test_after_the_seal_every_attempt_may_be_graded(sandbox, task):
    judge = HiddenTests(sandbox)
    judge.grade(task, 2, "def double(x):\n    return 2 * x\n")
    judge.seal()
    grade = judge.grade(task, 1, "def double(x):\n    return 4\n")
    assert (grade.passed, grade.outcome, grade.sealed) == (False, "fail", True)


def test_a_resumed_run_remembers_what_was_graded(sandbox, task):
    with pytest.raises(AskedTwice):
        HiddenTests(sandbox, graded=["own/double"]).grade(task, 1, "")


def test_a_grade_says_how_many_of_its_checks_ran_beside_the_program(sandbox, task):
    loose = replace(task, hidden_tests=(*task.hidden_tests, "for x in (1, 2):\n    assert candidate(x) == 2 * x"))
    grade = HiddenTests(sandbox).grade(loose, 1, "def double(x):\n    return 2 * x\n")
    assert (grade.checks_passed, grade.checks_total, grade.checks_in_place) == (3, 3, 1)
