"""Stores and files of memory that are damaged, another program's, or none."""

from __future__ import annotations

import json
import sqlite3
from itertools import product

import pytest

from tests.platform.bad_input.damage import ODD, put

HEADER = b'{"kind":"episodes","schema":1}\n'
EPISODE = {
    "episode_id": "e", "session_id": "s", "agent_id": "a", "task_id": "t", "task_description": "d", "attempt_number": 1,
    "code": "", "test_results": "", "reflection": None, "confidence": 0.5, "passed": False, "timestamp": 1.0,
}  # fmt: skip
READERS = {
    "show": ("memory", "show"), "search": ("memory", "search", "x"), "prune": ("memory", "prune", "--days", "1"),
    "export": ("memory", "export", "out.jsonl"),
    "import": ("memory", "import", "export.jsonl"), "list": ("wisdom", "list"), "one": ("wisdom", "show", "w"),
    "stats": ("wisdom", "stats"), "extract": ("wisdom", "extract"),
}  # fmt: skip


def episode(**fields: object) -> bytes:
    return json.dumps({key: value for key, value in (EPISODE | fields).items() if value is not ...}).encode() + b"\n"


EXPORTS = {
    "empty": b"", "binary": bytes(range(256)), "no header": episode(),
    "schema of the future": b'{"kind":"episodes","schema":99}\n' + episode(),
    "unknown kind": b'{"kind":"dreams","schema":1}\n', "torn": HEADER + episode()[:40],
    "id a number": HEADER + episode(episode_id=5), "confidence 7": HEADER + episode(confidence=7),
    "timestamp a word": HEADER + episode(timestamp="now"), "a list": HEADER + b"[]\n",
    "deep": HEADER + b'{"episode_id":' + b"[" * 100_000 + b"\n", "NaN": HEADER + b'{"episode_id": NaN}\n',
    "utf-16": (HEADER + episode()).decode().encode("utf-16"),
}  # fmt: skip
OBJECTS = {
    "empty": b"", "a list": b"[]", "no schema": b"{}", "schema of the future": b'{"schema": 99}',
    "schema a word": b'{"schema": "one"}', "episodes an object": b'{"schema": 1, "episodes": {}}',
    "episodes of numbers": b'{"schema": 1, "episodes": [5]}',
    "torn": b'{"schema": 1, "episodes": [', "deep": b'{"schema": 1, "episodes": ' + b"[" * 100_000,
    "binary": b"\x00\xff", "confidence 7": b'{"schema": 1, "episodes": [' + episode(confidence=7) + b"]}",
}  # fmt: skip


def _without_bodies(place):
    for statement in (
        "UPDATE sqlite_master SET sql = replace(sql, 'body TEXT NOT NULL', 'body TEXT')",
        "UPDATE episodes SET body = NULL, exact = NULL",
    ):
        with sqlite3.connect(place) as other:
            other.execute("PRAGMA writable_schema = ON")
            other.execute(statement)
        other.close()


def _foreign(place):
    place.unlink()
    with sqlite3.connect(place) as other:
        other.execute("CREATE TABLE theirs (x)")


STORES = {
    "text": lambda place: put(place, "no database at all\n" * 100), "another program's": _foreign,
    "damaged": lambda place: put(place, (whole := place.read_bytes())[:40] + b"\xaa" * 3960 + whole[4000:]),
    "torn": lambda place: put(place, place.read_bytes()[:5000]), "null": _without_bodies,
    "empty": lambda place: put(place, ""), "absent": lambda place: place.unlink(),
    "folder": lambda place: put(place, ODD["a folder"]), "fifo": lambda place: put(place, ODD["a FIFO"]),
}  # fmt: skip
LINES = {
    "another kind": b'{"kind":"wisdom","schema":1}\n', "no header": episode(),
    "schema of the future": b'{"kind":"episodes","schema":99}\n',
    "another version": HEADER + episode(confidence="sure"),
}  # fmt: skip
SQLITE = ("--store", "memory.sqlite")
CASES = [
    *(("bad.jsonl", content, ("memory", "import", "export.jsonl", "bad.jsonl", *SQLITE))
      for content in (*EXPORTS.values(), *ODD.values())),
    *(("bad.json", content, ("memory", "import", "bad.json", *SQLITE)) for content in OBJECTS.values()),
    *(("episodes.jsonl", content, (*READERS[reader], "--store", "memory"))
      for content in LINES.values() for reader in ("show", "search", "export", "prune", "import", "extract")),
]  # fmt: skip


@pytest.mark.parametrize(("file", "content", "words"), CASES)
def test_lines_and_objects_that_are_no_export_are_named(work, refused, file, content, words):
    put(work / "memory" / file if file == "episodes.jsonl" else work / file, content)
    assert file in refused(*words)


@pytest.mark.parametrize(
    ("name", "reader"),
    [*product(("text", "another program's", "damaged"), READERS), *((name, "show") for name in [*STORES][3:])],
)
def test_a_database_that_is_no_store_is_named(work, refused, name, reader):
    STORES[name](work / "memory.sqlite")
    assert "memory.sqlite" in refused(*READERS[reader], *SQLITE)


PLACES = (
    "", "tasks.jsonl", "old", "mysql://host/db", "sqlite://", "postgresql://",
    "postgresql://nobody@127.0.0.1:1/none", "://", "a\x00b", "x" * 300,
)  # fmt: skip


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place[:20].encode("unicode_escape").decode())
def test_a_place_that_is_none_is_named(refused, place):
    message = refused("memory", "show", "--store", place)
    assert "store" in message or "postgresql" in message or place[:200] in message


@pytest.mark.parametrize(
    "store", ["place=tasks.jsonl", "place=mysql://host/db", "place=old/calls.sqlite",
              *(f"retention_days={days}" for days in ("0", "-1", "nan", "long"))],
)  # fmt: skip
def test_a_run_names_a_store_that_is_none(refused_run, store):
    assert "store" in refused_run("store=sqlite", f"store.{store}")


@pytest.mark.parametrize(
    "words",
    ["memory show --episode nobody", "wisdom show nobody", "memory search x --min-confidence 7", "memory export .",
     "memory prune --days -1", "memory prune --days nan", "memory export absent/out.jsonl", "memory export tasks.csv/x",
     "wisdom stats --baseline old/good"],
)  # fmt: skip
def test_an_option_of_memory_that_cannot_be_is_named(refused, words):
    assert refused(*words.split(), *SQLITE)
