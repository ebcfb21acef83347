import gzip
import hashlib
import json
from pathlib import Path

import pytest

from reflexion_lab.records import Task
from reflexion_lab.tasks import benchmarks
from reflexion_lab.tasks.benchmarks.humaneval_plus import humaneval_plus
from reflexion_lab.tasks.benchmarks.jsonl import jsonl
from reflexion_lab.tasks.evaluators.unit_tests import run_tests

TEST = "def check(candidate):\n    assert candidate(1) == 2\n"
TASK = {"task_id": "a", "prompt": "def f(x):", "entry_point": "f"}


def test_every_field_is_read(written):
    fields = {"setup": "ONE = 1", "canonical_solution": "    return x"}
    lists = {"visible_tests": ["assert f(1) == 1"], "tags": ["easy"]}
    lists["hidden_tests"] = ["assert f(2) == 2", "assert candidate(3) == ONE + 2"]
    other = TASK | {"task_id": "é"}
    tuples = {name: tuple(items) for name, items in lists.items()}
    assert list(jsonl(written(TASK | fields | lists, other))) == [Task(**TASK, **fields, **tuples), Task(**other)]


def test_blank_lines_and_other_line_ends_are_skipped(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(f"\ufeff\r\n{json.dumps(TASK)}\r\n  \n\n".encode())
    assert [task.task_id for task in jsonl(str(path))] == ["a"]


def test_name_is_the_stem_and_digest_that_of_the_bytes(written):
    plain, packed = (Path(written(TASK, name=name)) for name in ("my.rows.jsonl", "my.rows.jsonl.gz"))
    for file in (plain, packed):
        benchmark = jsonl(str(file))
        assert benchmark.name == "my.rows"
        assert benchmark.digest == hashlib.sha256(file.read_bytes()).hexdigest()
        assert benchmark.tasks == jsonl(str(plain)).tasks


@pytest.mark.parametrize(("line", "expected"), [
    (TASK | {"entry_point": 1}, "field $.entry_point: got int, expected str"),
    (TASK | {"visible_tests": ["1", 2]}, "field $.visible_tests[1]: got int, expected str"),
    (TASK | {"hidden_tests": "assert True"}, "field $.hidden_tests: got str, expected array"),
    ({"task_id": "a", "prompt": ""}, "field $.entry_point: got nothing, expected a value"),
    (TASK | {"test": TEST, "canonical_solution": "", "entry_point": "S.f"}, "field $.entry_point: got 'S.f', expected"),
    (TASK | {"test": "", "canonical_solution": "", "x": 1}, "field $.test: got '', expected a function `check`"),
    (TASK | {"test": TEST, "canonical_solution": "    return (", "prompt": "Do:\ndef f(x):\n"},
     "field $.canonical_solution: got 'def f(x):"),
    (TASK | {"entry_point": "f(x)"}, "field $.entry_point: got 'f(x)', expected a Python identifier"),
    (TASK | {"entry_point": "class"}, "field $.entry_point: got 'class', expected a Python identifier"),
    (TASK | {"requires": ["numpy>=1"]}, "field $.requires: got 'numpy>=1', expected the name of a package or module"),
    (TASK | {"requires": ["os", ""]}, "field $.requires: got '', expected the name of"),
    (TASK | {"task_id": ""}, "field $.task_id: got an empty str, expected a name"),
    (TASK | {"hidden_tests": ["1", "assert"]}, "field $.hidden_tests[1]: got 'assert' (invalid"),
    (TASK | {"visible_tests": ["return 1"]}, "field $.visible_tests[0]: got 'return 1'"),
    (TASK | {"setup": "\0"}, "field $.setup: got "), ([TASK], "field $: got array, expected object"),
    ('{"task_id": "a', "field $: got text that is not JSON (Unterminated string"),
    ("task_id,prompt", "field $: got text that is not JSON"),
    (json.dumps(TASK) * 2, "field $: got text that is not JSON"),
])  # fmt: skip
def test_a_bad_line_is_named_with_file_line_and_field(complaint, line, expected):
    message = complaint(jsonl, TASK | {"task_id": "first"}, "", line)
    assert message.startswith(f"rows.jsonl, line 3, {expected}")


def test_all_bad_lines_are_reported_at_once_up_to_ten(complaint):
    message = complaint(jsonl, "{x", TASK, "[]", TASK)
    assert [line.split(", ")[1] for line in message.splitlines()] == ["line 1", "line 3", "line 4"]
    many = complaint(jsonl, *(" " * n + "{x" for n in range(13)), "{x").splitlines()
    assert many[0].startswith("rows.jsonl, line 1, field $: ") and many[0].endswith(" (in 2 rows)")
    assert (len(many), many[-1]) == (11, "... and 3 more problems.")
    message = complaint(jsonl, "", TASK, TASK | {"task_id": "b"}, TASK)
    assert message == "rows.jsonl, line 4, field $.task_id: 'a' is already the id of line 2"


def test_a_file_without_tasks_of_another_kind_or_that_is_none_is_named(complaint, tmp_path):
    for rows in ((), ("", "  ")):
        assert complaint(jsonl, *rows) == "rows.jsonl: got no task, expected one JSON object a line"
    assert "rows.xlsx: got another ending, expected .jsonl, .json" in complaint(jsonl, TASK, name="rows.xlsx")
    (tmp_path / "folder.jsonl").mkdir()
    for name in ("nowhere", "folder"):
        with pytest.raises(ValueError, match=rf"{name}\.jsonl, no such file"):
            jsonl(str(tmp_path / f"{name}.jsonl"))


WHOLE = gzip.compress(json.dumps(TASK).encode())


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [("rows.jsonl", json.dumps(TASK).encode().replace(b"def", b"\xff"), ", line 1: got bytes that are no text"),
     ("rows.jsonl.gz", b"", ": "), ("rows.jsonl.gz", b"plain", ", line 1, field"), ("rows.jsonl.gz", WHOLE[:-9], ": "),
     ("rows.jsonl.gz", WHOLE[:12] + b"\xff" * 9 + WHOLE[21:], ": ")],
    ids=["no text", "empty", "not packed", "cut", "damaged"],
)  # fmt: skip
def test_damaged_bytes_are_an_error_of_the_file(tmp_path, name, data, expected):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ValueError, match=f"{name}{expected}"):
        jsonl(str(tmp_path / name))


