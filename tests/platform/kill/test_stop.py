"""Ctrl-C, and what behaves like it: once lets what is under way end, twice ends all at once."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios

import pytest


def begun(lab, served, calls, *more, **options):
    """A process that has made so many calls, the last of which have no answer yet."""
    served.gate.clear()
    process = lab.start(*more, **options)
    served.wait_for(lambda: len(served.paid) >= calls)
    return process


def stopped(lab, served, process, number):
    """What the process says after the signal, while its calls are answered only once it has heard it."""
    process.send_signal(number)
    first = process.stderr.readline()
    assert first == "stopping when the attempts under way have ended; Ctrl-C stops at once\n"
    served.gate.set()
    return process.communicate(timeout=120)[1]


@pytest.mark.parametrize(
    ("number", "code"), [pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow), (signal.SIGTERM, 143)]
)
def test_a_stopped_run_ends_its_attempts_and_says_how_to_resume(place, served, undisturbed, outcome, number, code):
    is_resumed = number == signal.SIGINT
    (whole,), calls, _, _ = undisturbed() if is_resumed else ([None], 0, 0, 0)
    lab = place()
    process = begun(lab, served, 2)
    output = stopped(lab, served, process, number)
    assert process.returncode == code
    (folder,) = lab.folders
    assert output == f"interrupted; finish it with the same command and resume={folder}\n"
    assert len(served.paid) == lab.stored  # the calls under way were answered, and their attempts are written
    assert (folder / "attempts.jsonl").read_bytes().count(b"\n") >= 1
    assert list(lab.temporary.iterdir()) == []
    if is_resumed:
        lab.run(*lab.resume)
        assert (outcome(folder), lab.stored) == (whole, calls)
        lab.check(kills=0)


@pytest.mark.slow
@pytest.mark.soak
def test_a_sweep_that_is_asked_to_stop_goes_on_with_the_same_command(place, served, undisturbed, outcome):
    whole, calls, _, _ = undisturbed("-m", "recall.omega=0,1")
    lab = place("-m", "recall.omega=0,1")
    process = begun(lab, served, 2)
    output = stopped(lab, served, process, signal.SIGINT)
    assert process.returncode == 130
    assert output == "interrupted; what had finished stands; the same command goes on with the sweep\n"
    lab.run()
    assert sorted(map(str, map(outcome, lab.folders))) == sorted(map(str, whole))
    assert lab.stored == calls
    lab.check(kills=0)


@pytest.mark.parametrize("more", [(), pytest.param(("-m", "recall.omega=0,1"), marks=pytest.mark.slow)])
def test_twice_stops_at_once_while_calls_hang(place, served, more):
    lab = place(*more)
    process = begun(lab, served, 3)  # and no answer is ever given
    process.send_signal(signal.SIGTERM)
    assert process.stderr.readline().startswith("stopping when")
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
    first, second = "stopping when the attempts under way have ended; Ctrl-C stops at once", "stopped at once"
    assert process.returncode == 130
    assert process.stderr == f"{first}\n\n{second}; what had finished is written\n"


def test_closing_the_terminal_stops_the_run_with_attempts_written(place, served):
    lab = place()
    ours, theirs = pty.openpty()

    def take_terminal():
        os.setsid()
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)
        for descriptor in (0, 1, 2):
            os.dup2(theirs, descriptor)

    served.gate.clear()
    process = lab.start("quiet=false", preexec_fn=take_terminal)
    served.wait_for(lambda: len(served.paid) >= 2)
    os.close(theirs)
    os.close(ours)  # the kernel sends SIGHUP
    served.gate.set()
    assert process.wait(timeout=120) == 129
    process.stderr.close()
    assert (lab.folders[0] / "attempts.jsonl").read_bytes().count(b"\n") >= 1
    lab.check_processes()
    assert list(lab.temporary.iterdir()) == []


@pytest.mark.soak
def test_a_run_under_nohup_hears_no_hang_up(place, served):
    lab = place()
    command = ("nohup", sys.executable, "-m", "reflexion_lab")
    process = begun(lab, served, 1, before=command, stdin=subprocess.DEVNULL)
    process.send_signal(signal.SIGHUP)
    served.gate.set()
    process.communicate(timeout=120)
    assert process.returncode == 0
