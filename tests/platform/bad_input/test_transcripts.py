"""Transcripts and samples of other systems, damaged: file, line and field, whoever reads them."""

from __future__ import annotations

import gzip
import json

import pytest

from tests.platform.bad_input.damage import ODD, put

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
    "problem a number": (row(problem=5), ("audit", "failures", "parsing", "retrieval")),
    "problem null": (row(problem=None, task_id=None), ("audit",)),
    "problem unknown": (row(problem="nobody/1", prompt=...), ("audit", "failures", "parsing", "retrieval")),
    "entry point no name": (row(entry_point="f()"), ("audit", "failures", "parsing", "retrieval")),
    "model a number": (row(model=5), ("retrieval",)), "run a list": (row(run=[1]), ("retrieval",)),
    "code a number": (attempt(code=5), ("audit", "failures", "parsing", "retrieval")),
    "reflection a number": (attempt(reflection=5), ("parsing", "retrieval")),
    "raw a list": (attempt(raw=[1]), ("parsing",)), "verdict a word": (row(logged_is_solved="yes"), ("audit",)),
    "solution attempt 9": (row(solution_is_attempt=9), ("audit",)),
    "solution attempt a word": (row(solution_is_attempt="one"), ("audit",)),
}  # fmt: skip


SAMPLES = {
    "no completion": {"task_id": "HumanEval/0"}, "completion a number": {"task_id": "HumanEval/0", "completion": 5},
    "unknown task": {"task_id": "HumanEval/9999", "completion": ""}, "no task": {"completion": ""},
    "passed a word": {"task_id": "HumanEval/0", "completion": "", "passed": "yes"},
    "solution a list": {"name": "HumanEval/0", "solution": []},
    "is_solved a number": {"name": "HumanEval/0", "solution": "", "is_solved": 1},
}  # fmt: skip
HEAD = "file,attempt,model,part,label,why\n"
LABELS = [
    "", "a,b\n1,2\n", HEAD + "x,1,m,first,nonesuch,\n", HEAD + "x,1,m,nowhere,assertion,\n", "\x00\x01", HEAD + "x\n",
    "file,label,part\nx,assertion,first\n", HEAD + "nobody,1,m,first,assertion,\n" * 2,
    HEAD + "nobody,1,m,first,assertion,\n",
]  # fmt: skip
CASES = {
    f"{reader}: {name}": ("bad.jsonl", content, words, "bad.jsonl")
    for reader, words in READERS.items()
    for name, content in (NO_ROWS | ODD).items()
}
CASES |= {
    f"{reader}: {name}": ("bad.jsonl", row() + content, READERS[reader], "bad.jsonl")
    for name, (content, readers) in WRONG_FIELDS.items()
    for reader in readers
}
CASES |= {
    f"sample: {name}": ("bad.jsonl", json.dumps(sample) + "\n", READERS["audit"], "bad.jsonl, line 1")
    for name, sample in SAMPLES.items()
}
CASES |= {
    f"labels {number}": ("bad.csv", content, ("failures", "transcript.jsonl", "--labels", "bad.csv"), "bad.csv")
    for number, content in enumerate(LABELS)
}
"""By name: a file, its content, who reads it, and what the refusal names."""


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_damaged_file_is_named_by_whoever_reads_it(work, refused, case):
    file, content, words, message = case
    put(work / file, content)
    assert message in refused(*words)
