"""Rows of LiveCodeBench, APPS and BigCodeBench: read, judged by their own solutions; nothing in them runs."""

import ast
import base64
import json
import pickle
import re
import zlib
from pathlib import Path

import pytest
import yaml

from reflexion_lab.errors import ConfigError, DataError
from reflexion_lab.tasks.benchmarks.jsonl import jsonl
from reflexion_lab.tasks.evaluators.executed import executed
from reflexion_lab.tasks.evaluators.judge import HiddenTests
from reflexion_lab.tasks.sandbox.suites import methods
from reflexion_lab.text.replies.extract import extract


def packed(value):
    return base64.b64encode(zlib.compress(pickle.dumps(value))).decode()


ROWS = yaml.safe_load(Path(__file__).with_name("contests.yaml").read_text(encoding="utf-8"))
for row in ROWS.values():
    texts = {"public_test_cases", "private_test_cases", "metadata", "input_output", "solutions"} & row.keys()
    row |= {name: json.dumps(row[name]) for name in texts}
    row |= {name: packed(row[name]) for name in texts & {"private_test_cases"}}
LCB, METHOD, APPS, APPS_CALL, BIGCODE = ROWS.values()


def test_every_format_is_read_and_its_own_solution_passes(write_rows, sandbox):
    tasks = jsonl(str(write_rows(LCB, METHOD, APPS))).tasks + jsonl(str(write_rows(APPS_CALL))).tasks
    kinds = [
        (task.kind, task.entry_point, task.released, len(task.visible_tests), len(task.hidden_tests)) for task in tasks
    ]
    assert kinds == [
        ("program", "", "2024-02-01", 1, 2), ("function", "Solution", "2023-01-01", 1, 1), ("program", "", "", 1, 2),
        ("function", "half", "", 1, 1),
    ]  # fmt: skip
    assert tasks[0].tags == ("easy", "atcoder") and "Print twice n." in tasks[1].prompt
    for task in tasks:
        assert HiddenTests(sandbox).grade(task, 1, task.canonical_program).passed, task
        assert not HiddenTests(sandbox).grade(task, 1, task.canonical_program.replace("2", "3")).passed


def test_a_method_of_a_class_of_unittest_is_a_check_and_a_skip_is_no_pass(write_rows, sandbox):
    [task] = jsonl(str(write_rows(BIGCODE))).tasks
    assert task.requires == ("numpy",) and task.visible_tests == ("assert f(1) == 2",)
    checks = executed(task, task.canonical_program, task.hidden_tests, sandbox).checks
    assert [each.outcome for each in checks] == ["pass", "pass", "pass", "pass", "fail", "fail"]
    wrong = executed(task, "def f(n): return 2 * n if n != 1 else 3", task.hidden_tests, sandbox).checks
    assert [each.outcome for each in wrong] == ["pass", "pass", "fail", "pass", "fail", "fail"]


@pytest.mark.parametrize(("test", "checks"), [
    ("def test_a(): assert f(1) == 2\nasync def test_b(): assert f(1) == 2", 2),
    ("def helper(x): return f(x)\nclass A:\n    pass\ndef test_a(): assert helper(1) == 2", 1),
    ("assert f(1) == 2\ndef test_a(): pass", 0), ("class TestA:\n    def test_a(self): assert f(1) == 2", 0),
])  # fmt: skip
def test_functions_are_checks_and_other_forms_are_left_whole(test, checks):
    assert len(methods(test)[1]) == checks


@pytest.mark.parametrize("test", [
    "import unittest\nclass A(unittest.TestCase):\n    def setUp(self): pass", "def test_a(tmp_path): pass",
    "import pytest\n@pytest.mark.parametrize('x', [1])\ndef test_a(x=0): pass",
])  # fmt: skip
def test_tests_that_check_nothing_or_need_a_runner_are_refused(write_rows, test):
    with pytest.raises(DataError, match=r"field \$\.test: .*(has no test|needs a fixture)"):
        jsonl(str(write_rows(BIGCODE | {"test": test})))


class Bang:
    def __reduce__(self):
        return open, ("bang", "w")


@pytest.mark.parametrize("value", [Bang(), [{"input": "1", "output": "2"}], b"[]", 7])
def test_a_pickle_of_more_than_a_text_is_one_line_and_runs_nothing(write_rows, tmp_path, monkeypatch, value):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"field \$\.private_test_cases") as problem:
        jsonl(str(write_rows(LCB | {"private_test_cases": packed(value)})))
    assert not (tmp_path / "bang").exists() and "\n" not in str(problem.value)


SOLUTION = "class Solution:\n    def half(self, n: List[int]) -> Optional[int]:\n        return n[0] / 2\n"
NODE = "# Definition of a list.\n# class ListNode:\n#     def __init__(self, val=0):\n#         self.val = val\n"
CALLS = {"input_output": json.dumps({"fn_name": "half", "inputs": [[[1]], [[3]]], "outputs": [0.5, 1.5]})}
BARE = "def half(n: List[int]) -> int:\n    return n[0] / 2\n"
SIDES = {"metadata": '{"func_name": "half"}'} | {
    f"{side}_test_cases": json.dumps([{"input": f"[{n}]", "output": str(n / 2), "testtype": "functional"}])
    for side, n in (("public", 1), ("private", 3))
}


