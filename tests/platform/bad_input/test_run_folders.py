"""Run folders that are damaged, torn, of another version, or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.platform.bad_input.damage import ODD, put

READERS = {
    "show": ("show", "{}"), "compare": ("compare", "{}", "old/other"), "report": ("report", "--html", "{}"),
    "track": ("track", "{}"), "audit": ("audit", "{}"), "bundle": ("bundle", "{}"),
    "study": ("study", "check", "study.yaml", "{}"), "import": ("memory", "import", "{}", "--store", "memory.sqlite"),
    "transfer": ("wisdom", "stats", "{}", "--store", "memory.sqlite"),
}  # fmt: skip
"""Commands that read a run folder."""
DAMAGES = {
    "absent": ("", ODD["absent"]), "a file": ("", "no folder"), "empty": ("", Path.mkdir),
    "a loop": ("", ODD["a loop"]), "dangling": ("", ODD["dangling"]), "a FIFO": ("", ODD["a FIFO"]),
    "manifest empty": ("manifest.json", ""), "manifest torn": ("manifest.json", '{"run_id": "x",'),
    "manifest a list": ("manifest.json", "[]"),
    "manifest binary": ("manifest.json", b"\xff\xfe\x00"), "manifest deep": ("manifest.json", "[" * 100_000),
    "manifest without id": ("manifest.json", {"run_id": ...}),
    "manifest of the future": ("manifest.json", {"schema_version": 99}),
    "manifest seed a word": ("manifest.json", {"seed": "zero"}),
    "manifest config a list": ("manifest.json", {"config": []}),
    "manifest tasks null": ("manifest.json", {"n_expected": None}),
    "manifest a folder": ("manifest.json", ODD["a folder"]), "manifest a FIFO": ("manifest.json", ODD["a FIFO"]),
}  # fmt: skip
"""By name, a file of the folder, or the folder itself, and what stands there instead; every reader must refuse it."""
LOGS = {
    "attempts of another version": ("attempts.jsonl", {"task_id": 5}),
    "attempts without number": ("attempts.jsonl", {"number": ...}),
    "attempts number a word": ("attempts.jsonl", {"number": "one"}),
    "attempts a folder": ("attempts.jsonl", ODD["a folder"]), "attempts a FIFO": ("attempts.jsonl", ODD["a FIFO"]),
    "attempts a list": ("attempts.jsonl", "[]\n"), "attempts deep": ("attempts.jsonl", "[" * 100_000 + "\n"),
    "attempts surrogates": ("attempts.jsonl", b'{"task_id": "\xff"}\n'), "attempts empty": ("attempts.jsonl", ""),
    "results of another version": ("results.jsonl", {"attempts": "many"}),
    "results a folder": ("results.jsonl", ODD["a folder"]),
    "results submitted 99": ("results.jsonl", {"submitted": 99}), "results best 0": ("results.jsonl", {"best": 0}),
    "results of an unknown task": ("results.jsonl", {"task_id": "nobody/1"}),
    "results attempts 99": ("results.jsonl", {"attempts": 99}),
    "grades of another version": ("grades.jsonl", {"passed": "yes"}),
    "grades a folder": ("grades.jsonl", ODD["a folder"]), "memory.json torn": ("memory.json", "{"),
}  # fmt: skip
"""What whoever reads these files must refuse."""
EVERYWHERE = "absent", "a file", "manifest torn", "manifest of the future", "manifest config a list"
CASES = [
    *(("show", name) for name in DAMAGES),
    *((reader, name) for reader in READERS if reader != "show" for name in EVERYWHERE),
    *((reader, name) for name in LOGS for reader in ("show", "compare")),
]  # fmt: skip


@pytest.mark.parametrize(("reader", "name"), CASES)
def test_every_reader_names_what_is_no_whole_run(work, refused, name, reader):
    file, content = (DAMAGES | LOGS)[name]
    put(work / "old" / "good" / file, content)
    assert "old/good" in refused(*(word.format("old/good") for word in READERS[reader]))


@pytest.mark.parametrize("fields", [{"task_id": "nobody/1"}, {"number": 99}], ids=str)
def test_a_grade_of_nothing_leaves_a_run_without_verdicts(work, refused, fields):
    put(work / "old" / "good" / "grades.jsonl", fields)
    line = refused("compare", "old/good", "old/other")
    assert "attempts without a hidden verdict, expected all of them graded; finish it with" in line


@pytest.mark.parametrize(
    "command",
    [("show", "runs"), ("compare", "nothing*"), ("compare", "old/good", "nothing*"), ("report", "--html", "agent"),
     ("track", "agent"), ("show", ""), ("show", "a\x00b"), ("show", "x" * 300), ("compare", "[")], ids=str,
)  # fmt: skip
def test_what_fits_no_run_is_named(refused, command):
    assert command[-1][:20].partition("\x00")[0] in refused(*command)
