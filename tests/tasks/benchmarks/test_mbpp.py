import json
import sys
from functools import partial
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflexion_lab.tasks.benchmarks.benchmark import Benchmark
from reflexion_lab.tasks.benchmarks.jsonl import jsonl
from reflexion_lab.tasks.benchmarks.mbpp import SPLITS, mbpp
from reflexion_lab.tasks.benchmarks.rows import repeated
from reflexion_lab.tasks.evaluators.unit_tests import run_tests
from tests.builders import TABLES

FULL = {
    "task_id": 11,
    "text": "Write a function to triple a number.",
    "code": "import math\r\ndef half(n):\r\n    return n / 2\r\n"
    "def triple(n: int, k=3, *, way=math.floor):\r\n    return k * n",
    "test_list": ["assert triple(1) == 3", "assert triple(half(4)) == 6.0", "assert triple(2)==6 "],
    "test_setup_code": "",
    "challenge_test_list": ["assert triple(-1) == -3"],
}
SANITIZED = {
    "source_file": "x.ipynb", "task_id": 12, "prompt": "Write a function to take a root.",
    "code": "def root(n):\n    return n ** 0.5", "test_imports": ["import math"],
    "test_list": ["assert math.isclose(root(4), 2.0)", "assert root(0) == 0", "assert root(1) == 1"],
}  # fmt: skip
TREE = FULL | {
    "task_id": 13,
    "code": "class Node:\n    def __init__(self, v):\n        self.v = v\ndef value(node):\n    return node.v",
    "test_list": ["assert value(root) == 1", "assert value(Node(2)) == 2"],
    "test_setup_code": "root = Node(1)",
    "challenge_test_list": [],
}


def test_a_full_row_becomes_a_task(written):
    benchmark = mbpp(written(FULL))
    (task,) = benchmark
    assert (benchmark.name, task.task_id) == ("mbpp", "MBPP/11")
    assert task.entry_point == "triple"
    assert task.prompt == (
        'def triple(n, k=3, *, way=None):\n    """\n    Write a function to triple a number.\n\n'
        '    assert triple(1) == 3\n    """\n'
    )
    assert task.visible_tests == ("assert triple(1) == 3",)
    assert task.hidden_tests == ("assert triple(half(4)) == 6.0", "assert triple(2)==6")
    assert task.canonical_solution == FULL["code"].replace("\r\n", "\n")
    assert task.setup == ""


def test_canonical_solutions_and_bodies_pass_and_prompts_alone_do_not(written, sandbox):
    for task in mbpp(written(FULL, SANITIZED, TREE), challenge=True, split="all"):
        tests = task.visible_tests + task.hidden_tests
        assert run_tests(sandbox, task, task.prompt + task.canonical_solution, tests).passed
        assert run_tests(sandbox, task, task.canonical_solution, tests).passed
        assert not run_tests(sandbox, task, task.prompt, tests).passed
    (task,) = mbpp(written(SANITIZED))
    assert run_tests(sandbox, task, task.prompt + "    return n**0.5\n", task.hidden_tests).passed


@pytest.mark.parametrize(("visible", "challenge"), [(0, False), (1, False), (2, False), (3, True)])
def test_no_assert_is_both_visible_and_hidden_and_none_is_lost(written, visible, challenge):
    (task,) = mbpp(written(FULL), visible=visible, challenge=challenge)
    assert len(task.visible_tests) == visible
    assert len(task.hidden_tests) == 3 - visible + challenge
    assert not repeated(task.visible_tests, task.hidden_tests, task.entry_point)
    assert all(test in task.prompt for test in task.visible_tests)
    assert not any(test in task.prompt for test in task.hidden_tests)


