import errno
import os

import pytest

from reflexion_lab.errors import FolderError
from reflexion_lab.runner.folder.folder import RunFolder
from tests import builders
from tests.builders import grade, manifest


def test_records_come_back_as_they_went_and_one_of_another_shape_names_file_and_line(tmp_path):
    folder = RunFolder(tmp_path)
    folder.append("grades.jsonl", grade(number=1))
    assert RunFolder(tmp_path).grades == {("t/1", 1): grade(number=1)}
    (tmp_path / "grades.jsonl").write_text('{"task_id": 3}\n')
    with pytest.raises(FolderError, match=r"grades\.jsonl, line 1"):
        _ = RunFolder(tmp_path).grades


def test_a_torn_last_line_is_skipped_counted_and_written_past(tmp_path):
    folder = RunFolder(tmp_path)
    folder.append("grades.jsonl", grade(number=1))
    folder.close()
    with (tmp_path / "grades.jsonl").open("ab") as file:
        file.write(b'{"task_id": "t", "num')
    again = RunFolder(tmp_path)
    again.append("grades.jsonl", grade(number=2))
    assert list(again.grades) == [("t/1", 1), ("t/1", 2)]
    assert again.torn == 1


def test_attempts_are_those_since_the_last_start_of_a_loop(tmp_path):
    folder = RunFolder(tmp_path)
    assert dict(folder.stored_attempts) == {}
    for task_id, number in [("a", 1), ("b", 1), ("a", 2), ("b", 1), ("é", 1), ("b", 2)]:  # the loop of b began again
        folder.append("attempts.jsonl", builders.attempt(task_id=task_id, number=number))
    folder.close()
    with (tmp_path / "attempts.jsonl").open("ab") as file:
        file.write(b'{"task_id": "a", "num')
    assert [attempt.number for attempt in folder.attempts["b"]] == [1, 2]


def test_a_folder_without_a_manifest_is_no_run_and_a_place_where_none_can_be_made_is_named(tmp_path):
    with pytest.raises(FolderError, match=r"no manifest\.json"):
        RunFolder.existing(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(FolderError, match=r"manifest\.json"):
        RunFolder.existing(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(FolderError, match=r"file/runs: got Not a directory, expected a folder .*run_root=… names ano"):
        RunFolder.create(tmp_path / "file" / "runs", manifest("run-1"))


def test_a_full_disk_at_a_flush_is_named_with_its_file(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    folder = RunFolder(tmp_path)
    folder.append("grades.jsonl", grade(number=1))
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"grades\.jsonl cannot be written \(No space left on device\); free some space"):
        folder.sync()
