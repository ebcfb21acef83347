"""Run folders that are damaged, torn, of another version, or none."""

from __future__ import annotations

import json
import os
import shutil

import pytest

READERS = {
    "show": ("show", "{}"), "compare": ("compare", "{}", "old/other"), "report": ("report", "--html", "{}"),
    "track": ("track", "{}"),
    "audit": ("audit", "{}"), "bundle": ("bundle", "{}"), "study": ("study", "check", "study.yaml", "{}"),
    "import": ("memory", "import", "{}", "--store", "memory.sqlite"),
    "transfer": ("wisdom", "stats", "{}", "--store", "memory.sqlite"),
}  # fmt: skip
"""Commands that read a run folder."""


def write(name, content):
    def damage(folder):
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    return damage


def manifest(**fields):
    def damage(folder):
        fields_of_file = json.loads((folder / "manifest.json").read_text()) | fields
        (folder / "manifest.json").write_text(
            json.dumps({key: value for key, value in fields_of_file.items() if value != "GONE"})
        )

    return damage


def first_line(name, **fields):
    def damage(folder):
        head, *rest = (folder / name).read_text().splitlines(keepends=True)
        fields_of_file = {key: value for key, value in (json.loads(head) | fields).items() if value != "GONE"}
        (folder / name).write_text("".join([json.dumps(fields_of_file) + "\n", *rest]))

    return damage


def instead(kind):
    def damage(folder):
        shutil.rmtree(folder)
        if kind == "file":
            folder.write_text("no folder")
        elif kind == "empty":
            folder.mkdir()
        elif kind == "loop":
            folder.symlink_to(folder.name)
        elif kind == "dangling":
            folder.symlink_to("absent")
        elif kind == "fifo":
            os.mkfifo(folder)

    return damage


def is_folder(name):
    def damage(folder):
        (folder / name).unlink()
        (folder / name).mkdir()

    return damage


def is_fifo(name):
    def damage(folder):
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return damage


DAMAGES = {
    "absent": instead("absent"), "a file": instead("file"), "empty": instead("empty"), "a loop": instead("loop"),
    "dangling": instead("dangling"), "a FIFO": instead("fifo"),
    "manifest empty": write("manifest.json", ""), "manifest torn": write("manifest.json", '{"run_id": "x",'),
    "manifest a list": write("manifest.json", "[]"),
    "manifest binary": write("manifest.json", b"\xff\xfe\x00"),
    "manifest deep": write("manifest.json", "[" * 100_000), "manifest without id": manifest(run_id="GONE"),
    "manifest of the future": manifest(schema_version=99),
    "manifest seed a word": manifest(seed="zero"), "manifest config a list": manifest(config=[]),
    "manifest tasks null": manifest(n_expected=None), "manifest a folder": is_folder("manifest.json"),
    "manifest a FIFO": is_fifo("manifest.json"),
}  # fmt: skip
"""What every reader must refuse."""
LOGS = {
    "attempts of another version": first_line("attempts.jsonl", task_id=5),
    "attempts without number": first_line("attempts.jsonl", number="GONE"),
    "attempts number a word": first_line("attempts.jsonl", number="one"),
    "attempts a folder": is_folder("attempts.jsonl"), "attempts a FIFO": is_fifo("attempts.jsonl"),
    "attempts a list": write("attempts.jsonl", "[]\n"),
    "attempts deep": write("attempts.jsonl", "[" * 100_000 + "\n"),
    "attempts surrogates": write("attempts.jsonl", b'{"task_id": "\xff"}\n'),
    "attempts empty": write("attempts.jsonl", ""),
    "results of another version": first_line("results.jsonl", attempts="many"),
    "results without attempts": write("attempts.jsonl", ""), "results a folder": is_folder("results.jsonl"),
    "results submitted 99": first_line("results.jsonl", submitted=99),
    "results best 0": first_line("results.jsonl", best=0),
    "results of an unknown task": first_line("results.jsonl", task_id="nobody/1"),
    "results attempts 99": first_line("results.jsonl", attempts=99),
    "grades of another version": first_line("grades.jsonl", passed="yes"), "grades a folder": is_folder("grades.jsonl"),
    "memory.json torn": write("memory.json", "{"),
}  # fmt: skip
"""What whoever reads these files must refuse."""


@pytest.mark.parametrize("name", DAMAGES)
def test_show_names_what_is_no_run_folder(work, refused, name):
    DAMAGES[name](work / "old" / "good")
    assert "old/good" in refused("show", "old/good")


@pytest.mark.parametrize("reader", [name for name in READERS if name != "show"])
@pytest.mark.parametrize(
    "name", ["absent", "a file", "manifest torn", "manifest of the future", "manifest config a list"]
)
def test_every_reader_names_what_is_no_run_folder(work, refused, name, reader):
    DAMAGES[name](work / "old" / "good")
    assert "old/good" in refused(*(word.format("old/good") for word in READERS[reader]))


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("reader", ["show", "compare"])
def test_a_damaged_log_is_named_by_file_and_line(work, refused, name, reader):
    LOGS[name](work / "old" / "good")
    message = refused(*(word.format("old/good") for word in READERS[reader]))
    assert "old/good" in message


@pytest.mark.parametrize("fields", [{"task_id": "nobody/1"}, {"number": 99}], ids=str)
def test_a_grade_of_nothing_leaves_a_run_without_verdicts(work, refused, fields):
    first_line("grades.jsonl", **fields)(work / "old" / "good")
    assert "attempts without a hidden verdict, expected all of them graded; finish it with resume=" in refused(
        "compare", "old/good", "old/other"
    )


@pytest.mark.parametrize(
    "command",
    [
        ("show", "runs"),
        ("compare", "nothing*"),
        ("compare", "old/good", "nothing*"),
        ("report", "--html", "old"),
        ("track", "agent"),
        ("show", ""),
        ("show", "a\x00b"),
        ("show", "x" * 300),
        ("compare", "["),
    ],
    ids=str,
)
def test_what_fits_no_run_is_named(refused, command):
    assert command[-1][:20].partition("\x00")[0] in refused(*command)
