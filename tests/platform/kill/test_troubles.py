"""A full disk, a folder that may not be written or is gone, a clock that jumps: one line each, and nothing is lost."""

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
from msgspec.structs import replace

from reflexion_lab.runner.folder.folder import FolderLost, RunFolder
from reflexion_lab.runner.folder.tidy import DROPPED
from tests.builders import grade

WORKERS = 3


def error_of(output):
    """The one line that says what is wrong."""
    assert "Traceback" not in output
    (line,) = [line for line in output.splitlines() if line.startswith("error: ")]
    return line


def started(lab, served, calls):
    """A process that has made so many calls."""
    process = lab.start()
    served.wait_for(lambda: len(served.paid) >= calls)
    return process


def small_files(size):
    """No file of the process may grow beyond this: writing fails as on a full disk."""

    def restrict():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return restrict


@pytest.mark.slow
def test_a_full_disk_is_said_and_the_run_resumes_when_there_is_space(place, undisturbed, outcome):
    (whole,), calls, _ = undisturbed()
    lab = place("cache.executions=null")
    line = error_of(lab.run(code=2, preexec_fn=small_files(100_000)))
    assert re.search(rf"{lab.runs}/\S+:? .*(free some space|is its disk full|free its disk)", line)
    (folder,) = lab.folders
    finished = {path.name: path.read_bytes() for path in folder.glob("*.jsonl")}
    lab.run(*lab.resume)
    assert outcome(folder) == whole
    for name, text in finished.items():
        places = [path for path in (folder / name, folder / DROPPED / name) if path.exists()]
        assert {*text.splitlines()} <= {line for path in places for line in path.read_bytes().splitlines()}
    assert (folder / "results.jsonl").read_bytes().startswith(finished.get("results.jsonl", b""))
    assert lab.stored == calls
    lab.lost = len(lab.served.paid) - calls  # replies that no file could take
    assert lab.lost <= WORKERS
    lab.check(kills=0)


SHARED = ("memory.shared.round_size=2", "memory.shared.shown={wisdom:2,mistakes:2,insights:2}")


@pytest.mark.parametrize("store", ["none", "jsonl", "sqlite"])
@pytest.mark.parametrize(
    "size",
    [
        pytest.param(size, marks=pytest.mark.slow if size == 40_000 else pytest.mark.soak)
        for size in range(4_000, 120_000, 4_000)
    ],
)
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


@pytest.mark.slow
@pytest.mark.soak
def test_a_deleted_run_folder_is_an_error_and_calls_are_kept(place, served, undisturbed, outcome):
    (whole,), calls, _ = undisturbed()
    lab = place()
    served.gate.clear()
    process = started(lab, served, 2)
    shutil.rmtree(lab.folders[0])
    served.gate.set()
    _, output = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "was deleted, moved or replaced while the run was writing" in error_of(output)
    assert len(output.splitlines()) == 1
    assert lab.folders == []
    lab.run()
    assert (outcome(lab.folders[0]), lab.stored) == (whole, calls)
    lab.check(kills=0)


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


@pytest.mark.soak
def test_a_read_only_run_folder_resumes_when_writable(place, served, undisturbed, outcome):
    (whole,), calls, _ = undisturbed()
    lab = place()
    lab.killed(started(lab, served, 4), 0)
    (folder,) = lab.folders
    folder.chmod(0o555)
    output = lab.run(*lab.resume, code=2, preexec_fn=as_anybody)
    assert str(folder) in error_of(output)
    folder.chmod(0o755)
    lab.run(*lab.resume)
    assert (outcome(folder), lab.stored) == (whole, calls)
    lab.check(kills=1)


@pytest.mark.slow
@pytest.mark.soak
def test_a_second_process_on_the_same_run_is_refused_in_one_line(place, served, undisturbed, outcome):
    (whole,), _, _ = undisturbed()
    lab = place()
    served.gate.clear()
    process = started(lab, served, 2)
    output = lab.run(*lab.resume, code=2)
    assert "another process writes into this run" in error_of(output)
    assert output.splitlines()[1:] == ["  wait for it, or stop it"]
    served.gate.set()
    process.communicate(timeout=120)
    assert process.returncode == 0
    assert outcome(lab.folders[0]) == whole
    lab.check(kills=0)


CLOCK = """
import itertools, random, sys, time
drawn = random.Random(1)
time.time = lambda: 1_700_000_000 + drawn.choice([0, 0, 0, -5 * 365, 40 * 365]) * 86_400
from reflexion_lab.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
@pytest.mark.soak
def test_a_clock_that_jumps_by_years_changes_nothing(place, undisturbed, outcome):
    (whole,), calls, _ = undisturbed()
    lab = place()
    for _ in range(2):  # most often in the same microsecond
        lab.run(before=(sys.executable, "-c", CLOCK))
    first, second = lab.folders
    assert (outcome(first), outcome(second)) == (whole, whole)
    for folder in lab.folders:
        run = RunFolder(folder)
        assert run.manifest.run_id == folder.name
        assert all(result.duration >= 0 for result in run.results.values())
    assert lab.stored == calls
    lab.check(kills=0)


def test_runs_of_the_same_microsecond_get_names_of_their_own(tmp_path, write_run):
    manifest = write_run({"a": [(1.0, True)]}).manifest
    named = RunFolder.create(tmp_path / "runs", replace(manifest, run_id="20260101-000000-999999-arm-toy-s0"))
    again = [RunFolder.create(tmp_path / "runs", named.manifest) for _ in range(2)]
    assert [run.manifest.run_id for run in again] == [run.path.name for run in again]
    names = ["20260101-000000-000000-arm-toy-s0", "20260101-000000-000001-arm-toy-s0", named.path.name]
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == names
