"""Tests that check nothing are refused by name; those of a test runner's form are read as checks."""

import json

import pytest

from reflexion_lab.cli.main import main
from reflexion_lab.runner.folder.folder import RunFolder

ASSERT = "assert twice(2) == 4"
CASE = (
    "import unittest\nclass TestTwice(unittest.TestCase):\n    def {}(self):\n        self.assertEqual(twice(2), 4)\n"
)
TEST = f"def test_a():\n    {ASSERT}\n"
RUN = "\nif __name__ == '__main__':\n    "

NOTHING = {
    "test-less case": CASE.format("setUp"),
    "a function that nobody calls": f"def verify():\n    {ASSERT}\n",
    "a generator": f"{TEST}    yield\n",
    "lambda": "test = lambda: twice(2) == 4",
    "returned": "def test():\n    return twice(2) == 4\ntest()",
    "comparison": "twice(2) == 4",
    "comparison of items": "sorted(twice([2])) == [2, 2]",
    "print": "print(twice(2))",
    "tuple": "assert (twice(2) == 4, 'two times two')",
    "caught": f"try:\n    {ASSERT}\nexcept AssertionError:\n    print('failed')\n",
    "caught by any": f"try:\n    {ASSERT}\nexcept:\n    pass\n",
    "caught in a test": f"def test_a():\n    try:\n        {ASSERT}\n    except Exception:\n        pass\n",
    "suppressed": f"import contextlib\nwith contextlib.suppress(AssertionError):\n    {ASSERT}\n",
    "main guard": f"{RUN}{ASSERT}\n",
    "empty": "",
    "comment": f"# {ASSERT}",
    "constant": "assert True, 'twice(2) == 4'",
    "doctest": "'''\n>>> twice(2)\n4\n'''",
    "another function": "def other(x):\n    return x\nassert other(2) == 2",
    "no item": f"for x in []:\n    {ASSERT}\n",
    "only if": f"if twice(2):\n    {ASSERT}\n",
    "an exception will do": "try:\n    got = twice(2)\nexcept Exception:\n    got = 4\nassert got == 4",
}
READ = {
    "case": CASE.format("test"),
    "case, main guard": f"{CASE.format('test')}{RUN}unittest.main()\n",
    "case, no exit": f"{CASE.format('test')}unittest.main(argv=['x'], exit=False)\n",
    "case, exit": "from unittest import TestCase, main\nclass A(TestCase):\n    def test(self):\n"
    "        assert twice(2) == 4\nmain()\n",
    "case of a case": CASE.format("test") + "class TestAgain(TestTwice):\n    pass\n",
    "setUp": CASE.format("setUp") + "    def test(self):\n        pass\n",
    "setUpClass": "import unittest\nclass A(unittest.TestCase):\n    @classmethod\n    def setUpClass(cls):\n"
    "        cls.got = twice(2)\n    def test(self):\n        self.assertEqual(self.got, 4)\n",
    "async case": CASE.format("test")
    .replace("TestCase", "IsolatedAsyncioTestCase")
    .replace("def test", "async def test"),
    "functions": f"{TEST}def test_b(x=-1):\n    assert twice(x) == -2\n",
    "function, main guard": f"{TEST}{RUN}test_a()\n",
    "async function": f"async {TEST}",
    "check": "def check(f):\n    assert f(2) == 4\n",
    "candidate": "def test(candidate):\n    assert candidate(2) == 4\n",
    "pytest": "class TestTwice:\n    def setup_method(self, method):\n        self.four = 4\n    def test(self):\n"
    "        assert twice(2) == self.four\n",
    "one of two": f"twice(2) == 4\n{ASSERT}",
    "helpers": "def test_a(x, y):\n    assert x == y\ndef test_b(x, y, z):\n    pass\ntest_a(twice(2), 4)\n",
    "helper class": "class TestRunner:\n    def __init__(self, n):\n        self.n = n\n    def test_eq(self, x, y):\n"
    "        assert twice(x) == y\n    def test_more(self, x):\n        pass\nTestRunner(1).test_eq(2, 4)\n",
}
UNITTEST = (
    "import unittest\nclass A(unittest.TestCase):\n    {}def test(self):\n        self.assertEqual(twice(2), {})\n"
)
CALLED = f"{TEST}def main():\n    test_a()\n"
RUNNER = "unittest.TextTestRunner().run(unittest.defaultTestLoader.loadTestsFromTestCase(A))\n"
MORE = UNITTEST.format("", 4) + "    def test_more(self):\n        pass\n"
READ |= {
    "main, main guard": f"{CALLED}{RUN}main()\n",
    "list, main guard": f"{TEST}TESTS = [test_a]\n{RUN}for test in TESTS: test()\n",
    "called by what is not": CALLED,
    "name of a local": f"{TEST}def test_b():\n    for test_a in [2]:\n        assert twice(test_a) != test_a\n",
    "printed": f"{TEST}print(test_a)\n",
    "within": f"if True:\n    {TEST.replace('    assert', '        assert')}",
    "own main": CASE.format("helper") + f"def main():\n    {ASSERT}\nmain()\n",
    "runner": UNITTEST.format("", 4) + RUNNER,
    "runner in main": f"{UNITTEST.format('', 4)}def main():\n    {RUNNER}main()\n",
    "caught exit": f"{UNITTEST.format('', 4)}try:\n    unittest.main()\nexcept SystemExit:\n    pass\n",
    "one run of two": f"{MORE}A('test_more').debug()\n",
    "alias": UNITTEST.format("", 4)
    .replace("import unittest", "from unittest import TestCase as TC")
    .replace("unittest.TestCase", "TC"),
    "mixin": UNITTEST.format("", 4).replace("(unittest.TestCase)", "") + "class B(A, unittest.TestCase):\n    pass\n",
    "base": f"class TestA:\n    def test(self):\n        {ASSERT}\n"
    "class TestB(TestA):\n    def test_b(self):\n        pass\n",
    "class by its end": f"class TwiceTests:\n    def test(self):\n        {ASSERT}\n",
    "async method": f"class TestA:\n    async def test(self):\n        {ASSERT}\n",
    "setup_class": "class TestA:\n    @classmethod\n    def setup_class(cls):\n        cls.n = 2\n"
    "    def setup(self):\n        self.four = 4\n    def test(self):\n        assert twice(self.n) == self.four\n",
    "skipped": UNITTEST.format("@unittest.skip('slow')\n    ", 5) + f"def test_a():\n    {ASSERT}\n",
    "expected failure": UNITTEST.format("@unittest.expectedFailure\n    ", 5) + f"def test_a():\n    {ASSERT}\n",
}
UNCALLED = {
    "fixture": f"def test_a(tmp_path):\n    {ASSERT}\n",
    "method with a fixture": f"class TestA:\n    def test(self, capsys):\n        {ASSERT}\n",
    "other name": "def test_a(solution):\n    assert solution(2) == 4\n",
    "check of two": "def check(candidate, n):\n    assert candidate(n) == 4\n",
    "long": f"x = '{'a' * 140_000}'\n{TEST}",
    "long case": f"x = '{'a' * 140_000}'\n{UNITTEST.format('', 4)}",
    "unexpected success": UNITTEST.format("@unittest.expectedFailure\n    ", 4),
}
BESIDE = {
    "setUpClass", "async case", "async function", "async method", "setup_class", "skipped", "expected failure",
    "name of a local",
}  # fmt: skip
"""Forms that need more than plain data."""
HONEST = {
    "none": ("return None", "assert f(2) is None"),
    "no return": ("pass", "assert f(2) == None"),
    "false": ("return False", "assert not f(4)"),
    "exception": ("raise ValueError", "try:\n    f(2)\nexcept Exception:\n    pass\nelse:\n    raise AssertionError"),
    "assertRaises": ("raise ValueError", CASE.format("test").replace("Equal(twice(2), 4)", "Raises(Exception, f, 2)")),
    "in place": ("x.sort()", "x = [2, 1]\nf(x)\nassert x == [1, 2]"),
}
PROMPT = "def {}(x):\n"


