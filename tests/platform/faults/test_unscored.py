"""What the server or the sandbox spoils is unscored, has a line on the first screen, and is asked for again, alone."""

import json

import pytest

from reflexion_lab.analysis.report.screen import run_screen
from reflexion_lab.analysis.summary import Log, summary
from reflexion_lab.cli.main import main
from reflexion_lab.errors import CapReached, ConfigError
from reflexion_lab.records import Check
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.tasks.benchmarks.basics import basics
from reflexion_lab.tasks.sandbox.cached import CachedSandbox
from reflexion_lab.tasks.sandbox.sandbox import Execution

TASKS = basics(seed=0, n=4)
SPOILT = TASKS[1]
ONLY = ("only=unscored", "workers=1")


def about(task, request):
    return task.prompt.strip() in request.text


@pytest.fixture
def breaking(monkeypatch):
    """A sandbox that fails on programs with the tests in this list."""
    tests, run = [], CachedSandbox.run

    def broken(self, program, entry_point, checks, *more, **named):
        if [*checks] != tests:
            return run(self, program, entry_point, checks, *more, **named)
        broke = tuple(Check(name=text, outcome="harness_error", message="broke") for text in checks)
        return Execution(checks=broke, output="", seconds=0.1, cpu_seconds=0.1, timed_out=False)

    monkeypatch.setattr(CachedSandbox, "run", broken)
    return tests


def lines(folder, name):
    path = folder.path / name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "tests", "taken"),
    [
        ("wrong_model", (), "attempts.jsonl"), ("", SPOILT.visible_tests, "attempts.jsonl"),
        ("", SPOILT.hidden_tests, "grades.jsonl"),
    ],
)  # fmt: skip
def test_what_is_spoilt_is_no_failed_task_and_is_made_again(
    faults, student, run, measured, unbroken, breaking, capsys, fault, tests, taken
):
    with faults.FaultServer(student, lambda request: fault if about(SPOILT, request) else "") as server:
        breaking.extend(tests)
        folder, problem = run(server, "workers=1")
        assert problem is None
        log = Log.read(folder)
        screen = " ".join(" ".join(run_screen(folder, log)).split())
        assert log.unscored == (SPOILT.task_id,)
        assert summary(log).pass_at_1.n == 3
        assert (
            f"UNSCORED: 1 of 4 tasks are spoilt by the sandbox or the server, and are in no rate's n: {SPOILT.task_id}"
            in screen
        )
        assert f"resume={folder.path} only=unscored" in screen
        before, asked = lines(folder, "attempts.jsonl"), len(server.requests)
        breaking.clear()
        server.plan = lambda request: ""
        capsys.readouterr()
        again, problem = run(server, f"resume={folder.path}", *ONLY)
        assert (problem, again.path) == (None, folder.path)
        new = [request for request, _ in server.requests[asked:]]
    assert all(about(SPOILT, request) for request in new)
    assert bool(new) == (fault != "" or (taken == "attempts.jsonl" and len(folder.attempts[SPOILT.task_id]) > 1))
    assert measured(folder) == unbroken()
    dropped = lines(folder, f"dropped/{taken}")
    assert {line["task_id"] for line in dropped} == {SPOILT.task_id}
    assert [line for line in before if line in dropped or line in lines(folder, "attempts.jsonl")] == before
    n = int(taken == "attempts.jsonl")
    assert f"only=unscored: {n} task{'s' * (n != 1)} asked again; earlier lines in" in capsys.readouterr().err


@pytest.mark.slow
def test_tasks_without_an_answer_are_asked_again_and_those_that_never_began_are_not(
    faults, student, run, measured, unbroken
):
    with faults.FaultServer(student, lambda request: "503" if about(SPOILT, request) else "") as server:
        folder, problem = run(server, "model.retries=0", "caps.calls=8", "workers=1")
        assert isinstance(problem, CapReached)
        assert SPOILT.task_id not in folder.results
        waiting = {task.task_id for task in TASKS} - folder.results.keys() - {SPOILT.task_id}
        assert waiting
        assert f"1 had no answer ({SPOILT.task_id})" in " ".join(run_screen(folder, Log.read(folder), 300))
        server.plan, asked = lambda request: "", len(server.requests)
        folder, problem = run(server, f"resume={folder.path}", *ONLY)
        assert problem is None
        assert all(about(SPOILT, request) for request, _ in server.requests[asked:])
        assert {task.task_id for task in TASKS} - folder.results.keys() == waiting
        folder, problem = run(server, f"resume={folder.path}")
    assert problem is None
    assert measured(folder) == unbroken()


@pytest.mark.slow
def test_a_sweep_asks_its_unscored_cells_again_and_begins_none(breaking, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["run", "-m", "model=simulated", "actor=single_shot", "tracker=none", "benchmark.load.n=4", "quiet=true"]
    words += ["benchmark.load.seed=0", "sweep_id=one"]
    breaking.extend(SPOILT.visible_tests)
    assert main([*words, "seed=0,1"]) == 2
    assert "cells 0, 1: 1 harness errors; only=unscored asks again" in capsys.readouterr().err
    assert main([*words, "seed=0,1,2", "only=unscored"]) == 2
    breaking.clear()
    assert main([*words, "seed=0,1", "only=unscored"]) == 0
    logs = [Log.read(RunFolder(path.parent)) for path in sorted(tmp_path.glob("runs/2*/manifest.json"))]
    assert [(log.manifest.seed, log.unscored, summary(log).pass_at_1.n) for log in logs] == [(0, (), 4), (1, (), 4)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("only=unscored",), "only: got unscored without resume, expected resume=RUN"),
        (("only=failed", "resume={run}"), "only: got .failed., expected one of unscored, or null"),
        (
            ("only=unscored", "resume={run}", "store=jsonl"),
            "only: got unscored with memory across tasks, expected resume alone",
        ),
    ],
)
def test_what_cannot_be_asked_again_alone_is_refused(faults, student, run, breaking, words, message):
    breaking.extend(SPOILT.visible_tests)
    with faults.FaultServer(student) as server:
        folder, _ = run(server, *words[2:])
        with pytest.raises(ConfigError, match=message):
            raise run(server, *(word.format(run=folder.path) for word in words))[1]
