"""Files of tasks that are none: which file, which line, which field, and what was expected."""

from __future__ import annotations

import gzip
import json

import pytest

from tests.platform.bad_input.damage import ODD, put

TASK = {"task_id": "own/a", "prompt": "def f(x):\n", "entry_point": "f", "hidden_tests": ["assert candidate(1) == 1"]}


def line(**fields: object) -> bytes:
    """A task, with other fields; `...` leaves one out."""
    return json.dumps({key: value for key, value in (TASK | fields).items() if value is not ...}).encode() + b"\n"


GOOD = line()
CONTENTS = {
    "no id": (line(task_id=...), "task_id"), "no prompt": (line(prompt=...), "prompt"),
    "no entry point": (line(entry_point=...), "entry_point"), "empty id": (line(task_id=""), "task_id"),
    "id a number": (line(task_id=5), "task_id"), "prompt null": (line(prompt=None), "prompt"),
    "prompt a list": (line(prompt=["def f"]), "prompt"),
    "entry point no name": (line(entry_point="f()"), "entry_point"),
    "entry point a keyword": (line(entry_point="class"), "entry_point"),
    "tests a text": (line(hidden_tests="assert 1"), "hidden_tests"),
    "a test no Python": (line(hidden_tests=["assert ("]), "hidden_tests[0]"),
    "a test null": (line(visible_tests=[None]), "visible_tests[0]"),
    "a test with NUL": (line(visible_tests=["assert '\x00'"]), "visible_tests[0]"),
    "setup no Python": (line(setup="import"), "setup"),
    "unknown field": (line(colour="red"), "colour"), "an id twice": (GOOD * 2, "line 2"),
    "the third line bad": (GOOD + line(task_id="b") + b"{]\n", "line 3"),
    "empty": (b"", "no task"), "blank lines": (b"\n \n\n", "no task"), "binary": (bytes(range(256)) * 4, "line 1"),
    "utf-16": (GOOD.decode().encode("utf-16"), "line 1"),
    "latin-1": (b'{"task_id": "caf\xe9", "prompt": "", "entry_point": "f"}\n', "line 1"),
    "a list": (b"[1, 2]\n", "line 1"), "a number": (b"5\n", "line 1"), "null": (b"null\n", "line 1"),
    "an array over lines": (b"[\n" + GOOD + b"]\n", "line 1"),
    "deep": (b'{"task_id":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n", "line 1"),
    "deep test": (line(hidden_tests=["assert " + "(" * 5000 + ")" * 5000]), "hidden_tests[0]"),
    "torn": (GOOD + GOOD[: len(GOOD) // 2], "line 2"), "NUL in the id": (line(task_id="a\x00b"), "task_id"),
    "surrogate": (b'{"task_id": "\\ud800", "prompt": "", "entry_point": "f"}\n', "line 1"),
    "a key twice": (b'{"task_id": "a", "task_id": "b", "prompt": 5, "entry_point": "f"}\n', "prompt"),
    "NaN": (b'{"task_id": NaN}\n', "line 1"), "tags a number": (line(tags=5), "tags"),
    "50 MB": (lambda path: path.write_bytes(b"x" * 50_000_000), "line 1"),
    "50 MB field": (lambda path: path.write_bytes(line(task_id=5, prompt="x" * 50_000_000)), "task_id"),
}  # fmt: skip


def tasks(path: object) -> tuple[str, ...]:
    return (
        "run", "tracker=none", "quiet=true", "model=scripted", "model.path=script.json", "benchmark=jsonl",
        f"benchmark.load.path='{path}'",
    )  # fmt: skip


@pytest.mark.parametrize("name", CONTENTS)
def test_what_is_no_task_is_named_by_line_and_field(work, refused, name):
    content, where = CONTENTS[name]
    put(work / "bad.jsonl", content)
    message = refused(*tasks("bad.jsonl"))
    assert "bad.jsonl" in message
    assert where in message


WHOLE = gzip.compress(GOOD)


@pytest.mark.parametrize(
    "content", [b"no gzip\n", WHOLE[:-9], WHOLE[:12], b"", b"\x1f\x8b", gzip.compress(WHOLE)], ids=range(6)
)
def test_a_gzip_that_is_none_or_torn_or_of_another_is_named(work, refused, content):
    (work / "bad.jsonl.gz").write_bytes(content)
    assert f"bad.jsonl.gz{', line 1' * (content == gzip.compress(WHOLE))}" in refused(*tasks("bad.jsonl.gz"))


PLACES = (
    "absent.jsonl", "tasks.csv", "old", "old/good", "script.json", "", "..", "/dev/zero", "/dev/stdin",
    "a FIFO.jsonl", "a loop.jsonl", "a folder.jsonl", "x" * 300 + ".jsonl",
)  # fmt: skip


@pytest.mark.parametrize("name", PLACES, ids=lambda name: name[:20])
def test_what_is_no_file_is_named_and_waited_for_by_nobody(work, refused, name):
    if (kind := name.removesuffix(".jsonl")) in ODD:
        put(work / name, ODD[kind])
    message = refused(*tasks(name))
    assert name[:20] in message
    assert "expected" in message or "must name" in message


@pytest.mark.parametrize("benchmark", ["mbpp", "humaneval_plus", "humaneval"])
@pytest.mark.parametrize("content", [b"{}\n", b"\x00\xff\n"], ids=["object", "binary"])
def test_the_files_of_other_benchmarks_are_checked_alike(work, refused, benchmark, content):
    (work / "bad.jsonl").write_bytes(content)
    message = refused(*tasks("")[:-2], f"benchmark={benchmark}", "++benchmark.load.path=bad.jsonl")
    assert "bad.jsonl" in message or "benchmark.load" in message


def test_ids_that_are_paths_write_nowhere_else(work, carried_out):
    odd = ("../../escape", "/etc/passwd", "a/../../b", "~", ".", "..", "con\u202e", "x" * 150, "a\nb", "\x1b[31m")
    rows = [line(task_id=task_id, visible_tests=["assert f(1) == 5"]) for task_id in odd]
    (work / "odd.jsonl").write_bytes(b"".join(rows))

    def around():
        return {path.name for place in (work, work.parent) for path in place.iterdir()}

    before = around()
    assert carried_out((*tasks("odd.jsonl"), "memory.reflection_files=words", "reflector=rules")) == 0
    assert around() - before == {"runs", "words"}
    assert len([*(work / "words").iterdir()]) == len(odd)


@pytest.mark.parametrize("word", ["absent.jsonl", "nonesuch", "benchmark=jsonl", "old"])
def test_lint_dataset_names_what_it_cannot_read(refused, word):
    assert word.partition("=")[0] in refused("lint-dataset", word)
