"""A full disk, a folder that may not be written or is gone, a clock that jumps: one line each, and nothing is lost."""

import ctypes
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from reflexion_lab.runner.folder.folder import FolderLost, RunFolder
from tests.builders import grade


def error_of(output):
    """The one line that says what is wrong."""
    assert "Traceback" not in output
    (line,) = [line for line in output.splitlines() if line.startswith("error: ")]
    return line


def small_files(size):
    """No file of the process may grow beyond this: writing fails as on a full disk."""

    def restrict():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return restrict


SHARED = ("memory.shared.round_size=2", "memory.shared.shown={wisdom:2,mistakes:2,insights:2}")


@pytest.mark.parametrize(("store", "size"), [
    pytest.param(store, size, marks=pytest.mark.slow if (store, size) == ("jsonl", 40_000) else pytest.mark.soak)
    for store in ("none", "jsonl", "sqlite") for size in range(4_000, 120_000, 4_000)
])  # fmt: skip
def test_a_disk_may_be_full_at_any_file(place, undisturbed, outcome, store, size):
    overrides = (f"store={store}", *(SHARED if store != "none" else ()))
    (whole,), _, _ = undisturbed(*overrides)
    lab = place(*overrides)
    process = lab.start(preexec_fn=small_files(size))
    _, output = process.communicate(timeout=120)
    if process.returncode:
        assert process.returncode == 2
        assert error_of(output)
        lab.run(*lab.resume)
    (folder,) = lab.folders
    assert outcome(folder) == whole


def test_a_record_that_no_disk_takes_says_so(tmp_path):
    (tmp_path / "grades.jsonl").symlink_to("/dev/full")
    with pytest.raises(OSError, match=r"grades\.jsonl cannot be written \(No space left on device\); free some space"):
        RunFolder(tmp_path).append("grades.jsonl", grade(number=1))


def test_a_partly_written_record_is_undone_and_the_next_is_whole(tmp_path):
    """In a process of its own, which may write 200 bytes."""
    script = f"""
import resource, sys
sys.path[:0] = {[str(Path(__file__).parent), str(Path(__file__).parents[3])]!r}
from test_troubles import RunFolder, grade, small_files
folder = RunFolder({str(tmp_path)!r})
folder.append("grades.jsonl", grade(number=1))
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (200, hard))
try:
    folder.append("grades.jsonl", grade(number=2))
except OSError as problem:
    print(problem)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
folder.append("grades.jsonl", grade(number=3))
"""
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "cannot be written" in process.stdout
    again = RunFolder(tmp_path)
    assert (list(again.grades), again.torn) == ([("t/1", 1), ("t/1", 3)], 0)


@pytest.mark.parametrize("lose", [shutil.rmtree, lambda path: path.rename(path.with_name("moved"))])
def test_the_next_record_notices_a_deleted_or_moved_folder(tmp_path, lose):
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    folder.append("grades.jsonl", grade(number=1))
    lose(folder.path)
    with pytest.raises(FolderLost, match=r"run: grades\.jsonl was deleted, moved or replaced"):
        folder.append("grades.jsonl", grade(number=2))
    with pytest.raises(FolderLost):
        folder.sync()


def test_a_folder_that_another_one_replaces_gets_no_record(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    with folder.held():
        folder.append("results.jsonl", grade(number=1))
        folder.path.rename(tmp_path / "moved")
        folder.path.mkdir()
        with pytest.raises(FolderLost, match="replaced"):  # a file that was not open yet
            folder.append("grades.jsonl", grade(number=2))
    assert not (tmp_path / "run" / "grades.jsonl").read_bytes()


def as_anybody():
    """Root, too, then needs permissions: it goes without the capability to pass over them (CAP_DAC_OVERRIDE)."""
    if os.getuid() == 0:
        ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)  # PR_CAPBSET_DROP


def test_a_folder_that_may_not_be_written_is_one_line(place):
    lab = place()
    lab.runs.mkdir(mode=0o555)
    output = lab.run(code=2, preexec_fn=as_anybody)
    assert str(lab.runs) in error_of(output)
    assert len(output.splitlines()) == 1
    assert list(lab.runs.iterdir()) == list(lab.temporary.iterdir()) == []


def test_runs_of_the_same_microsecond_get_names_of_their_own(tmp_path, write_run):
    manifest = write_run({"a": [(1.0, True)]}).manifest
    named = RunFolder.create(tmp_path / "runs", replace(manifest, run_id="20260101-000000-999999-arm-toy-s0"))
    again = [RunFolder.create(tmp_path / "runs", named.manifest) for _ in range(2)]
    assert [run.manifest.run_id for run in again] == [run.path.name for run in again]
    names = ["20260101-000000-000000-arm-toy-s0", "20260101-000000-000001-arm-toy-s0", named.path.name]
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == names
