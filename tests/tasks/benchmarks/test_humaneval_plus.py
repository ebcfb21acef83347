import ast
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from reflexion_lab.tasks.benchmarks.humaneval_plus import NOT_SPLIT, humaneval_plus
from reflexion_lab.tasks.evaluators.unit_tests import run_tests

PROMPT = 'def f(x, y=1):\n    """Say.\n    >>> f(1)\n    2\n    """\n'
COMPARISON = """import numpy as np

def is_floats(x) -> bool:
    return all(isinstance(e, float) for e in (x if isinstance(x, (list, tuple)) else [x]))

def assertion(out, exp, atol):
    exact_match = out == exp
    if atol == 0 and is_floats(exp):
        atol = 1e-6
    if not exact_match and atol != 0:
        np.testing.assert_allclose(out, exp, atol=atol)
    else:
        assert exact_match

"""
OVER_RESULTS = (
    "    for i, (inp, exp) in enumerate(zip(inputs, results)):\n        assertion(candidate(*inp), exp, {atol})\n"
)
OVER_REFERENCE = "    for i, inp in enumerate(inputs):\n        assertion(candidate(*inp), ref_func(*inp), 0)\n"


def hub_test(inputs: str, results: str, atol: str = "0") -> str:
    """A test as the hub's rows have it."""
    body = f"    inputs = {inputs}\n    results = {results}\n{OVER_RESULTS.format(atol=atol)}"
    return f"{COMPARISON}def check(candidate):\n{body}"


def row(test: str = "", body: str = "    return x + y\n", **changes: object) -> dict[str, Any]:
    fields = {"task_id": "HumanEval/900", "prompt": PROMPT, "entry_point": "f", "canonical_solution": body}
    return fields | ({"test": test} if test else {}) | changes


def released(base: list[Any], plus: list[Any], body: str = "    return x + y\n", **changes: object) -> dict[str, Any]:
    return row(body=body, base_input=base, plus_input=plus, contract="", **changes)


def compute(program: str, entry_point: str, calls: Sequence[str]) -> list[str | None]:
    space: dict[str, Any] = {}
    exec(program, space)
    space["candidate"] = space[entry_point]

    def value(call: str) -> str | None:
        try:
            return repr(eval(call, space))
        except Exception:
            return None

    return [value(call) for call in calls]


@pytest.fixture
def task_of(written):
    """The task of one row."""

    def task_of(fields):
        (task,) = humaneval_plus(written(fields), compute)
        return task

    return task_of


def holds(tests: Sequence[str], setup: str, program: str) -> bool:
    space: dict[str, Any] = {}
    try:
        exec(program, space)
        space["candidate"] = space["f"]
        exec(setup, space)
        for test in tests:
            exec(test, space)
    except Exception:
        return False
    return True


def test_every_input_is_a_check_of_its_own(task_of):
    task = task_of(row(hub_test("[[1], [2, 3], [1], ['a\\n', \"b\"]]", "[2, 5, 2, 'a\\nb']")))
    assert task.hidden_tests == (
        "assert candidate(1) == 2",
        "assert candidate(2, 3) == 5",
        "assert candidate('a\\n', \"b\") == 'a\\nb'",
    )
    assert (task.setup, task.tags, task.visible_tests) == ("", (), ("assert f(1) == 2",))
    assert task.canonical_solution == "    return x + y\n"


@pytest.mark.parametrize("atol", ["0", "1e-06", "0.01"])
@pytest.mark.parametrize(
    "expected", ["1.5", "-2", "[0.5, 1.5]", "[1, 2.5]", "(1e9, 0.0)", "'a'", "[[1.5], [2]]", "None",
                 "float('inf')", "-float('inf')"],
)  # fmt: skip
def test_the_checks_hold_exactly_if_the_test_does(task_of, expected, atol):
    test = hub_test("[[1]]", f"[{expected}]", atol)
    task = task_of(row(test))
    assert not task.tags
    near = "1.5000004", "[0.5, 1.500001]", "[1, 2.505]", "(1e9 + 50, 0.0)", "1e308", "float('inf')"
    for actual in (expected, f"{expected} or 0", *near):
        program = f"def f(x):\n    return {actual}\n"
        ours = holds(task.hidden_tests, task.setup, program)
        assert ours == holds([test + "\ncheck(candidate)"], "", program), actual


