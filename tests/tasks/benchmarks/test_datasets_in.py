"""Parquet files, saved data sets and the hub, by the package `datasets` itself."""

import hashlib
import json
from pathlib import Path

import pytest

from reflexion_lab.tasks.benchmarks.humaneval_plus import humaneval_plus
from reflexion_lab.tasks.benchmarks.jsonl import jsonl

TASK = {
    "task_id": "a", "prompt": "def f(x):\n", "entry_point": "f", "visible_tests": ["assert f(1) == 1"],
    "hidden_tests": ["assert f(2) == 2"], "setup": None,
}  # fmt: skip
ROWS = [TASK, TASK | {"task_id": "b", "setup": "ONE = 1"}]


@pytest.fixture(scope="session")
def datasets():
    """The package. Imported where it is used: a second of every process that collects would go into it."""
    return pytest.importorskip("datasets")


@pytest.fixture
def folder(tmp_path, monkeypatch, datasets):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    datasets.disable_progress_bars()
    rows = datasets.Dataset.from_list(ROWS)
    rows.to_parquet(str(tmp_path / "my.tasks.parquet"))
    rows.save_to_disk(str(tmp_path / "saved"))
    datasets.DatasetDict({"test": rows}).save_to_disk(str(tmp_path / "one split"))
    datasets.DatasetDict({"test": rows, "train": rows}).save_to_disk(str(tmp_path / "two"))
    return tmp_path


@pytest.mark.parametrize(("path", "name"), [
    ("my.tasks.parquet", "my.tasks"), ("saved", "saved"), ("one split", "one split"), ("two/test", "two"),
])  # fmt: skip
def test_rows_become_the_tasks_of_the_same_lines(folder: Path, path: str, name: str) -> None:
    lines = folder / "lines.jsonl"
    lines.write_text("\n".join(json.dumps({key: row[key] for key in row if row[key] is not None}) for row in ROWS))
    benchmark = jsonl(str(folder / path))
    assert (benchmark.name, benchmark.tasks) == (name, jsonl(str(lines)).tasks)


def test_the_digest_is_that_of_the_file_or_of_the_rows(folder: Path) -> None:
    parquet = folder / "my.tasks.parquet"
    assert jsonl(str(parquet)).digest == hashlib.sha256(parquet.read_bytes()).hexdigest()
    assert len({jsonl(str(folder / path)).digest for path in ("saved", "one split", "two/train")}) == 1


def test_a_bad_row_is_named_with_place_and_field(folder: Path, datasets) -> None:
    datasets.Dataset.from_list([TASK, TASK | {"task_id": "b", "entry_point": "class"}]).save_to_disk(
        str(folder / "bad")
    )
    with pytest.raises(
        ValueError, match=r"bad, row 2, field \$.entry_point: got 'class', expected a Python identifier"
    ):
        jsonl(str(folder / "bad"))


@pytest.mark.parametrize(("path", "message"), [
    ("two", "got the splits test, train, expected one of them in the path"),
    ("none.parquet", r"none\.parquet cannot be read"),
    ("hf://datasets/alone", r"expected hf://datasets/OWNER/NAME\[/SUBSET\[/SPLIT\]\]"),
    ("hf://datasets/no/such/a/b/c", r"expected hf://datasets/OWNER/NAME\[/SUBSET\[/SPLIT\]\]"),
    ("hf://datasets/no/such", "hf://datasets/no/such cannot be read"),
])  # fmt: skip
def test_a_source_that_cannot_be_read_is_named(folder: Path, path: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        jsonl(path if path.startswith("hf://") else str(folder / path))


def test_benchmarks_of_another_shape_read_data_sets_too(folder: Path, datasets) -> None:
    test = "def check(candidate):\n    inputs = [[2]]\n    results = [2]\n"
    test += "    for i, (inp, exp) in enumerate(zip(inputs, results)):\n        assertion(candidate(*inp), exp, 0)\n"
    row = {"task_id": "own", "prompt": "def f(x):\n", "entry_point": "f", "canonical_solution": "    return x"}
    datasets.Dataset.from_list([row | {"test": test}]).save_to_disk(str(folder / "plus"))
    assert humaneval_plus(str(folder / "plus"))[0].hidden_tests == ("assert candidate(2) == 2",)
