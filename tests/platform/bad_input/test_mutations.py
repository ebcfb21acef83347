"""Valid files and command lines, changed at random: no traceback, no hang, and what was there is there still."""

import json
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

READERS = {
    "tasks.jsonl": ("lint-dataset", "tasks.jsonl", "--mutants", "0"),
    "transcript.jsonl": ("retrieval", "transcript.jsonl", "--retriever", "recency"),
    "old/good/manifest.json": ("show", "old/good"), "old/good/attempts.jsonl": ("show", "old/good"),
    "old/good/results.jsonl": ("compare", "old/good", "old/other"),
    "old/good/grades.jsonl": ("compare", "old/good", "old/other"),
    "export.jsonl": ("memory", "validate", "export.jsonl"), "export.json": ("memory", "validate", "export.json"),
    "memory/episodes.jsonl": ("memory", "show", "--store", "memory"),
    "memory.sqlite": ("memory", "show", "--store", "memory.sqlite"),
    "study.yaml": ("study", "check", "study.yaml", "old/good"),
    "labels.csv": ("failures", "transcript.jsonl", "--labels", "labels.csv"),
    "good.zip": ("replay", "good.zip"),
}  # fmt: skip
"""By file, a command that reads it and writes nothing."""
LIGHT = [name for name in READERS if name not in ("tasks.jsonl", "transcript.jsonl", "labels.csv", "good.zip")]
"""Files whose reader executes no program."""
OTHER = st.sampled_from([None, True, -1, 0, 99, 1.5, 2**70, "", "word", "\x00", [], [1], {}, {"a": 1}])


def flipped(draw, text: bytes) -> bytes:
    changed = bytearray(text)
    for _ in range(draw(st.integers(1, 4))):
        changed[draw(st.integers(0, len(text) - 1))] = draw(st.integers(0, 255))
    return bytes(changed)


def torn(draw, text: bytes) -> bytes:
    return text[: draw(st.integers(0, len(text) - 1))]


def without_a_line(draw, text: bytes) -> bytes:
    lines = text.splitlines(keepends=True)
    lines.pop(draw(st.integers(0, len(lines) - 1)))
    return b"".join(lines)


def swapped(draw, text: bytes) -> bytes:
    """A value of some JSON in it is another."""
    lines = [text] if text.count(b"\n") < 2 or text.startswith(b"{\n") else text.splitlines(keepends=True)
    number = draw(st.integers(0, len(lines) - 1))
    try:
        whole = json.loads(lines[number])
    except ValueError:
        return flipped(draw, text)
    node, key = {"": whole}, ""
    while isinstance(node[key], dict | list) and node[key] and draw(st.booleans()):
        node = node[key]
        key = draw(st.sampled_from(sorted(node) if isinstance(node, dict) else range(len(node))))
    holder = node
    holder[key] = draw(OTHER)
    lines[number] = json.dumps(whole if key != "" else holder[""]).encode() + b"\n"
    return b"".join(lines)


@pytest.fixture
def endures(world, bounded, snapshot_of, carried_out, monkeypatch):
    """Carries a command line out beside a changed file: it ends with a code, and leaves what was there."""

    def endure(words, name="study.yaml", content=None):
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder) / "work"
            shutil.copytree(world, work)
            if content is not None:
                (work / name).write_bytes(content)
            monkeypatch.chdir(work)
            before = snapshot_of(work)
            with bounded():
                try:
                    code = carried_out(tuple(words))
                except SystemExit as stopped:
                    code = stopped.code
            assert code in (0, 1, 2, 3)
            assert snapshot_of(work).items() >= before.items()
            monkeypatch.chdir(world)

    return endure


@pytest.mark.parametrize(("names", "examples"), [(LIGHT, 25), pytest.param([*READERS], 2000, marks=pytest.mark.soak)])
def test_a_file_that_was_changed_at_random_breaks_nothing(world, endures, names, examples):
    @settings(max_examples=examples, deadline=None, database=None)
    @given(data=st.data())
    def every(data):
        name = data.draw(st.sampled_from(names))
        change = data.draw(st.sampled_from([flipped, torn, without_a_line, swapped]))
        endures(READERS[name], name, change(data.draw, (world / name).read_bytes()))

    every()


LINES = [
    *READERS.values(), ("show", "old/good", "--all"), ("memory", "search", "x", "--limit", "3", "--store", "memory"),
    ("wisdom", "stats", "--store", "memory", "--json"),
    ("run", "--cfg", "job", "model=simulated", "actor=single_shot", "benchmark.load.n=2", "tracker=none", "seed=1"),
    ("lint-dataset", "tasks.jsonl", "--mutants", "0"),
]  # fmt: skip
WORDS = st.one_of(
    st.sampled_from(
        ["", "-", "--", "-1", "--json", "--limit", "old/good", "*", "=", "a=b", "~x", "+x=1", "[", "{", "${x}", "\x00",
         "é", "--all", "nan"]
    ),
    st.text(max_size=8),
)  # fmt: skip
HEAVY = {"retrieval", "failures", "replay", "lint-dataset", "demo", "doctor", "run"}
LIGHT_LINES = [line for line in LINES if line[0] not in HEAVY]


@pytest.mark.parametrize(("heads", "examples"), [(LIGHT_LINES, 25), pytest.param(LINES, 1000, marks=pytest.mark.soak)])
def test_a_line_that_was_changed_at_random_breaks_nothing(endures, heads, examples):
    @settings(max_examples=examples, deadline=None, database=None)
    @given(data=st.data())
    def every(data):
        words = list(data.draw(st.sampled_from(heads)))
        for _ in range(data.draw(st.integers(1, 3))):
            place = data.draw(st.integers(1, len(words)))
            new = [data.draw(WORDS)] if data.draw(st.booleans()) else []
            words[place : place + data.draw(st.integers(0, 1))] = new
        endures(words)

    every()
