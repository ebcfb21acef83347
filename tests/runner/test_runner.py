"""A run: what is written, who may see what, and what survives a kill."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time

import pytest
from msgspec.structs import replace

from reflexion_lab.agent.actors.single_shot import SingleShot
from reflexion_lab.agent.models.cache import Draws
from reflexion_lab.agent.models.scripted import ScriptedModel
from reflexion_lab.analysis.summary import Log, summary
from reflexion_lab.errors import ModelError
from reflexion_lab.records import Sampling
from reflexion_lab.runner.config.assemble import assemble
from reflexion_lab.runner.config.build import plain
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.config.grid import cell_digest
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.runner.folder.manifest import config_digest
from reflexion_lab.runner.runner import teach
from reflexion_lab.studies.run import carry_out
from reflexion_lab.tasks.evaluators.self_tests import SelfTests
from reflexion_lab.tasks.evaluators.self_tests_agreement import DualAgreement
from tests.builders import runner, scripted

RULES = [
    {"when": "ROOT_CAUSE", "reply": "ROOT_CAUSE: a\nWHAT_WENT_WRONG: b\nWHAT_TO_CHANGE: c\nCONFIDENCE: 0.5\n"},
    {"when": "What to change", "scope": "conversation", "reply": "\n    return 0\n"},
]
RIGHT = "def double(x):\n    return 2 * x"
CHEAT = "def double(x):\n    return 4"  # passes the visible test, fails the hidden ones


def tasks(task, n):
    return [replace(task, task_id=f"own/{i}") for i in range(n)]


def always(program):
    return ScriptedModel(lambda messages: f"```python\n{program}\n```")


def author(tests, body):
    """A model that writes these tests, and programs with this body, or raises it."""

    def reply(messages):
        if is_test_request(messages):
            return tests
        if isinstance(body, Exception):
            raise body
        return f"```python\ndef double(x):\n    {body}\n```"

    return ScriptedModel(reply)


def is_test_request(messages):
    return "lines of the form" in messages[-1].content


def self_taught(task_list, sandbox, folder, model, agreement=0):
    def suite_writer():
        draws = Draws(model)
        return DualAgreement(SelfTests(draws, Sampling()), SingleShot(draws, Sampling()), sandbox, agreement)

    return runner(task_list, sandbox, folder, model, source="self_tests", suite_writer=suite_writer)


def test_all_attempts_are_graded_and_one_while_the_run_was_open(task, sandbox, folder):
    runner(tasks(task, 3), sandbox, folder, always("def double(x):\n    return x")).run()
    attempts, grades = folder.attempts, folder.grades
    assert {key: len(loop) for key, loop in attempts.items()} == {"own/0": 3, "own/1": 3, "own/2": 3}
    assert len(grades) == 9
    assert [(grade.number, grade.sealed) for grade in grades.values() if not grade.sealed] == [(1, False)] * 3


def test_hidden_verdicts_leave_no_trace_in_what_the_loop_writes(task, sandbox, folder):
    runner(tasks(task, 1), sandbox, folder, always(CHEAT)).run()
    (attempt,) = folder.attempts["own/0"]
    assert attempt.stop_reason == "passed"
    assert not folder.grades["own/0", 1].passed
    written = "".join((folder.path / name).read_text() for name in ("attempts.jsonl", "results.jsonl"))
    assert "-6" not in written
    assert "candidate" not in written


def test_an_oracle_sees_hidden_tests_and_is_an_upper_bound(task, sandbox, folder):
    runner(tasks(task, 1), sandbox, folder, always(CHEAT), source="oracle").run()
    assert len(folder.attempts["own/0"]) == 3
    assert summary(Log.read(folder)).is_upper_bound


def test_the_loops_task_depends_on_the_feedback_source(task):
    written = ("assert double(1) == 2",)
    tests = {"visible": task.visible_tests, "none": (), "oracle": task.hidden_tests, "self_tests": written}
    for source, expected in tests.items():
        taught = teach(task, source, written)
        assert (taught.visible_tests, taught.hidden_tests, taught.canonical_solution) == (expected, (), "")
    assert teach(task, "visible") == task.public
    assert teach(task, "self_tests").visible_tests == ()


def test_written_tests_drive_the_loop_and_visible_ones_do_not(task, sandbox, folder):
    self_taught(
        tasks(task, 1), sandbox, folder, author("assert double(1) == 3\nassert double(2) == 4", "return 3")
    ).run()
    attempts = folder.attempts["own/0"]
    assert [attempt.evaluation.reward for attempt in attempts] == [0.5, 0.5, 0.5]
    assert {check.name for check in attempts[0].evaluation.checks} == {"assert double(1) == 3", "assert double(2) == 4"}
    assert folder.results["own/0"].feedback_source == "self_tests"
    assert not summary(Log.read(folder)).is_upper_bound


def test_written_tests_are_judged_by_the_solution_after_the_run(task, sandbox, folder):
    model = author("assert double(1) == 2\nassert double(2) == 5", "return 2 * x")
    unsolved = replace(task, task_id="own/unsolved", canonical_solution="")
    run = self_taught([*tasks(task, 2), unsolved], sandbox, folder, model)
    grade, judged = run.judge.grade, []
    run.judge.grade = lambda *call: judged.append((folder.path / "suite_verdicts.jsonl").exists()) or grade(*call)
    run.run()
    assert judged == [False] * 9  # not before the last grade, that is, not while any loop could learn of it
    verdicts = folder.suite_verdicts
    assert sorted(verdicts) == ["own/0", "own/1"]
    assert [check.outcome for check in verdicts["own/0"].checks] == ["pass", "fail"]
    suites = summary(Log.read(folder)).suites
    assert (suites.valid.k, suites.valid.n, suites.valid_suites.k, suites.unjudged) == (2, 4, 0, 2)


def test_a_written_test_that_hangs_leaves_its_neighbours_alone(task, sandbox, folder):
    endless = "assert double(1) == 2\nassert sum(double(y) for y in iter(int, 1)) == 0\nassert double(2) == 4"
    self_taught(tasks(task, 1), sandbox, folder, author(endless, "raise ValueError")).run()
    assert [check.outcome for check in folder.suite_verdicts["own/0"].checks] == ["pass", "timeout", "pass"]


def test_an_empty_suite_is_no_feedback_and_never_a_pass(task, sandbox, folder):
    self_taught(tasks(task, 1), sandbox, folder, author("I would rather not.", "return 2 * x")).run()
    (attempt,) = folder.attempts["own/0"]
    assert (attempt.stop_reason, attempt.evaluation.passed) == ("no_feedback", False)
    figures = summary(Log.read(folder))
    assert (figures.suites.empty, figures.no_feedback, figures.feedback.unknown, figures.pass_at_1.k) == (1, 1, 1, 1)


def test_no_model_reads_hidden_tests_or_the_solution(task, sandbox, folder):
    solution = "    secret_name = x\n    return secret_name + x"
    secret = replace(task, hidden_tests=("assert candidate(424242) == 848484",), canonical_solution=solution)
    model = author("assert double(1) == 0", "return 0")
    self_taught([secret], sandbox, folder, model, agreement=2).run()
    prompts = "".join(message.content for call in model.received for message in call)
    assert len(model.received) == 1 + 2 + 1  # a suite, its drafts, an attempt
    assert "Twice x" in prompts
    assert "424242" not in prompts
    assert "secret_name" not in prompts


def test_a_suite_is_written_once_in_a_run_and_read_on_resume(task, sandbox, folder):
    batch, first = tasks(task, 2), author("assert double(1) == 2", ModelError("out of power"))
    with pytest.raises(ModelError):
        self_taught(batch, sandbox, folder, first).run()
    assert len(folder.written_tests) >= 1
    (folder.path / "written_tests.jsonl").open("a").write('{"task_id": "torn')
    second = author("assert double(1) == 7", "return 2 * x")
    self_taught(batch, sandbox, folder, second).run()
    requests = [sum(map(is_test_request, model.received)) for model in (first, second)]
    assert sum(requests) == 2
    assert folder.written_tests["own/0"].tests == ("assert double(1) == 2",)
    assert folder.attempts["own/0"][0].stop_reason == "passed"
    assert len(folder.suite_verdicts) == 2
    assert summary(Log.read(folder)).usage["suite_writer"].calls == 2


def test_self_tests_need_a_suite_writer_whose_error_names_the_task(task, sandbox, folder):
    broken = ScriptedModel(lambda messages: (_ for _ in ()).throw(ModelError("out of power")))
    with pytest.raises(ModelError) as caught:
        self_taught(tasks(task, 1), sandbox, folder, broken).run()
    assert caught.value.__notes__ == ["while writing tests: task own/0"]
    with pytest.raises(ValueError, match="without a suite_writer"):
        runner(tasks(task, 1), sandbox, folder, always(""), source="self_tests")


def test_a_failing_task_stops_the_run_and_loses_nothing(task, sandbox, folder):
    def reply(messages):
        if "boom" in messages[-1].content:
            raise RuntimeError("out of power")
        return f"```python\n{RIGHT}\n```"

    batch = [*tasks(task, 3), replace(task, task_id="own/boom", prompt=task.prompt + "# boom")]
    with pytest.raises(RuntimeError, match="out of power") as caught:
        runner(batch, sandbox, folder, ScriptedModel(reply)).run()
    assert caught.value.__notes__ == ["while acting: task own/boom, attempt 1"]
    assert set(folder.results) == {"own/0", "own/1", "own/2"}
    runner(batch, sandbox, folder, always(RIGHT)).run()
    assert summary(Log.read(folder)).pass_at_1.k == 4


def test_a_result_that_lost_its_grade_is_graded_on_resume(task, sandbox, folder):
    model = always(RIGHT)
    runner(tasks(task, 2), sandbox, folder, model).run()
    (folder.path / "grades.jsonl").unlink()
    runner(tasks(task, 2), sandbox, folder, model).run()
    assert len(model.received) == 2
    assert summary(Log.read(folder)).pass_at_1.k == 2


def test_a_phase_starts_no_more_threads_than_it_has_items(task, sandbox, folder, model):
    run, names = runner(tasks(task, 1), sandbox, folder, model, workers=64), set()
    run._each(lambda _: names.add(threading.current_thread().name) or time.sleep(0.01), range(3))
    assert names <= {f"task_{n}" for n in range(3)}
    run._each(names.clear, [])
    run._each(lambda _: names.add(threading.current_thread().name), iter(range(2)))
    assert names


@pytest.mark.parametrize("workers", [1, 8])
def test_the_number_of_workers_changes_no_measurement(task, sandbox, folder, model, workers):
    runner(tasks(task, 6), sandbox, folder, model, workers=workers).run()
    assert summary(Log.read(folder)).n_logged == 6
    assert [len(loop) for loop in folder.attempts.values()] == [3] * 6  # this model learns from its own words alone


def test_an_interrupt_says_what_it_waits_for_and_leaves_a_run_that_can_be_resumed(task, sandbox, folder, capsys):
    def reply(messages):
        time.sleep(0.02)
        return "```python\ndef double(x):\n    return x\n```"

    run = runner(tasks(task, 30), sandbox, folder, ScriptedModel(reply), workers=2)
    grade = run._grade

    def interrupt(attempt):
        grade(attempt)
        raise KeyboardInterrupt

    run._grade = interrupt
    with pytest.raises(KeyboardInterrupt):
        run.run()
    assert "stopping when the attempts under way have ended" in capsys.readouterr().err
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("task")]
    assert 0 < len(folder.results) < 30
    runner(tasks(task, 30), sandbox, folder, always("def double(x):\n    return x"), workers=2).run()
    assert len(folder.results) == 30


OVERRIDES = ["benchmark=basics", "benchmark.limit=12", "loop.max_attempts=3", "tracker=none", "quiet=true"]


@pytest.fixture
def base(tmp_path):
    """Overrides of a small scripted run below `tmp_path`."""
    return [*scripted(tmp_path, *RULES, reply="\n    return None\n"), f"run_root={tmp_path}", *OVERRIDES]


def run_folder(root):
    (path,) = root.glob("*-reflexion-basics-s0")
    return path


def start(place, *overrides):
    command = [sys.executable, "-m", "reflexion_lab", "run", *scripted(place, *RULES, reply="\n    return None\n")]
    command += [*OVERRIDES, f"run_root={place / 'runs'}", "workers=2", *overrides]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=place)


def finish(process):
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err


def figures(folder):
    values = json.loads((folder / "summary.json").read_text())
    return {
        key: value for key, value in values.items() if key not in ("run_id", "seconds", "torn", "usage", "ended_at")
    }


def stored_calls(place):
    """Draws that were paid for: each has a row of its own."""
    with sqlite3.connect(place / "runs" / "calls.sqlite") as connection:
        return sorted(row[0] for row in connection.execute("SELECT key FROM calls"))


@pytest.mark.slow
@pytest.mark.soak
def test_a_killed_run_resumes_to_the_same_figures_and_calls(tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for place in (whole, cut):
        place.mkdir()
    finish(start(whole))
    process = start(cut)
    deadline = time.monotonic() + 60
    while not (log := list((cut / "runs").glob("*/attempts.jsonl"))) or log[0].read_text().count("\n") < 7:
        assert time.monotonic() < deadline and process.poll() is None, "the run ended before it could be killed"
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    folder = run_folder(cut / "runs")
    with (folder / "attempts.jsonl").open("a") as file:
        file.write('{"task_id": "torn')
    assert len(RunFolder(folder).results) < 12
    finish(start(cut, f"resume={folder}", "quiet=false"))
    assert figures(folder) == figures(run_folder(whole / "runs"))
    assert stored_calls(cut) == stored_calls(whole)


def test_resuming_under_another_config_is_refused(base, tmp_path):
    carry_out(compose(*base))
    with pytest.raises(ValueError, match="began with another recall"):
        assemble(compose(*base, "recall.omega=2", f"resume={run_folder(tmp_path)}"))


def reflects_on_last(*overrides):
    lab = assemble(compose(*overrides))
    lab.close()
    return lab.folder.manifest.config["loop"]["reflect_on_last"]


def test_a_last_reflection_is_made_only_where_memory_is_shared(base):
    assert reflects_on_last(*base) is False
    assert reflects_on_last(*base, "loop.reflect_on_last=true") is True
    assert reflects_on_last(*base, "memory.shared.shown={wisdom:2}") is True


def test_a_resumed_run_keeps_what_it_recorded_of_last_reflections(base, tmp_path):
    assert reflects_on_last(*base, "loop.reflect_on_last=true") is True  # as every run of an earlier version
    assert reflects_on_last(*base, f"resume={run_folder(tmp_path)}") is True


def test_a_cell_has_the_digest_of_the_value_that_is_resolved(base):
    shared = "memory.shared.shown={wisdom:2}"
    for overrides, value in (((), "false"), ((shared,), "true")):
        resolved = compose(*base, *overrides, f"loop.reflect_on_last={value}", "memory.shared.items.max_tokens=4000")
        assert cell_digest(compose(*base, *overrides)) == cell_digest(resolved) == config_digest(plain(resolved))


def test_a_second_run_of_the_same_config_makes_no_call(base, tmp_path, capsys):
    first = carry_out(compose(*base))
    capsys.readouterr()
    assert sorted(path.name for path in run_folder(tmp_path).glob("[!.]*")) == [
        "attempts.jsonl", "digests.json", "grades.jsonl", "manifest.json", "results.jsonl", "summary.json",
    ]  # fmt: skip
    second = carry_out(compose(*base, "quiet=false"))
    assert "model calls: 0 made" in capsys.readouterr().out
    assert (first.pass_at_1, first.usage) == (second.pass_at_1, second.usage)


@pytest.mark.parametrize("style", ["continuation", "chat"])
def test_a_run_on_written_tests_needs_one_word_of_config(base, tmp_path, style):
    tests = "(3) == 7\nassert 1" if style == "continuation" else "no tests at all"
    rule = {"when": "(?m)^(assert|# Different|I need tests)", "scope": "conversation", "reply": tests}
    scripted(tmp_path, rule, *RULES, reply="\n    return None\n")
    result = carry_out(compose(*base, "feedback_source=self_tests", f"suite_writer={style}"))
    assert result.suites.suites == 12
    assert result.suites.empty == (0 if style == "continuation" else 12)
    assert result.usage["suite_writer"].calls == 12
    assert (run_folder(tmp_path) / "suite_verdicts.jsonl").exists() is (style == "continuation")


@pytest.mark.parametrize(("override", "message"), [
    ("suite_writer.agreement=-1", "suite_writer.agreement: got -1"),
    ("suite_writer.writer.max_tests=0", "suite_writer.writer.max_tests: got 0"),
    ("suite_writer.writer.style=poem", "suite_writer.writer.style: got 'poem'"),
])  # fmt: skip
def test_impossible_suite_writers_are_refused_before_the_run(base, tmp_path, override, message):
    with pytest.raises(Exception, match=message):
        assemble(compose(*base, "feedback_source=self_tests", override))
    assert not list(tmp_path.glob("*-reflexion-*"))


def test_a_chat_server_is_not_asked_to_continue_tests(tmp_path):
    served = ["model=openai", "model.model=some", "model.base_url=http://127.0.0.1:9/v1", "actor=single_shot"]
    with pytest.raises(ValueError, match="expected suite_writer=chat"):
        assemble(
            compose(
                *served, f"run_root={tmp_path}", *OVERRIDES, "feedback_source=self_tests", "suite_writer=continuation"
            )
        )
