"""Checks that can be split: the candidate's process computes values and has no expected value."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflexion_lab.tasks.benchmarks.humaneval import humaneval
from reflexion_lab.tasks.sandbox.apart import judge, literal, prepare
from tests.builders import TABLES

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


def is_split(check):
    return prepare(check, "f", SETUP).calls is not None


@pytest.mark.parametrize("check", TABLES["checks that are split"])
def test_an_assertion_about_calls_of_the_entry_point_is_split(check):
    assert is_split(check)


@pytest.mark.parametrize("check", TABLES["checks that are not split"])
def test_anything_else_is_not(check):
    assert not is_split(check)


def test_a_request_has_nothing_of_the_expected_value():
    request = prepare("assert abs(f('given') - 12345.678) < 0.0625, 'secret'", "f").calls
    imports, calls = request
    assert imports is None
    constants = [constant for call in calls for constant in call.co_consts]
    assert constants == ["given"]


OWN_CLOSE = "def close(a, b): return abs(a - b) < 0.1"


@pytest.mark.parametrize(
    ("program", "checks", "setup", "outcomes"),
    [
        (COLUMNS, ["assert True == f(7) and True == f(8)"], "", ["pass"]),
        ("def f(x): return x + 0.05", ["assert close(f(1), 1)"], OWN_CLOSE, ["pass"]),
        (FORGING, ["def reference(x): return 7 * x", "assert f(5) == reference(5)"], "", ["pass", "fail"]),
    ],
    ids=["the position of a call is hidden", "an own `close` replaces ours", "no functions of earlier checks"],
)
def test_what_a_program_reaches_is_what_a_check_gives_it(sandbox, program, checks, setup, outcomes):
    assert [check.outcome for check in sandbox.run(program, "f", checks, setup).checks] == outcomes


def test_a_program_is_called_whatever_its_name(sandbox):
    run = sandbox.run("def sorted(x): return 'wrong'", "sorted", ["assert sorted([2, 1]) == [1, 2]"]).checks[0]
    assert (run.outcome, run.actual) == ("fail", "'wrong'")


def test_the_expected_value_is_not_in_the_candidates_process(sandbox):
    apart = sandbox.run(SEARCH, "f", ["assert f(1) == 987654"]).checks[0]
    assert (apart.outcome, apart.actual) == ("fail", "False")
    loop = sandbox.run(SEARCH, "f", ["for x in [1]:\n    assert f(x) == (987654 > 0)"]).checks[0]
    assert loop.outcome == "fail"


@pytest.mark.parametrize(("program", "check", "outcome"), TABLES["plain data compared"])
def test_values_compare_as_python_compares_plain_data(sandbox, program, check, outcome):
    run = sandbox.run(program + "\n", "f", [check]).checks[0]
    assert run.outcome == outcome


PLAIN_CLASS = "class N: pass\nn = N()\ndef f(x): return n if x else N()"
TIMES = "from datetime import *\ndef f(d): return d + timedelta(days=1)"
PARTS = "from collections import *\ndef f(x): return deque(x)\ndef o(*x): return OrderedDict(x)\n"
RAISED = "class E(Exception):\n    def __eq__(self, other): return self.args == other.args\ndef f(x): return E(x)"
SLOTS = (
    "class S:\n    __slots__ = ('a',)\n    def __init__(self, a): self.a = a\n    __eq__ = lambda s, o: s.a == o.a\n"
)
CHAIN = "@dataclass\nclass Node:\n    value: int\n    rest: object = None\n"
LONG = (
    f"from dataclasses import *\n{CHAIN}def f(n):\n    a = None\n    for i in range(n): a = Node(i, a)\n    return a\n"
)
ROUND = f"from dataclasses import *\n{CHAIN}def f(n):\n    a = Node(n)\n    a.rest = a\n    return a\ng = f\n"
UNCOMPARED = (
    "from dataclasses import *\n@dataclass\nclass P:\n    x: int\n    seen: int = field(default=0, compare=False)\n"
)
NAMESPACE = "from types import SimpleNamespace as N\ndef f(x): return N(a=x)"


@pytest.mark.parametrize(("program", "check", "outcome"), [
    (PLAIN_CLASS, "assert f(1) == f(1)", "fail"), (PLAIN_CLASS, "assert f(0) == N()", "fail"),
    (TIMES, "assert f(datetime(2020, 1, 1, 5)) == datetime(2020, 1, 2, 6)", "fail"),
    (TIMES, "assert f(datetime(2020, 1, 1, tzinfo=timezone.utc)) == datetime(2020, 1, 2, 0, 0)", "fail"),
    (PARTS, "assert o((1, 2), (3, 4)) == OrderedDict([(3, 4), (1, 2)])", "fail"),
    (PARTS, "assert o((1, 2), (3, 4)) == defaultdict(int, [(3, 4), (1, 2)])", "pass"),
    (RAISED, "assert f(1) == E(2)", "fail"), (f"{SLOTS}def f(x): return S(x)", "assert f(1) == S(1)", "pass"),
    (f"{SLOTS}def f(x): return S(x)", "assert f(1) == S(2)", "fail"),
    (f"{LONG}def g(n): return f(n)", "assert f(200) == g(200)", "pass"),
    (f"{LONG}def g(n): return f(n + 1)", "assert f(200) == g(200)", "fail"), (ROUND, "assert f(3) == g(3)", "error"),
    (ROUND, "assert f(3) == g(4)", "fail"), (f"{UNCOMPARED}def f(x): return P(x, 9)", "assert f(1) == P(1)", "pass"),
    (NAMESPACE, "assert f(1) == N(a=1)", "pass"), (NAMESPACE, "assert f(1) == N(a=2)", "fail"),
])  # fmt: skip
def test_objects_of_the_program_compare_as_in_python(sandbox, program, check, outcome):
    assert sandbox.run(program + "\n", "f", [check]).checks[0].outcome == outcome


OWN = """
class Name:
    def __init__(self, text): self.text, self.made = text, object()
    def __eq__(self, other): return isinstance(other, Name) and self.text.lower() == other.text.lower()
    def __hash__(self): return hash(self.text.lower())
