"""A run against a server that fails in one way: what it does, writes and says, and that nothing is lost."""

import json
from collections import Counter

import pytest

from reflexion_lab.analysis.summary import Log, summary
from reflexion_lab.errors import ModelNotFound, Unanswered
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.config.parts import load_benchmark
from reflexion_lab.runner.config.record import RunConfig
from reflexion_lab.runner.runner import PATIENCE
from reflexion_lab.tasks.benchmarks.basics import basics

AT_ONCE = "model.retries=0"
ASKED_AGAIN = (
    "429", "429_plain", "429_zero", "429_second", "429_date", "408", "409", "500", "502", "503", "503_plain", "reset",
    "reset_after_headers", "torn", "invalid_json", "html", "empty_body", "no_choices", "error_with_200",
)  # fmt: skip
NAMED = {
    "429": "rate_limited", "503": "server_error", "408": "timeout", "stall": "timeout", "endless": "timeout",
    "reset": "connection", "torn": "connection", "html": "malformed",
}  # fmt: skip
MORE = basics(seed=0, n=12)
TASKS = MORE[:4]
MANY = "benchmark.load.n=12"


def about(task, fault):
    return lambda request: fault if task.prompt.strip() in request.text else ""


def about_each(tasks, faults):
    """A fault for every request about one task, another one for the next task."""
    prompts = [(task.prompt.strip(), fault) for task, fault in zip(tasks, faults, strict=False)]
    return lambda request: next((fault for prompt, fault in prompts if prompt in request.text), "")


def usage(folder):
    return summary(Log.read(folder)).usage


def written(folder):
    return [(deferral.task_id, deferral.outcome) for deferral in folder.set_aside]


# What passes


@pytest.mark.slow
def test_transient_failures_are_retried_and_change_nothing(faults, student, run, measured, unbroken, clock):
    left = list(ASKED_AGAIN)  # each for another request, when that comes for the first time
    with faults.FaultServer(student, lambda r: left.pop() if left and r.nth == 1 else "") as server:
        folder, problem = run(server, MANY)
    assert problem is None
    assert measured(folder) == unbroken(MANY)
    assert server.faults == dict.fromkeys(ASKED_AGAIN, 1)
    assert sum(role.retries for role in usage(folder).values()) == len(clock.waits) == len(ASKED_AGAIN)
    assert set(server.answered.values()) == {1}
    assert written(folder) == []


@pytest.mark.slow
def test_retry_after_is_waited(faults, student, run, measured, unbroken, clock):
    clock.real = 1
    plan = about(TASKS[0], "429_second")
    with faults.FaultServer(student, lambda r: plan(r) if r.nth == 1 else "") as server:
        folder, problem = run(server)
    assert (problem, measured(folder)) == (None, unbroken())
    assert clock.waits and all(1 <= wait <= 1.1 for wait in clock.waits)
    assert server.faults["429_second"] == len(clock.waits) > 0


@pytest.mark.slow
def test_odd_answer_is_an_answer(faults, student, run, measured, unbroken):
    odd = "trickle", "twice", "two_choices", "no_name"
    with faults.FaultServer(student, lambda request: odd[request.number % 4]) as server:
        folder, problem = run(server)
    assert problem is None
    assert measured(folder) == unbroken()
    assert len(server.requests) == len(server.answered)
    assert set(server.faults) == set(odd)


def test_unanswered_tasks_restart_after_the_others_have_ended(faults, student, run, measured, unbroken):
    plan = about(TASKS[1], "503")
    with faults.FaultServer(student, lambda r: plan(r) if r.nth == 1 else "") as server:
        folder, problem = run(server, AT_ONCE, "loop.max_attempts=1")
    assert problem is None
    assert measured(folder) == unbroken("loop.max_attempts=1")
    assert written(folder) == [(TASKS[1].task_id, "server_error")]
    assert json.loads((folder.path / "summary.json").read_text())["set_aside"] == {"server_error": 1}
    items = [TASKS[1].prompt.strip() in request.text for request, _ in server.requests]
    assert set(server.answered.values()) == {1}
    assert items.count(True) == 2 + (items[-1] is False)


