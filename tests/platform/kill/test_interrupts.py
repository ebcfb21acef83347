"""SIGKILL at every write and while calls are under way; Ctrl-C and its like, once or twice. What is resumed ends as if
nothing had happened.
"""

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from reflexion_lab.cli.main import main
from reflexion_lab.records import Episode
from reflexion_lab.runner.config.choices import options
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.storage.place import opened

SWEEP = ("-m", "recall.omega=0,1")
PRESET_RUNS = [
    pytest.param((f"preset={name}", "memory.shared.round_size=2"), marks=[pytest.mark.soak] * (name != "helix"))
    for name in sorted(options("preset"))
]
"""All resume in `tests/presets`, too, from a cut file and without a process of their own."""
STOPPING = "stopping when the attempts under way have ended; Ctrl-C stops at once\n"


def begun(lab, served, calls, *more, **options):
    """A process that has made so many calls, the last of which have no answer yet."""
    served.gate.clear()
    process = lab.start(*more, **options)
    served.wait_for(lambda: len(served.paid) >= calls)
    return process


def check_end(lab, outcome, undisturbed, kills=0):
    """As that of an undisturbed command, which pays as many calls."""
    whole, calls, _ = undisturbed(*lab.overrides)
    assert sorted(map(str, map(outcome, lab.folders))) == sorted(map(str, whole))
    assert lab.stored == calls
    lab.check(kills)


@pytest.mark.slow
@pytest.mark.parametrize("kills", [12, pytest.param(100, marks=pytest.mark.soak)])
def test_killed_at_any_write_a_run_or_sweep_ends_as_if_not(kills, tmp_path):
    command = [sys.executable, "-m", "tests.platform.kill.stages", f"--kills={kills}", f"--folder={tmp_path}"]
    ended = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"{kills} kills" in ended.stdout


@pytest.mark.slow
@pytest.mark.parametrize("overrides", [(), SWEEP, *PRESET_RUNS], ids=str)
@pytest.mark.parametrize("calls", [(3, 9), pytest.param((1, 5, 8, 13), marks=pytest.mark.soak)])
def test_killed_while_calls_are_under_way_leaves_no_process_and_resumes(
    place, served, undisturbed, outcome, overrides, calls
):
    undisturbed(*overrides)
    lab = place(*overrides)
    kills = 0
    for n in calls:
        process = lab.start(*lab.resume)
        served.wait_for(lambda n=n: len(served.paid) >= n)
        kills += lab.killed(process, 0)
    lab.run(*lab.resume)
    check_end(lab, outcome, undisturbed, kills)
    if (lab.runs / "memory").exists():  # of a preset: each attempt once, and a second run reads them
        episodes = [*opened(lab.runs / "memory").read(Episode)]
        attempts = [each for loop in RunFolder(lab.folders[0]).attempts.values() for each in loop]
        assert len(episodes) == len({episode.episode_id for episode in episodes}) == len(attempts)
        lab.run()
        first = [loop[0] for loop in RunFolder(lab.folders[1]).attempts.values()]
        reads = any(each.recalled or each.recalled_mistakes or each.recalled_insights for each in first)
        assert reads == (overrides[0] != "preset=openagents")
        assert main(["verify", *map(str, lab.folders)]) == 0


SLOW = [
    pytest.param(signal.SIGINT, 130, (), marks=pytest.mark.slow),
    pytest.param(signal.SIGINT, 130, SWEEP, marks=pytest.mark.soak),
]


@pytest.mark.parametrize(("number", "code", "overrides"), [(signal.SIGTERM, 143, ()), *SLOW])
def test_stopped_once_attempts_end_and_the_way_to_resume_is_printed(
    place, served, undisturbed, outcome, number, code, overrides
):
    is_resumed = number == signal.SIGINT
    if is_resumed:
        undisturbed(*overrides)
    lab = place(*overrides)
    process = begun(lab, served, 2)
    process.send_signal(number)
    assert process.stderr.readline() == STOPPING
    served.gate.set()  # its calls are answered only now
    output = process.communicate(timeout=120)[1]
    assert process.returncode == code
    finish = f"interrupted; finish it with the same command and resume={lab.folders[0]}\n"
    sweep = "interrupted; finished cells are kept; the same command continues the sweep\n"
    assert output == (sweep if overrides else finish)
    assert len(served.paid) == lab.stored  # the calls under way were answered, and their attempts are written
    assert (lab.folders[0] / "attempts.jsonl").read_bytes().count(b"\n") >= 1
    assert list(lab.temporary.iterdir()) == []
    if is_resumed:
        lab.run(*lab.resume)
        check_end(lab, outcome, undisturbed)


@pytest.mark.parametrize("overrides", [(), pytest.param(SWEEP, marks=pytest.mark.slow)])
def test_stopped_twice_it_ends_at_once_while_calls_hang(place, served, overrides):
    lab = place(*overrides)
    process = begun(lab, served, 3)  # and no answer is ever given
    process.send_signal(signal.SIGTERM)
    assert process.stderr.readline() == STOPPING
    process.send_signal(signal.SIGINT)
    _, output = process.communicate(timeout=120)
    assert not served.gate.is_set()
    assert (process.returncode, output) == (130, "\nstopped at once; what had finished is written\n")
    lab.check_processes()
    served.gate.set()


HANGING = """
import signal, threading, time

class Model:
    fingerprint, slots, context = "hanging", 2, 0

    def complete(self, *_, **__):
        for _ in range(2):
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)
            time.sleep(2)
        threading.Event().wait()
"""


@pytest.mark.slow
def test_signals_that_a_worker_thread_receives_stop_the_run(tmp_path):
    (tmp_path / "hanging.py").write_text(HANGING)
    overrides = ["~model", "+model._target_=hanging.Model", "actor=single_shot", "benchmark.limit=1", "tracker=none"]
    command = [sys.executable, "-m", "reflexion_lab", "run", *overrides, "quiet=true"]
    process = subprocess.run(command, check=False, cwd=tmp_path, stderr=subprocess.PIPE, text=True, timeout=120)
    assert process.returncode == 130
    assert process.stderr == f"{STOPPING}\nstopped at once; what had finished is written\n"


def test_closing_the_terminal_stops_the_run_with_attempts_written(place, served):
    lab = place()
    ours, theirs = pty.openpty()

    def take_terminal():
        os.setsid()
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)
        for descriptor in (0, 1, 2):
            os.dup2(theirs, descriptor)

    process = begun(lab, served, 2, "quiet=false", preexec_fn=take_terminal)
    os.close(theirs)
    os.close(ours)  # the kernel sends SIGHUP
    served.gate.set()
    assert process.wait(timeout=120) == 129
    process.stderr.close()
    assert (lab.folders[0] / "attempts.jsonl").read_bytes().count(b"\n") >= 1
    lab.check_processes()
    assert list(lab.temporary.iterdir()) == []