def row(name, tests, entry_point="twice", does="return 2 * x", **fields):
    solution = f"    {does}\n" if does else ""
    fields = {"visible_tests": [], "hidden_tests": tests, "canonical_solution": solution, **fields}
    return {"task_id": name, "prompt": PROMPT.format(entry_point), "entry_point": entry_point, **fields}


@pytest.fixture
def run(write_rows, tmp_path, capsys):
    def run(rows, *overrides, reply="    return 'wrong'"):
        write_rows(*rows, name="own.jsonl")
        (tmp_path / "script.json").write_text(json.dumps([{"when": "", "reply": reply}]))
        common = ["tracker=none", "cache.mode=off", "model=scripted", f"model.path={tmp_path}/script.json"]
        common += [f"benchmark={tmp_path}/own.jsonl", "loop.max_attempts=1", f"run_root={tmp_path}/{len(rows)}"]
        code = main(["run", *common, *overrides])
        return code, capsys.readouterr(), [RunFolder(path.parent) for path in tmp_path.rglob("manifest.json")]

    return run


@pytest.mark.parametrize("does", ["return 2 * x", ""])
def test_tests_that_check_nothing_are_refused_and_named(run, does):
    rows = [row(name, [test], does=does) for name, test in NOTHING.items()]
    code, (_, stderr), folders = run(rows)
    assert (code, folders) == (2, [])
    count = len(NOTHING) - 2 * (not does)  # without a canonical solution, None or an exception may be right
    assert f"{count} tasks with hidden tests that check nothing: test-less case (a program passes that only" in stderr
    assert "benchmark.keep_failing=true" in stderr

    code, (stdout, _), (folder,) = run(rows, "benchmark.keep_failing=true")
    known = folder.manifest.provenance.vacuous_tests
    assert known == dict.fromkeys([*NOTHING][:count], "hidden")
    assert code == 0 and "TESTS THAT CHECK NOTHING: the hidden ones of test-less case," in stdout