def test_at_least_one_test_stays_hidden_that_says_something_else(written, complaint):
    tests = ["assert triple(1) == 3", "assert triple( 1 )==3", "assert triple(2) == 6"]
    (task,) = mbpp(written(FULL | {"test_list": tests}))
    assert task.hidden_tests == ("assert triple(2) == 6",)
    (task,) = mbpp(written(FULL | {"test_list": ["assert triple(1) == 3"] * 3}))
    assert (task.visible_tests, len(task.hidden_tests)) == ((), 3)
    assert "assert" not in task.prompt
    message = complaint(partial(mbpp, visible=3), FULL)
    assert message.startswith("rows.jsonl, line 1, field $.test_list: got 3, expected a test beyond the 3 visible;")
    assert "benchmark.load.visible" in message


PLUS = """import numpy as np
from math import inf

def is_floats(x) -> bool:
    if isinstance(x, np.ndarray):
        return x.dtype == np.float64
    return all(isinstance(i, float) for i in x) if isinstance(x, (list, tuple)) else isinstance(x, float)

def assertion(out, exp, atol):
    \'\'\'Values, or floats.\'\'\'
    if atol == 0 and is_floats(exp):
        atol = 1e-6
    if out != exp and atol != 0:
        assert np.allclose(out, exp, rtol=1e-07, atol=atol)
    else:
        assert out == exp, f"out: {out}, exp: {exp}"

inputs = [[1], [0.5], [inf], [10]]
results = [3, 1.5, inf, 30]
for i, (inp, exp) in enumerate(zip(inputs, results)):
    assertion(triple(*inp), exp, 0)
"""
OF_SETS = PLUS.replace("    if out", "    out = set(out)\n    exp = set(exp)\n    if out", 1)
OR_ZERO = PLUS.replace("if out != exp and", "if not (out == exp or out == 0) and")


def test_the_inputs_of_mbpp_plus_are_hidden_tests(written, sandbox):
    rows = [FULL | {"task_id": 11 + i, "test": test} for i, test in enumerate((PLUS, OR_ZERO, PLUS + "X = 1\n"))]
    path = written(*rows)
    plus, own, other = jsonl(path).tasks
    assert (plus, own, other) == mbpp(path).tasks
    as_text = {"test_list": str(FULL["test_list"]), "test_imports": "[]"}
    assert mbpp(written(*(row | as_text for row in rows))).tasks == (plus, own, other)
    assert plus.visible_tests == ("assert triple(1) == 3",)
    assert plus.hidden_tests == (
        "assert triple(half(4)) == 6.0",
        "assert triple(2)==6",
        "assert abs(candidate(0.5) - 1.5) <= 1e-06 + 1e-07 * abs(1.5)",
        "assert close(candidate(1e309), 1e309, 1e-06)",
        "assert candidate(10) == 30",
    )
    assert (len(own.hidden_tests), own.tags) == (len(other.hidden_tests), other.tags) == (3, ("test_not_split",))
    for task in (plus, own, other):
        right = run_tests(sandbox, task, task.canonical_solution, task.hidden_tests)
        only_base = "from math import *\ndef half(n): return n / 2\ndef triple(n): return 3 * n if n < 10 else 31"
        assert right.passed, right.feedback
        assert run_tests(sandbox, task, only_base, task.hidden_tests[:2]).passed
        assert not run_tests(sandbox, task, only_base, task.hidden_tests).passed


def test_what_mbpp_plus_compares_as_sets_is_compared_as_sets(written):
    (task,) = mbpp(written(FULL | {"test": OF_SETS.replace("[3, 1.5, inf, 30]", "[[3], (1.5,), {inf}, [30, 1]]")}))
    assert task.hidden_tests[-1] == "assert set(candidate(10)) == set([30, 1])"


@pytest.mark.parametrize(("standard", "own"), [
    ("    out = set(out)\n    exp =", "    if isinstance(exp, set):\n        out = set(out)\n        exp ="),
    ("    out = set(out)\n    exp =", "    exact_match = out == exp\n    exact_match ="),
    ("\n    if out != exp and", "\n    if out == exp:\n        return\n    if out != exp and"),
    ("1e-6", "0.1"), ("-07", "-02"), ("(out, exp, a", "(out, exp, b"),
])  # fmt: skip
def test_a_comparison_of_its_own_stays_one_check(written, standard, own):
    (task,) = mbpp(written(FULL | {"test": OF_SETS.replace(standard, own)}))
    assert task.tags == ("test_not_split",)


