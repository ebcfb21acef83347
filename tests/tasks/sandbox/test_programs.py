"""Whole programs in the sandbox: what a fresh Python does, one process an input, and outputs compared in the lab."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from reflexion_lab.errors import DataError
from reflexion_lab.records import Task
from reflexion_lab.tasks.evaluators.executed import executed
from reflexion_lab.tasks.evaluators.unit_tests import run_tests
from reflexion_lab.tasks.sandbox.cached import CachedSandbox
from reflexion_lab.tasks.sandbox.programs import Terms, difference, raised
from reflexion_lab.tasks.sandbox.sandbox import Limits, Sandbox

INPUT = "2 3\né☃ x\r\nlast"  # Windows' line end, Unicode, no final line end
TABLES = yaml.safe_load(Path(__file__).with_name("programs.yaml").read_text(encoding="utf-8"))
FRESH = TABLES["fresh"]


def check(input, output):
    return json.dumps({"input": input, "output": output})


def outcomes(sandbox, program, *checks, **terms):
    return [each.outcome for each in sandbox.run_program(program, checks, Terms(**terms)).checks]


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fresh")

    def run(program):
        (folder / "program.py").write_text(program)
        (folder / "input").write_bytes(INPUT.encode())
        command = [sys.executable, "-X", "utf8", "-B", "program.py"]
        with (folder / "input").open() as given, (folder / "output").open("wb") as out:
            code = subprocess.run(
                command, check=False, stdin=given, stdout=out, stderr=subprocess.PIPE, cwd=folder, env={}
            ).returncode
        return (folder / "output").read_bytes(), code

    return run


@pytest.mark.parametrize("name", FRESH)
def test_a_program_does_what_it_does_in_a_fresh_python(sandbox, fresh, name):
    printed, code = fresh(FRESH[name])
    children = []
    own = Sandbox._report
    try:
        Sandbox._report = lambda self, *job: children.append(own(self, *job)) or children[-1]
        sandbox.run_program(FRESH[name], [check(INPUT, "")])
    finally:
        Sandbox._report = own
    assert (children[0].report, children[0].status) == (printed, code)


def test_each_input_has_a_process_of_its_own_and_equal_outputs_are_one_behaviour(sandbox):
    program = "import os, builtins as b\nprint(input(), os.listdir(), hasattr(b, 'seen'))\nb.seen = 1\nopen('f', 'w')"
    checks = [check(str(n), f"{n} [] False") for n in range(3)]
    assert outcomes(sandbox, program, *checks) == ["pass"] * 3
    long = [sandbox.run_program(f"print('y' * 500, {n})", [check("", "x")]).checks[0].actual for n in (1, 1, 2)]
    assert long[0] == long[1] != long[2]


def test_a_crash_an_exit_and_a_time_out_are_those_of_one_check():
    program = "import os\nn = int(input())\nif n == 1: 1 / 0\nif n == 2: os.abort()\nwhile n == 3: pass\nprint(n)"
    with Sandbox(Limits(wall_seconds=1), servers=1) as own:
        execution = own.run_program(program, [check(str(n), str(n)) for n in range(5)])
    assert [each.outcome for each in execution.checks] == ["pass", "error", "early_exit", "timeout", "pass"]
    assert (execution.checks[1].error_type, execution.checks[1].line) == ("ZeroDivisionError", 3)
    assert "signal" in execution.checks[2].message and execution.timed_out


def test_time_outs_in_a_row_end_the_run_and_say_so():
    with Sandbox(Limits(wall_seconds=0.3), servers=1) as own:
        execution = own.run_program("while True: pass", [check("", "1")] * 20)
    assert {each.outcome for each in execution.checks} == {"timeout"}
    assert sum("not run" in each.message for each in execution.checks) == 17


@pytest.mark.parametrize(("end", "message"), [("exit(3)", "exit code 3"), ("exit('no')", "exit code 1")])
def test_another_exit_code_than_0_fails_even_with_the_right_output(sandbox, end, message):
    only = sandbox.run_program(f"import sys\nprint(5)\nsys.{end}", [check("", "5")]).checks[0]
    assert only.outcome == "early_exit" and message in only.message


def test_output_beyond_the_limit_is_named_and_endless_output_ends(sandbox):
    only = sandbox.run_program("while True: print('x' * 10000)", [check("", "x")]).checks[0]
    assert (only.outcome, only.message) == ("error", "it printed more than 4 MB")
    large = "x" * 3_000_000
    assert outcomes(sandbox, "print(input())", check(large, large)) == ["pass"]
    over = sandbox.run_program("print(1)", [check("", "x" * (4 << 20))]).checks[0]
    assert over.outcome == "harness_error" and "sandbox.limits.file_mb" in over.message


def test_limits_of_the_task_hold_within_those_of_the_config():
    allocate = "a = bytearray(100 << 20)\nprint(len(a) >> 20)"
    spin = "import time\nend = time.process_time() + 1.3\nwhile time.process_time() < end: pass\nprint(1)"
    with Sandbox(Limits(wall_seconds=20, cpu_seconds=10), servers=1) as own:
        assert outcomes(own, allocate, check("", "100")) == ["pass"]
        assert outcomes(own, allocate, check("", "100"), memory_mb=50) == ["memory"]
        assert outcomes(own, allocate, check("", "100"), memory_mb=5000) == ["pass"]
        assert outcomes(own, "a = bytearray(600 << 20)", check("", ""), memory_mb=5000) == ["memory"]
        assert outcomes(own, spin, check("", "1")) == ["pass"]
        assert outcomes(own, spin, check("", "1"), seconds=0.5) == ["timeout"]


def test_no_program_sees_an_expected_output_or_another_input(sandbox):
    program = (
        "import gc, sys\nown = input()\nwords = [o for o in gc.get_objects() if isinstance(o, (list, tuple, dict))]\n"
        "frame, text = sys._getframe(), ''\nwhile frame:\n    text += repr(frame.f_locals)\n    frame = frame.f_back\n"
        "secrets = [f'zq{end}' for end in ('expected', 'other')]\nwords.remove(globals())\n"
        "print(any(s in repr(o) for o in words for s in secrets[:]), any(s in text for s in secrets))"
    )
    checks = [check("mine", "False False"), check("zqother", "zqexpected")]
    assert outcomes(sandbox, program, *checks) == ["pass", "fail"]
    assert sandbox.run_program(program, checks[::-1]).checks[1].outcome == "pass"


@pytest.mark.parametrize(("printed", "wanted", "terms", "is_right"), TABLES["compared"])
def test_outputs_are_compared_by_the_rule_of_the_task(printed, wanted, terms, is_right):
    assert (difference(printed.encode(), wanted, Terms(**terms)) is None) == is_right


def test_output_that_is_no_text_is_another_answer(sandbox):
    binary = "import sys\nsys.stdout.buffer.write(b'\\xff\\x00\\xfe')"
    only = sandbox.run_program(binary, [check("", "\ufffd\x00\ufffd")]).checks[0]
    assert only.outcome == "fail" and "\\xff" in only.actual


def test_feedback_is_short_and_names_what_was_wanted_and_printed(sandbox):
    task = Task(task_id="t", prompt="", entry_point="", kind="program")
    verdict = run_tests(sandbox, task, "print(7)", [check("2 3", "5")])
    assert verdict.feedback.splitlines()[1] == '- {"input": "2 3", "output": "5"}  # expected \'5\', got \'7\''
    long = " ".join(map(str, range(9000)))
    verdict = run_tests(sandbox, task, "print(input().replace(' 77 ', ' 78 '))", [check(long, long)] * 9)
    assert "token 78: expected '77', got '78'; 9000 expected in all, 9000 printed" in verdict.feedback
    assert len(verdict.feedback) <= 900 and all(len(each.actual) < 200 for each in verdict.checks)
    crash = run_tests(sandbox, task, "import sys\nprint('seen', file=sys.stderr)\nx = [][1]", [check("", "1")])
    assert "IndexError: list index out of range (at `x = [][1]`)" in crash.feedback
    assert "printed: seen" in crash.feedback and "Traceback" not in crash.feedback


def test_the_last_traceback_is_read():
    errors = 'noise: x\nTraceback (most recent call last):\n  File "<candidate>", line 7, in f\na.b.Own: why\n'
    assert raised(errors) == ("Own", "why", 7)
    assert raised("ValueError: printed by the program\n") == ("", "", 0)


@pytest.mark.parametrize(
    "bad", ["assert f(1)", "{}", '{"input": 1, "output": "2"}', '{"input": "", "output": "", "x": 1}']
)
def test_a_check_that_is_no_input_and_output_is_an_error_of_the_data(sandbox, bad):
    with pytest.raises(DataError, match="a check of a program"):
        sandbox.run_program("print(1)", [bad])


@pytest.mark.parametrize("data", [{"compare": "exact"}, {"tolerance": -1}, {"seconds": 0}, {"tolerence": 1e-3}])
def test_terms_out_of_range_are_named(data):
    with pytest.raises(DataError, match=r"field \$\.data"):
        Terms.of(Task(task_id="t", prompt="", entry_point="", kind="program", data=data))


def test_the_cache_knows_kind_rule_and_limits(sandbox, tmp_path):
    cached = CachedSandbox(sandbox, tmp_path / "executions.sqlite")
    tests = [check("", "1.0")]
    rules = ({}, {"compare": "lines"}, {"tolerance": 0.1}, {})
    assert [outcomes(cached, "print(1)", *tests, **terms)[0] for terms in rules] == ["fail", "pass", "pass", "fail"]
    assert (cached.hits, cached.misses) == (1, 3)
    as_function = Task(task_id="t", prompt="", entry_point="f")
    as_program = Task(task_id="t", prompt="", entry_point="f", kind="program")
    assert executed(as_program, "print(1)", tests, cached).checks[0].outcome == "fail"
    assert executed(as_function, "print(1)", tests, cached).checks[0].outcome == "error"
