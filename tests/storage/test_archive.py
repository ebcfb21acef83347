"""Export and import as one file; a bad file changes nothing."""

import json
import os

import pytest

from reflexion_lab.errors import StoreError
from reflexion_lab.records import Episode, Item, Wisdom
from reflexion_lab.storage.in_memory import InMemory
from reflexion_lab.storage.jsonl import Jsonl
from reflexion_lab.storage.place import dump, load

HEADER = '{"kind":"episodes","schema":1}\n'
GOOD = (
    '{"episode_id":"e1","agent_id":"a","task_id":"t","attempt_number":1,"code":"","test_results":"","reflection":null,'
    '"passed":true}\n'
)
EPISODE = json.loads(GOOD)
ITEM = Item(item_id="i", text="sort first", counts={"score": 2}, sources=("t",))


def test_the_concatenated_files_of_a_jsonl_store_are_an_export(tmp_path, episode):
    store, copy = Jsonl(tmp_path / "kept"), InMemory()
    store.append([episode("e1"), Wisdom(wisdom_id="w", pattern="p", frequency=2, impact=0.0, domain="code"), ITEM])
    joined = "".join(path.read_text() for path in sorted((tmp_path / "kept").iterdir()))
    (tmp_path / "all.jsonl").write_text(joined)
    assert load(copy, tmp_path / "all.jsonl") == {"episodes": 1, "wisdom": 1, "items": 1}
    for kind in (Episode, Item):
        assert list(copy.read(kind)) == list(store.read(kind))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("in.jsonl", GOOD, "line 1: got no header"), ("in.jsonl", HEADER + GOOD + GOOD[:50], "line 3: .*truncated"),
        ("in.jsonl", HEADER + GOOD + '{"episode_id":"e2"}\n', "line 3: .*required field `agent_id`"),
        ("in.jsonl", HEADER + GOOD + GOOD.replace('"a"', '""'), "line 3: .*agent_id: got '', expected who made"),
        ("in.jsonl", '{"kind":"episodes","schema":2}\n' + GOOD, "line 1: got schema 2"),
        ("in.jsonl", HEADER + GOOD + '{"kind":"dreams","schema":1}\n', "line 3: got no header"),
        ("in.jsonl", HEADER + "\xff\n", "line 2"), ("in.json", {"schema": 3}, "schema 3"),
        ("in.json", {"schema": 1, "episodes": [EPISODE, {"episode_id": "e2"}]}, r"episodes\[1\].*agent_id"),
        ("in.json", {"schema": 1, "episodes": [EPISODE, {**EPISODE, "agent_id": ""}]},
         r"episodes\[1\]: .*agent_id: got '', expected who"),
        ("in.json", [], "expected an export"),
    ],
)  # fmt: skip
def test_a_bad_record_is_named_and_nothing_is_imported(tmp_path, name, text, message):
    store = InMemory()
    (tmp_path / name).write_bytes((text if isinstance(text, str) else json.dumps(text)).encode("latin-1"))
    with pytest.raises(StoreError, match=message):
        load(store, tmp_path / name)
    assert list(store.read(Episode)) == []


def test_a_missing_file_and_a_pipe_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.jsonl")  # cannot be read twice
    for name, message in (
        ("nowhere.jsonl", r"nowhere.jsonl: cannot be imported .No such file"),
        ("pipe.jsonl", r"pipe\.jsonl: a folder, pipe or device; expected a regular file"),
    ):
        with pytest.raises(StoreError, match=message):
            load(InMemory(), tmp_path / name)


def test_an_export_that_fails_leaves_the_older_one_standing(tmp_path, episode):
    store = Jsonl(tmp_path / "kept")
    store.append([episode("e1")])
    dump(store, tmp_path / "out.jsonl")
    before = (tmp_path / "out.jsonl").read_bytes()
    (tmp_path / "kept" / "wisdom.jsonl").write_text("{}\n")
    with pytest.raises(StoreError, match=r"wisdom.jsonl"):
        dump(store, tmp_path / "out.jsonl")
    assert (tmp_path / "out.jsonl").read_bytes() == before


def test_an_import_replaces_what_it_knows_and_takes_an_export_of_before_items(tmp_path, episode):
    store = InMemory()
    store.append([episode("e1", code="older"), episode("e2")])
    (tmp_path / "in.jsonl").write_text(HEADER + GOOD)
    load(store, tmp_path / "in.jsonl")
    assert [(record.episode_id, record.code) for record in store.read(Episode)] == [("e1", ""), ("e2", "c")]
    store = InMemory()
    (tmp_path / "in.json").write_text(json.dumps({"schema": 1, "episodes": [EPISODE]}))
    assert load(store, tmp_path / "in.json")["items"] == 0
    assert [record.episode_id for record in store.read(Episode)] == ["e1"]