def test_what_looks_like_a_check_is_named_with_its_task(run):
    names = {
        "comparison": "a comparison without `assert`: twice(2) == 4",
        "tuple": "an `assert` on a tuple, which is always true: assert (twice",
        "caught": "an `assert` that is caught: try: assert twice(2) == 4",
        "suppressed": "an `assert` that is caught: with contextlib",
        "main guard": "never executed: if __name__ == '__main__'",
    }
    _, (_, stderr), _ = run([row(name, [NOTHING[name]]) for name in names])
    assert all(f"{name} ({reason}" in stderr for name, reason in names.items())
    whole = NOTHING["caught"].replace("4", f"4 != {[*range(99)]}")
    _, (_, stderr), _ = run([row("long", [whole])])
    assert "long (an `assert` that is caught: try: assert" in stderr and "98" not in stderr
    code, (_, stderr), _ = run([row("both", [ASSERT, NOTHING["comparison"]])])
    assert code == 0 and "1 task with a test that checks nothing: both (a comparison without" in stderr


def test_visible_tests_that_check_nothing_are_warned_of(run):
    code, (stdout, stderr), (folder,) = run([row("own/1", [ASSERT], visible_tests=[NOTHING["tuple"]])])
    assert code == 0 and "warning: 1 task with visible tests that check nothing: own/1 (an `assert` on" in stderr
    assert "TESTS THAT CHECK NOTHING: the visible ones of own/1" in stdout
    assert folder.manifest.provenance.vacuous_tests == {"own/1": "visible"}


def test_tests_of_a_test_runner_are_read_as_checks(run):
    rows = [row(name, [test]) for name, test in READ.items()]
    rows.append({**row("humaneval", []), "test": READ["case"]})
    rows[-1] = {key: value for key, value in rows[-1].items() if not key.endswith("_tests")}
    code, (stdout, _), _ = run(rows)
    assert code == 0 and f"0 of {len(rows)} tasks" in stdout
    code, (stdout, _), _ = run(rows, reply="    return 2 * x")
    assert f"{len(rows)} of {len(rows)} tasks" in stdout
    assert "checks in process" in stdout


def test_honest_tests_of_none_and_of_exceptions_stay(run):
    rows = [row(name, [test], "f", does) for name, (does, test) in HONEST.items()]
    rows += [{**line, "task_id": f"bare {line['task_id']}", "canonical_solution": ""} for line in rows]
    code, (_, stderr), _ = run(rows)
    assert code == 0 and "check nothing" not in stderr


def test_only_checks_that_need_more_than_plain_data_run_beside_the_program(sandbox):
    for name, test in READ.items():
        for does, outcome in (("2 * x", "pass"), ("'wrong'", "fail")):
            (check,) = sandbox.run(f"def twice(x):\n    return {does}\n", "twice", [test]).checks
            assert (check.outcome, check.in_process) == (outcome, name in BESIDE), name


def test_a_call_in_another_check_is_left_to_it(sandbox):
    checks = ["def test(x):\n    assert x == 4\n", "def check(f):\n    test(f(2))\n", "check(candidate)"]
    assert [c.outcome for c in sandbox.run("def twice(x):\n    return 3\n", "twice", checks).checks][-1] == "fail"
    definitions = ["def test_many(n=[]):\n    n.append(1)\n    assert len(n) == 1\n", "test_many()"]
    assert {c.outcome for c in sandbox.run("def twice(x):\n    return 3\n", "twice", definitions).checks} == {"pass"}


@pytest.mark.parametrize("name", UNCALLED)
def test_a_test_that_cannot_be_called_never_passes(sandbox, name):
    (check,) = sandbox.run("def twice(x):\n    return 2 * x\n", "twice", [UNCALLED[name]]).checks
    assert check.outcome == ("fail" if name == "unexpected success" else "error") and check.message


def test_a_long_check_that_calls_its_tests_is_run(sandbox):
    nested = "def check(f):\n    def test_v(x):\n        assert f(x) == 4\n    test_v(2)\ncheck(twice)\n"
    run = f"{UNITTEST.format('', 4)}A('test').debug()\n"
    for tests, outcome in (
        (f"{TEST}test_a()\n", "fail"), (f"{ASSERT}\n", "fail"), ("twice(2)", "pass"), (nested, "fail"), (run, "fail"),
        (f"class TestA:\n\n    def test(self):\n        {ASSERT}\n", "error"),
    ):  # fmt: skip
        check = f"x = '{'a' * 140_000}'\n{tests}"
        assert sandbox.run("def twice(x):\n    return 3\n", "twice", [check]).checks[0].outcome == outcome


CHECKS = {
    "exec": "exec('assert f(1) == 2')",
    "item": "{2: 'ok'}[f(1)]",
    "unpacked": "[ok] = [x for x in [f(1)] if x == 2]",
    "next": "next(x for x in [f(1)] if x == 2)",
    "quotient": "1 / (f(1) == 2)",
}


@pytest.mark.parametrize("does", ["return x + 1", ""])
def test_whether_a_test_can_fail_is_decided_by_execution(run, does):
    code, (_, stderr), _ = run([row(name, [test], "f", does) for name, test in CHECKS.items()])
    assert code == 0 and "check nothing" not in stderr
