"""Limits of time: scaled with the needs of canonical solution and machine, and believed after a run alone."""

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from reflexion_lab.errors import HarnessError
from reflexion_lab.tasks.sandbox import sandbox as sandbox_module
from reflexion_lab.tasks.sandbox.cached import measured
from reflexion_lab.tasks.sandbox.sandbox import Limits, Sandbox, _Slot

RIGHT = "def f(x):\n    return x + 1\n"


def busy(seconds):
    return f"import time\ndef f(x):\n    while time.process_time() < {seconds}: pass\n    return x + 1\n"


@pytest.mark.parametrize(
    ("canonical", "times"), [(0.0, (4.0, 2)), (0.1, (4.0, 2)), (0.2, (4.0, 2)), (0.5, (10.0, 5)), (0.31, (6.2, 4))]
)
def test_time_limits_scale_with_the_canonical_solution(canonical, times):
    assert Limits().times(canonical) == pytest.approx(times)


@pytest.fixture
def of_speed(monkeypatch):
    """Lets this machine be so many times slower than the reference machine."""
    return lambda slowness: monkeypatch.setattr(sandbox_module, "slowness", lambda: slowness)


@pytest.mark.parametrize(("loop", "slowness"), [(0.5, 1.0), (1.2, 1.0), (1.3, 1.3), (2.5, 2.5)])
def test_a_slow_machine_is_measured_by_its_fastest_loop(monkeypatch, loop, slowness):
    clock = itertools.accumulate(itertools.cycle([0.0, 9.0, 0.0, loop * sandbox_module.REFERENCE, 0.0, 9.0]))
    monkeypatch.setattr(time, "thread_time", lambda: next(clock))
    assert sandbox_module.slowness.__wrapped__() == slowness


def test_a_program_passes_on_a_machine_half_as_fast(of_speed):
    slow = busy(1.5)
    with Sandbox(Limits(cpu_seconds=1, wall_seconds=60), servers=1) as own:
        of_speed(1.0)
        assert own.run(slow, "f", ["assert f(1) == 2"]).checks[0].outcome == "timeout"
        of_speed(2.0)
        execution = own.run(slow, "f", ["assert f(1) == 2"])
    assert (execution.checks[0].outcome, execution.timed_out) == ("pass", False)
    assert 0.75 <= execution.cpu_seconds < 1.5  # of the reference machine
    assert Limits().here(0.5) == (20.0, 10)


def test_a_slow_program_passes_if_the_canonical_solution_is_slow(of_speed):
    of_speed(1.0)
    with Sandbox(Limits(cpu_seconds=1, wall_seconds=60, cpu_factor=3), servers=1) as own:
        assert own.run(busy(1.4), "f", ["assert f(1) == 2"]).checks[0].outcome == "timeout"
        execution = own.run(busy(1.4), "f", ["assert f(1) == 2"], cpu_seconds=1.0)
    assert (execution.checks[0].outcome, execution.timed_out) == ("pass", False)
    assert execution.cpu_seconds >= 1.4


def test_a_time_out_counts_only_after_a_second_run_that_waits_for_all_first_ones(monkeypatch):
    run, lock = _Slot.run, threading.Lock()
    runs, running = [], []

    def watched(slot, job, cpu_seconds):
        """The first run of a program named late times out; notes order and company. Starts once all programs wait."""
        name = job.program["program"].splitlines()[0]
        with lock:
            is_first = name.startswith("late") and name not in runs
            runs.append(name)
            running.append(name)
            beside.append((name, is_first, list(running)))
        while len(runs) <= 3 and not (own._turns._running[0] == 30 and len(runs) == 3):
            time.sleep(0.001)
        try:
            reported = run(slot, job, cpu_seconds)
        finally:
            with lock:
                running.remove(name)
        return reported._replace(timed_out=is_first, report=b"" if is_first else reported.report)

    beside = []
    monkeypatch.setattr(_Slot, "run", watched)
    programs = [f"n = {n}\nimport time\ntime.sleep(0.02)\n{RIGHT}" for n in range(30)]
    programs[4:7] = [f"late = {n}\nimport time\ntime.sleep(0.1)\n{RIGHT}" for n in range(3)]
    with Sandbox(servers=3) as own, ThreadPoolExecutor(30) as pool:
        executions = list(pool.map(lambda program: own.run(program, "f", ["assert f(1) == 2"]), programs))
    assert all(name.startswith("late") for name in runs[30:]) and len(runs) == 33
    seconds = [others for name, is_first, others in beside if name.startswith("late") and not is_first]
    assert all(other.startswith("late") for others in seconds for other in others)
    assert max(len(others) for _, _, others in beside) == 3
    assert [execution.checks[0].outcome for execution in executions] == ["pass"] * 30
    assert not any(execution.timed_out for execution in executions)


@pytest.mark.parametrize(("limits", "program", "runs"), [
    ({}, "while True: pass", 1),
    ({"wall_seconds": 0.5}, "import time; time.sleep(60)", 2),  # perhaps the machine was busy
    ({}, "raise OSError(28, 'No space left on device')", 2),
    ({}, 'raise RuntimeError("can\'t start new thread")', 2),
    ({}, "raise OSError(2, 'No such file')", 1),
    ({}, "import os; os._exit(1)", 1),
])  # fmt: skip
def test_only_what_the_machine_may_have_caused_gets_a_second_run(monkeypatch, limits, program, runs):
    run, jobs = _Slot.run, []

    def counted(slot, job, cpu_seconds):
        jobs.append(job)
        return run(slot, job, cpu_seconds)

    monkeypatch.setattr(_Slot, "run", counted)
    with Sandbox(Limits(**{"cpu_seconds": 1, "wall_seconds": 60} | limits), servers=1) as own:
        execution = own.run(f"def f(x):\n    {program}\n", "f", ["assert f(1)"])
    assert (execution.checks[0].outcome != "pass", len(jobs), execution.is_doubtful) == (True, runs, runs == 2)


def test_a_full_disk_is_an_error_of_the_harness(monkeypatch):
    monkeypatch.setattr(sandbox_module, "PAUSES", (0.0, 0.0))
    monkeypatch.setattr(sandbox_module, "disk_is_full", lambda limits: True)
    with Sandbox(servers=1) as own, pytest.raises(HarnessError, match=r"out of disk space in .*; free some"):
        own.run(RIGHT, "f", ["assert f(1) == 3"])


def test_canonical_solutions_are_timed_and_failing_ones_named(sandbox, task):
    from msgspec.structs import replace

    slow = replace(
        task, task_id="slow", canonical_solution=busy(0.3).replace("f(x)", "double(x)").replace("x + 1", "2*x")
    )
    wrong = replace(task, task_id="wrong", canonical_solution="    return x\n")
    unknown = replace(task, task_id="unknown", canonical_solution="")
    tasks, failing = measured([task, slow, wrong, unknown], sandbox, 2)
    assert [text.partition(" ")[0] for text in failing] == ["wrong"]
    assert [t.task_id for t in tasks] == [task.task_id, "slow", "wrong", "unknown"]
    assert tasks[1].cpu_seconds > tasks[0].cpu_seconds > 0.0 == tasks[3].cpu_seconds
    assert tasks[1].public.cpu_seconds == tasks[1].cpu_seconds
