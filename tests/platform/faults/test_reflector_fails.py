"""A reflector whose server fails never loses the judged attempt, and `reflector.on_failure` says what stands in."""

import time

import pytest

from reflexion_lab.errors import Unanswered

QUICK = ("model.retries=0", "model.timeout=1")


def fails(fault):
    """A plan in which every request of the reflector meets `fault`."""
    return lambda request: fault if "ROOT_CAUSE:" in request.text else ""


def reflections(folder):
    return [attempt.reflection for loop in folder.attempts.values() for attempt in loop if attempt.reflection]


@pytest.mark.parametrize(
    ("fault", "kind"), [("503", "generation_failed"), ("404", "generation_failed"), ("stall", "timeout"),
                        ("empty", "parse_error")],
)  # fmt: skip
@pytest.mark.parametrize(("policy", "source"), [("fallback", "fallback:"), ("skip", "failed")])
def test_the_loop_goes_on_with_rules_or_without_words(faults, student, run, fault, kind, policy, source):
    with faults.FaultServer(student, fails(fault)) as server:
        folder, problem = run(server, *QUICK, f"reflector.on_failure={policy}", "loop.max_attempts=2")
    assert problem is None
    assert reflections(folder)
    for reflection in reflections(folder):
        assert reflection.source.startswith(source)
        assert reflection.problem.startswith(f"{kind}: ")
        assert bool(reflection.what_to_change) == (policy == "fallback")
    assert len(folder.results) == 4


@pytest.mark.parametrize(
    ("fault", "overrides", "outcome"),
    [("503", (), "server_error"), ("stall", (), "timeout"), ("stall", ("reflector.timeout=0.3",), "timeout")],
)
def test_the_loop_is_set_aside_by_default_and_its_verdict_is_kept(faults, student, run, fault, overrides, outcome):
    with faults.FaultServer(student, fails(fault)) as server:
        folder, problem = run(server, *QUICK, *overrides)
    assert isinstance(problem, Unanswered)
    assert {loop.outcome for loop in folder.set_aside} == {outcome}
    for loop in folder.set_aside:
        assert "while reflecting" in loop.problem
        assert loop.judged.evaluation.outcome == "error"
        assert loop.judged.trajectory.solution


def test_a_reflection_that_comes_too_late_is_not_read_and_the_next_one_is(faults, student, run):
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
