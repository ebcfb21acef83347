"""A run: what is written, who may see what, and what survives a kill."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from reflexion_lab.agent.actors.single_shot import SingleShot
from reflexion_lab.agent.models.cache import Draws
from reflexion_lab.agent.models.scripted import ScriptedModel
from reflexion_lab.agent.reflectors.rules import Rules
from reflexion_lab.analysis.summary import Log, summary
from reflexion_lab.errors import ModelError
from reflexion_lab.loop.reflexion import Reflexion
from reflexion_lab.loop.stop import FirstOf, MaxAttempts, NoFeedback, Passed
from reflexion_lab.memory.episodic import EpisodicMemory
from reflexion_lab.memory.recall import Window
from reflexion_lab.records import Sampling
from reflexion_lab.runner.config.compose import assemble, compose
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.runner.folder.manifest import describe
from reflexion_lab.runner.runner import Runner, teach
from reflexion_lab.studies.run import carry_out
from reflexion_lab.tasks.evaluators.judge import HiddenTests
from reflexion_lab.tasks.evaluators.self_tests import SelfTests
from reflexion_lab.tasks.evaluators.self_tests_agreement import DualAgreement
from reflexion_lab.tasks.evaluators.unit_tests import UnitTests

SCRIPT = [
    {"when": "ROOT_CAUSE", "reply": "ROOT_CAUSE: a\nWHAT_WENT_WRONG: b\nWHAT_TO_CHANGE: c\nCONFIDENCE: 0.5\n"},
    {"when": "What to change", "scope": "conversation", "reply": "\n    return 0\n"},
    {"when": "", "scope": "conversation", "reply": "\n    return None\n"},
]


def runner(task_list, sandbox, folder, model, source="visible", workers=4, suite_writer=None):
    def loop():
        return Reflexion(
            actor=SingleShot(model, Sampling()),
            evaluator=UnitTests(sandbox),
            reflector=Rules(),
            memory=EpisodicMemory(Window(1)),
            stop=FirstOf(NoFeedback(), Passed(), MaxAttempts(3)),
        )

    if not (folder.path / "manifest.json").exists():
        config = {"arm": "test", "seed": 0, "feedback_source": source}
        folder.write_manifest(describe(config, "own", "digest", len(task_list), {"actor": model}, sandbox.layers))
    return Runner(
        tasks=task_list,
        loop=loop,
        judge=HiddenTests(sandbox),
        folder=folder,
        feedback_source=source,
        workers=workers,
        quiet=True,
        suite_writer=suite_writer,
    )


def tasks(task, n):
    return [replace(task, task_id=f"own/{i}") for i in range(n)]


def always(program):
    return ScriptedModel(lambda messages: f"```python\n{program}\n```")


def test_every_attempt_is_graded_and_only_the_submitted_one_while_the_run_was_open(task, sandbox, tmp_path):
    folder = RunFolder(tmp_path)
    runner(tasks(task, 3), sandbox, folder, always("def double(x):\n    return x")).run()
    attempts, grades = folder.attempts, folder.grades
    assert {key: len(made) for key, made in attempts.items()} == {"own/0": 3, "own/1": 3, "own/2": 3}
    assert len(grades) == 9
    assert [(grade.number, grade.sealed) for grade in grades.values() if not grade.sealed] == [(1, False)] * 3


def test_hidden_verdicts_leave_no_trace_in_what_the_loop_writes(task, sandbox, tmp_path):
    folder = RunFolder(tmp_path)
    cheat = always("def double(x):\n    return 4")  # passes the visible test, fails the hidden ones
    runner(tasks(task, 1), sandbox, folder, cheat).run()
    (attempt,) = folder.attempts["own/0"]
    assert attempt.stop_reason == "passed"
    assert not folder.grades["own/0", 1].passed
    written = (tmp_path / "attempts.jsonl").read_text() + (tmp_path / "results.jsonl").read_text()
    assert "-6" not in written
    assert "candidate" not in written


def test_an_oracle_sees_the_hidden_tests_and_is_called_an_upper_bound(task, sandbox, tmp_path):
    folder = RunFolder(tmp_path)
    runner(tasks(task, 1), sandbox, folder, always("def double(x):\n    return 4"), source="oracle").run()
    assert len(folder.attempts["own/0"]) == 3
    assert summary(Log.read(folder)).is_upper_bound


def test_what_the_loop_is_taught_depends_on_the_feedback_source(task):
    assert teach(task, "visible") == task.public
    assert teach(task, "none").visible_tests == ()
    assert teach(task, "oracle").visible_tests == task.hidden_tests
    assert teach(task, "self_tests", ("assert double(1) == 2",)).visible_tests == ("assert double(1) == 2",)
    assert teach(task, "self_tests").visible_tests == ()
    for source in ("visible", "self_tests", "none", "oracle"):
        assert teach(task, source).hidden_tests == ()
        assert teach(task, source).canonical_solution == ""


def test_written_tests_drive_the_loop_and_the_shown_ones_do_not(task, sandbox, tmp_path):
    folder, model = RunFolder(tmp_path), author("assert double(1) == 3\nassert double(2) == 4", "    return 3")
    self_taught(tasks(task, 1), sandbox, folder, model).run()
    attempts = folder.attempts["own/0"]
    assert [attempt.evaluation.reward for attempt in attempts] == [0.5, 0.5, 0.5]
    assert {check.name for check in attempts[0].evaluation.checks} == {"assert double(1) == 3", "assert double(2) == 4"}
    assert folder.results["own/0"].feedback_source == "self_tests"
    assert not summary(Log.read(folder)).is_upper_bound


def test_written_tests_are_judged_by_the_canonical_solution_after_the_run(task, sandbox, tmp_path):
    folder, model = RunFolder(tmp_path), author("assert double(1) == 2\nassert double(2) == 5", "    return 2 * x")
    bare = replace(task, task_id="own/bare", canonical_solution="")
    made = self_taught([*tasks(task, 2), bare], sandbox, folder, model)
    grade, seen = made.judge.grade, []
    made.judge.grade = lambda *asked: seen.append((tmp_path / "suite_verdicts.jsonl").exists()) or grade(*asked)
    made.run()
    assert seen == [False] * 9  # not before the last grade, that is, not while any loop could learn of it
    verdicts = folder.suite_verdicts
    assert sorted(verdicts) == ["own/0", "own/1"]
    assert [check.outcome for check in verdicts["own/0"].checks] == ["pass", "fail"]
    found = summary(Log.read(folder)).suites
    assert (found.valid.k, found.valid.n, found.valid_suites.k, found.unjudged) == (2, 4, 0, 2)


def test_a_written_test_that_hangs_says_nothing_about_its_neighbours(task, sandbox, tmp_path):
    endless = "assert double(1) == 2\nassert sum(double(y) for y in iter(int, 1)) == 0\nassert double(2) == 4"
    folder = RunFolder(tmp_path)
    self_taught(tasks(task, 1), sandbox, folder, author(endless, "    raise ValueError")).run()
    assert [check.outcome for check in folder.suite_verdicts["own/0"].checks] == ["pass", "timeout", "pass"]


def test_an_empty_suite_is_no_feedback_and_never_a_pass(task, sandbox, tmp_path):
    folder = RunFolder(tmp_path)
    self_taught(tasks(task, 1), sandbox, folder, author("I would rather not.", "    return 2 * x")).run()
    (attempt,) = folder.attempts["own/0"]
    assert (attempt.stop_reason, attempt.evaluation.passed) == ("no_feedback", False)
    found = summary(Log.read(folder))
    assert (found.suites.empty, found.no_feedback, found.feedback.unknown, found.pass_at_1.k) == (1, 1, 1, 1)


def test_nobody_who_writes_tests_or_programs_reads_hidden_tests_or_the_solution(task, sandbox, tmp_path):
    secret = replace(
        task,
        hidden_tests=("assert candidate(424242) == 848484",),
        canonical_solution="    secret_name = x\n    return secret_name + x",
    )
    model = author("assert double(1) == 0", "    return 0")
    self_taught([secret], sandbox, RunFolder(tmp_path), model, agreement=2).run()
    read = "".join(message.content for call in model.received for message in call)
    assert len(model.received) == 1 + 2 + 1  # a suite, its drafts, an attempt
    assert "Twice x" in read
    assert "424242" not in read
    assert "secret_name" not in read


def test_a_suite_is_written_once_in_a_run_and_read_back_on_resume(task, sandbox, tmp_path):
    folder, batch = RunFolder(tmp_path), tasks(task, 2)
    first = author("assert double(1) == 2", ModelError("out of power"))
    with pytest.raises(ModelError):
        self_taught(batch, sandbox, folder, first, workers=1).run()
    assert len(folder.written_tests) >= 1
    (tmp_path / "written_tests.jsonl").open("a").write('{"task_id": "torn')
    second = author("assert double(1) == 7", "    return 2 * x")
    self_taught(batch, sandbox, folder, second, workers=1).run()
    asked = sum(is_asked_for_tests(call) for call in second.received)
    assert asked == 2 - sum(is_asked_for_tests(call) for call in first.received)
    assert folder.written_tests["own/0"].tests == ("assert double(1) == 2",)
    assert folder.attempts["own/0"][0].stop_reason == "passed"
    assert len(folder.suite_verdicts) == 2
    assert summary(Log.read(folder)).usage["suite_writer"].calls == 2


def test_who_breaks_while_writing_tests_says_so(task, sandbox, tmp_path):
    broken = ScriptedModel(lambda messages: (_ for _ in ()).throw(ModelError("out of power")))
    with pytest.raises(ModelError) as caught:
        self_taught(tasks(task, 1), sandbox, RunFolder(tmp_path), broken).run()
    assert caught.value.__notes__ == ["while writing tests: task own/0"]


def test_self_tests_need_somebody_who_writes_them(task, sandbox, tmp_path):
    with pytest.raises(ValueError, match="without a suite_writer"):
        runner(tasks(task, 1), sandbox, RunFolder(tmp_path), always(""), source="self_tests")


def author(tests, body):
    """A model that writes these tests, and programs with this body."""

    def reply(messages):
        if is_asked_for_tests(messages):
            return tests
        if isinstance(body, Exception):
            raise body
        return f"```python\ndef double(x):\n{body}\n```"

    return ScriptedModel(reply)


def is_asked_for_tests(messages):
    return "lines of the form" in messages[-1].content


def self_taught(task_list, sandbox, folder, model, agreement=0, **options):
    def suite_writer():
        draws = Draws(model)
        return DualAgreement(SelfTests(draws, Sampling()), SingleShot(draws, Sampling()), sandbox, agreement)

    return runner(task_list, sandbox, folder, model, source="self_tests", suite_writer=suite_writer, **options)


def test_a_failing_task_stops_the_run_and_loses_nothing_that_had_finished(task, sandbox, tmp_path):
    def reply(messages):
        if "boom" in messages[-1].content:
            raise RuntimeError("out of power")
        return "```python\ndef double(x):\n    return 2 * x\n```"

    batch = [*tasks(task, 3), replace(task, task_id="own/boom", prompt=task.prompt + "# boom")]
    folder = RunFolder(tmp_path)
    with pytest.raises(RuntimeError, match="out of power") as caught:
        runner(batch, sandbox, folder, ScriptedModel(reply), workers=1).run()
    assert caught.value.__notes__ == ["while acting: task own/boom, attempt 1"]
    assert set(folder.results) == {"own/0", "own/1", "own/2"}
    runner(batch, sandbox, folder, always("def double(x):\n    return 2 * x"), workers=1).run()
    assert summary(Log.read(folder)).pass_at_1.k == 4


def test_a_result_that_lost_its_grade_is_graded_on_resume(task, sandbox, tmp_path):
    folder, model = RunFolder(tmp_path), always("def double(x):\n    return 2 * x")
    runner(tasks(task, 2), sandbox, folder, model).run()
    (tmp_path / "grades.jsonl").unlink()
    runner(tasks(task, 2), sandbox, folder, model).run()
    assert len(model.received) == 2
    assert summary(Log.read(folder)).pass_at_1.k == 2


@pytest.mark.parametrize("workers", [1, 8])
def test_the_number_of_workers_changes_nothing_that_is_measured(task, sandbox, tmp_path, model, workers):
    folder = RunFolder(tmp_path)
    runner(tasks(task, 6), sandbox, folder, model, workers=workers).run()
    found = summary(Log.read(folder))
    assert found.n_logged == 6
    assert [len(made) for made in folder.attempts.values()] == [3] * 6  # this model learns from its own words alone


OVERRIDES = ["benchmark=basics", "benchmark.limit=12", "loop.max_attempts=3", "tracker=none", "quiet=true"]


def start(tmp_path, *more):
    (tmp_path / "script.json").write_text(json.dumps(SCRIPT))
    command = [sys.executable, "-m", "reflexion_lab", "run", "model=scripted", f"model.path={tmp_path / 'script.json'}"]
    command += [*OVERRIDES, f"run_root={tmp_path / 'runs'}", "workers=2", *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path)


def finished(process):
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err


def figures(folder):
    found = json.loads((folder / "summary.json").read_text())
    return {key: value for key, value in found.items() if key not in ("run_id", "seconds", "torn", "usage", "ended_at")}


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_figures_and_pays_no_call_twice(tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for place in (whole, cut):
        place.mkdir()
    finished(start(whole))
    process = start(cut)
    deadline = time.monotonic() + 60
    while not (log := list((cut / "runs").glob("*/attempts.jsonl"))) or log[0].read_text().count("\n") < 7:
        assert time.monotonic() < deadline and process.poll() is None, "the run ended before it could be killed"
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    (folder,) = log[0].parent.parent.glob("*-reflexion-basics-s0")
    with (folder / "attempts.jsonl").open("a") as file:
        file.write('{"task_id": "torn')
    done = len(RunFolder(folder).results)
    assert done < 12
    process = start(cut, f"resume={folder}", "quiet=false")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err
    (reference,) = (whole / "runs").glob("*-reflexion-basics-s0")
    assert figures(folder) == figures(reference)
    assert stored_calls(cut) == stored_calls(whole)


def stored_calls(place):
    """Draws that were paid for: each has a row of its own."""
    import sqlite3

    with sqlite3.connect(place / "runs" / "calls.sqlite") as connection:
        return sorted(row[0] for row in connection.execute("SELECT key FROM calls"))


def test_resuming_under_another_config_is_refused(tmp_path):
    (tmp_path / "script.json").write_text(json.dumps(SCRIPT))
    base = ["model=scripted", f"model.path={tmp_path / 'script.json'}", f"run_root={tmp_path}", *OVERRIDES]
    carry_out(compose(*base))
    (folder,) = tmp_path.glob("*-reflexion-basics-s0")
    with pytest.raises(ValueError, match="began with another recall"):
        assemble(compose(*base, "recall.omega=2", f"resume={folder}"))


def test_a_second_run_of_the_same_config_makes_no_call(tmp_path, capsys):
    (tmp_path / "script.json").write_text(json.dumps(SCRIPT))
    base = ["model=scripted", f"model.path={tmp_path / 'script.json'}", f"run_root={tmp_path}", *OVERRIDES]
    first = carry_out(compose(*base))
    capsys.readouterr()
    second = carry_out(compose(*base, "quiet=false"))
    assert "model calls: 0 made" in capsys.readouterr().out
    assert (first.pass_at_1, first.usage) == (second.pass_at_1, second.usage)


@pytest.mark.parametrize("style", ["continuation", "chat"])
def test_a_run_on_written_tests_needs_one_word_of_config(tmp_path, style):
    tests = "(3) == 7\nassert 1" if style == "continuation" else "no tests at all"
    rules = [{"when": "(?m)^(assert|# Different|I need tests)", "scope": "conversation", "reply": tests}, *SCRIPT]
    (tmp_path / "script.json").write_text(json.dumps(rules))
    base = ["model=scripted", f"model.path={tmp_path / 'script.json'}", f"run_root={tmp_path}", *OVERRIDES]
    found = carry_out(compose(*base, "feedback_source=self_tests", f"suite_writer={style}"))
    assert found.suites.suites == 12
    assert found.suites.empty == (0 if style == "continuation" else 12)
    assert found.usage["suite_writer"].calls == 12
    (folder,) = tmp_path.glob("*-reflexion-basics-s0")
    assert (folder / "suite_verdicts.jsonl").exists() is (style == "continuation")


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("suite_writer.agreement=-1", "suite_writer.agreement: got -1"),
        ("suite_writer.writer.max_tests=0", "suite_writer.writer.max_tests: got 0"),
        ("suite_writer.writer.style=poem", "suite_writer.writer.style: got 'poem'"),
    ],
)
def test_impossible_suite_writers_are_refused_before_anything_is_written(tmp_path, override, said):
    (tmp_path / "script.json").write_text(json.dumps(SCRIPT))
    base = ["model=scripted", f"model.path={tmp_path / 'script.json'}", f"run_root={tmp_path}", *OVERRIDES]
    with pytest.raises(Exception, match=said):
        assemble(compose(*base, "feedback_source=self_tests", override))
    assert not list(tmp_path.glob("*-reflexion-*"))


def test_a_chat_server_is_not_asked_to_continue_tests(tmp_path):
    served = ["model=openai", "model.model=some", "model.base_url=http://127.0.0.1:9/v1", "actor=single_shot"]
    base = [*served, f"run_root={tmp_path}", *OVERRIDES, "feedback_source=self_tests"]
    with pytest.raises(ValueError, match="expected suite_writer=chat"):
        assemble(compose(*base))


def test_an_interrupt_leaves_a_run_that_can_be_resumed(task, sandbox, tmp_path):
    folder, started = RunFolder(tmp_path), threading.Event()

    def reply(messages):
        started.set()
        time.sleep(0.02)
        return "```python\ndef double(x):\n    return x\n```"

    made = runner(tasks(task, 30), sandbox, folder, ScriptedModel(reply), workers=2)
    grade = made._grade

    def interrupt(task, attempt):
        grade(task, attempt)
        raise KeyboardInterrupt

    made._grade = interrupt
    with pytest.raises(KeyboardInterrupt):
        made.run()
    assert started.is_set()
    assert 0 < len(folder.results) < 30
    runner(tasks(task, 30), sandbox, folder, always("def double(x):\n    return x")).run()
    assert len(folder.results) == 30


def test_a_finished_run_folder_is_complete(tmp_path):
    (tmp_path / "script.json").write_text(json.dumps(SCRIPT))
    carry_out(compose("model=scripted", f"model.path={tmp_path / 'script.json'}", f"run_root={tmp_path}", *OVERRIDES))
    (folder,) = tmp_path.glob("*-reflexion-basics-s0")
    assert sorted(path.name for path in Path(folder).glob("[!.]*")) == [
        "attempts.jsonl",
        "convergence.csv",
        "convergence.png",
        "digests.json",
        "grades.jsonl",
        "manifest.json",
        "reflections.csv",
        "reflections.png",
        "results.jsonl",
        "summary.json",
    ]
