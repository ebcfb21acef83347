"""Files of tasks as people have them, by the commands that read them."""

import csv
import gzip
import io
import json

import pytest

import reflexion_lab as rl
from reflexion_lab.cli.main import main

PROMPT = 'def twice(x):\n    """Two times x.\n    >>> twice(2)\n    4\n    """\n'
ROW = {"task_id": "own/0", "prompt": PROMPT, "entry_point": "twice"}
HUMANEVAL = ROW | {"test": "def check(candidate):\n    assert candidate(3) == 6\n"}
OWN = ROW | {"visible_tests": ["assert twice(2) == 4"], "hidden_tests": ["assert twice(3) == 6"]}
MBPP = {"task_id": 11, "text": "Two times x.", "code": "def twice(x):\n    return 2 * x",
        "test_list": ["assert twice(2) == 4", "assert twice(3) == 6"]}  # fmt: skip
SOLVED = {"canonical_solution": "    return 2 * x\n"}


@pytest.fixture
def run(tmp_path, capsys):
    """Runs a file of tasks with a model that solves `twice`; returns the exit code and what is on the screen."""

    def run(file, *overrides, program="def twice(x):\n    return 2 * x\n"):
        (tmp_path / "script.json").write_text(json.dumps([{"when": "", "reply": f"```python\n{program}```"}]))
        common = ["tracker=none", "cache.mode=off", f"run_root={tmp_path}/runs", f"benchmark='{file}'"]
        scripted = ["model=scripted", f"model.path={tmp_path}/script.json", "actor=single_shot"]
        code = main(["run", *common, *([] if "model=simulated" in overrides else scripted), *overrides])
        stdout, stderr = capsys.readouterr()
        return code, " ".join((stderr + stdout).split())

    return run


NOTED = "fields not read: question, difficulty"


SAME = "import numpy as np\n\n\ndef assertion(out, exp):\n    assert out == exp\n\n\ndef check(candidate):\n"
TESTS = [HUMANEVAL | {"test": test} for test in (
    ["assert twice(2) == 4", "assert candidate(3) == 6"],
    SAME.replace("import numpy as np", "") + "    assertion(candidate(3), 6)\n    assertion(candidate(4), 8)\n",
    SAME + "    inputs = [[3], [4]]\n    results = [6, 8]\n"
    "    for i, (inp, exp) in enumerate(zip(inputs, results)):\n        assertion(candidate(*inp), exp)\n",
)]  # fmt: skip
TYPED = {"prompt": f"from typing import *\n\n\n{PROMPT}", "canonical_solution": "def twice(x: List):\n    return 2 * x"}


@pytest.mark.parametrize("row", [HUMANEVAL, OWN | SOLVED, MBPP, HUMANEVAL | TYPED, TESTS[1]])
def test_further_columns_are_named_once_and_a_solution_is_not_needed(write_rows, run, capsys, row):
    more = {"question": "Double it.", "setup": None, "difficulty": float("inf"), "rank": float("nan")}
    path = write_rows(row | more, row | more | {"task_id": 12 if row is MBPP else "own/1"})
    code, screen = run(path)
    assert (code, "2 of 2 tasks" in screen) == (0, True), screen
    assert screen.count(f"{path.name}: {NOTED}") == screen.count("not read") == 1
    assert main(["lint-dataset", str(path)]) == 0
    assert capsys.readouterr().err.count(NOTED) == 1
    with pytest.warns(UserWarning, match="fields not read: question"):
        node = {"model": "simulated", "tracker": "none", "run_root": str(path.parent / "runs")}
        rl.run(node, benchmark=[row | more | ({} if row is MBPP else SOLVED)], quiet=True)


def test_rows_of_humaneval_may_have_visible_tests_and_only_the_simulated_model_needs_solutions(write_rows, run):
    path = write_rows(HUMANEVAL | {"visible_tests": ["assert twice(2) == 5"]})
    assert "1 false fails" in run(path)[1]
    code, screen = run(path, "model=simulated")
    assert code == 2 and "own/0 has no canonical solution; simulated needs" in screen