TWICE = "import math\n\ndef twice(x):\n    return math.trunc(2 * x)\n\n"


@pytest.mark.parametrize("read", [jsonl, humaneval_plus])
@pytest.mark.parametrize(("head", "tail", "setup"), [
    ("Write f, which doubles x.\n\n", "", ""), (f"Use twice.\nIt is:\n{TWICE}", "", TWICE),
    (f"{TWICE}@staticmethod\n", "", TWICE), ("Write def f(x).\n", "", ""),
    (TWICE.replace("\n\n", "\nAnd:\n", 1), "", TWICE.replace("\n\n", "\n", 1)),
    (f"```python\n{TWICE}", "```\n", TWICE), ("print 'Python 2'\n\n", "", ""), ("no Python\n" * 300, "", ""),
])  # fmt: skip
def test_prompts_that_are_no_python_are_read_with_the_python_in_them(written, sandbox, read, head, tail, setup):
    row = {"task_id": "own/0", "entry_point": "f", "canonical_solution": "    return 2 * x\n"}
    test = TEST.replace("== 2", "== twice(1)") if setup else TEST
    (task,) = read(written(row | {"prompt": f"{head}def f(x):\n{tail}", "test": test}))
    assert (task.prompt, task.setup) == (f"{head}def f(x):\n{tail}", setup)
    assert run_tests(sandbox, task, task.canonical_program, task.hidden_tests).passed


@pytest.mark.parametrize("problem", [SyntaxError("bad"), TypeError("bad"), RecursionError("bad"), MemoryError("bad")])
def test_whatever_a_converter_raises_names_the_row(complaint, problem):
    def convert(row):
        raise problem

    message = complaint(lambda path: benchmarks.rows.read(path, convert), TASK)
    assert message.startswith("rows.jsonl, line 1, field $: got ")