# What does not pass


@pytest.mark.parametrize("names", [("503",), tuple(NAMED)], ids=["one", "every"])
@pytest.mark.slow
def test_unanswered_tasks_leave_the_run_incomplete(faults, student, run, measured, unbroken, names):
    failing = {task.task_id: NAMED[fault] for task, fault in zip(MORE[1:], names, strict=False)}
    with faults.FaultServer(student, about_each(MORE[1:], names)) as server:
        folder, problem = run(server, AT_ONCE, MANY, "model.timeout=2", "model.deadline=2", "workers=8")
        assert isinstance(problem, Unanswered)
        assert problem.outcome in failing.values()
        assert f"{len(names)} task{'s' * (len(names) > 1)} got no answer in two tries (" in str(problem)
        counts = Counter(failing.values())
        assert all(f"{outcome} {count}" in str(problem) for outcome, count in counts.items())
        assert any(f"task {task_id}, attempt 1" in str(problem) for task_id in failing)
        assert sorted(written(folder)) == sorted([*failing.items()] * 2)
        assert set(folder.results) == {task.task_id for task in MORE} - set(failing)
        server.plan = lambda request: ""
        again, problem = run(server, MANY, "model.retries=3", f"resume={folder.path}")
    assert problem is None
    assert measured(again) == unbroken(MANY)
    assert set(server.answered.values()) == {1}
    assert summary(Log.read(again)).set_aside == {outcome: 2 * count for outcome, count in counts.items()}


def test_a_server_that_is_down_is_given_up_soon(faults, student, run, measured, unbroken):
    with faults.FaultServer(student, lambda request: "503") as server:
        folder, problem = run(server, AT_ONCE, "workers=2", MANY)
        assert (type(problem), problem.outcome, problem.is_lasting) == (Unanswered, "server_error", False)
        assert 2 + PATIENCE < len(written(folder)) <= 2 + PATIENCE + 2
        server.plan = lambda request: ""
        folder, problem = run(server, AT_ONCE, "workers=2", MANY, f"resume={folder.path}")
    assert problem is None
    assert measured(folder) == unbroken(MANY)


STOPS = {
    "429_absurd": ("rate_limited", False, "Retry-After: 86400, of which at most 120 s are waited"),
    **dict.fromkeys(("no_credit", "payment", "key_limit", "low_balance"), ("rate_limited", True, "credit is spent")),
    "404": (None, None, "model.model"), "other_model": ("wrong_model", True, "model.answers_as=['teacher']"),
    "403": ("key_refused", True, "put a valid one into the environment variable OPENAI_API_KEY"),
}  # fmt: skip
"""By fault: outcome, whether it lasts, what the error names. A rejected request and what lasts stop a run at once."""


@pytest.mark.parametrize("fault", STOPS)
def test_run_stops_and_names_the_cause(faults, student, run_alone, capsys, tmp_path, fault):
    outcome, is_lasting, text = STOPS[fault]
    plan = about(TASKS[0], fault) if is_lasting is False else lambda request: fault
    with faults.FaultServer(student, plan, model="teacher" if fault == "other_model" else "student") as server:
        try:
            folder, problem = run_alone(server, "workers=1")
        except (Unanswered, ModelNotFound) as caught:  # before the first reply: no folder is left
            folder, problem = None, caught
    assert (getattr(problem, "outcome", None), getattr(problem, "is_lasting", None)) == (outcome, is_lasting)
    assert isinstance(problem, Unanswered if outcome else ModelNotFound)
    assert text in str(problem)
    if is_lasting is False:
        assert f"finish it with the same command and resume={folder.path}" in capsys.readouterr().err
        assert server.faults[fault] == 2  # once a loop
        assert len(folder.results) == 3
    else:
        assert any(note.startswith("while acting: task basics/") for note in problem.__notes__)
        assert len(server.requests) == 1
        assert "resume=" not in capsys.readouterr().err
        assert not list((tmp_path / "runs").glob("2*"))