@pytest.mark.parametrize("more", [
    {"test": ["assert twice(1) == 3"]}, {"tests": ["assert twice(1) == 3"]}, {"test_list": ["assert twice(1) == 3"]},
    {"tests": "assert twice(1) == 3"},
    {"hidden_tests": ["assert twice(1) == 3"], "test": "def check(candidate):\n    results = [6]\n    assert results"},
    {"entry_point": "twice", "hidden_tests": ["assert __import__('asyncio').run(twice(1)) == 3"],
     "prompt": "class R:\n    def twice(self): ...\n\nasync def twice(x):\n"},
])  # fmt: skip
def test_hidden_tests_of_a_row_with_visible_ones_are_those_it_gives(write_rows, more):
    path = write_rows(ROW | SOLVED | {"visible_tests": ["assert twice(2) == 4"]} | more)
    task = rl.by_hand({"benchmark": str(path), "model": "simulated"}).tasks[0]
    assert (task.visible_tests, task.entry_point) == (("assert twice(2) == 4",), "twice")
    assert len(task.hidden_tests) == 1 and "== 3" in task.hidden_tests[0]


@pytest.mark.parametrize(("row", "expected"), [
    (HUMANEVAL | {"canonical_soluton": ""}, "canonical_soluton: unknown; did you mean canonical_solution?"),
    (ROW | {"hiden_tests": []}, "hiden_tests: unknown; did you mean hidden_tests?"),
    (ROW | {"Visible_Tests": []}, "Visible_Tests: unknown; did you mean visible_tests?"),
    (OWN | {"clusters": "a"}, "clusters: unknown; did you mean cluster?"),
    (MBPP | {"test_import": []}, "test_import: unknown; did you mean test_imports?"),
    (HUMANEVAL | {"entry_point": 7, "x": 1}, "entry_point: got int, expected str"),
    ({"id": 7, "entry_point": "f"}, "task_id: got nothing, expected a value; benchmark.fields.task_id=COLUMN reads"),
    (ROW | {"tests": ["assert twice(2) == 4"]}, "tests: got 1, expected a test beyond the 1 visible; lower benchmark."),
    ({"task_id": "b", "complete_prompt": "", "entry_point": "f"}, "test: got '', expected classes of unittest or"),
    ({"question_id": "1", "public_test_cases": "[1]"}, "public_test_cases: got '[1]', expected a list of objects"),
    ({"name": "1", "private_tests": {}}, "private_tests: a row of CodeContests; give rows with"),
    ({"problem_id": 1, "input_output": '{"inputs": ["1"]}'}, "input_output: got 1 inputs and 0 outputs"),
    ({"prompt": "", "code_context": ""}, "code_context: a row of DS-1000, whose tests need NumPy"),
    ({"name": "a", "prompt": "", "stop_tokens": []}, "stop_tokens: a row of MultiPL-E, whose languages"),
    ({"instance_id": "a", "base_commit": ""}, "base_commit: a row of SWE-bench, whose tasks change repositories"),
])  # fmt: skip
def test_a_misspelt_or_wrong_field_is_an_error_with_its_name(write_rows, run, row, expected):
    path = write_rows(row)
    code, screen = run(path)
    assert code == 2 and f"{path.name}, line 1, field $.{expected}" in screen and "JSON" not in screen


CHECK = (
    "def check(candidate):\n    assert candidate(x = 2) == 4\n    assert list(map(candidate, [3, limit])) == [6, 10]\n"
)
WHOLE = "class Solution:\n    def twice(self, x: Optional[int]):\n        return 2 * x\n"
CLASS = {"task_id": "a", "prompt": f"from typing import *\n\n\n{WHOLE[:54]}", "canonical_solution": WHOLE}
LEETCODE = {
    "task_id": "a", "prompt": "from typing import *\nlimit = 5\n", "entry_point": "Solution().twice", "test": CHECK,
    "problem_description": 'Two \\ """times""" x.', "starter_code": WHOLE[:58], "completion": WHOLE,
}  # fmt: skip
ASSERTS = ["assert Solution().twice(2) == 4", "assert Solution().twice(3) == 6"]