@pytest.mark.parametrize(("expected", "actual"), [("[]", "1.5"), ("[1.5, 1.5]", "1.5")])
def test_numbers_are_not_spread_over_sequences_as_numpy_does(task_of, expected, actual):
    test = hub_test("[[1]]", f"[{expected}]", "1e-06")
    task = task_of(row(test))
    program = f"def f(x):\n    return {actual}\n"
    assert holds([test + "\ncheck(candidate)"], "", program)
    assert not holds(task.hidden_tests, task.setup, program)


def test_every_check_meets_fresh_arguments_and_a_call_of_check_is_kept(task_of):
    task = task_of(row(hub_test("[[[1]], [[1], 2]]", "[1, 1]")))
    assert holds(task.hidden_tests, task.setup, "def f(x, y=1):\n    x.append(y)\n    return len(x) - 1\n")
    test = "def check(candidate):\n    assert candidate(1) == 2\n\ncheck(f)\n"
    assert task_of(row(test)).hidden_tests == (test,)


@pytest.mark.parametrize(("inputs", "results", "loop"), [
    ("[[1], [2]]", "[2, unknown]", OVER_RESULTS.format(atol=0)),
    ("[[1], [open('x')]]", "[2, 3]", OVER_RESULTS.format(atol=0)),
    ("[[i] for i in range(2)]", "[1, 2]", OVER_RESULTS.format(atol=0)),
    ("[[1], [2]]", "[2]", OVER_RESULTS.format(atol=0)),
    ("[[1], [2]]", "[2, 3]", OVER_RESULTS.format(atol=0) + "    print(1)\n"),
    ("[[1], [2]]", "[2, 3]", "    for inp in inputs:\n        assert candidate(*inp) == inp[0] + 1\n"),
])  # fmt: skip
def test_what_is_not_literal_stays_one_check(task_of, inputs, results, loop):
    test = f"{COMPARISON}def check(candidate):\n    inputs = {inputs}\n    results = {results}\n{loop}"
    task = task_of(row(test))
    assert len(task.hidden_tests) == 1 and task.hidden_tests[0].endswith("\n\ncheck(candidate)\n")
    assert task.tags == (NOT_SPLIT,)


def test_one_check_needs_no_numpy_for_its_comparison(task_of, sandbox):
    reference = "def ref_func(x):\n    return [x / 3, 1]\n\n"
    test = f"{COMPARISON}{reference}def check(candidate):\n    inputs = [[1.0], [2.0]]\n{OVER_REFERENCE}"
    near = test.replace("ref_func(*inp), 0)", "ref_func(*inp), 1e-6)")
    for source, rounded in ((test, "fail"), (near, "pass")):
        task = task_of(row(source, body="    return [x / 3, 1]\n"))
        assert run_tests(sandbox, task, PROMPT + task.canonical_solution, task.hidden_tests).passed
        close = "def f(x):\n    return [x / 3 + 1e-8, 1]\n"
        assert run_tests(sandbox, task, close, task.hidden_tests).outcome == rounded
        assert run_tests(sandbox, task, "def f(x):\n    return [x, 1]\n", task.hidden_tests).outcome == "fail"


def test_roots_are_judged_by_the_polynomial(task_of):
    test = (
        "def _poly(xs, x):\n    return sum(c * x**i for i, c in enumerate(xs))\n\ndef check(candidate):\n"
        "    inputs = [[[-4, 0, 1]], [[1, 2]], [[5, 1]]]\n    results = [2.0, -0.5, 7.0]\n"
        "    for i, (inp, exp) in enumerate(zip(inputs, results)):\n"
        "        assert _poly(*candidate(*inp), inp) <= 0.0001\n"
    )
    prompt = 'def find_zero(xs):\n    """Root."""\n'
    hub = task_of(row(test, prompt=prompt, entry_point="find_zero", body="    return 0"))
    assert hub.hidden_tests == (
        "assert abs(poly([-4, 0, 1], candidate([-4, 0, 1]))) <= 0.0001",
        "assert abs(poly([1, 2], candidate([1, 2]))) <= 0.0001",
    )
    assert hub.tags == ("inputs_left_out:1",)
    right = "def f(xs):\n    return -2.0 if len(xs) == 3 else -0.5\n"
    assert holds(hub.hidden_tests, hub.setup, right)
    assert not holds(hub.hidden_tests, hub.setup, right.replace("-2.0", "-2.1"))
    body = "    return {3: 2.0, 2: -0.5}[len(xs)]\n"
    inputs = [[[-4, 0, 1]]], [[[1, 2]]]
    free = task_of(released(*inputs, body=body, prompt=prompt, entry_point="find_zero", atol=0.0001))
    assert free.hidden_tests == hub.hidden_tests


