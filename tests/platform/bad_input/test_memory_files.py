"""Stores and files of memory that are damaged, another program's, or none."""

from __future__ import annotations

import json
import os
import sqlite3

import pytest

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


@pytest.mark.parametrize("name", EXPORTS)
def test_lines_that_are_no_export_are_named(work, refused, name):
    (work / "bad.jsonl").write_bytes(EXPORTS[name])
    assert "bad.jsonl" in refused("memory", "import", "export.jsonl", "bad.jsonl", "--store", "memory.sqlite")


@pytest.mark.parametrize("name", OBJECTS)
def test_an_object_that_is_no_export_is_named(work, refused, name):
    (work / "bad.json").write_bytes(OBJECTS[name])
    assert "bad.json" in refused("memory", "import", "bad.json", "--store", "memory.sqlite")


@pytest.mark.parametrize("kind", ["absent", "folder", "fifo", "loop", "device", "own store"])
def test_what_cannot_be_imported_is_named_and_waited_for_by_nobody(work, refused, kind):
    bad = work / "bad.jsonl"
    if kind == "folder":
        bad.mkdir()
    elif kind == "fifo":
        os.mkfifo(bad)
    elif kind == "loop":
        bad.symlink_to("bad.jsonl")
    elif kind == "device":
        bad.symlink_to("/dev/zero")
    elif kind == "own store":
        bad.symlink_to("memory/absent.jsonl")
    assert "bad.jsonl" in refused("memory", "import", "bad.jsonl", "--store", "memory.sqlite")


def _foreign(place):
    with sqlite3.connect(place) as other:
        other.execute("CREATE TABLE theirs (x)")


def _damaged(place):
    whole = bytearray(place.read_bytes())
    whole[40:4000] = b"\xaa" * 3960
    place.write_bytes(whole)


def _without_bodies(place):
    for statement in (
        "UPDATE sqlite_master SET sql = replace(sql, 'body TEXT NOT NULL', 'body TEXT')",
        "UPDATE episodes SET body = NULL, exact = NULL",
    ):
        with sqlite3.connect(place) as other:
            other.execute("PRAGMA writable_schema = ON")
            other.execute(statement)
        other.close()


STORES = {
    "text": lambda place: place.write_text("no database at all\n" * 100),
    "another program's": lambda place: (place.unlink(), _foreign(place)), "damaged": _damaged,
    "torn": lambda place: place.write_bytes(place.read_bytes()[:5000]),
    "null": _without_bodies, "empty": lambda place: place.write_bytes(b""),
    "absent": lambda place: place.unlink(), "folder": lambda place: (place.unlink(), place.mkdir()),
    "fifo": lambda place: (place.unlink(), os.mkfifo(place)),
}  # fmt: skip


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", ["text", "another program's", "damaged"])
def test_a_database_that_is_no_store_is_named(work, refused, name, reader):
    STORES[name](work / "memory.sqlite")
    assert "memory.sqlite" in refused(*READERS[reader], "--store", "memory.sqlite")


@pytest.mark.parametrize("name", ["torn", "null", "empty", "absent", "folder", "fifo"])
def test_what_is_no_database_is_named(work, refused, name):
    STORES[name](work / "memory.sqlite")
    assert "memory.sqlite" in refused("memory", "show", "--store", "memory.sqlite")


FILES = {
    "another kind": b'{"kind":"wisdom","schema":1}\n',
    "schema of the future": b'{"kind":"episodes","schema":99}\n',
    "no header": episode(),
    "another version": HEADER + episode(confidence="sure"),
}


@pytest.mark.parametrize("reader", ["show", "search", "export", "prune", "import", "extract"])
@pytest.mark.parametrize("name", FILES)
def test_a_folder_of_lines_that_is_no_store_is_named(work, refused, name, reader):
    (work / "memory" / "episodes.jsonl").write_bytes(FILES[name])
    assert "episodes.jsonl" in refused(*READERS[reader], "--store", "memory")


@pytest.mark.parametrize(
    "place",
    [
        "",
        "tasks.jsonl",
        "old",
        "mysql://host/db",
        "sqlite://",
        "postgresql://",
        "postgresql://nobody@127.0.0.1:1/none",
        "://",
        "a\x00b",
        "x" * 300,
    ],
    ids=lambda place: place[:20].encode("unicode_escape").decode(),
)
def test_a_place_that_is_none_is_named(refused, place):
    message = refused("memory", "show", "--store", place)
    assert "store" in message or "postgresql" in message or place[:200] in message


@pytest.mark.parametrize(
    "store",
    [
        "store.place=tasks.jsonl",
        "store.retention_days=0",
        "store.retention_days=-1",
        "store.retention_days=nan",
        "store.retention_days=long",
        "store.place=mysql://host/db",
        "store.place=old/calls.sqlite",
    ],
)
def test_a_run_names_a_store_that_is_none(refused_run, store):
    message = refused_run("store=sqlite", store)
    assert "store" in message


@pytest.mark.parametrize(
    "words",
    [
        ("memory", "show", "--episode", "nobody"),
        ("wisdom", "show", "nobody"),
        ("memory", "search", "x", "--min-confidence", "7"),
        ("memory", "prune", "--days", "-1"),
        ("memory", "prune", "--days", "nan"),
        ("memory", "export", "."),
        ("memory", "export", "absent/out.jsonl"),
        ("memory", "export", "tasks.csv/x"),
        ("wisdom", "stats", "--baseline", "old/good"),
    ],
    ids=str,
)
def test_an_option_of_memory_that_cannot_be_is_named(refused, words):
    assert refused(*words, "--store", "memory.sqlite")
