"""JSON-lines stores: torn and damaged lines, full and read-only disks, other versions, locks."""

import errno
import fcntl
import json
import os
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from own_server import not_root, open_folder

from reflexion_lab.errors import StoreError
from reflexion_lab.records import Episode, Item, Search, Wisdom
from reflexion_lab.storage.jsonl import Jsonl, locked

HEADER = '{"kind":"episodes","schema":1}\n'


def ids(store):
    return [record.episode_id for record in store.read(Episode)]


@pytest.fixture
def folder(tmp_path, episode):
    with closing(Jsonl(tmp_path / "kept")) as store:
        store.append([episode(f"e{n}") for n in range(5)])
    return tmp_path / "kept"


@pytest.fixture
def file(folder):
    return folder / "episodes.jsonl"


def test_a_file_is_a_header_and_a_line_a_record_and_kinds_without_have_none(file, folder):
    header, *lines = file.read_text().splitlines()
    assert header + "\n" == HEADER
    assert [json.loads(line)["episode_id"] for line in lines] == [f"e{n}" for n in range(5)]
    assert [path.name for path in folder.iterdir()] == ["episodes.jsonl"]
    store = Jsonl(folder)
    assert [list(store.read(kind)) for kind in (Wisdom, Item)] == [[], []]


def test_a_torn_last_line_is_reported_and_the_next_append_is_whole(file, folder, episode):
    whole = file.read_bytes()
    for lost in range(1, 40, 4):
        file.write_bytes(whole[: -1 - lost])
        store = Jsonl(folder)
        with pytest.warns(UserWarning, match=r"episodes\.jsonl: skipped line 6, torn"):
            assert ids(store) == ["e0", "e1", "e2", "e3"]
        store.append([episode("next")])
        with pytest.warns(UserWarning, match=r"line 6"):
            assert ids(store) == ["e0", "e1", "e2", "e3", "next"]


def test_a_whole_last_line_without_its_break_is_a_record(file, folder, episode, recwarn):
    file.write_bytes(file.read_bytes()[:-1])
    store = Jsonl(folder)
    store.append([episode("next")])
    assert ids(store) == ["e0", "e1", "e2", "e3", "e4", "next"]
    assert not recwarn.list


@pytest.mark.parametrize(
    "damage", [b"\0" * 300, b"\xff\xfe", b'{"episode_id": "e', b"[]{}", b"17", b'{"episode_id":"e2","code":"\xff"}']
)
def test_garbled_lines_are_counted_and_nothing_else_is_lost(file, folder, damage):
    lines = file.read_bytes().split(b"\n")
    lines[3:3] = [damage, damage]
    file.write_bytes(b"\n".join(lines))
    with pytest.warns(UserWarning, match=r"skipped 2 lines from line 4 on"):
        assert ids(Jsonl(folder)) == ["e0", "e1", "e2", "e3", "e4"]


@pytest.mark.parametrize("first", [HEADER[:12].encode(), HEADER.encode().replace(b"epi", b"\xff")])
def test_a_store_whose_first_write_was_torn_is_usable(tmp_path, episode, first):
    (tmp_path / "episodes.jsonl").write_bytes(first)
    store = Jsonl(tmp_path)
    for expected in ([], ["one"]):
        with pytest.warns(UserWarning, match=r"line 1"):
            assert ids(store) == expected
        store.append([episode("one")])


@pytest.mark.parametrize(
    ("first", "message"),
    [
        ('{"kind":"episodes","schema":2}\n', "line 1: got schema 2, expected schema 1; .*newer"),
        ('{"kind":"episodes","schema":0}\n', "got schema 0"),
        ('{"kind":"wisdom","schema":1}\n', "'wisdom', expected episodes"),
        ('{"task_id":"t"}\n', "got no header, .*memory import"),
    ],
)
def test_a_file_of_another_version_or_kind_is_refused(tmp_path, first, message):
    (tmp_path / "episodes.jsonl").write_text(first)
    with pytest.raises(StoreError, match=message):
        Jsonl(tmp_path)
    assert (tmp_path / "episodes.jsonl").read_text() == first


def test_a_line_of_another_version_is_named_and_nothing_appended_to_such_a_file(file, folder, episode):
    file.write_text(file.read_text() + '{"episode_id":"new","shape":"unknown"}\n')
    with pytest.raises(StoreError, match=r"episodes\.jsonl, line 7: .*another version"):
        ids(Jsonl(folder))
    store = Jsonl(folder)
    text = file.read_text().replace('"schema":1', '"schema":7')
    file.write_text(text)
    with pytest.raises(StoreError, match=r"schema 7"):
        store.append([episode("no")])
    assert file.read_text() == text