@pytest.mark.parametrize("row", [
    LEETCODE, CLASS | {"entry_point": "twice", "tests": ASSERTS},
    CLASS | {"entry_point": "Solution.twice", "visible_tests": ASSERTS[:1], "test": CHECK.replace("limit", "5")},
    CLASS | {"entry_point": "twice", "visible_tests": ASSERTS[:1], "hidden_tests": ["assert candidate(5) == 10"]},
    CLASS | {"entry_point": "twice", "visible_tests": ASSERTS[:1], "tests": ["assert twice(5) == 10"]},
    CLASS | {"prompt": CLASS["prompt"] + "\nclass Other:\n    def twice(self): ...\n", "entry_point": "twice",
             "tests": ["assert candidate(2) == 4", "assert candidate(3) == 6"]},
])  # fmt: skip
def test_methods_of_a_class_are_judged(write_rows, run, row):
    code, screen = run(write_rows(row), program=WHOLE)
    assert code == 0 and "1 of 1 task" in screen and "0 false fails" in screen, screen
    task = rl.by_hand({"benchmark": str(write_rows(row)), "model": "simulated"}).tasks[0]
    assert task.visible_tests[0].startswith("assert Solution().twice(") and task.prompt.count("class Solution") == 1


VERIFY = (
    "def verify(c, y):\n    assert c(2) == y\n\ndef check(candidate):\n    def again(y): assert candidate(3) == y\n    "
)
VERIFIED = {
    "assert candidate(0) == 0\n    verify(candidate, 4)": "1 of 1",
    "assert candidate(0) == 0\n    again(7)": "0 of 1",
    "assert candidate(0) == 0\n    verify(candidate, 5)": "0 of 1",
    "verify(candidate, 5)\n    again(6)": "1 of 1",
    "assert not candidate(0)\n    again(6)\n    if candidate(1):\n        raise ValueError": "0 of 1",
}
"""Ends of a text whose tests call what asserts; the first test is visible."""
COLUMNS = {
    "id": 7, "question": PROMPT, "info": {"name": "twice"}, "a.b": "    return 2 * x\n",
    "cases": ["assert twice(2) == 5", "assert twice(3) == 6", "assert twice(0) == 0"],
}  # fmt: skip
FIELDS = ("task_id", "prompt", "entry_point", "tests", "canonical_solution")
NAMES = dict(zip(FIELDS, ("id", "question", "info.name", "cases", "a.b"), strict=True))


@pytest.mark.parametrize(("rows", "more", "expected"), [
    ([COLUMNS], [], "1 false fails"),
    *[([COLUMNS | {"cases": VERIFY + text}], [], rate) for text, rate in VERIFIED.items()],
    ([COLUMNS | {"cases": COLUMNS["cases"][::-1]}], ["benchmark.load.visible=2"], "0 of 1 task"),
    ([COLUMNS | {"cases": "assert twice(2) == 5\nx = 3\nassert twice(x) == 6\n"}], [], "1 of 1 task"),
    ([COLUMNS | {"cases": "import math\nassert twice(1) == 2\nassert twice(2) == 2 * math.e"}], [], "0 of 1 task"),
    ([COLUMNS | {"cases": "import math\nassert twice(1) == 2\nassert twice(2) == math.gcd(4)"}], [], "1 of 1 task"),
    ([COLUMNS | {"cases": "assert twice(1) == 2\nassert twice(2) == 4\nif twice(3) == 6:\n    raise ValueError"}], [],
     "0 of 1 task"),  # its last test is no `assert`
    ([COLUMNS, COLUMNS | {"id": 8, "rank": 1}], [], "fields not read: rank"),
    ([COLUMNS], ["benchmark.fields.setup=info.set"], "benchmark.fields.setup: got 'info.set', expected a column of"),
    ([COLUMNS], ["benchmark.fields.prompt=[a]"], "benchmark.fields[...]: got {'task_id': 'id', 'prompt': ['a']"),
])  # fmt: skip
def test_columns_of_other_names_are_read_by_a_mapping(write_rows, run, rows, more, expected):
    words = [f"benchmark.fields.{field}={column}" for field, column in NAMES.items()]
    assert expected in run(write_rows(*rows), *words, *more, "benchmark.keep_failing=true")[1]


