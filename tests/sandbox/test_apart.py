"""Judging apart: the candidate's process computes values and never holds what is expected."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflexion_lab.benchmarks.humaneval import humaneval
from reflexion_lab.sandbox.apart import judge, literal, prepare

SEARCH = """
import gc, sys
def f(x):
    found = []
    frame = sys._getframe(1)
    while frame:
        found += [frame.f_globals, frame.f_locals, frame.f_code.co_consts]
        frame = frame.f_back
    needle = '9876' + chr(53) + chr(52)
    return any(needle in repr(o)[:100000] for o in found + gc.get_objects()[:20000])
"""


COLUMNS = """
import sys
def f(x):
    frame = sys._getframe(1)
    return [p for p in frame.f_code.co_positions() if p[2]] == []
"""


FORGING = """
import sys
def f(x):
    sys._getframe(1).f_globals['reference'] = lambda x: 0
    return 0
"""


SETUP = "def reference(x): return x\nimport string\ndef close(actual, expected, atol):\n    return actual == expected\n"


def mode(check):
    return prepare(check, "f", SETUP).mode


@pytest.mark.parametrize(
    "check",
    [
        "assert f(1) == 2",
        "assert 2 == f(1)",
        "assert candidate([1, 2], key='a') == {'a': (1, 2)}",
        "assert f(range(3)) is None, 'message'",
        "assert not f(1)",
        "assert f(1)",
        "assert True",
        "assert abs(f(1.5) - 2.25) < 1e-6",
        "import math\nassert math.isclose(f(2), math.pi / 4, rel_tol=1e-9)",
        "assert list(f(3)) == [0, 1, 2]",
        "assert sorted(f(3), reverse=True) == [2, 1, 0]",
        "assert set(f(1)) == set([1, 2])",
        "assert f(1)[0] == 1 and len(f(1)) == 2",
        "assert isinstance(f(1), dict)",
        "assert f(1) == (3 + 5 + 7, 3 * 5 * 7)",
        "assert 0 <= f(1) <= 1",
        "from math import isclose\nassert isclose(f(2), 1.0, abs_tol=1e-6)",
        "assert helper(f(1)) == 2",
        "assert f(reference(1)) == 2",
        "assert close(f([1.0]), [1.0], 1e-06)",
    ],
)
def test_an_assertion_about_calls_of_the_entry_point_is_judged_apart(check):
    assert mode(check) == "apart"


@pytest.mark.parametrize(
    "check",
    [
        "for x in range(3):\n    assert f(x) == x",
        "assert f(1) == 2 or f(2) == 3",
        "assert f(1) == reference(1)",
        "assert f(1).upper() == 'A'",
        "assert all(x > 0 for x in f(1))",
        "x = 1\nassert f(x) == 2",
        "assert (lambda: f(1))() == 2",
        "assert f(1) == 'a' * 10 if f(2) else True",
        "def check(g):\n    assert g(1) == 2\ncheck(f)",
        "assert f(1) == ",
        "assert math.isclose(f(2), 1.0)",
        "import math as m\nassert m.isclose(f(2), 1.0)",
        "from numpy import isclose\nassert isclose(f(2), 1.0)",
        "from math import sqrt\nassert sqrt(f(2)) == 1.0",
        "assert eval(f(2)) == 1.0",
        "assert Counter(f(1)) == Counter('ab')",
        "assert reference(f(1)) == 2",
        "assert f(1) is f(1)",
        "assert f(1) is not f(2)",
        "assert f(1) is 'a'",
        "assert type(f(1)) == dict",
        "assert not (f(1) == 2 and f(0) == 1)",
        "assert f(2000) == 1 / 0",
    ],
)
def test_anything_else_is_judged_in_place(check):
    assert mode(check) == "in_place"


def test_what_is_asked_of_the_candidate_holds_nothing_of_what_is_expected():
    asked = prepare("assert abs(f('given') - 12345.678) < 0.0625, 'secret'", "f").asked
    imports, calls = asked
    assert imports is None
    constants = [constant for call in calls for constant in call.co_consts]
    assert constants == ["given"]


def test_the_place_of_a_call_in_its_check_is_not_told(sandbox):
    assert sandbox.run(COLUMNS, "f", ["assert True == f(7) and True == f(8)"]).checks[0].outcome == "pass"


def test_a_setups_own_function_of_a_known_name_is_the_one_that_is_called(sandbox):
    own = "def close(a, b): return abs(a - b) < 0.1"
    found = sandbox.run("def f(x): return x + 0.05", "f", ["assert close(f(1), 1)"], own).checks[0]
    assert (found.outcome, found.mode) == ("pass", "in_place")


def test_what_an_earlier_check_defines_is_not_for_the_program_to_compute(sandbox):
    checks = ["def reference(x): return 7 * x", "assert f(5) == reference(5)"]
    assert [check.mode for check in sandbox.run(FORGING, "f", checks).checks] == ["in_place", "in_place"]


def test_a_program_is_called_whatever_its_name(sandbox):
    found = sandbox.run("def sorted(x): return 'wrong'", "sorted", ["assert sorted([2, 1]) == [1, 2]"]).checks[0]
    assert (found.outcome, found.actual) == ("fail", "'wrong'")


def test_a_candidate_that_searches_its_whole_process_does_not_find_the_expected_value(sandbox):
    apart = sandbox.run(SEARCH, "f", ["assert f(1) == 987654"]).checks[0]
    assert (apart.outcome, apart.actual) == ("fail", "False")
    in_place = sandbox.run(SEARCH, "f", ["for x in [1]:\n    assert f(x) == (987654 > 0)"]).checks[0]
    assert (in_place.outcome, in_place.mode) == ("pass", "in_place")


@pytest.mark.parametrize(
    ("program", "check", "outcome"),
    [
        ("class E:\n    def __eq__(self, o): return True\ndef f(x): return E()", "assert f(1) == 2", "fail"),
        ("class E(int):\n    def __eq__(self, o): return True\ndef f(x): return E(7)", "assert f(1) == 2", "fail"),
        ("class E(int):\n    def __eq__(self, o): return False\ndef f(x): return E(2)", "assert f(1) == 2", "pass"),
        ("class E:\n    def __sub__(self, o): return 0.0\ndef f(x): return E()", "assert abs(f(1) - 2) < 1", "error"),
        ("from collections import *\ndef f(x): return Counter(x)", "assert f('aab') == {'a': 2, 'b': 1}", "pass"),
        ("from collections import *\ndef f(x): return namedtuple('P', 'a b')(1, 2)", "assert f(1) == (1, 2)", "pass"),
        ("def f(x): return {'b': 1}.keys()", "assert f(1) == {'b'}", "pass"),
        ("from decimal import *\ndef f(x): return Decimal('0.5')", "assert f(1) == 0.5", "pass"),
        ("from fractions import *\ndef f(x): return [Fraction(1, 2)]", "assert f(1) == [0.5]", "pass"),
        ("def f(x): return (i for i in range(x))", "assert f(2) == [0, 1]", "fail"),
        ("def f(x): return (i for i in range(x))", "assert list(f(2)) == [0, 1]", "pass"),
        ("def f(x): return range(x)", "assert f(2) == [0, 1]", "fail"),
        ("import re\ndef f(x): return re.match('a', x)", "assert f('a')", "pass"),
        ("def f(x): return float('nan')", "assert f(1) == f(1)", "fail"),
        ("def f(x): return 10**5000 + x", "assert f(1) == 10**500", "fail"),
        ("def f(x): return 2**64 + x", "assert f(1) == 18446744073709551617", "pass"),
        ("def f(x): return -(2**64)", "assert f(1) == -18446744073709551616", "pass"),
        ("def f(x): return '\\ud800'", "assert f(1) == '\\ud800'", "pass"),
        ("def f(x):\n    a = []\n    a.append(a)\n    return a", "assert f(1) == []", "fail"),
        ("def f(x): return 'x' * (2 << 20)", "assert f(1) == 'x'", "fail"),
        ("def f(x): return [True, 1.0, 0]", "assert f(1) == [1, 1, False]", "pass"),
        ("def f(x): return b'ab'", "assert f(1) == b'ab'", "pass"),
        ("def f(x): return bytearray(b'ab')", "assert f(1) == b'ab'", "pass"),
        ("def f(x): return frozenset([1, (2, 3)])", "assert f(1) == {1, (2, 3)}", "pass"),
        ("def f(x): return 1 + 2j", "assert f(1) == 1 + 2j", "pass"),
        ("def f(x): x.append(3); return x", "assert f([1]) == [1, 3] and f([1]) == [1, 3]", "pass"),
        ("def f(x): raise KeyError('a')", "assert f(1) == 2", "error"),
        ("def f(n): return [0] * n", "assert f(3) == [0] * 3", "pass"),
        ("def f(n): return 'ab'", "assert f(3) * 2 == 'abab'", "pass"),
        ("def f(n): return 2**n", "assert f(900) == 2**900", "pass"),
        ("class f:\n    def __init__(self, n): self.value = n", "assert f(3).value == 3", "pass"),
        ("def f(n): return range(n)", "assert len(f(3)) == 3 and f(3)[1] == 1", "pass"),
        ("def f(n): return (i for i in range(n))", "assert sum(f(3)) == 3", "pass"),
        ("import datetime\ndef f(y): return datetime.date(y, 1, 1)", "assert str(f(2020)) == '2020-01-01'", "pass"),
        ("from collections import Counter as f", "assert f('aab')['z'] == 0", "pass"),
        ("def f(n): return list(range(n))", "assert len(f(200000)) == 200000", "pass"),
        ("def f(x): assert x > 1", "assert f(1) == 2", "error"),
        ("def f(x): return None", "assert abs(f(1) - 2) < 1", "error"),
    ],
)
def test_values_compare_as_python_compares_plain_data(sandbox, program, check, outcome):
    found = sandbox.run(program + "\n", "f", [check]).checks[0]
    assert (found.outcome, found.mode) == (outcome, "apart")


FLOATS = st.floats(allow_nan=False, allow_infinity=False)  # the others have no literal
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | FLOATS | st.text() | st.binary(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=4) | st.integers(), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(PLAIN)
def test_plain_data_survives_the_way_to_the_lab_with_its_types(value):
    import json

    from reflexion_lab.sandbox.plain import encode
    from reflexion_lab.sandbox.values import Decoder

    back = Decoder().decode(json.loads(encode(value)))
    assert repr(back) == repr(value)


@given(PLAIN, PLAIN)
def test_the_verdict_on_two_values_is_pythons_own(actual, expected):
    test = prepare(f"assert f() == {expected!r}", "f").test
    assert (judge(test, [actual]).outcome == "pass") is (actual == expected)


@pytest.mark.parametrize(
    "told",
    ["{}", '{"t": 1}', '{"x": []}', '{"s": [[]]}', '{"i": "zz"}', '{"n": "1e999999"}', '{"d": [[1]]}', '{"q": [1, 0]}'],
)
def test_what_is_no_value_is_an_error_of_the_candidate(sandbox, told):
    program = (
        "import gc, os\n"
        "def f(x):\n"
        "    import sys\n"
        "    frame = sys._getframe()\n"
        "    while 'tell' not in frame.f_locals:\n"
        "        frame = frame.f_back\n"
        f"    frame.f_locals['tell'](0, '[{told}], 0.0')\n"
        "    os._exit(0)\n"
    )
    check = sandbox.run(program, "f", ["assert f(1) == 2"]).checks[0]
    assert (check.outcome, check.error_type) == ("error", "Unreadable")


def test_a_forged_pass_is_not_even_a_word_of_the_report(sandbox):
    program = (
        "import os, sys\n"
        "def f(x):\n"
        "    frame = sys._getframe()\n"
        "    while 'tell' not in frame.f_locals:\n"
        "        frame = frame.f_back\n"
        '    frame.f_locals[\'tell\'](0, \'"pass", "", "", 0, 0.0\')\n'
        "    os._exit(0)\n"
    )
    assert sandbox.run(program, "f", ["assert f(1) == 2"]).checks[0].outcome == "early_exit"
    in_place = sandbox.run(program, "f", ["for x in [1]:\n    assert f(x) == 2"]).checks[0]
    assert (in_place.outcome, in_place.mode) == ("pass", "in_place")  # which is why it is labelled


def test_nothing_that_a_test_or_a_value_says_grows_in_the_lab():
    for check in ("assert f() == 10**10**10", "assert f() == 'a' * 10**10", "assert f() == 2 ** 99999"):
        assert judge(prepare(check, "f").test, [1]).outcome == "error"
    for check, value in (("assert f() % 3 == 1", "%999999999d"), ("assert f() * f() == 1", 1 << 99999)):
        assert judge(prepare(check, "f").test, [value, value]).outcome == "error"
    many = list(range(20_000))
    assert judge(prepare("assert set(f()) == {1}", "f").test, [many]).outcome in ("error", "fail")


def test_nearly_all_hidden_checks_of_humaneval_are_judged_apart():
    modes = [prepare(check, task.entry_point).mode for task in humaneval() for check in task.hidden_tests]
    assert (len(modes), modes.count("in_place")) == (1181, 6)


def test_python_says_nothing_of_a_foreign_test(recwarn):
    for check in ("assert f('\\d') == 1", "for x in 'a':\n    assert f('\\d') is 1"):
        assert prepare(check, "f").mode
    assert [str(warning.message) for warning in recwarn] == []


def test_values_of_calls_come_back_as_source(sandbox):
    program = "def f(x):\n    if x == 3: raise ValueError\n    return {'a': (x, 2.5)} if x else object()\n"
    assert sandbox.values(program, "f", ["f(1)", "f(0)", "f(3)"]) == ["{'a': (1, 2.5)}", None, None]
    assert literal(float("inf")) is None
    assert ast.literal_eval(literal([1, "a"])) == [1, "a"]
