"""Checks that cannot be split: apart from the program if they need plain data alone, else beside it and marked."""

import textwrap
from pathlib import Path

import pytest
import yaml

from reflexion_lab.tasks.sandbox.apart import prepare, prepare_all

CHAMELEON = """
class E:
    def __eq__(self, other): return True
    def __sub__(self, other): return self
    def __abs__(self): return 0.0
    def __lt__(self, other): return True
    def __bool__(self): return False
    def __contains__(self, other): return True
    def __str__(self): return '0'
    __rsub__, __gt__, __le__, __ge__ = __sub__, __lt__, __lt__, __lt__
def f(x): return E()
"""


@pytest.mark.parametrize("test", [
    "f(x) == 3", "3 == f(x)", "[f(x)] == [3]", "{1: f(x)} == {1: 3}", "f(x) in [3]",
    "abs(f(x) - 3) < 1e-6", "abs(3 - f(x)) < 1e-6", "not (f(x) - 3)", "str(f(x) - 3) == '0'", "f(x) < 3",
    "3 < f(x)", "3 in f(x)", "max(f(x), 3) == 3", "[3].count(f(x))",
])  # fmt: skip
@pytest.mark.parametrize("form", ["for x in [1]:\n    assert {}", "assert all({} for x in [1])"])
def test_no_object_of_the_program_answers_by_what_it_is_compared_with(sandbox, test, form):
    namespace = {}
    exec(CHAMELEON, namespace)
    exec(form.format(test), namespace)  # beside the program it would pass
    assert sandbox.run(CHAMELEON, "f", [form.format(test)]).checks[0].outcome in ("fail", "error")


ANSWERS = "import os\ndef f(x):\n    os.write({}, {!r})\n    {}\n"


@pytest.mark.parametrize(("descriptor", "message", "then"), [
    (5, b'\x0b\0\0\0{"v": true}', "os._exit(0)"),
    (5, b'\x02\0\0\0{}', "return 3"),
    (5, b'\xff\xff\xff\xff', "return 3"),
    (5, b'\x14\0\0\0{"c": [-1, [], {}]}  ', "return 3"),
    (3, b'x [0, "pass", "", "", 0, 0.0]\n', "os._exit(0)"),
])  # fmt: skip
def test_forged_messages_are_at_most_another_answer(sandbox, descriptor, message, then):
    program = ANSWERS.format(descriptor, message, then)
    outcome = sandbox.run(program, "f", ["for x in [1]:\n    assert f(x) == 2"]).checks[0].outcome
    assert outcome in ("fail", "error", "early_exit")


def test_a_candidate_that_ends_cannot_be_caught_and_a_refused_argument_is_no_expected_error(sandbox):
    program = "import os\ndef f(x):\n    os._exit(0)\n"
    check = "try:\n    f(1)\nexcept BaseException:\n    pass"
    assert sandbox.run(program, "f", [check]).checks[0].outcome == "early_exit"
    checks = [REFUSED, "for n in (1,):\n    assert f(n) == 2"]
    first, second = sandbox.run("def f(x): return 2", "f", checks).checks
    assert (first.outcome, first.error_type, first.in_process) == ("error", "TypeError", False)
    assert (second.outcome, second.in_process) == ("pass", False)


REFUSED = "x = []\nfor _ in range(100_000):\n    x = [x]\ntry:\n    f(x)\nexcept TypeError:\n    pass"


def test_a_late_call_of_the_tests_function_is_an_error_of_its_thread(sandbox):
    program = (
        "import threading, time\ndef f(g): threading.Timer(0.01, g, (5,)).start()\n"
        "def wait(): time.sleep(0.05); return 1\n"
    )
    checks = ["for x in [1]:\n    f(lambda x: x)\nimport time\ntime.sleep(0.05)\nassert wait() == 1"] * 2
    assert [check.outcome for check in sandbox.run(program, "f", checks).checks] == ["pass", "pass"]