def test_a_mapping_is_one_value_too_and_refused_where_nothing_reads_it(write_rows, run):
    whole = ", ".join(f"{field}: {column}" for field, column in NAMES.items())
    assert "1 of 1 task" in run(write_rows(COLUMNS), f"benchmark.fields={{{whole}}}", "benchmark.keep_failing=true")[1]
    assert "benchmark.fields: got {'prompt': 'x'}, expected none" in run("basics", "benchmark.fields.prompt=x")[1]


def table(*rows, separator=",", write=str, head=None):
    lines = io.StringIO(newline="")
    writer = csv.writer(lines, delimiter=separator)
    writer.writerow(head or rows[0])
    writer.writerows([write(cell) if isinstance(cell, list) else cell for cell in row.values()] for row in rows)
    return lines.getvalue().encode()


LONG = OWN | {"prompt": PROMPT.replace("Two", f"{'long, ' * 30_000}\n    two")}
FILES = {
    "tasks.json": json.dumps([OWN, HUMANEVAL | {"task_id": "b"}], indent=1),
    "lines.json": f"{json.dumps(OWN)}\n\n{json.dumps(HUMANEVAL | {'task_id': 'b'})}\n",
    "array,1.JSONL": json.dumps([OWN, OWN | {"task_id": "b"}]),
    "mbpp.json": json.dumps([MBPP, MBPP | {"task_id": 12}]),
    "own.csv": table(OWN, LONG | {"task_id": "b"}),
    "own.tsv": table(OWN, OWN | {"task_id": "b"}, separator="\t", write=json.dumps),
    "excel.csv": b"\xef\xbb\xbf" + table(OWN, OWN | {"task_id": "b"}, separator=";"),
    "pandas.csv": table({"": 0} | MBPP, {"": 1} | MBPP | {"task_id": 12}),
    "utf16.csv": table(OWN, OWN | {"task_id": "b"}).decode().encode("utf-16"),
    "utf16.jsonl": f"{json.dumps(OWN)}\r\n{json.dumps(OWN | {'task_id': 'é'}, ensure_ascii=False)}".encode("utf-16"),
    "texts.jsonl": f"{json.dumps(OWN)}\n{json.dumps(OWN | {'task_id': 'b', 'hidden_tests': str(OWN['hidden_tests'])})}",
}


@pytest.mark.parametrize("name", [*FILES, "own.csv.gz"])
def test_files_of_every_form_are_read(tmp_path, run, name):
    data = FILES.get(name) or FILES[name.removesuffix(".gz").replace("jsonl", "json")]
    data = data if isinstance(data, bytes) else data.encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    code, screen = run(tmp_path / name)
    assert (code, "2 of 2 tasks" in screen, "not read" in screen) == (0, True, False), screen
    assert f"reflexion on {name.partition('.')[0]} " in screen


@pytest.mark.parametrize(("name", "data", "expected"), [
    ("a.xlsx", b"PK", "a.xlsx: got another ending, expected .jsonl, .json, .csv, .tsv (also with .gz), .parquet,"),
    ("a.json", json.dumps(OWN, indent=1).encode(), "a.json: got a JSON object over several lines, expected an object"),
    ("a.json", b"[{}, ", "a.json: got no array (Expecting value"), ("a.csv", b"task_id,prompt\n", "a.csv: got no task"),
    ("a.json", b'[{"task_id": "a"}, 1]', "a.json, row 2, field $: got int, expected object"),
    ("a.csv", table(OWN | {"more": 1}, head=[*OWN]), "a.csv: got a row with more cells than the header"),
    ("a.csv", b'task_id,prompt\na,"b', "a.csv: got no table (unexpected end of data)"),
    ("a.csv", b"task_id,tests,tests\na,b,c", "a.csv: got several columns tests, expected columns of different names"),
    ("a.csv", table({"id": 1, "entry_point": "f"}), "row 1, field $.task_id: got nothing, expected a value"),
    ("a.csv", "task_id\n\u00e9".encode("latin-1"), "a.csv, line 2: got bytes that are no text"),
    ("a.csv", table(OWN | {"hidden_tests": "assert"}), "row 1, field $.hidden_tests: got str, expected array"),
])  # fmt: skip
def test_a_file_that_cannot_be_read_says_why(tmp_path, run, name, data, expected):
    (tmp_path / name).write_bytes(data)
    code, screen = run(tmp_path / name)
    assert code == 2 and expected in screen, screen