def test_versions_accumulate_until_a_prune_removes_them(file, folder, episode):
    store = Jsonl(folder)
    for n in range(20):
        store.append([episode("e1", code=f"version {n}")])
    assert len(file.read_bytes().splitlines()) == 26
    assert store.prune(0.0) == 0
    assert len(file.read_bytes().splitlines()) == 6
    assert [record.code for record in store.read(Episode)] == ["c", "version 19", "c", "c", "c"]


def test_a_prune_keeps_unreadable_lines(file, folder, episode):
    file.write_bytes(file.read_bytes() + b'{"episode_id":"torn\n')
    store = Jsonl(folder)
    store.append([episode("young", timestamp=200.0)])
    with pytest.warns(UserWarning, match=r"torn"):
        assert store.prune(100.0) == 5
    assert file.read_text().startswith(HEADER + '{"episode_id":"torn\n')
    with pytest.warns(UserWarning, match=r"line 2"):
        assert ids(store) == ["young"]


def test_a_prune_without_old_records_does_not_write_and_another_keeps_the_mode_and_leaves_no_draft(file, folder):
    before = file.stat()
    assert Jsonl(folder).prune(1.0) == 0
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    file.chmod(0o600)
    (folder / ".episodes.jsonl.draft").write_text("left by a killed prune")
    assert Jsonl(folder).prune(100.0) == 5
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in folder.iterdir()] == ["episodes.jsonl"]


def test_a_prune_leaves_the_draft_of_the_next_one_alone(file, folder, monkeypatch):
    """Whoever opens the new file has the lock to it while the first prune ends."""
    rename, draft = Path.replace, folder / ".episodes.jsonl.draft"

    def rename_and_be_overtaken(path, target):
        rename(path, target)
        draft.write_text("of the next prune")

    monkeypatch.setattr(Path, "replace", rename_and_be_overtaken)
    assert Jsonl(folder).prune(100.0) == 5
    assert draft.read_text() == "of the next prune"


def test_a_prune_whose_disk_is_full_leaves_no_draft(file, folder, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match=r"cannot be pruned.*free some space"):
        Jsonl(folder).prune(100.0)
    assert [path.name for path in folder.iterdir()] == ["episodes.jsonl"]
    assert len(ids(Jsonl(folder))) == 5


def test_a_failed_prune_changes_nothing(file, folder):
    (folder / ".episodes.jsonl.draft").mkdir()
    with pytest.raises(StoreError, match=r"cannot be pruned.*earlier records are intact"):
        Jsonl(folder).prune(100.0)
    assert len(ids(Jsonl(folder))) == 5


def test_a_writer_waits_for_the_other_writer_and_a_reader_for_both(file, folder, episode):
    """Asked of the lock itself, without waiting: it is held while a write is under way, and free afterwards."""
    reader = os.open(folder, os.O_RDONLY)
    with locked(file) as (descriptor, _):
        copy = os.dup(descriptor)  # as a fork during the write has one
        for operation in (fcntl.LOCK_EX, fcntl.LOCK_SH):
            with pytest.raises(BlockingIOError):
                fcntl.flock(reader, operation | fcntl.LOCK_NB)
    fcntl.flock(reader, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(reader)
    os.close(copy)


def test_a_removed_folder_is_an_error(folder, episode):
    store = Jsonl(folder)
    (folder / "episodes.jsonl").unlink()
    folder.rmdir()
    with pytest.raises(StoreError, match=r"appended to.*No such file"):
        store.append([episode("no")])


def test_an_unusable_folder_or_file_is_an_error(tmp_path):
    (tmp_path / "thing").write_text("")
    (tmp_path / "episodes.jsonl").mkdir()
    for path, message in (
        (tmp_path / "thing", r"thing: cannot be used as a folder of records.*another place"),
        (tmp_path, r"episodes\.jsonl: cannot be read \(Is a directory\)"),
        ("/proc/self/kept", r"cannot be used as a folder of records"),
    ):
        with pytest.raises(StoreError, match=message):
            Jsonl(path)


def test_a_read_only_folder_can_be_read_but_not_written(episode):
    with tempfile.TemporaryDirectory(dir=open_folder()) as name:
        folder = Path(name)
        with closing(Jsonl(folder)) as store:
            store.append([episode("e1")])
        folder.chmod(0o555)
        (folder / "episodes.jsonl").chmod(0o444)
        with not_root():
            store = Jsonl(folder)
            for refused in (lambda: store.append([episode("no")]), lambda: store.prune(1e9)):
                with pytest.raises(StoreError, match=r"episodes\.jsonl: cannot be .* \(Permission denied\); check"):
                    refused()
            with pytest.raises(StoreError, match=r"items\.jsonl: cannot be appended to"):
                store.append([Item(item_id="i", text="x")])
            assert store.search(Search(task_id="t")) == [episode("e1")]
        folder.chmod(0o755)


def test_closing_twice_is_harmless(folder, episode):
    store = Jsonl(folder)
    store.append([episode("e9")])
    store.close()
    store.close()
    assert len(ids(Jsonl(folder))) == 6