@pytest.mark.parametrize(("program", "checks", "setup"), [
    ("def f(g): return g(1)", ["try: helper(1)\nexcept NameError: pass", "assert f(lambda x: x + 1) == 2"], ""),
    (
        "def f(d): return list(d.values())",
        ["assert f({P(1): 2}) == [2]"],
        "class P:\n    def __init__(self, n): self.n = n\n    def __hash__(self): return self.n\n",
    ),
    (
        "def f(g, x): x.append(1); return g(1)",
        ["x = []\nassert f(Add(2), x) == 3 and x == [1]"],
        "class Add:\n    def __init__(self, n): self.n = n\n    def __call__(self, m): return self.n + m\n",
    ),
    (
        "def f(x): return x.speak()",
        [f"class D:\n    def speak(self): return {n}\nassert f(D()) == {n}" for n in (1, 2)],
        "",
    ),
    (
        "class N:\n    __slots__ = ('n',)\ndef f(x): return x.n if x else 0",
        ["assert f(N(3)) == 3", "assert f(None) == 0"],
        "class N:\n    def __init__(self, n): self.n = n\n",
    ),
    (
        "g = lambda: 1\ndef f():\n    global g\n    g = lambda: 2",
        ["for _ in [1]:\n    assert g() == 1\n    f()\n    assert g() == 2"],
        "",
    ),
])  # fmt: skip
def test_one_check_does_not_disturb_a_later_one(sandbox, program, checks, setup):
    results = sandbox.run(program + "\n", "f", checks, setup).checks
    assert [(check.outcome, check.message) for check in results] == [("pass", "")] * len(checks)


PLAIN = [
    "for x in range(3):\n    assert f(x) == x", "def check(candidate):\n    assert candidate(1) == 2\ncheck(f)",
    "x = [3, 1]\nf(x)\nassert x == [1, 3]", "assert all(f(x) == x for x in [1])", "assert list(map(f, [1])) == [2]",
    "try:\n    f(-1)\nexcept ValueError:\n    pass\nelse:\n    assert False", "y = f(f(1))\nassert y.upper() == 'A'",
    "import random\nfor _ in range(9):\n    a = random.randint(1, 9)\n    assert f(a) == a",
    "import unittest\nclass T(unittest.TestCase):\n    def test(self): self.assertEqual(f(1), 2)\nT('test').debug()",
    "assert sorted(f([2, 1]), key=lambda x: -x) == [2, 1] or False", "d = {1: 2}\nassert f(list(d.items())) == 1",
    "from decimal import Decimal\nfor x in (1,):\n    assert f(Decimal(x)) == x", "assert poly([1], f(2)) == 0 or f(1)",
]  # fmt: skip
MORE = [
    "assert f(lambda x: x) == 1", "def g(x): return x\nassert f(g) == 1", "g = lambda: 1\nassert f([g]) == 1",
    "assert f(iter([1])) == [1]", "assert f(x for x in [1]) == [1]", "assert f(zip([1], [2])) == [(1, 2)]",
    "class A: pass\nassert f(A()) == 1", "class A: pass\na = A()\nassert f(a) == 1", "assert f(Node(1)) == 1",
    "a = f(1)\nassert a.get('k')() == 3",
    "a = f(1)\nassert a.value == 1", "assert f(1).run().x == 2 or f(1)", "assert f(f) == 1", "x = []\nassert f(x) is x",
    "import math\nassert f(math) == 1", "import math\nassert f(math.sqrt, 4) == 2", "seen = []\nf(seen.append)",
    "assert callable(f(1))", "assert hasattr(f(1), 'x')", "assert type(f(1)) is int", "assert isinstance(f(1), Node)",
    "with f(1) as x:\n    assert x", "import asyncio\nassert asyncio.run(f(1)) == 2", "assert f.cache == {}",
    "@f\ndef g(): return 1\nassert g() == 1", "helper(f(1), 2)",
    "import random\nrandom.seed(1)\nassert f(1) == 2", "assert f(made(1)) == 1 or f(1)",
    "from operator import attrgetter\nassert attrgetter('x')(f(1)) == 1",
]  # fmt: skip
SETUP = "def poly(xs, x): return sum(c * x**i for i, c in enumerate(xs))\nclass Own: pass\ndef made(x): return Own()\n"


@pytest.mark.parametrize("check", PLAIN)
def test_a_check_that_needs_plain_data_runs_apart(check):
    prepared = prepare(check, "f", SETUP)
    assert (prepared.calls, prepared.in_process) == (None, False)


@pytest.mark.parametrize("check", MORE)
def test_a_check_that_needs_more_runs_beside_the_program(check):
    prepared = prepare("if True:\n" + textwrap.indent(check, "    "), "f", SETUP)
    assert (prepared.calls, prepared.in_process) == (None, True)