RELEASE = ROW | SOLVED | {
    "test": HUMANEVAL["test"], "base_input": [[2], [3]], "plus_input": [[-5], [float("inf")], [2]], "atol": 0,
}  # fmt: skip
SHARED = """
Write a function to find what two tuples share.
assert set(twice((3, 4, 5), [(1, 2)])) == set((3, 4, 5))
"""
MBPP_RELEASE = {
    "task_id": "Mbpp/902", "prompt": f'"""{SHARED}"""', "entry_point": "twice", "assertion": SHARED, "contract": "",
    "canonical_solution": "def twice(x, y):\n    assert [type(z) for z in (x, y, *y)][:2] == [tuple, list]\n"
    "    assert all(isinstance(z, tuple) for z in y)\n    return x\n",
    "base_input": [[[3, 4, 5], [[1, 2]]], [[1], []]], "plus_input": [[[], [[1], [2]]], [1, 2]], "atol": 0,
}  # fmt: skip


def mbpp_release(tests, value, base, *plus):
    program = f"def twice(x, y=0):\n    import re\n    return {value}\n"
    inputs = {"prompt": f'"""\n2x\n{tests}\n"""', "base_input": [base], "plus_input": plus}
    return MBPP_RELEASE | inputs | {"canonical_solution": program}


@pytest.mark.parametrize(("row", "text", "tests", "n"), [
    (RELEASE, "2 * x if x > 0 else 0", ["candidate(2) == 4", "candidate(3) == 6", "candidate(-5) == -10"], 2),
    (MBPP_RELEASE, "(1,)", ["set(candidate((1,), [])) == set((1,))", "set(candidate((), [(1,), (2,)])) == set(())"], 1),
    (mbpp_release("assert twice(0, 1j) == [0, 1j]\nassert twice(1) != math.e", "[abs(x), y]", ["0", "3j"],
                  ["-1.5", "1j"], ["a", "2"]), "[x, y]",
     ["twice(1) != math.e", "candidate(0.0, 3j) == [0.0, 3j]", "candidate(-1.5, 1j) == [1.5, 1j]"], 2),
    (mbpp_release("assert twice([{}], (1, (2,))) == (1, (2,))", "[dict.fromkeys(z) for z in x] and y",
                  [[[]], [4, [5]]], [[[1, 2], []], [[[7]]]], [[[[]]], []]), "y if x == [{}] else 0",
     ["candidate([{}], (4, (5,))) == (4, (5,))", "candidate([{1, 2}, {}], (((7,),),)) == (((7,),),)"], 1),
    (mbpp_release("assert twice('aa')", "re.search('aa', x)", ["b"], ["baa"], [1]), "x == 'aa'",
     ["not candidate('b')", "candidate('baa')"], 1),
])  # fmt: skip
def test_release_files_of_evalplus_are_read_and_base_tests_have_a_rate(write_rows, run, tmp_path, row, text, tests, n):
    program = f"def twice(x, y=0):\n    return {text}\n"
    code, screen = run(write_rows(row), "loop.max_attempts=1", program=program)
    assert code == 0 and "pass@1 0.0 %" in screen and "by base tests 100.0 %" in screen, screen
    (folder,) = (tmp_path / "runs").glob("*-s0")
    assert rl.load(folder).tasks.hidden_base_passed.tolist() == [True]
    task = rl.by_hand({"benchmark": str(write_rows(row)), "model": "simulated"}).tasks[0]
    assert task.hidden_tests == tuple(f"assert {test}" for test in tests)
    assert (task.base_tests, task.tags) == (n, ("inputs_left_out:1",))
    assert "by base tests 100.0 %" in run(write_rows(row), "model=simulated")[1]