@pytest.mark.parametrize(("row", "start", "reply"), [
    (APPS_CALL | CALLS, SOLUTION[:66], SOLUTION),
    (APPS_CALL | CALLS | {"solutions": json.dumps([SOLUTION])}, "", SOLUTION),
    (APPS_CALL | CALLS, "# Write code\n\nclass Solution:\n\tdef half(self, n):\n\t\t", SOLUTION),
    (APPS_CALL | CALLS, "", BARE.replace("List[int]", "list")), (APPS_CALL | CALLS, BARE[:31], BARE),
    (METHOD | SIDES, BARE[:31], BARE), (METHOD | SIDES, "", SOLUTION), (METHOD | SIDES, SOLUTION[:66], SOLUTION),
    (METHOD | SIDES, NODE + SOLUTION[:66], SOLUTION.replace("[int]:", "[ListNode]:")),
])  # fmt: skip
def test_replies_of_leetcodes_form_need_no_imports_and_the_prompt_has_the_problem(
    write_rows, sandbox, row, start, reply
):
    [task] = jsonl(str(write_rows(row | {"starter_code": start, "canonical_solution": ""}))).tasks
    assert row.get("question", row.get("question_content")) in task.prompt and "def half(" in task.prompt
    ast.parse(task.prompt)
    program = extract(f"```python\n{reply}```", task).program
    assert HiddenTests(sandbox).grade(task, 1, program).passed


@pytest.mark.parametrize(("row", "column"), [(APPS, "problem_id"), (LCB, "question_id")])
def test_a_problem_without_an_id_is_named_by_its_question(write_rows, row, column):
    row = {name: value for name, value in row.items() if name != column}
    other = row | {"question": "Else?", "question_content": "Else?"}
    ids = [task.task_id for task in jsonl(str(write_rows(row, other)))]
    assert all(re.fullmatch("question-[0-9a-f]{12}", each) for each in ids) and len({*ids}) == 2
    assert jsonl(str(write_rows(row | {"id": 3})))[0].task_id == "3"


@pytest.mark.parametrize("text", ["no base64!", "", base64.b64encode(b"x").decode(), packed("[")])
def test_private_tests_that_cannot_be_read_are_one_error(write_rows, text):
    with pytest.raises(DataError, match=r"field \$\.private_test_cases"):
        jsonl(str(write_rows(LCB | {"private_test_cases": text})))


def test_a_tuple_is_a_list_and_what_is_no_literal_or_no_list_of_arguments_is_named(write_rows, sandbox):
    case = {"input": "[1]", "output": "[1, 2]", "testtype": "functional"}
    sides = {"public_test_cases": json.dumps([case]), "private_test_cases": packed(json.dumps([case]))}
    task = jsonl(
        str(write_rows({name: value for name, value in METHOD.items() if name != "canonical_solution"} | sides))
    )[0]
    name = json.loads(METHOD["metadata"])["func_name"]
    for value, passes in (("(1, 2)", True), ("[1, 2]", True), ("(2, 1)", False), ("[(1, 2)]", False)):
        program = f"class Solution:\n    def {name}(self, a):\n        return {value}"
        assert HiddenTests(sandbox).grade(task, 1, program).passed is passes, value
    spy = "__eq__ = __contains__ = lambda *_: True\n    __hash__ = None\n    __len__ = lambda self: 2"
    reader = (
        "import gc, sys\n\ndef wanted():\n"
        "    places = [frame.f_code.co_consts for frame in sys._current_frames().values()] + gc.get_objects()\n"
        "    return next((list(each) for each in places if str(each) in ('[1, 2]', '(1, 2)')), 0)\n\n"
    )
    for value, before in (("Spy()", f"class Spy:\n    {spy}\n\n"), ("wanted()", reader)):
        program = f"{before}class Solution:\n    def {name}(self, a):\n        return {value}"
        assert not HiddenTests(sandbox).grade(task, 1, program).passed, value
        (check,) = executed(task, program, task.hidden_tests, sandbox).checks
        assert not check.in_process  # the right answer is in another process
    for text in ("Infinity", "[NaN]", "1e400"):
        odd = packed(json.dumps([case | {"output": text}]))
        with pytest.raises(DataError, match=r"field \$\.private_test_cases"):
            jsonl(str(write_rows(METHOD | {"private_test_cases": odd})))
    tests = json.dumps({"fn_name": "half", "inputs": ["[1,2]", "[3]"], "outputs": ["1", "2"]})
    with pytest.raises(DataError, match="a list of arguments"):
        jsonl(str(write_rows(APPS_CALL | {"input_output": tests})))


def test_since_leaves_out_what_is_older_and_what_has_no_date(write_rows):
    path = str(write_rows(LCB, METHOD, APPS))
    chosen = jsonl(path, since="2024-02-01")
    assert [task.task_id for task in chosen] == ["abc1_a"] and chosen.digest == jsonl(path).digest
    assert "1 tasks without a date of release are left out" in chosen.note
    for day in ("2025-01-01", "01.02.2024"):
        with pytest.raises(ConfigError, match=r"benchmark\.load\.since"):
            jsonl(path, since=day)