def test_what_needs_more_and_what_shares_names_with_it_runs_beside_the_program():
    check = "c = LRUCache(2)\nassert c.get(1) == 2"
    assert prepare(check, "LRUCache").in_process
    assert not prepare(check.replace("LRUCache", "Find_Max"), "Find_Max").in_process
    check = (
        "def fact(n):\n    return 1 if n < 2 else n * fact(n - 1)\nfor n in (1, 2):\n    assert candidate(fact(n)) == n"
    )
    assert not prepare(check, "f").in_process
    checks = ("g = lambda: 1", "x = f(g)", "y = 2", "for x in (y,):\n    assert f(x) == 1", "assert f(1) == 1")
    assert [check.in_process for check in prepare_all(checks, "f", "")] == [True, True, False, False, False]


def test_checks_and_set_ups_that_need_more_are_marked_and_forgeable(sandbox):
    program = "def f(x, g=abs): return g(x)"
    checks = ["assert f(-1) == 1", "for x in (-1,):\n    assert f(x) == 1", "g = lambda x: 7\nassert f(1, g) == 7"]
    results = sandbox.run(program, "f", checks).checks
    assert [(c.outcome, c.in_process) for c in results] == [("pass", False), ("pass", False), ("pass", True)]
    setup = "g = f(2)\ntry:\n    R = g(3)\nexcept TypeError:\n    R = None\n"
    (check,) = sandbox.run("def f(x): return lambda y: x + y", "f", ["assert R == 5"], setup).checks
    assert (check.outcome, check.in_process) == ("pass", True)
    program = "import math\nmath.isclose = lambda *x, **y: True\ndef f(x): return 1\n"
    result = sandbox.run(program, "f", ["for x in [1]:\n    assert math.isclose(f(x), 2)"]).checks[0]
    assert (result.outcome, result.in_process) == ("pass", True)


def test_the_setup_stays_out_of_the_program_where_all_checks_run_apart(sandbox):
    program = (
        "import sys\ndef f(x):\n    frame = sys._getframe()\n    while frame:\n"
        "        if 'reference' in frame.f_globals: return frame.f_globals['reference'](x)\n"
        "        frame = frame.f_back\n"
    )
    check = "for x in (1,):\n    assert f(x) == reference(x)"
    assert sandbox.run(program, "f", [check], "def reference(x): return 7 * x\n").checks[0].outcome == "fail"


@pytest.mark.parametrize(("change", "argument", "expected"), [
    ("x.append(3)", "[1]", "[1, 3]"), ("x[:] = x[::-1]", "[[1], [2]]", "[[2], [1]]"),
    ("x['b'] = x.pop('a')", "{'a': [1]}", "{'b': [1]}"), ("x |= {3}; x.discard(1)", "{1, 2}", "{2, 3}"),
    ("x['a'].append(3)", "{'a': []}", "{'a': [3]}"), ("x[0].add(2); raise ValueError", "({1},)", "({1, 2},)"),
    ("x.appendleft(0)", "collections.deque([1])", "collections.deque([0, 1])"),
])  # fmt: skip
def test_changed_arguments_are_written_back(sandbox, change, argument, expected):
    check = f"import collections\nx = {argument}\nalias = x\ntry:\n    f(x)\nexcept ValueError:\n    pass\n"
    result = sandbox.run(f"def f(x):\n    {change}\n", "f", [f"{check}assert alias == {expected}"]).checks[0]
    assert (result.outcome, result.message, result.in_process) == ("pass", "", False)


POSING = (
    "class Z(ArithmeticError): pass\nZ.__module__, Z.__name__ = 'builtins', 'ZeroDivisionError'\n"
    "class J(ValueError): pass\nJ.__module__, J.__name__ = 'json.decoder', 'JSONDecodeError'\n"
)


@pytest.mark.parametrize(("raised", "caught"), [
    ("ValueError('no', 3)", "ValueError as e:\n    assert e.args == ('no', 3)"),
    ("type('Own', (KeyError,), {})('a')", "LookupError as e:\n    assert e.args == ('a',)"),
    ("json.JSONDecodeError('no', 'x', 0)", "json.JSONDecodeError as e:\n    assert 'no' in str(e)"),
    ("StopIteration(3)", "RuntimeError as e:\n    assert e"),
    ("Z(1)", "ZeroDivisionError: assert False\nexcept ArithmeticError as e:\n    assert e.args == (1,)"),
    ("J('no')", "json.JSONDecodeError: assert False\nexcept ValueError as e:\n    assert str(e) == 'no'"),
])  # fmt: skip
def test_exceptions_travel(sandbox, raised, caught):
    check = f"import json\ntry:\n    f(1)\n    assert False, 'nothing raised'\nexcept {caught}"
    result = sandbox.run(f"import json\n{POSING}def f(x): raise {raised}\n", "f", [check]).checks[0]
    assert (result.outcome, result.message, result.in_process) == ("pass", "", False)


