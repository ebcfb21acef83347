import ast
import gzip
import json
from collections import Counter
from typing import Any

import pytest

from reflexion_lab.tasks.benchmarks.benchmark import Benchmark
from reflexion_lab.tasks.benchmarks.humaneval import humaneval
from reflexion_lab.tasks.benchmarks.recorded import OVERLAP, SHADOWED, UNTESTED, recorded
from reflexion_lab.tasks.benchmarks.rows import repeated
from reflexion_lab.tasks.evaluators.unit_tests import run_tests

ROW = {
    "problem": "MBPP/1",
    "bench": "mbpp",
    "entry_point": "twice",
    "prompt": 'def twice(n):\n    """Twice.\n    >>> twice(5)\n    10\n    """\n',
    "test": "\ndef check(candidate):\n    assert twice(1)==2\n    assert candidate(2) == 4\ncheck(twice)\n",
    "visible_tests": ["assert twice(1) == 2", "assert twice(3) == 6"],
    "attempts": [{"code": "nobody reads this"}],
    "model": "some",
}


@pytest.fixture
def task_of(written):
    """The task of one row with some fields changed."""

    def task_of(disjoint=True, **changes):
        (task,) = recorded(written(ROW | changes), disjoint)
        return task

    return task_of


def test_runs_of_one_problem_are_one_task(written):
    path = written(ROW, ROW | {"problem": "MBPP/2"}, ROW | {"model": "other", "attempts": []})
    benchmark = recorded(path)
    assert [task.task_id for task in benchmark] == ["MBPP/1", "MBPP/2"]
    assert benchmark.name == "rows"


def test_one_problem_in_two_forms_is_an_error(complaint):
    message = complaint(recorded, ROW, ROW, ROW | {"prompt": "def twice(n):\n"})
    assert (
        message == "rows.jsonl, line 3, field $.task_id: 'MBPP/1' is already the id of line 1, which has another task"
    )


def test_hidden_tests_are_the_rows_own_without_the_call_of_check(task_of):
    assert task_of().hidden_tests == ("assert twice(1)==2", "assert candidate(2) == 4")


def test_a_visible_test_that_is_hidden_too_is_dropped_or_marked(task_of):
    apart, whole = task_of(), task_of(disjoint=False)
    assert (apart.visible_tests, apart.tags) == (("assert twice(3) == 6",), ("mbpp",))
    assert (whole.visible_tests, whole.tags) == (tuple(ROW["visible_tests"]), ("mbpp", OVERLAP))
    assert apart.hidden_tests == whole.hidden_tests


def test_without_tests_of_the_runs_the_examples_are_visible(task_of):
    assert task_of(visible_tests=None).visible_tests == ("assert twice(5) == 10",)
    assert task_of(visible_tests=[]).visible_tests == ()


def test_tests_of_another_function_are_marked(task_of):
    test = "def check(candidate):\n    assert thrice(1) == 3\ncheck(twice)"
    assert task_of(test=test).tags == ("mbpp", UNTESTED)


@pytest.mark.parametrize("entry_point", ["check", "twice"])
def test_a_function_called_check_is_never_reached_and_marked(task_of, sandbox, entry_point):
    test = f"def check(candidate):\n    assert check(1) == 2\ncheck({entry_point})\n"
    task = task_of(entry_point=entry_point, test=test, visible_tests=[])
    assert SHADOWED in task.tags
    assert task.hidden_tests == (test,)
    program = "def twice(n):\n    return 2 * n\ndef check(n):\n    return twice(n)\n"
    assert not run_tests(sandbox, task, program, task.hidden_tests).passed


@pytest.mark.parametrize(
    "test", ["def check(candidate): assert candidate(1) == 2", "def check(f):\n    return\n    assert f(1)\n"]
)
def test_a_test_on_one_line_or_with_a_return_is_executed(task_of, sandbox, test):
    task = task_of(test=test, visible_tests=[])
    programs = ("def twice(n):\n    return 2 * n\n", "def twice(n):\n    return n\n")
    verdicts = [run_tests(sandbox, task, program, task.hidden_tests).passed for program in programs]
    assert verdicts == [True, "return" in test]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            {"prompt": ""},
            "field $.prompt: got nothing, expected the prompt of the problem; for HumanEval use benchmark=",
        ),
        ({"test": ""}, "field $.test: got nothing, expected the test of the problem"),
        (
            {"test": "def check(c): pass"},
            "field $.test: got 'def check(c): pass', expected a function `check` with asserts",
        ),
        ({"visible_tests": ["assert"]}, "field $.visible_tests[0]: got 'assert'"),
        ({"entry_point": "a b"}, "field $.entry_point: got 'a b', expected a Python identifier"),
        ({"problem": ""}, "field $.task_id: got an empty str, expected a name"),
        ({"problem": 3}, "field $.problem: got int, expected str"),
    ],
)
def test_a_bad_row_is_named_with_line_and_field(complaint, change, expected):
    message = complaint(recorded, ROW, ROW | {"problem": "MBPP/2"} | change)
    assert message.startswith(f"rows.jsonl, line 2, {expected}")


