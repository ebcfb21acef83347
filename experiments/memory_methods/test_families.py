from __future__ import annotations

import ast
from collections import Counter
from itertools import pairwise
from random import Random

import pytest
from msgspec.structs import replace

from experiments.memory_methods.families import DEFINITIONS, GUESSES, QUESTIONS, changed, families, rule_of, rules_in
from reflexion_lab.records import Task
from reflexion_lab.tasks.benchmarks.basics import basics
from reflexion_lab.tasks.benchmarks.rows import checked, repeated

TASKS = families(seed=0, n=48, families=6)
NAIVE = families(seed=0, n=48, families=6, stream="naive")
BOTH = pytest.mark.parametrize("tasks", [TASKS, NAIVE], ids=["compositional", "naive"])


def is_first(task: Task) -> bool:
    return "first" in task.tags


def passes(program: str, checks: tuple[str, ...]) -> bool:
    namespace: dict[str, object] = {}
    try:
        exec("\n".join((program, *checks)), namespace)
    except Exception:
        return False
    return True


def test_the_canonical_program_passes_every_test_in_the_sandbox(sandbox):
    for task in TASKS[:16]:
        run = sandbox.run(task.canonical_program, task.entry_point, task.visible_tests + task.hidden_tests)
        assert {check.outcome for check in run.checks} == {"pass"}, task.task_id


@BOTH
def test_a_task_is_well_formed_with_two_visible_and_more_hidden_tests(tasks):
    for task in tasks:
        assert checked(task) is task
        (function,) = ast.parse(f"{task.prompt}    pass\n").body
        assert function.name == task.entry_point
        assert len(task.visible_tests) == 2 and len(task.hidden_tests) >= 6
        assert not repeated(task.hidden_tests, task.visible_tests, task.entry_point)
        assert passes(task.canonical_program, task.visible_tests + task.hidden_tests)
    assert len({task.prompt for task in tasks}) == len({task.task_id for task in tasks}) == len(tasks)


def test_the_stream_covers_every_definition_and_question():
    tasks = families(seed=1, n=180, families=20)
    for question in QUESTIONS:
        assert any(task.entry_point.startswith(question.function.split("{")[0]) for task in tasks)
    for definition in DEFINITIONS:
        assert any(definition.text.split("{")[1].removeprefix("a}") in rule_of(task) for task in tasks)


def test_only_the_first_task_of_a_family_states_its_rule():
    known = set()
    for task in TASKS:
        assert is_first(task) == (task.cluster not in known)  # nothing of a family comes before its first task
        assert rules_in(task.prompt) == ([rule_of(task)] if is_first(task) else [])
        assert rule_of(task).startswith(f"The {task.cluster.removeprefix('families/').replace('_', ' ')} of a ")
        known.add(task.cluster)


def test_in_the_naive_stream_every_prompt_states_the_rule_and_nothing_else_differs():
    for task, naive in zip(TASKS, NAIVE, strict=True):
        assert rules_in(naive.prompt) == [rule_of(task)]
        assert replace(naive, prompt=task.prompt) == task
        assert (naive == task) == is_first(task)


def test_families_are_interleaved_and_of_equal_size():
    assert set(Counter(task.cluster for task in TASKS).values()) == {8}
    assert sum(a.cluster != b.cluster for a, b in pairwise(TASKS)) > 24
    assert sorted(Counter(task.cluster for task in families(0, 11, 4)).values()) == [2, 3, 3, 3]


def test_the_stub_and_guesses_without_the_rule_fail():
    for task in TASKS:
        value = next(line for line in task.canonical_solution.splitlines() if line.startswith("    return "))
        for guess in GUESSES[task.tags[2]]:
            program = task.canonical_solution.replace(value, f"    return {guess}", 1)
            assert not passes(program, task.hidden_tests), (task.task_id, guess)
        first = ast.parse(f"{task.prompt}    pass\n").body[0].args.args[0].arg
        for body in ("    pass\n", f"    return {first}\n"):
            assert not passes(task.prompt + body, task.visible_tests), (task.task_id, body)


def test_a_hundred_families_have_terms_and_rules_of_their_own():
    tasks = families(seed=5, n=100, families=100)
    assert len({task.cluster for task in tasks}) == len({task.entry_point.split("_")[0] for task in tasks}) == 100
    definitions = {rule_of(task).partition(" of a ")[2] for task in tasks}
    assert len(definitions) == 100


def test_a_seed_names_its_tasks():
    assert families(0, 48, 6) == TASKS
    assert {task.prompt for task in families(1, 48, 6)}.isdisjoint(task.prompt for task in TASKS)


def test_a_rule_is_read_through_marks_and_line_breaks_but_never_in_part():
    rule, other = list(dict.fromkeys(map(rule_of, TASKS)))[:2]
    head, tail = rule.split(" is ")
    assert rules_in(f"Note:\n#   {head} is\n#  {tail} {other} {rule}") == [rule, other]
    assert rules_in(f"- I saw: {rule}") == rules_in(f"> {rule}") == [rule]
    assert rules_in(rule[:-1]) == rules_in(tail) == rules_in(TASKS[0].entry_point) == []


def test_a_changed_rule_defines_the_same_term_otherwise():
    for task in TASKS:
        wrong = changed(rule_of(task), Random(0))
        assert rules_in(wrong) == [wrong] != [rule_of(task)]
        assert wrong.split(" is ")[0] == rule_of(task).split(" is ")[0]


def test_a_public_task_has_the_rule_of_its_prompt_and_tasks_of_others_have_none():
    assert [rule_of(task.public) for task in TASKS] == [rule_of(task) if is_first(task) else "" for task in TASKS]
    assert rule_of(basics(0, 1)[0]) == ""


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"n": 0}, r"families\.n: got 0, expected 1 to 100000"),
        ({"families": 2000}, r"families\.families: got 2000, expected 1 to 1000"),
        ({"n": 5}, r"families\.families: got 8, expected at most n, which is 5"),
        ({"stream": "other"}, r"families\.stream: got 'other', expected one of compositional, naive"),
    ],
)
def test_impossible_streams_are_refused_by_name(arguments, problem):
    with pytest.raises(ValueError, match=problem):
        families(**arguments)