def f(text): return Name(text)
"""
RATIO = """
class R:
    def __init__(self, n, d): self.n, self.d = n, d
    def __eq__(self, other): return self.n * other.d == other.n * self.d
def f(n): return R(n, 2 * n)
"""
BASE = """
class A:
    def __init__(self, x): self.x = x
    def __eq__(self, other): return isinstance(other, A) and self.x == other.x
class B(A): pass
def f(x): return B(x)
"""
LATER = """
from dataclasses import dataclass, field
from itertools import count
from threading import Lock
numbers = count()
@dataclass
class P:
    x: int
    def __post_init__(self): self.number, self.lock = next(numbers), Lock()
def f(x): return P(x)
"""
SETS = """
class N:
    def __init__(self, n): self.n, self.near = n, set()
    def __eq__(self, other): return isinstance(other, N) and self.n == other.n
    def __hash__(self): return hash(self.n)
ALL = [N(n) for n in range(4)]
for a in ALL: a.near.update(ALL)
def f(n): return ALL[n]
"""
RINGS = """
from dataclasses import dataclass, field
@dataclass
class N:
    v: int
    near: list = field(default_factory=list)
A, B, C, D = N(1), N(2), N(5), N(5)
A.near, B.near, C.near, D.near = [C], [D], [A], [B]
def f(name): return globals()[name]
"""
ZONE = """
from datetime import *
class Moving(tzinfo):
    def utcoffset(self, when): return timedelta(hours=1 if when.month < 4 else 2)
