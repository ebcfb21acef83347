import gzip
import hashlib
import json
from pathlib import Path

import pytest

from reflexion_lab.records import Task
from reflexion_lab.tasks.benchmarks.jsonl import jsonl

TASK = {"task_id": "a", "prompt": "def f(x):", "entry_point": "f"}


def written(folder: Path, *lines: object, name: str = "tasks.jsonl") -> str:
    """Write lines (text as it is, anything else as JSON) and return the file's path."""
    file = folder / name
    file.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), "utf-8")
    return str(file)


def complaint(path: str) -> str:
    """What `jsonl` says about a bad file, without the folder."""
    with pytest.raises(ValueError) as error:
        jsonl(path)
    return str(error.value).replace(f"{Path(path).parent}/", "")


def test_every_field_is_read(tmp_path: Path) -> None:
    task = TASK | {
        "visible_tests": ["assert f(1) == 1"],
        "hidden_tests": ["assert f(2) == 2", "assert candidate(3) == ONE + 2"],
        "setup": "ONE = 1",
        "canonical_solution": "    return x",
        "tags": ["easy"],
    }
    path = written(tmp_path, task, TASK | {"task_id": "é"})
    assert list(jsonl(path)) == [
        Task(
            task_id="a",
            prompt="def f(x):",
            entry_point="f",
            visible_tests=("assert f(1) == 1",),
            hidden_tests=("assert f(2) == 2", "assert candidate(3) == ONE + 2"),
            setup="ONE = 1",
            canonical_solution="    return x",
            tags=("easy",),
        ),
        Task(task_id="é", prompt="def f(x):", entry_point="f"),
    ]


def test_blank_lines_and_other_line_ends_are_harmless(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(f"\ufeff\r\n{json.dumps(TASK)}\r\n  \n\n".encode())
    assert [task.task_id for task in jsonl(str(path))] == ["a"]


def test_name_is_the_stem_and_digest_that_of_the_bytes(tmp_path: Path) -> None:
    plain = Path(written(tmp_path, TASK, name="my.tasks.jsonl"))
    packed = tmp_path / "my.tasks.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    for file in (plain, packed):
        benchmark = jsonl(str(file))
        assert benchmark.name == "my.tasks"
        assert benchmark.digest == hashlib.sha256(file.read_bytes()).hexdigest()
        assert benchmark.tasks == jsonl(str(plain)).tasks


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (TASK | {"entry_point": 1}, "field $.entry_point: got int, expected str"),
        (TASK | {"visible_tests": ["1", 2]}, "field $.visible_tests[1]: got int, expected str"),
        (TASK | {"hidden_tests": "assert True"}, "field $.hidden_tests: got str, expected array"),
        ({"task_id": "a", "prompt": ""}, "field $.entry_point: got nothing, expected a value"),
        (TASK | {"test": ""}, "field $.test: got this name, expected one of task_id, prompt, entry_point,"),
        (TASK | {"entry_point": "f(x)"}, "field $.entry_point: got 'f(x)', expected a Python identifier"),
        (TASK | {"entry_point": "class"}, "field $.entry_point: got 'class', expected a Python identifier"),
        (TASK | {"task_id": ""}, "field $.task_id: got an empty str, expected a name"),
        (
            TASK | {"hidden_tests": ["1", "assert"]},
            "field $.hidden_tests[1]: got 'assert' (invalid",
        ),
        (TASK | {"visible_tests": ["return 1"]}, "field $.visible_tests[0]: got 'return 1'"),
        (TASK | {"setup": "\0"}, "field $.setup: got "),
        ([TASK], "field $: got array, expected object"),
        (
            '{"task_id": "a',
            "field $: got text that is not JSON (Input data was truncated",
        ),
        ("task_id,prompt", "field $: got text that is not JSON"),
        (json.dumps(TASK) * 2, "field $: got text that is not JSON"),
    ],
)
def test_a_bad_line_is_named_with_file_line_and_field(tmp_path: Path, line: object, expected: str) -> None:
    path = written(tmp_path, TASK | {"task_id": "first"}, "", line)
    assert complaint(path).startswith(f"tasks.jsonl, line 3, {expected}")


def test_bytes_that_are_no_text_are_a_bad_line(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(json.dumps(TASK).encode().replace(b"def", b"\xff"))
    assert complaint(str(path)).startswith("tasks.jsonl, line 1, field $: got text that is not JSON ('utf-8'")


def test_a_duplicate_id_names_both_lines(tmp_path: Path) -> None:
    path = written(tmp_path, "", TASK, TASK | {"task_id": "b"}, TASK)
    assert complaint(path) == "tasks.jsonl, line 4, field $.task_id: 'a' is already the id of line 2"


def test_all_bad_lines_are_reported_at_once_up_to_ten(tmp_path: Path) -> None:
    message = complaint(written(tmp_path, "{", TASK, "[]", TASK))
    assert [line.split(", ")[1] for line in message.splitlines()] == ["line 1", "line 3", "line 4"]
    many = complaint(written(tmp_path, *["{"] * 13)).splitlines()
    assert len(many) == 11
    assert many[-1] == "... and 3 more bad lines."


def test_a_file_without_tasks_is_an_error(tmp_path: Path) -> None:
    assert complaint(written(tmp_path)) == "tasks.jsonl: got no task, expected one JSON object a line"
    assert "got no task" in complaint(written(tmp_path, "", "  "))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nowhere\.jsonl, no such file"):
        jsonl(str(tmp_path / "nowhere.jsonl"))
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(ValueError, match=r"folder\.jsonl, no such file"):
        jsonl(str(tmp_path / "folder.jsonl"))


def test_another_kind_of_file_is_an_error(tmp_path: Path) -> None:
    assert "tasks.json: got another ending, expected .jsonl" in complaint(written(tmp_path, TASK, name="tasks.json"))


def test_a_broken_gzip_file_is_an_error(tmp_path: Path) -> None:
    whole = gzip.compress(json.dumps(TASK).encode())
    for number, data in enumerate((b"", b"plain", whole[:-9], whole[:12] + b"\xff" * 9 + whole[21:])):
        path = tmp_path / f"tasks{number}.jsonl.gz"
        path.write_bytes(data)
        assert complaint(str(path)).startswith(f"tasks{number}.jsonl.gz: ")
