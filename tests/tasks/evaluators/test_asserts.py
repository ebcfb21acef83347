"""What a model wrote, sifted: hostile text in, single asserts out, and a reason for everything else."""

import ast
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflexion_lab.records import Task
from reflexion_lab.tasks.evaluators.self_tests import READ, Sieve, asserts

TASK = Task(task_id="t", prompt="def f(x):\n    pass", entry_point="f", setup="import math")


def sifted(reply, task=TASK, known=()):
    sieve = Sieve(task, known)
    return [(item.source, sieve.refusal(item)) for item in asserts(reply, 500)]


def accepted(reply, **options):
    return [source for source, refusal in sifted(reply, **options) if not refusal]


def reason(reply, **options):
    return sifted(reply, **options)[-1][1]


PROSE = "Sure:\n```python\ndef test_f():\n    assert f(1) == 1\n```\nand\n\tassert f(2) == 4, 'twice'\nassert it is!"
LONG = 'assert f(\n    [1,\n     2]\n) == 3\nassert f("""a\nb""") == \\\n    2\nassert f(3) == 3'


@pytest.mark.parametrize(("reply", "tests"), [
    (PROSE, ["assert f(1) == 1", "assert f(2) == 4"]),
    (LONG, ["assert f([1, 2]) == 3", "assert f('a\\nb') == 2", "assert f(3) == 3"]),
    ("assert f((1 == 1\nassert f(2) == 2", ["assert f(2) == 2"]),
    ("<think>\nassert f(1) == 9\n</think>\nassert f(1) == 1", ["assert f(1) == 1"]),
    ("assert f(1) == 1; assert f(2) == 2", ["assert f(1) == 1", "assert f(2) == 2"]),
], ids=["fences, functions and prose", "several lines", "a broken one", "thoughts", "two on a line"])  # fmt: skip
def test_asserts_are_found_wherever_they_stand(reply, tests):
    assert accepted(reply) == tests
    assert reply != PROSE or reason(reply) == "no Python"


@pytest.mark.parametrize(("reply", "expected"), [
    ("assert f(1) ==", "no Python"), ("assert f(x=1, x=2) == 3", "no Python"), ("assert await f(1)", "no Python"),
    ("assert f(1) == 1; import os", "no Python"), ("assert f('\ud800') == 1", "no Python"),
    ("assert f(1\0) == 1", "no Python"), (f"assert f({'9' * 490}) == 1", "too long"),
    ("assert g(1) == 1", "no call"), ("assert f == 1", "no call"), ("assert True", "no call"),
    ("assert f(x) == 1", "undefined name: x"), ("assert f(1) == f(1)", "always true"),
    ("assert (f(1) == 2, 'the message of a tuple')", "always true"), ("assert f(1) or True", "always true"),
    ("assert (f(x) == x for x in [1, 2])", "always true"), ("assert [f(x) == x for x in [1, 2]]", "always true"),
    ("assert {f(1): 1}", "always true"), ("assert lambda x: f(x) == x", "always true"),
    ("assert f'{f(1)} is right'", "always true"), ("assert ([f(1)] if f(2) else {f(3): 1})", "always true"),
    ("assert f(1) == 2\nassert candidate(1) == 2", "duplicate"),
    ("assert f(3) == 4\nassert 4 == f(3)", "duplicate"),
    ("assert f(3) == 4\nassert 5 == candidate(3)", "contradicts an earlier test"),
    ("assert not f(1)\nassert f(1) is False", "duplicate"),
    ("assert f(1) == 1\nassert f( 1 )==1, 'again'", "duplicate"),
    ("assert f(1) == 1\nassert f(1) == 2", "contradicts an earlier test"),
    ("assert f(1)\nassert not f(1)", "contradicts an earlier test"),
])  # fmt: skip
def test_a_rejected_test_has_its_reason(reply, expected):
    assert reason(reply) == expected


@pytest.mark.parametrize("test", [
    "assert f(1)", "assert not f(1)", "assert candidate(1) == 2", "assert 2 == f(1)",
    "assert f([2, 1]) == f([1, 2])", "assert math.isclose(f(2.0), 4.0)", "assert abs(f(0.1) - 0.2) < 1e-09",
    "assert [f(i) for i in range(3)] == [0, 2, 4]", "assert all(map(lambda y: f(y) > y, [1, 2]))",
    "assert f(1) is None",
])  # fmt: skip
def test_a_test_that_can_fail_is_kept(test):
    assert accepted(test) == [test]


def test_names_of_the_prompt_before_the_function_are_defined():
    task = Task(task_id="t", prompt="def helper(x):\n    return x\n\ndef f(x):\n    pass", entry_point="f")
    assert accepted("assert f(helper(1)) == 1", task=task) == ["assert f(helper(1)) == 1"]


def test_reading_runs_nothing_and_warns_of_nothing(tmp_path):
    mark = tmp_path / "mark"
    reply = f"assert f(open({str(mark)!r}, 'w')) is 1\nassert f('\\d') == 1"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(accepted(reply)) == 2
    assert not mark.exists()


@pytest.mark.parametrize(
    "nest", ["(", "[", "{", "-", "not ", "f(", "{1:", "lambda:", "f(x for ", "[*", 'f"{', "2**", ".a"]
)
def test_deep_nesting_and_long_replies_are_rejected(nest):
    sieve = Sieve(TASK)
    items = list(asserts(f"assert f(1) == {nest * 900}1\nassert f(2) == 2\n" + "assert f(\n" * READ, 2000))
    assert "assert f(2) == 2" in [item.source for item in items if not sieve.refusal(item)]


@given(st.lists(st.sampled_from(["assert ", "f(", ")", "1", "==", "\n", "x", "[", "]", "'", '"""', ",", "\\", "#"])))
def test_every_kept_test_is_one_line_that_calls_the_function(pieces):
    for test in accepted("".join(pieces)):
        (statement,) = ast.parse(test).body
        assert isinstance(statement, ast.Assert)
        assert "\n" not in test
        assert "f(" in test


def test_known_tests_are_rejected_by_either_name_and_spacing():
    for test, known in (
        ("assert f(1)==2", "assert f( 1 ) == 2"), ("assert candidate(1) == 2", "assert f(1) == 2"),
        ("assert f(1) == 2", "assert candidate(1) == 2"),
    ):  # fmt: skip
        assert reason(test, known=(known,)) == "shown by the task"
    deep = f"assert f(1) == {' + '.join(['1'] * 400)}"  # which is ignored
    assert accepted("assert f(2) == 3", known=[deep]) == ["assert f(2) == 3"]