MOVING = Moving()
def f(month): return datetime(2024, month, 1, tzinfo=MOVING)
"""
MANY = "from dataclasses import *\n@dataclass(frozen=True)\nclass P:\n    x: int\n"
MANY += "def f(n): return {P(i) for i in range(n)}"


@pytest.mark.parametrize(("program", "check"), [
    (OWN, "assert f('A') == Name('a')"), (OWN, "assert f('A') != Name('b')"),
    (OWN, "assert {f('A')} == {Name('a')}"), (RATIO, "assert f(2) == R(1, 2)"), (BASE, "assert f(1) == A(1)"),
    (LATER, "assert f(1) == P(1)"), (SETS, "assert f(1) != f(2)"),
    (RINGS, "assert f('A') != f('B')"), (RINGS, "assert [f('A'), f('C')] != [f('B'), f('D')]"),
    (RINGS, "assert f('A') not in [f('B')] and f('C') not in [f('D')]"),
    (ZONE, "assert f(4) == datetime(2024, 3, 31, 22, tzinfo=timezone.utc)"),
    (MANY, "assert f(300) == {P(i) for i in range(300)}"),
])  # fmt: skip
def test_own_equality_counts_where_the_program_makes_both_sides(sandbox, program, check):
    namespace = {}
    exec(program, namespace)
    exec(check, namespace)  # Python agrees
    check_ = sandbox.run(program, "f", [check]).checks[0]
    assert (check_.outcome, check_.message) == ("pass", "")


def test_checks_that_cannot_be_split_run_after_earlier_ones(sandbox):
    program = "import re\ndef f(x, seen=[]):\n    seen.append(x)\n    return g('|'.join(seen))\ng = re.compile\n"
    checks = ["assert f('a').pattern == 'a'", "assert f('b') == g('a|b')"]
    assert [check.outcome for check in sandbox.run(program, "f", checks).checks] == ["pass", "pass"]


@pytest.mark.parametrize("program", [MANY, "def f(n): return {print, len}"])
def test_a_set_that_cannot_be_decoded_is_still_true(sandbox, program):
    checks = sandbox.run(program, "f", ["assert f(300)", "assert f(300) is not None", "assert not f(300)"]).checks
    assert [check.outcome for check in checks] == ["pass", "pass", "fail"]


STEAL = """
import sys
class E:
    def __lt__(self, other): return True
def f(n):
    numbers = [c for c in sys._getframe(1).f_code.co_consts if type(c) is int]
    if n != 3: return E()
    return numbers[-1] if len(numbers) > 1 else -1
"""
RAISING = """
import sys
def f(n):
    numbers = [c for c in sys._getframe(1).f_code.co_consts if type(c) is int]
    if len(numbers) < 2: raise TypeError
    return n if n == numbers[0] else 2
