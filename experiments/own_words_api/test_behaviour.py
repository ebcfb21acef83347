"""Words from the difference of behaviour: true of all tests, without a line of the solution or its number."""

import random
import re

import pytest

from experiments.own_words_api.behaviour import Behaviour, words_on
from experiments.own_words_api.relations import UNKNOWN, Case, condition, requirement, sentences
from reflexion_lab.agent.reflectors.evidence import describe
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Check, Task
from reflexion_lab.tasks.benchmarks.basics import basics
from reflexion_lab.tasks.benchmarks.mutants import mutants
from tests import builders as make

LONGEST = 4
"""Consecutive tokens of a solution that words may share with it by chance."""
TOKEN = re.compile(r"\w+|[^\w\s]")
TASK = Task(
    task_id="t/1",
    prompt='def back(xs):\n    """The items in reverse order."""\n',
    entry_point="back",
    canonical_solution="    return xs[::-1]\n",
    visible_tests=("assert back([1, 2, 3]) == [3, 2, 1]",),
    hidden_tests=("assert candidate([]) == []", "assert candidate([5, 4]) == [4, 5]", "assert candidate([7]) == [7]"),
)


def kinds(*pairs, arguments=None, **options):
    """Kinds of the sentences on failing cases with these actual and expected results."""
    cases = [Case(arguments, due, got, passed=False) for got, due in pairs]
    return [sentence.kind for sentence in sentences(cases, **options)]


@pytest.mark.parametrize(("pairs", "kind"), [
    ([([1, 2], [2, 1]), ([1, 2, 3], [3, 2, 1])], "reversed"), ([([1, 3, 2], [1, 2, 3])], "ascending"),
    ([([1, 3, 2], [3, 2, 1])], "descending"), ([(True, False), (False, True)], "negated truth"),
    ([(False, True)], "no for yes"), ([(True, False)], "yes for no"), ([("3", 3)], "number in text"),
    ([(3, "3")], "text of value"), ([(2.9999999, 3)], "whole number"), ([(-3, 3), (5, -5)], "sign"),
    ([((1, 2), [1, 2])], "type"), ([(["a", "b"], "ab")], "joined"), ([("ab", ["a", "b"])], "split"),
    ([("Ab", "AB")], "case"), ([("a b", "ab")], "spaces"), ([("a-b", "a_b")], "signs"),
    ([([2, 3], [1, 2, 3])], "without the first"), ([([1, 2], [1, 2, 3])], "without the last"),
    ([([0, 1, 2], [1, 2])], "one more at the start"), ([([1, 2, 3], [1, 2])], "one more at the end"),
    ([([], [1])], "empty"), ([([1, 1, 2], [1, 2])], "duplicates"), ([([1, 2, 3], [1, 1, 2, 2, 3])], "lost duplicates"),
    ([(2, 1), (5, 4)], "off by"), ([([2, 3], [1, 2])], "off by"), ([(4, 2), (10, 5)], "factor"),
    ([({"a": 1}, {"a": 1, "b": 2})], "missing keys"), ([(None, 3)], "missing result"), ([(9, 3), (5, 4)], "too large"),
    ([([1, 3, 5], [1, 2, 3, 4, 5])], "missing items"), ([("abcd", "ab"), ("xyzz", "xy")], "begun"),
])  # fmt: skip
def test_a_relation_of_results_is_named_by_its_most_telling_rule(pairs, kind):
    assert kinds(*pairs)[0] == kind


def test_a_rule_that_does_not_hold_for_every_failing_case_is_not_said():
    assert "reversed" not in kinds(([1, 2], [2, 1]), ([1, 2, 3], [2, 1, 3]))
    assert kinds((1, 3), (9, 4)) == []
    assert kinds((UNKNOWN, 3), (None, 4)) == []  # a result that was not recorded may break the rule


def test_a_program_that_prints_is_told_to_return():
    assert kinds((None, 3), is_printed=True)[0] == "prints"


def test_inputs_set_failing_cases_apart_and_requirements_name_types():
    cases = [Case(([],), 0, None, False), Case(([1],), 1, 1, True), Case(([1, 2],), 3, 3, True)]
    assert condition(cases) == "where the input is empty"
    assert condition(cases[:1]) == ""
    assert requirement([Case(None, [1, 2], [], False), Case(None, [3], [], False)]).endswith(
        "a list in ascending order"
    )
    assert requirement([Case(None, None, 1, False), Case(None, 2, 1, False)]).endswith("a whole number or None")


def test_words_are_true_of_all_tests_and_name_the_goal(sandbox):
    words = words_on(sandbox, TASK, "def back(xs):\n    return xs\n")
    assert words.kind == "reversed"
    assert words.cause.startswith("My result has the right items in reverse order")
    assert words.goal == "Return the input in reverse order."
    only_first = words_on(sandbox, TASK, "def back(xs):\n    return xs[::-1] if len(xs) == 3 else [0]\n")
    assert only_first.kind != "reversed"
    raising = words_on(sandbox, TASK, "def back(xs):\n    return [xs[-1], *xs[:-1][::-1]]\n")
    assert raising.cause == "My program reads an item beyond the end of a sequence where the input is empty."
    assert words_on(sandbox, TASK, "").kind == "no program"


def test_a_reflection_has_the_failing_feedback_check_and_no_value_of_a_hidden_one(sandbox):
    check = Check(
        outcome="fail", name=TASK.visible_tests[0], expected="[3, 2, 1]", actual="[1, 2, 3]", message="got it"
    )
    attempt = make.attempt(
        check, judged={"passed": False, "outcome": "fail"}, acted={"solution": "def back(xs):\n    return xs"}
    )
    reflection = Behaviour([TASK], sandbox).reflect(TASK.public, attempt, [])
    assert describe(attempt, check) in reflection.what_went_wrong
    assert "7" not in " ".join(text for _, text in reflection.statements)
    with pytest.raises(ConfigError, match="no canonical solution"):
        Behaviour([TASK.public], sandbox)


def test_words_quote_no_solution_and_no_line_number(sandbox):
    rng = random.Random(0)
    for task in basics(n=24, seed=5):
        program = task.canonical_program
        first = program.count("\n", 0, program.rfind('"""')) + 1
        for mutant in mutants(program, first, 2, rng):
            words = words_on(sandbox, task, mutant.program)
            text = " ".join(words[1:])
            assert not re.search(r"\blines?\b|\d", text), text
            shared = " ".join(TOKEN.findall(task.canonical_solution))
            tokens = TOKEN.findall(text)
            assert not any(" ".join(tokens[n : n + LONGEST]) in shared for n in range(len(tokens) - LONGEST + 1)), text
