"""A full disk, a folder that may not be written or is gone, a clock that jumps: one line each, and nothing is lost."""

from __future__ import annotations

import ctypes
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from reflexion_lab.io.jsonl_log import FolderLost
from reflexion_lab.records import Grade
from reflexion_lab.runner.folder.folder import RunFolder


def grade(number):
    return Grade(task_id="t", number=number, passed=True, outcome="pass", checks_passed=1, checks_total=1, sealed=False)


WORKERS = 3


def error_of(said):
    """The one line that says what is wrong."""
    assert "Traceback" not in said
    (line,) = [line for line in said.splitlines() if line.startswith("error: ")]
    return line


def small_files(size):
    """No file of the process may grow beyond this: writing fails as on a full disk."""

    def restrict():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return restrict


def test_a_full_disk_is_said_and_the_run_resumes_when_there_is_space(place, undisturbed, outcome):
    (whole,), calls, _, _ = undisturbed()
    one = place("cache.executions=null")
    line = error_of(one.run(code=2, preexec_fn=small_files(100_000)))
    assert re.search(rf"{one.runs}/\S+:? .*(free some space|is its disk full|free its disk)", line)
    (folder,) = one.folders
    finished = {path.name: path.read_bytes() for path in folder.glob("*.jsonl")}
    one.run(*one.resume)
    assert outcome(folder) == whole
    assert all((folder / name).read_bytes().startswith(text) for name, text in finished.items())
    assert one.stored == calls
    one.lost = len(one.served.paid) - calls  # replies that no file could take
    assert one.lost <= WORKERS
    one.check(kills=0)


@pytest.mark.soak
@pytest.mark.parametrize("size", range(4_000, 120_000, 4_000))
def test_a_disk_may_be_full_at_any_file(place, undisturbed, outcome, size):
    (whole,), _, _, _ = undisturbed()
    one = place()
    process = one.start(preexec_fn=small_files(size))
    _, said = process.communicate(timeout=120)
    if process.returncode:
        assert process.returncode == 2
        assert error_of(said)
        one.run(*one.resume)
    (folder,) = one.folders
    assert outcome(folder) == whole


def test_a_record_that_no_disk_takes_says_so(tmp_path):
    (tmp_path / "grades.jsonl").symlink_to("/dev/full")
    with pytest.raises(OSError, match=r"grades\.jsonl cannot be written \(No space left on device\); free some space"):
        RunFolder(tmp_path).append("grades.jsonl", grade(1))