EQUAL, CALLED = "for x in (1,):\n    assert f(x) == 2", "for x in [1]:\n    f(x)"


@pytest.mark.parametrize(("program", "check", "outcome"), [
    ("class P(Exception):\n    _report = ['pass', '', '', 0]\ndef f(x):\n    raise P\n", CALLED, "error"),
    ("def f(x):\n    e = ValueError()\n    e._report = ['pass', '', '', 0]\n    raise e\n", CALLED, "error"),
    ("class f:\n    def __init__(self, x): pass\n", EQUAL, "fail"), ("def f(x): return lambda: x", EQUAL, "fail"),
    ("def f(x): yield x", EQUAL, "fail"),
])  # fmt: skip
def test_a_program_reports_no_pass_and_turns_no_check_into_one_in_process(sandbox, program, check, outcome):
    result = sandbox.run(program, "f", [check]).checks[0]
    assert (result.outcome, result.in_process) == (outcome, False)


FORGERIES = yaml.safe_load((Path(__file__).parent / "forgeries.yaml").read_text())


@pytest.mark.parametrize("program", FORGERIES.values(), ids=FORGERIES)
def test_no_check_that_runs_apart_is_forged(sandbox, program):
    for check in ("for x in (1,):\n    assert f(x) == 31337", "def check(c):\n    assert c(1) == 31337\ncheck(f)"):
        result = sandbox.run(program, "f", [check]).checks[0]
        assert (result.outcome in ("fail", "error", "early_exit"), result.in_process) == (True, False)


SENDS = (
    "import sys\ndef f(x):\n    frame = sys._getframe()\n    while 'send' not in frame.f_locals: frame = frame.f_back\n"
    '    frame.f_locals[\'send\'](0, \'"called", "", "", 0, 0.0\')\n    return lambda: x\n'
)
WRITES = 'import os\nrow = b\'{"r": [["called", "", "", 0, 0.0]]}\'\n' + (
    "def f(x): return os.write(5, len(row).to_bytes(4, 'little') + row)\n"
)


@pytest.mark.parametrize(("program", "check", "in_process"), [
    (WRITES, "for x in (1,):\n    assert f(x) == 2", False), (SENDS, "assert f(1) == 2", False),
    (WRITES, "assert callable(f(1))", True), (SENDS, "assert callable(f(1)) and f(1) == 2", True),
])  # fmt: skip
def test_a_program_cannot_report_that_its_check_called_a_result(sandbox, program, check, in_process):
    for checks in ([check], [check, "for x in (1,):\n    assert x == 2"]):
        results = sandbox.run(program, "f", checks).checks
        assert results[0].in_process is in_process and not any(c.in_process for c in results[1:])
        assert not {c.outcome for c in results} & {"pass", "called"}


@pytest.mark.parametrize("check", ["assert f(2)(3) == 5", "g = f(2)\nassert g(3) == 5", "assert [f(2)][0](3) == 5"])
def test_a_check_that_calls_a_result_counts_beside_the_program_and_others_apart(sandbox, check):
    others = ["for _ in [1]:\n    assert f(1)", "assert f(1) == 2"]
    results = sandbox.run("def f(x): return lambda y: x + y", "f", [check, *others]).checks
    assert [(c.outcome, c.in_process) for c in results] == [("pass", True), ("pass", False), ("fail", False)]


@pytest.mark.parametrize("check", [
    "assert is_sorted(candidate([3, 1]))", "assert candidate(encode('abc')) == 'abc'",
    "from pathlib import Path\nfor v in (candidate(1),):\n    assert v == Path('expected').read_text()",
    "for v in (candidate(1),):\n    assert v == open('expected').read()",
])  # fmt: skip
def test_checks_that_read_the_programs_names_or_files_are_marked(check):
    assert prepare(check, "f").in_process