# Keys


@pytest.mark.parametrize(("last", "is_file"), [(1, False), (4, True)])
def test_expired_key_stops_the_run_and_a_new_key_finishes_it(
    faults, student, run, measured, unbroken, monkeypatch, tmp_path, last, is_file
):
    def plan(request):
        return "401" if request.number > last and request.authorization.endswith("old") else ""

    file = tmp_path / "key"
    file.write_text("sk-planted-new\n")
    file.chmod(0o600)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-old")
    with faults.FaultServer(student, plan) as server:
        folder, problem = run(server)
        assert (problem.outcome, problem.is_lasting) == ("key_refused", True)
        assert 1 <= server.faults["401"] <= 3  # no more than there are workers
        assert {outcome for _, outcome in written(folder)} == {"key_refused"}
        if not is_file:
            monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-new")
        folder, problem = run(server, f"resume={folder.path}", *[f"model.api_key_file={file}"] * is_file)
    assert problem is None
    assert measured(folder) == unbroken()
    assert set(server.answered.values()) == {1}
    text = "".join(path.read_text() for path in folder.path.iterdir() if path.suffix in (".json", ".jsonl"))
    assert "sk-planted" not in text


# What is withheld


WITHHELD = {"refusal": "refusal", "content_filter": "content_filter", "azure_filter": "content_filter"}


@pytest.mark.slow
def test_withheld_replies_have_their_own_outcome_per_task(faults, student, run, measured, unbroken):
    ends = WITHHELD | dict.fromkeys(("overflow_with_200", "overflow_vllm"), "context_overflow")
    ends |= {"wrong_model": "wrong_model"}
    touched = dict(zip((task.task_id for task in MORE[1:]), ends.values(), strict=False))
    with faults.FaultServer(student, about_each(MORE[1:], ends)) as server:
        folder, problem = run(server, "workers=1", "reflector=rules", MANY)
    assert problem is None
    assert len(touched) == 6
    for task_id, end in touched.items():
        attempts = folder.attempts[task_id]
        assert {attempt.trajectory.finish_reason for attempt in attempts} == {end}
        assert {attempt.evaluation.outcome for attempt in attempts} == {end}
        assert {attempt.trajectory.solution for attempt in attempts} == {""}
        assert {folder.grades[task_id, attempt.number].passed for attempt in attempts} == {False}
    withheld = Counter(touched[task_id] for task_id in touched for _ in folder.attempts[task_id])
    assert json.loads((folder.path / "summary.json").read_text())["withheld"] == withheld
    loops, whole = measured(folder)[0], unbroken("reflector=rules", MANY)[0]
    assert loops.keys() == whole.keys()
    assert {task: loop for task, loop in loops.items() if task not in touched} == {
        task: loop for task, loop in whole.items() if task not in touched
    }
    assert written(folder) == []


def test_other_ends_are_kept_as_they_are(faults, student, run):
    ends = {"length": "length", "null": "stop", "empty": "stop", "odd_end": "eos_token", "no_end": ""}
    with faults.FaultServer(student, about_each(MORE, ends)) as server:
        folder, problem = run(server, "loop.max_attempts=1", "reflector=none", "benchmark.load.n=5")
    assert problem is None
    firsts = [folder.attempts[task.task_id][0] for task in MORE[:5]]
    assert [first.trajectory.finish_reason for first in firsts] == list(ends.values())
    assert [first.evaluation.outcome for first in firsts[1:3]] == ["extraction_failed"] * 2
    assert set(server.faults) == set(ends)
    assert summary(Log.read(folder)).withheld == {}


def test_tasks_of_these_tests_are_those_of_the_runs():
    assert load_benchmark(RunConfig.of(compose("benchmark.load.n=4", "benchmark.load.seed=0"))).tasks == tuple(TASKS)
