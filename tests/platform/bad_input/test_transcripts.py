"""Transcripts and samples of other systems, damaged: file, line and field, whoever reads them."""

from __future__ import annotations

import gzip
import json
import os

import pytest

ROW = {
    "source": "s", "model": "m", "strategy": "reflexion", "run": "reflexion/run1", "problem": "own/double",
    "prompt": 'def double(x):\n    """Twice x."""\n', "entry_point": "double",
    "test": "def check(candidate):\n    assert candidate(5) == 10\n",
    "visible_tests": ["assert double(2) == 4"], "logged_is_solved": False,
    "attempts": [{"code": "def double(x):\n    return x\n", "reflection": "w", "raw": "return x",
    "feedback": "Tests failed:\nassert double(2) == 4\n", "own_pass": False}],
}  # fmt: skip
READERS = {
    "audit": ("audit", "bad.jsonl"), "failures": ("failures", "bad.jsonl"), "parsing": ("parsing", "bad.jsonl"),
    "retrieval": ("retrieval", "bad.jsonl", "--retriever", "recency"),
    "import": ("import", "bad.jsonl", "--out", "imported"),
}  # fmt: skip


def row(**fields: object) -> bytes:
    return json.dumps({key: value for key, value in (ROW | fields).items() if value is not ...}).encode() + b"\n"


def attempt(**fields: object) -> bytes:
    return row(attempts=[{key: value for key, value in (ROW["attempts"][0] | fields).items() if value is not ...}])


NO_ROWS = {
    "empty": b"", "blank": b"\n\n", "binary": bytes(range(256)), "utf-16": row().decode().encode("utf-16"),
    "a list": b"[]\n", "a number": b"5\n", "torn": row() + row()[:50], "deep": b"[" * 100_000 + b"\n",
    "no attempts": row(attempts=...), "an empty object": b"{}\n", "torn gzip": gzip.compress(row())[:-9],
    "surrogate": row()[:-2] + b', "x": "\xff"}\n',
}  # fmt: skip
WRONG_FIELDS = {
    "attempts a number": (row(attempts=5), ("audit", "failures", "parsing", "retrieval")),
    "attempts of numbers": (row(attempts=[1, 2]), ("audit", "failures", "parsing", "retrieval")),
    "problem a number": (row(problem=5), ("audit", "failures", "parsing", "retrieval", "import")),
    "problem null": (row(problem=None, task_id=None), ("audit", "import")),
    "problem unknown": (row(problem="nobody/1", prompt=...), ("audit", "failures", "parsing", "retrieval")),
    "entry point no name": (row(entry_point="f()"), ("audit", "failures", "parsing", "retrieval", "import")),
    "model a number": (row(model=5), ("import", "retrieval")), "run a list": (row(run=[1]), ("import", "retrieval")),
    "strategy unknown": (row(strategy="guessing"), ("import",)),
    "code a number": (attempt(code=5), ("audit", "failures", "parsing", "retrieval")),
    "reflection a number": (attempt(reflection=5), ("parsing", "retrieval")),
    "raw a list": (attempt(raw=[1]), ("parsing",)), "verdict a word": (row(logged_is_solved="yes"), ("audit",)),
    "test a number": (row(test=5), ("import",)),
    "solution attempt 9": (row(solution_is_attempt=9), ("audit",)),
    "solution attempt a word": (row(solution_is_attempt="one"), ("audit",)),
}  # fmt: skip


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", NO_ROWS)
def test_a_file_without_transcripts_is_named(work, refused, reader, name):
    (work / "bad.jsonl").write_bytes(NO_ROWS[name])
    assert "bad.jsonl" in refused(*READERS[reader])


@pytest.mark.parametrize(
    ("name", "reader"), [(name, reader) for name, (_, readers) in WRONG_FIELDS.items() for reader in readers]
)
def test_a_wrong_field_is_named_with_its_line(work, refused, name, reader):
    (work / "bad.jsonl").write_bytes(row() + WRONG_FIELDS[name][0])
    message = refused(*READERS[reader])
    assert "bad.jsonl" in message


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", ["absent", "folder", "fifo", "loop", "device"])
def test_what_is_no_file_is_named_and_waited_for_by_nobody(work, refused, reader, kind):
    if kind == "folder":
        (work / "bad.jsonl").mkdir()
    elif kind == "fifo":
        os.mkfifo(work / "bad.jsonl")
    elif kind == "loop":
        (work / "bad.jsonl").symlink_to("bad.jsonl")
    elif kind == "device":
        (work / "bad.jsonl").symlink_to("/dev/zero")
    assert "bad.jsonl" in refused(*READERS[reader])


SAMPLES = {
    "no completion": {"task_id": "HumanEval/0"}, "completion a number": {"task_id": "HumanEval/0", "completion": 5},
    "unknown task": {"task_id": "HumanEval/9999", "completion": ""}, "no task": {"completion": ""},
    "passed a word": {"task_id": "HumanEval/0", "completion": "", "passed": "yes"},
    "solution a list": {"name": "HumanEval/0", "solution": []},
    "is_solved a number": {"name": "HumanEval/0", "solution": "", "is_solved": 1},
}  # fmt: skip


@pytest.mark.parametrize("name", SAMPLES)
def test_a_wrong_sample_is_named_by_line_and_field(work, refused, name):
    (work / "bad.jsonl").write_text(json.dumps(SAMPLES[name]) + "\n")
    assert "bad.jsonl, line 1" in refused("audit", "bad.jsonl")


@pytest.mark.parametrize(
    "content",
    [
        "",
        "a,b\n1,2\n",
        "file,attempt,model,part,label,why\nx,1,m,first,nonesuch,\n",
        "file,attempt,model,part,label,why\nx,1,m,nowhere,assertion,\n",
        "\x00\x01",
        "file,attempt,model,part,label,why\nx\n",
        "file,label,part\nx,assertion,first\n",
        "file,attempt,model,part,label,why\n" + "nobody,1,m,first,assertion,\n" * 2,
        "file,attempt,model,part,label,why\nnobody,1,m,first,assertion,\n",
    ],
    ids=range(9),
)
def test_labels_that_are_none_are_named(work, refused, content):
    (work / "bad.csv").write_text(content)
    assert "bad.csv" in refused("failures", "transcript.jsonl", "--labels", "bad.csv")


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        "5",
        '[{"name": "a"}]',
        '[{"name": "a", "is_success": "yes"}]',
        '[{"name": "a", "is_success": true}, {"name": "a", "is_success": true}]',
        "\x00",
        "[" * 100_000,
    ],
    ids=range(9),
)
def test_trials_that_are_none_are_named(work, refused, content):
    (work / "agent" / "env_results_trial_0.json").write_text(content)
    assert "env_results_trial_0.json" in refused("trials", "agent")


@pytest.mark.parametrize("words", [("trials", "absent"), ("trials", "old"), ("trials", "tasks.jsonl")], ids=str)
def test_a_folder_without_trials_is_named(refused, words):
    assert words[1] in refused(*words)


@pytest.mark.parametrize(
    "content", ["", "[]", '{"a": 5}', '{"a": [{"role": "user"}]}', "\x00", "absent", "[" * 100_000], ids=range(7)
)
def test_prompts_that_are_none_are_named(work, refused, content):
    if content != "absent":
        (work / "bad.json").write_text(content)
    assert "bad.json" in refused("import", "transcript.jsonl", "--prompts", "bad.json", "--out", "imported")