def test_a_record_that_fits_in_part_is_taken_back_and_the_next_is_whole(tmp_path):
    """In a process of its own, which may write 200 bytes."""
    script = f"""
import resource, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_troubles import RunFolder, grade, small_files
folder = RunFolder({str(tmp_path)!r})
folder.append("grades.jsonl", grade(1))
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (200, hard))
try:
    folder.append("grades.jsonl", grade(2))
except OSError as problem:
    print(problem)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
folder.append("grades.jsonl", grade(3))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "cannot be written" in done.stdout
    again = RunFolder(tmp_path)
    assert (list(again.grades), again.torn) == ([("t", 1), ("t", 3)], 0)


@pytest.mark.parametrize("lose", [shutil.rmtree, lambda path: path.rename(path.with_name("moved"))])
def test_a_folder_that_is_deleted_or_moved_is_noticed_by_the_next_record(tmp_path, lose):
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    folder.append("grades.jsonl", grade(1))
    lose(folder.path)
    with pytest.raises(FolderLost, match=r"run: grades\.jsonl was deleted, moved or replaced"):
        folder.append("grades.jsonl", grade(2))
    with pytest.raises(FolderLost):
        folder.sync()


def test_a_folder_that_another_one_replaces_gets_no_record(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    with folder.held():
        folder.append("results.jsonl", grade(1))
        folder.path.rename(tmp_path / "moved")
        folder.path.mkdir()
        with pytest.raises(FolderLost, match="replaced"):  # a file that was not open yet
            folder.append("grades.jsonl", grade(2))
    assert not (tmp_path / "run" / "grades.jsonl").read_bytes()


@pytest.mark.slow
def test_a_run_whose_folder_is_deleted_says_so_at_once_and_its_calls_are_kept(place, served, undisturbed, outcome):
    (whole,), calls, _, _ = undisturbed()
    one = place()
    served.gate.clear()
    process = one.start()
    served.wait_for(lambda: len(served.paid) >= 2)
    shutil.rmtree(one.folders[0])
    served.gate.set()
    _, said = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "was deleted, moved or replaced while the run was writing" in error_of(said)
    assert len(said.splitlines()) == 1
    assert one.folders == []
    one.run()
    assert (outcome(one.folders[0]), one.stored) == (whole, calls)
    one.check(kills=0)


def as_anybody():
    """Root, too, then needs permissions: it goes without the capability to pass over them (CAP_DAC_OVERRIDE)."""
    if os.getuid() == 0:
        ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)  # PR_CAPBSET_DROP


def test_a_folder_that_may_not_be_written_is_one_line(place):
    one = place()
    one.runs.mkdir(mode=0o555)
    said = one.run(code=2, preexec_fn=as_anybody)
    assert str(one.runs) in error_of(said)
    assert len(said.splitlines()) == 1
    assert list(one.runs.iterdir()) == list(one.temporary.iterdir()) == []


@pytest.mark.soak
def test_a_run_folder_that_may_not_be_written_any_more_resumes_when_it_may(place, served, undisturbed, outcome):
    (whole,), calls, _, _ = undisturbed()
    one = place()
    one.killed(started(one, served, 4), 0)
    (folder,) = one.folders
    folder.chmod(0o555)
    said = one.run(*one.resume, code=2, preexec_fn=as_anybody)
    assert str(folder) in error_of(said)
    folder.chmod(0o755)
    one.run(*one.resume)
    assert (outcome(folder), one.stored) == (whole, calls)
    one.check(kills=1)


def started(one, served, calls):
    """A process that has made so many calls."""
    process = one.start()
    served.wait_for(lambda: len(served.paid) >= calls)
    return process


@pytest.mark.slow
def test_a_second_process_on_the_same_run_is_refused_in_one_line(place, served, undisturbed, outcome):
    (whole,), _, _, _ = undisturbed()
    one = place()
    served.gate.clear()
    process = one.start()
    served.wait_for(lambda: len(served.paid) >= 2)
    said = one.run(*one.resume, code=2)
    assert "another process writes into this run" in error_of(said)
    assert said.splitlines()[1:] == ["  wait for it, or stop it"]
    served.gate.set()
    process.communicate(timeout=120)
    assert process.returncode == 0
    assert outcome(one.folders[0]) == whole
    one.check(kills=0)


CLOCK = """
import itertools, random, sys, time
drawn = random.Random(1)
time.time = lambda: 1_700_000_000 + drawn.choice([0, 0, 0, -5 * 365, 40 * 365]) * 86_400
from reflexion_lab.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_a_clock_that_jumps_by_years_changes_nothing(place, undisturbed, outcome):
    (whole,), calls, _, _ = undisturbed()
    one = place()
    for _ in range(2):  # most often in the same microsecond
        one.run(before=(sys.executable, "-c", CLOCK))
    first, second = one.folders
    assert (outcome(first), outcome(second)) == (whole, whole)
    for folder in one.folders:
        run = RunFolder(folder)
        assert run.manifest.run_id == folder.name
        assert all(result.duration >= 0 for result in run.results.values())
    assert one.stored == calls
    one.check(kills=0)


def test_runs_of_the_same_microsecond_get_names_of_their_own(tmp_path, write_run):
    manifest = write_run({"a": [(1.0, True)]}).manifest
    named = RunFolder.create(tmp_path / "runs", manifest_named(manifest, "20260101-000000-999999-arm-toy-s0"))
    again = [RunFolder.create(tmp_path / "runs", named.manifest) for _ in range(2)]
    assert [one.manifest.run_id for one in again] == [one.path.name for one in again]
    names = ["20260101-000000-000000-arm-toy-s0", "20260101-000000-000001-arm-toy-s0", named.path.name]
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == names


def manifest_named(manifest, name):
    from msgspec.structs import replace

    return replace(manifest, run_id=name)