def test_expected_values_of_a_release_file_are_computed(task_of):
    task = task_of(released([[1], [2, 3]], [[2.5], [1], ["a", "inf"], [["b"], ["c"]]]))
    assert task.hidden_tests == (
        "assert candidate(1) == 2",
        "assert candidate(2, 3) == 5",
        "assert abs(candidate(2.5) - 3.5) <= 1e-06 + 1e-07 * abs(3.5)",
        "assert candidate('a', 'inf') == 'ainf'",
        "assert candidate(['b'], ['c']) == ['b', 'c']",
    )
    assert task.tags == ()


def test_infinities_and_long_numbers_of_a_release_file_survive(task_of):
    long = 10**40
    body = "    return str(x)\n"
    task = task_of(released([[float("inf")], [[float("-inf"), "inf'nan"]], [long]], [], body=body))
    calls = [ast.parse(test).body[0].test.left for test in task.hidden_tests]  # type: ignore[attr-defined]
    values = [eval(ast.unparse(argument)) for call in calls for argument in call.args]
    assert values == [float("inf"), [float("-inf"), "inf'nan"], long]
    assert holds(task.hidden_tests, task.setup, "f = str")
    nan = task_of(released([[float("nan")]], [], body=body))
    assert nan.hidden_tests == ("assert candidate(float('nan')) == 'nan'",)


def test_inputs_without_a_value_are_left_out_and_counted(task_of):
    body = "    return [1 / x, object][x == 2]\n"
    task = task_of(released([[0], [1]], [[2], [4]], body=body))
    assert [test.split("(")[2].split(")")[0] for test in task.hidden_tests] == ["1", "4"]
    assert task.tags == ("inputs_left_out:2",)


def test_a_release_file_alone_holds_no_expected_values(complaint):
    message = complaint(humaneval_plus, released([[1]], []))
    assert message.startswith("rows.jsonl, line 1, field $.base_input: ") and "a function `compute`" in message


@pytest.mark.parametrize(("bad", "expected"), [
    (row("def check("), "field $.test: got 'def check('"),
    (row("assert True"), "field $.test: got 'assert True', expected a function `check`"),
    (row(), "field $.test: got '', expected a function `check`"),
    (row(hub_test("[]", "[]")), "field $.test: got none, expected inputs for which the reference has a correct value"),
    (released([[0]], [], body="    return 1 / x\n"), "field $.base_input: got none, expected inputs for which"),
    (released([1], []), "field $.base_input[0]: got int, expected array"),
    (row(hub_test("[[1]]", "[2]"), prompt="\ud800"), "field $.prompt: got half a character"),
])  # fmt: skip
def test_a_bad_row_is_named_with_line_and_field(complaint, bad, expected):
    good = row(hub_test("[[1]]", "[2]"), task_id="good")
    read = partial(humaneval_plus, compute=compute)
    assert f"rows.jsonl, line 2, {expected}" in complaint(read, good, bad)


def test_canonical_solutions_pass_in_the_sandbox_and_others_do_not(task_of, sandbox):
    task = task_of(released([[1], [2, 3]], [[0.5], [[0.5], [1.5]]], task_id="HumanEval/1000"))
    assert run_tests(sandbox, task, task.prompt + task.canonical_solution, task.hidden_tests).passed
    result = run_tests(sandbox, task, "def f(x, y=1):\n    return [0.5, 1.5000001]\n", task.hidden_tests)
    assert [check.outcome for check in result.checks] == ["fail", "fail", "error", "pass"]
