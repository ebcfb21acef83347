"""Limits of time: scaled with what the canonical solution needs, and believed only after a run alone."""

import threading
from dataclasses import dataclass, field

import pytest

from reflexion_lab.tasks.sandbox.cached import measured
from reflexion_lab.tasks.sandbox.sandbox import Limits, Sandbox
from reflexion_lab.tasks.sandbox.server import Server

RIGHT = "def f(x):\n    return x + 1\n"


def busy(seconds):
    return f"import time\ndef f(x):\n    while time.process_time() < {seconds}: pass\n    return x + 1\n"


@pytest.mark.parametrize(
    ("canonical", "times"), [(0.0, (4.0, 2)), (0.1, (4.0, 2)), (0.2, (4.0, 2)), (0.5, (10.0, 5)), (0.31, (6.2, 4))]
)
def test_limits_of_time_scale_with_the_canonical_solution_above_a_floor(canonical, times):
    assert Limits().times(canonical) == pytest.approx(times)


def test_a_slow_program_passes_where_the_canonical_solution_is_slow_too():
    with Sandbox(Limits(cpu_seconds=1, wall_seconds=30, cpu_factor=3), servers=1) as own:
        assert own.run(busy(1.4), "f", ["assert f(1) == 2"]).checks[0].outcome == "timeout"
        execution = own.run(busy(1.4), "f", ["assert f(1) == 2"], cpu_seconds=1.0)
    assert (execution.checks[0].outcome, execution.timed_out) == ("pass", False)
    assert execution.cpu_seconds >= 1.4


@dataclass
class Watched:
    """Notes what runs beside what, and says of the first run of "late" that its time was over."""

    real: object
    running: int = 0
    beside: list = field(default_factory=list)
    late: int = 0
    lock: object = field(default_factory=threading.Lock)

    def __call__(self, server, asked, canonical):
        is_late = "late" in asked["program"]
        with self.lock:
            self.running += 1
            self.late += is_late
            nth = self.late
            self.beside.append((is_late and nth == 2, self.running))
        try:
            reported = self.real(server, asked, canonical)
        finally:
            with self.lock:
                self.running -= 1
                self.beside.append((is_late and nth == 2, self.running + 1))
        return reported._replace(
            timed_out=is_late and nth == 1, report=b"" if is_late and nth == 1 else reported.report
        )


def test_a_time_out_is_believed_only_after_a_run_alone(monkeypatch):
    watched = Watched(Server.run)

    def run(server, asked, canonical):
        return watched(server, asked, canonical)

    monkeypatch.setattr(Server, "run", run)
    slow = "import time\ntime.sleep(0.02)\n" + RIGHT
    found = []
    with Sandbox(servers=3) as own:

        def work(n):
            program = (
                f"late = 1\ntime = __import__('time')\ntime.sleep(0.1)\n{RIGHT}" if n == 4 else slow + f"n = {n}\n"
            )
            found.append(own.run(program, "f", ["assert f(1) == 2"]))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(30)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert watched.late == 2
    assert [running for second, running in watched.beside if second] == [1, 1]
    assert max(running for _, running in watched.beside) == 3
    assert [execution.checks[0].outcome for execution in found] == ["pass"] * 30
    assert not any(execution.timed_out for execution in found)


def test_tasks_learn_what_their_canonical_solutions_need_and_which_of_them_fail(sandbox, task):
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