"""


@pytest.mark.parametrize(("program", "check"), [
    (STEAL, "assert f(1) < f(2) and f(3) == 31337"),
    (STEAL, "from math import isclose\nassert f(1) < f(2) and isclose(f(3), 31337)"), (RAISING, "assert f(1) != f(2)"),
])  # fmt: skip
def test_no_program_chooses_how_it_is_judged(sandbox, program, check):
    assert sandbox.run(program, "f", [check]).checks[0].outcome in ("fail", "error")


EQUAL_TO_ALL = "    def __eq__(self, other): return True\n    __hash__ = None\n"


@pytest.mark.parametrize(("program", "check"), [
    (f"class P:\n    __class__ = int\n{EQUAL_TO_ALL}def f(x): return P()", "assert f(1) == 2"),
    (
        "class P:\n    def __init__(self, x): self.x = x\n    def __getattribute__(self, name): return 2\n"
        f"{EQUAL_TO_ALL}def f(x): return P(2)",
        "assert f(1) == 2",
    ),
    (
        f"class P:\n    __reduce__ = lambda self: (int, (2,))\n{EQUAL_TO_ALL}def f(x): return P()",
        "assert f(1) == 2",
    ),
    (f"class date:\n{EQUAL_TO_ALL}date.__module__ = 'datetime'\ndef f(x): return date()", "assert f(1) == '2'"),
])  # fmt: skip
def test_a_forged_class_or_field_equals_no_literal(sandbox, program, check):
    check_ = sandbox.run(program + "\n", "f", [check]).checks[0]
    assert check_.outcome in ("fail", "error")


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
def test_plain_data_is_decoded_with_its_types(value):
    import json

    from reflexion_lab.tasks.sandbox.comparison import Decoder
    from reflexion_lab.tasks.sandbox.plain import encode

    [back] = Decoder().decode(json.loads(encode(value)))
    assert repr(back) == repr(value)


@given(PLAIN, PLAIN)
def test_the_verdict_on_two_values_is_pythons_own(actual, expected):
    test = prepare(f"assert f() == {expected!r}", "f").test
    assert (judge(test, [actual])["outcome"] == "pass") is (actual == expected)


@pytest.mark.parametrize("encoded", [
    '{"o": []}', '{"o": ["a", "b", true, 1]}', '{"deque": [{"r": [0, 1048576, 1]}, null]}',
    '{"array": ["Q", {"r": [0, 1048576, 1]}]}', '{"p": [0, 1, "a", "b", true, [["x", {"date": ["\\ud800"]}]]]}',
    "{}", '{"t": 1}', '{"x": []}', '{"s": [[]]}', '{"i": "zz"}', '{"n": "1e999999"}', '{"d": [[1]]}',
    '{"q": [1, 0]}',
])  # fmt: skip
def test_an_invalid_encoding_is_an_error_of_the_candidate(sandbox, encoded):
    program = (
        "import gc, os\n"
        "def f(x):\n"
        "    import sys\n"
        "    frame = sys._getframe()\n"
        "    while 'send' not in frame.f_locals:\n"
        "        frame = frame.f_back\n"
        f"    frame.f_locals['send'](0, {f'[{encoded}], 0.0'!r})\n"
        "    os._exit(0)\n"
    )
    check = sandbox.run(program, "f", ["assert f(1) == 2"]).checks[0]
    assert (check.outcome, check.error_type) == ("error", "Unreadable")


@pytest.mark.parametrize("check", ["assert f(1) == 2", "for x in [1]:\n    assert f(x) == 2"])
def test_a_forged_pass_does_not_count(sandbox, check):
    program = (
        "import os, sys\n"
        "def f(x):\n"
        "    frame = sys._getframe()\n"
        "    while 'send' not in frame.f_locals:\n"
        "        frame = frame.f_back\n"
        '    frame.f_locals[\'send\'](0, \'"pass", "", "", 0, 0.0\')\n'
        "    os._exit(0)\n"
    )
    assert sandbox.run(program, "f", [check]).checks[0].outcome in ("early_exit", "error")


def test_no_result_grows_in_the_lab():
    for check in ("assert f() == 10**10**10", "assert f() == 'a' * 10**10", "assert f() == 2 ** 99999"):
        assert judge(prepare(check, "f").test, [1])["outcome"] == "error"
    for check, value in (("assert f() % 3 == 1", "%999999999d"), ("assert f() * f() == 1", 1 << 99999)):
        assert judge(prepare(check, "f").test, [value, value])["outcome"] == "error"
    many = list(range(20_000))
    assert judge(prepare("assert set(f()) == {1}", "f").test, [many])["outcome"] in ("error", "fail")


def test_nearly_all_hidden_checks_of_humaneval_are_split_and_preparing_warns_of_nothing(recwarn):
    prepared = [prepare(check, task.entry_point) for task in humaneval() for check in task.hidden_tests]
    whole = sum(check.calls is None for check in prepared)
    assert (len(prepared), whole) == (1181, 6)
    for check in ("assert f('\\d') == 1", "for x in 'a':\n    assert f('\\d') is 1"):
        assert prepare(check, "f").name
    assert [str(warning.message) for warning in recwarn] == []


def test_values_of_calls_come_back_as_source(sandbox):
    program = "def f(x):\n    if x == 3: raise ValueError\n    return {'a': (x, 2.5)} if x else object()\n"
    assert sandbox.values(program, "f", ["f(1)", "f(0)", "f(3)"]) == ["{'a': (1, 2.5)}", None, None]
    program = "from collections import *\ndef f(x): return [Counter(x), (OrderedDict(a=defaultdict(int, b=1)),)]"
    assert sandbox.values(program, "f", ["f('a')"]) == ["[{'a': 1}, ({'a': {'b': 1}},)]"]
    assert literal(float("inf")) is None
    assert ast.literal_eval(literal([1, "a"])) == [1, "a"]
