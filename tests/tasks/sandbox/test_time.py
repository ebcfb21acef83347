"""Limits of time: scaled with what the canonical solution needs, and believed only after a run alone."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from reflexion_lab.tasks.sandbox.cached import measured
from reflexion_lab.tasks.sandbox.sandbox import Limits, Sandbox, Server

RIGHT = "def f(x):\n    return x + 1\n"


def busy(seconds):
    return f"import time\ndef f(x):\n    while time.process_time() < {seconds}: pass\n    return x + 1\n"


@pytest.mark.parametrize(
    ("canonical", "times"), [(0.0, (4.0, 2)), (0.1, (4.0, 2)), (0.2, (4.0, 2)), (0.5, (10.0, 5)), (0.31, (6.2, 4))]
)
def test_time_limits_scale_with_the_canonical_solution(canonical, times):
    assert Limits().times(canonical) == pytest.approx(times)


def test_a_slow_program_passes_if_the_canonical_solution_is_slow():
    with Sandbox(Limits(cpu_seconds=1, wall_seconds=30, cpu_factor=3), servers=1) as own:
        assert own.run(busy(1.4), "f", ["assert f(1) == 2"]).checks[0].outcome == "timeout"
        execution = own.run(busy(1.4), "f", ["assert f(1) == 2"], cpu_seconds=1.0)
    assert (execution.checks[0].outcome, execution.timed_out) == ("pass", False)
    assert execution.cpu_seconds >= 1.4


def test_a_time_out_counts_only_after_an_exclusive_run(monkeypatch):
    run, lock = Server.run, threading.Lock()
    running, concurrent, late_runs = [], [], []

    def watched(server, request, canonical):
        """`Server.run`, but the first run of "late" times out; notes how many programs run at once."""
        is_late = "late" in request["program"]
        with lock:
            running.append(server)
            late_runs.extend([len(running)] * is_late)
            concurrent.append(len(running))
            is_first = is_late and len(late_runs) == 1
        try:
            reported = run(server, request, canonical)
        finally:
            with lock:
                late_runs.extend([len(running)] * (is_late and not is_first))
                running.remove(server)
        return reported._replace(timed_out=is_first, report=b"" if is_first else reported.report)

    monkeypatch.setattr(Server, "run", watched)
    programs = [f"import time\ntime.sleep(0.02)\nn = {n}\n{RIGHT}" for n in range(30)]
    programs[4] = f"late = 1\nimport time\ntime.sleep(0.1)\n{RIGHT}"
    with Sandbox(servers=3) as own, ThreadPoolExecutor(30) as pool:
        executions = list(pool.map(lambda program: own.run(program, "f", ["assert f(1) == 2"]), programs))
    assert late_runs[1:] == [1, 1]  # at the start and at the end of the second run
    assert max(concurrent) == 3
    assert [execution.checks[0].outcome for execution in executions] == ["pass"] * 30
    assert not any(execution.timed_out for execution in executions)


def test_a_loop_that_used_up_its_cpu_time_gets_no_second_run(monkeypatch):
    run, requests = Server.run, []

    def counted(server, request, canonical):
        requests.append(request)
        return run(server, request, canonical)

    monkeypatch.setattr(Server, "run", counted)
    with Sandbox(Limits(cpu_seconds=1, wall_seconds=60), servers=1) as own:
        assert own.run("def f(x):\n    while True: pass\n", "f", ["assert f(1)"]).timed_out
        assert len(requests) == 1
    with Sandbox(Limits(cpu_seconds=1, wall_seconds=0.5), servers=1) as own:
        assert own.run("import time\ndef f(x): time.sleep(60)\n", "f", ["assert f(1)"]).timed_out
        assert len(requests) == 3  # it slept: perhaps the machine was busy


def test_canonical_solutions_are_timed_and_failing_ones_named(sandbox, task):
    from msgspec.structs import replace

    slow = replace(
        task, task_id="slow", canonical_solution=busy(0.3).replace("f(x)", "double(x)").replace("x + 1", "2*x")
    )
    wrong = replace(task, task_id="wrong", canonical_solution="    return x\n")
    unknown = replace(task, task_id="unknown", canonical_solution="")
    tasks, failing = measured([task, slow, wrong, unknown], sandbox, 2)
    assert failing == ["wrong"]
    assert [t.task_id for t in tasks] == [task.task_id, "slow", "wrong", "unknown"]
    assert tasks[1].cpu_seconds >= 0.3 > tasks[0].cpu_seconds > 0.0 == tasks[3].cpu_seconds
    assert tasks[1].public.cpu_seconds == tasks[1].cpu_seconds