def test_splits_are_the_authors_ranges(written):
    path = written(*(FULL | {"task_id": i} for i in (1, 10, 11, 510, 511, 600, 601, 974)))
    parts = {split: [task.task_id for task in mbpp(path, split=split)] for split in (*SPLITS, "all")}
    assert parts["prompt"] == ["MBPP/1", "MBPP/10"]
    assert parts["test"] == ["MBPP/11", "MBPP/510"]
    assert parts["validation"] == ["MBPP/511", "MBPP/600"]
    assert parts["train"] == ["MBPP/601", "MBPP/974"]
    assert parts["all"] == parts["prompt"] + parts["test"] + parts["validation"] + parts["train"]


def test_a_file_without_a_row_of_the_split_is_an_error(complaint):
    message = complaint(mbpp, FULL | {"task_id": 1})
    assert message == (
        "rows.jsonl: got no task, expected a row of split test (task_id 11 to 510); "
        "benchmark.load.split=all selects every row"
    )


@pytest.mark.parametrize(("change", "expected"), TABLES["bad rows of MBPP"])
def test_a_bad_row_is_named_with_its_place_and_field(complaint, change, expected):
    rows = SANITIZED, FULL | change
    assert complaint(mbpp, *rows).startswith(f"rows.jsonl, line 2, {expected}")
    assert complaint(mbpp, json.dumps(rows), name="rows.json").startswith(f"rows.json, row 2, {expected}")


@pytest.mark.parametrize(
    ("options", "key"), [({"split": "tests"}, "split"), ({"subset": "mini"}, "subset"), ({"visible": -1}, "visible")]
)
def test_an_impossible_argument_is_named_as_its_config_key(options, key):
    with pytest.raises(ValueError, match=rf"mbpp\.{key}: got .*, expected "):
        mbpp(**options)


@given(st.text(min_size=1).filter(lambda text: text.strip()))
def test_any_text_fits_into_the_docstring(tmp_path_factory, text):
    file = tmp_path_factory.getbasetemp() / "any_text.jsonl"
    file.write_text(json.dumps(FULL | {"text": text.replace("\0", "0")}))
    (task,) = mbpp(str(file))
    space: dict[str, Any] = {}
    exec(task.prompt, space)
    assert space["triple"].__doc__.split() == f"{text} {task.visible_tests[0]}".replace("\0", "0").split()


def hub(answer: Any) -> ModuleType:
    """A `datasets` that answers as the hub would."""
    module = ModuleType("datasets")

    def load_dataset(*names: str, **options: str) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return [row | {"text": f"{names} {options}"} for row in answer]

    vars(module)["load_dataset"] = load_dataset
    return module


def test_without_a_path_the_rows_come_from_the_hub(written, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", hub([FULL]))
    benchmark = mbpp(subset="sanitized", split="train")
    assert "('google-research-datasets/mbpp', 'sanitized') {'split': 'train'}" in benchmark[0].prompt
    assert "{'split': 'prompt+test+validation+train'}" in mbpp(split="all")[0].prompt
    assert benchmark.digest == mbpp(subset="sanitized", split="train", visible=2).digest
    assert isinstance(benchmark, Benchmark)
    assert benchmark[0].hidden_tests == mbpp(written(FULL))[0].hidden_tests


def test_an_unreachable_hub_or_a_missing_package_says_what_to_do_in_one_line(monkeypatch):
    for problem in (ConnectionError("no\nroute"), ValueError("no\nroute")):
        monkeypatch.setitem(sys.modules, "datasets", hub(problem))
        with pytest.raises(ValueError, match=r"^.*cannot be read \(no route\).*; connect once, or .*load\.path.*$"):
            mbpp()
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ValueError, match=r"pip install datasets; .*set benchmark\.load\.path"):
        mbpp()
