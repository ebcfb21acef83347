import pytest

from reflexion_lab.errors import FolderError
from reflexion_lab.runner.folder.folder import RunFolder
from tests.builders import grade


def test_records_come_back_as_they_went(tmp_path):
    folder = RunFolder(tmp_path)
    folder.append("grades.jsonl", grade(number=1))
    assert RunFolder(tmp_path).grades == {("t/1", 1): grade(number=1)}


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


def test_a_record_of_another_shape_names_file_and_line(tmp_path):
    (tmp_path / "grades.jsonl").write_text('{"task_id": 3}\n')
    with pytest.raises(FolderError, match=r"grades\.jsonl, line 1"):
        _ = RunFolder(tmp_path).grades


def test_a_folder_without_a_manifest_is_no_run_folder(tmp_path):
    with pytest.raises(FolderError, match=r"no manifest\.json"):
        RunFolder.existing(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(FolderError, match=r"manifest\.json"):
        RunFolder.existing(tmp_path)
