"""A reflector whose server fails never loses the judged attempt, and `reflector.on_failure` says what stands in."""

import itertools
import sqlite3
import time
from contextlib import closing

import pytest

from reflexion_lab.errors import ModelNotFound, Unanswered

QUICK = ("model.retries=0", "model.timeout=1")


def fails(fault):
    """A plan in which every request of the reflector meets `fault`."""
    return lambda request: fault if "ROOT_CAUSE:" in request.text else ""


def reflections(folder):
    return [attempt.reflection for loop in folder.attempts.values() for attempt in loop if attempt.reflection]


KINDS = {
    "503": "generation_failed",
    "404": "not_found",
    "stall": "timeout",
    "empty": "parse_error",
    "400": "generation_failed",
}


@pytest.mark.parametrize(("policy", "source"), [("fallback", "fallback:"), ("skip", "failed")])
@pytest.mark.slow
def test_the_loop_goes_on_with_rules_or_without_words(faults, student, run, policy, source):
    left = itertools.cycle(KINDS)
    with faults.FaultServer(student, lambda r: next(left) if "ROOT_CAUSE:" in r.text else "") as server:
        folder, problem = run(server, *QUICK, f"reflector.on_failure={policy}", "loop.max_attempts=2",
                              "benchmark.load.n=18")  # fmt: skip
    assert problem is None
    for reflection in reflections(folder):
        assert reflection.source.startswith(source)
        assert bool(reflection.what_to_change) == (policy == "fallback")
    assert {reflection.problem.partition(": ")[0] for reflection in reflections(folder)} == set(KINDS.values())
    assert set(server.faults) == set(KINDS)
    assert len(folder.results) == 18


@pytest.mark.parametrize(
    ("fault", "overrides", "outcome"),
    [("503", (), "server_error"), ("stall", (), "timeout"), ("stall", ("reflector.timeout=0.3",), "timeout")],
)
@pytest.mark.slow
def test_the_loop_is_set_aside_by_default_and_its_verdict_is_kept(faults, student, run, fault, overrides, outcome):
    with faults.FaultServer(student, fails(fault)) as server:
        folder, problem = run(server, *QUICK, *overrides)
    assert isinstance(problem, Unanswered)
    assert {loop.outcome for loop in folder.set_aside} == {outcome}
    for loop in folder.set_aside:
        assert "while reflecting" in loop.problem
        assert loop.judged.evaluation.outcome == "error"
        assert loop.judged.trajectory.solution


@pytest.mark.parametrize(("fault", "kind"), [("404", ModelNotFound), ("400", Unanswered)])
def test_a_rejected_request_stops_the_run_and_no_rule_steps_in(faults, student, run, fault, kind):
    with faults.FaultServer(student, fails(fault)) as server:
        folder, problem = run(server, *QUICK)
    assert type(problem) is kind
    assert fault in str(problem)
    assert "model.model" in str(problem)
    assert reflections(folder) == []
    assert {loop.outcome for loop in folder.set_aside} == {"reflector_error" if fault == "404" else "refused"}
    assert folder.set_aside[0].judged.trajectory.solution


@pytest.fixture
def full_disk(faults, student, run, tmp_path):
    """Runs whose call cache stores every reply but the reflector's."""

    def carried_out(*overrides):
        with faults.FaultServer(student) as server:
            run(server, "loop.max_attempts=1", "loop.reflect_on_last=false")
            with closing(sqlite3.connect(tmp_path / "runs" / "reflexion.sqlite")) as database:
                database.executescript(
                    "CREATE TRIGGER full_disk BEFORE INSERT ON calls WHEN instr(NEW.request, 'ROOT_CAUSE:') "
                    "BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
                )
            return run(
                server, f"run_root={tmp_path / 'full'}", f"cache.path={tmp_path}/runs/reflexion.sqlite", *overrides
            )

    return carried_out


def test_rules_replace_an_unstorable_reflection_on_request(full_disk):
    folder, problem = full_disk("reflector.on_failure=fallback", "loop.max_attempts=2")
    assert problem is None
    assert reflections(folder)
    for reflection in reflections(folder):
        assert reflection.problem.startswith("storage_error: ")
        assert reflection.source.startswith("fallback:")


def test_a_late_reflection_is_not_read_but_the_next_one_is(faults, student, run):
    first = []

    def late_once(body):
        if "ROOT_CAUSE:" in body["messages"][-1]["content"] and not first:
            first.append(body)
            time.sleep(1.5)
        return student(body)

    with faults.FaultServer(late_once) as server:
        overrides = ("workers=1", "reflector.on_failure=fallback", "reflector.timeout=0.7")
        folder, problem = run(server, *overrides)
    assert problem is None
    problems = [reflection.problem for reflection in reflections(folder)]
    assert problems[0] == "timeout: reflector.timeout: no reflection within 0.7 s"
    assert {reflection.source for reflection in reflections(folder)[1:]} == {"llm"}
