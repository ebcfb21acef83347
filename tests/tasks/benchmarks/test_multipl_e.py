import pytest

from reflexion_lab.tasks.benchmarks.multipl_e import MISTRANSLATED, examples, multipl_e
from reflexion_lab.tasks.evaluators.unit_tests import run_tests

ROW = {
    "name": "HumanEval_500_longest",
    "language": "py",
    "prompt": 'from typing import List\n\ndef longest(words: List[str]) -> int:\n    """Longest.\n'
    "    >>> longest(['a', 'bb'])\n    2\n    \"\"\"\n",
    "doctests": "transform",
    "stop_tokens": ["\ndef"],
    "test": "def check(candidate):\n    assert candidate([]) == 0\n    assert candidate(['abc', 'd']) == 3\n\n"
    "def test_check():\n    check(longest)\n\ntest_check()\n",
}
RIGHT = "def longest(words):\n    return max(map(len, words), default=0)\n"
WRONG = "def longest(words):\n    return max(map(len, words))\n"


def test_a_row_becomes_a_task(written):
    (task,) = multipl_e(written(ROW))
    assert (task.task_id, task.entry_point, task.prompt) == ("HumanEval_500_longest", "longest", ROW["prompt"])
    assert task.visible_tests == ("assert longest(['a', 'bb']) == 2",)
    assert task.hidden_tests == ("assert candidate([]) == 0", "assert candidate(['abc', 'd']) == 3")
    assert task.canonical_solution == ""


def test_the_test_may_stand_in_either_field(written):
    other = {key: value for key, value in ROW.items() if key != "test"} | {"tests": ROW["test"]}
    assert multipl_e(written(ROW)).tasks == multipl_e(written(other)).tasks


def test_calls_of_check_are_not_among_the_checks(written, sandbox):
    (task,) = multipl_e(written(ROW))
    assert run_tests(sandbox, task, RIGHT, task.hidden_tests).passed
    assert [check.outcome for check in run_tests(sandbox, task, WRONG, task.hidden_tests).checks] == ["error", "pass"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"language": "rb"}, "field $.language: got 'rb', expected py"),
        (
            {"test": "def check(candidate):\n    assert candidate"},
            "field $.test: got none, expected a call check(NAME)",
        ),
        ({"test": "check(f)"}, "field $.test: got 'check(f)', expected a function `check` with asserts"),
        ({"test": "def"}, "field $.test: got 'def'"),
        ({"test": "", "tests": ""}, "field $.tests: got '', expected a function `check` with asserts"),
        ({"prompt": None}, "field $.prompt: got null, expected str"),
    ],
)
def test_a_bad_row_is_named_with_line_and_field(complaint, change, expected):
    assert f"rows.jsonl, line 2, {expected}" in complaint(multipl_e, ROW, ROW | {"name": "other"} | change)


def test_examples_known_as_wrong_are_left_out_of_their_task_alone():
    for task_id, tests in MISTRANSLATED.items():
        for test, reason in tests.items():
            call, _, value = test.removeprefix("assert ").partition(" == ")
            name = call.partition("(")[0]
            prompt = f'def {name}(x):\n    """Say.\n    >>> {call}\n    {value}\n    """\n'
            number = task_id.split("/")[1]
            assert reason
            assert examples(task_id, prompt, name) == examples(f"HumanEval_{number}_{name}", prompt, name) == ()
            assert examples(f"HumanEval_{number}0_{name}", prompt, name) == (test,)
            assert examples("mbpp_1_x", prompt, name) == (test,)