def plain(benchmark: Benchmark) -> int:
    """Tasks whose hidden tests are asserts and nothing else."""
    kinds = ([type(node) for check in task.hidden_tests for node in ast.parse(check).body] for task in benchmark)
    return sum(set(kind) == {ast.Assert} for kind in kinds)


def test_all_typed_mbpp_problems_load(recorded_runs):
    path = str(recorded_runs / "transcripts" / "noah_mbpp_gpt4.jsonl.gz")
    apart, whole = recorded(path), recorded(path, disjoint=False)
    assert (len(apart), plain(apart), sum(len(task.hidden_tests) for task in apart)) == (377, 377, 1170)
    assert sum(len(task.visible_tests) for task in whole) == 1885
    assert sum(len(task.visible_tests) for task in apart) == 1885 - 68
    assert sum(OVERLAP in task.tags for task in whole) == 54


def test_all_500_mbpp_problems_load(recorded_runs):
    path = str(recorded_runs / "transcripts" / "ldb_mbpp.jsonl.gz")
    apart, whole = recorded(path), recorded(path, disjoint=False)
    assert (len(apart), plain(apart), sum(len(task.hidden_tests) for task in apart)) == (500, 497, 1496)
    tags = Counter(tag for task in whole for tag in task.tags)
    assert tags == {"mbpp": 500, OVERLAP: 482, UNTESTED: 19, SHADOWED: 2}
    assert not any(task.visible_tests for task in apart)  # what was examples there was a hidden test, always


@pytest.mark.filterwarnings("ignore:invalid escape sequence")  # of the problems
def test_no_visible_test_is_hidden_too_unless_asked_for(recorded_runs):
    for name in ("noah_mbpp_gpt4", "cray_deepseek_humaneval"):
        for task in recorded(str(recorded_runs / "transcripts" / f"{name}.jsonl.gz")):
            assert not repeated(task.visible_tests, task.hidden_tests, task.entry_point)


def test_humaneval_as_recorded_has_the_hidden_tests_of_humaneval(recorded_runs):
    benchmark = recorded(str(recorded_runs / "transcripts" / "noah_ucs_humaneval_gpt4.jsonl.gz"))
    assert {task.task_id: task.hidden_tests for task in benchmark} == {t.task_id: t.hidden_tests for t in humaneval()}


def test_examples_of_typed_prompts_agree_with_the_canonical_solutions(recorded_runs):
    known = humaneval()
    examples = 0
    for task in recorded(str(recorded_runs / "transcripts" / "cray_deepseek_humaneval.jsonl.gz"), disjoint=False):
        space: dict[str, Any] = {}
        exec(known[task.task_id].prompt + known[task.task_id].canonical_solution, space)
        for test in task.visible_tests:
            exec(test, dict(space))
        examples += len(task.visible_tests)
    assert examples == 428


@pytest.mark.parametrize(
    ("name", "step"), [("noah_mbpp_gpt4", 8), ("ldb_mbpp", 8), ("agentevals_reflexion_humaneval", 19)]
)
@pytest.mark.slow
def test_the_split_tests_give_the_recorded_verdicts(recorded_runs, sandbox, name, step):
    path = recorded_runs / "transcripts" / f"{name}.jsonl.gz"
    benchmark = recorded(str(path))
    with gzip.open(path, "rt") as lines:
        rows = [json.loads(line) for line in lines]
    attempts = [(row["problem"], attempt) for row in rows[::step] for attempt in row["attempts"][:2]]
    verdicts: Counter[bool] = Counter()
    for problem, attempt in attempts:
        task = benchmark[problem]
        passed = run_tests(sandbox, task, attempt["code"], task.hidden_tests).passed
        assert passed == bool(attempt["own_pass"]), problem
        verdicts[passed] += 1
    assert min(verdicts[True], verdicts[False]) > 5
