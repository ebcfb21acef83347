"""Traces: spans of attempts, and what MLflow holds of them."""

import json
from itertools import pairwise

import pytest
from msgspec.structs import replace

from reflexion_lab.analysis.run_log import Log
from reflexion_lab.records import Critique, Message, Step, Usage
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.studies.tracking import traces as trace_writing
from reflexion_lab.studies.tracking.mlflow import MlflowTracker, TrackerError
from reflexion_lab.studies.tracking.traces import AFTER, sampled, traces

BEGAN = 1_740_823_200_000_000_000


def log_of(path):
    return Log.read(RunFolder.existing(path))


def changed(log, attempt):
    return replace(log, attempts={attempt.task_id: [attempt]}, results={})


def traces_of(log, tasks):
    return list(traces(log, tasks, BEGAN))


def timed(attempt, acted, evaluated, reflected):
    assert attempt.reflection
    return replace(
        attempt,
        trajectory=replace(attempt.trajectory, usage=replace(attempt.trajectory.usage, seconds=acted)),
        evaluation=replace(attempt.evaluation, seconds=evaluated),
        reflection=replace(attempt.reflection, usage=replace(attempt.reflection.usage, seconds=reflected)),
    )


def test_an_attempt_is_actor_evaluator_and_reflector(run):
    first, second, last = traces_of(log_of(run(solved_at=(3,), n_expected=1)), ["t/0"])
    assert [span.name for span in first.spans[1:]] == ["actor", "evaluator", "reflector"]
    assert [span.name for span in last.spans[1:]] == ["actor", "evaluator"]  # nothing to reflect on
    assert (first.tags["attempt"], second.tags["attempt"], last.tags["attempt"]) == ("1", "2", "3")


def test_steps_follow_each_other_without_a_gap(run):
    log = log_of(run(solved_at=(0,), n_expected=1))
    log = changed(log, timed(log.attempts["t/0"][0], 1.0, 0.25, 0.5))
    (trace,) = traces_of(log, ["t/0"])
    times = [(span.began - BEGAN, span.ended - BEGAN) for span in trace.spans]
    assert times == [(0, 1_750_000_000), (0, 10**9), (10**9, 1_250_000_000), (1_250_000_000, 1_750_000_000)]
    assert [span.parent for span in trace.spans] == [None, 0, 0, 0]


def test_turns_of_an_actor_are_within_it_and_cost_is_counted_once(run):
    log = log_of(run(solved_at=(1,), n_expected=1))
    attempt = log.attempts["t/0"][0]
    own, critics = Usage(calls=1, prompt_tokens=5, completion_tokens=2, seconds=1.0), Usage(calls=1, prompt_tokens=3)
    critique = Critique(severity=0.5, issues=("off by one",), source="llm", usage=critics)
    step = Step(action="run_tests", observation="boom", messages=(Message(role="user", content="go"),), usage=own)
    steps = (step, replace(step, critique=critique))
    trajectory = replace(attempt.trajectory, steps=steps, usage=own + own, others={"critic": critics})
    (trace,) = traces_of(changed(log, replace(attempt, trajectory=trajectory)), ["t/0"])
    _, actor, first, second, _ = trace.spans
    assert (first.name, second.name) == ("step 1: run_tests", "step 2: run_tests")
    assert first.parent == second.parent == trace.spans.index(actor)
    assert sum((span.usage for span in trace.spans), Usage()) == own + own + critics
    assert json.loads(first.inputs)["messages"] == [{"role": "user", "content": "go"}]
    assert json.loads(second.outputs)["critique"]["issues"] == ["off by one"]
    assert actor.ended - actor.began == 2 * 10**9


def test_the_hidden_verdict_is_a_tag_and_nowhere_in_the_spans(run):
    log = log_of(run(solved_at=(0,), n_expected=1))
    grades = {key: replace(grade, outcome="hidden-word") for key, grade in log.grades.items()}
    for trace in traces_of(replace(log, grades=grades), ["t/0"]):
        assert trace.tags[AFTER] == "hidden-word"
        assert "hidden-word" not in "".join(span.inputs + span.outputs for span in trace.spans)


def test_prompt_reply_and_feedback_are_verbatim_without_logins(run):
    log = log_of(run(solved_at=(0,), n_expected=1))
    attempt = log.attempts["t/0"][0]
    prompt = (Message(role="user", content="Write ‘f’\nnow"),)
    trajectory = replace(attempt.trajectory, messages=prompt, reply="see http://someone:hunter2@host:8000/v1 …")
    evaluation = replace(attempt.evaluation, feedback="f(1) was 2")
    (trace,) = traces_of(changed(log, replace(attempt, trajectory=trajectory, evaluation=evaluation)), ["t/0"])
    _, actor, evaluator, reflector = trace.spans
    assert json.loads(actor.inputs)["messages"][0]["content"] == "Write ‘f’\nnow"
    assert json.loads(actor.outputs)["reply"] == "see http://host:8000/v1 …"
    assert json.loads(evaluator.outputs)["feedback"] == json.loads(reflector.inputs)["feedback"] == "f(1) was 2"


def test_samples_of_tasks_are_nested_and_depend_on_the_seed_alone():
    tasks = [f"t/{number}" for number in range(40)]
    samples = [sampled(tasks, share, seed=3) for share in (0.0, 0.1, 0.5, 1.0)]
    assert [len(sample) for sample in samples] == [0, 4, 20, 40]
    assert all(set(smaller) <= set(larger) for smaller, larger in pairwise(samples))
    assert len(sampled(tasks, 7, seed=3)) == 7
    assert len(sampled(tasks, 0.001, seed=3)) == 1
    assert sampled(tasks, 0.2, seed=1) == sampled(tasks[::-1], 0.2, seed=1) != sampled(tasks, 0.2, seed=2)


@pytest.fixture
def traced(tracker):
    """Reads back the traces of the experiment, spans included."""
    from mlflow import MlflowClient

    def read():
        client = MlflowClient(tracker.uri)
        place = client.get_experiment_by_name("trial").experiment_id
        return list(client.search_traces(locations=[place], max_results=500))

    return read


def showing(tracker, traces, most=1000):
    return MlflowTracker(tracker.uri, experiment="trial", traces=traces, max_traces=most)


def test_every_attempt_of_the_sampled_tasks_is_a_trace_up_to_a_cap(tracker, run, traced, logged, capsys):
    path = run(solved_at=(1, 2, 3, 0))
    showing(tracker, 1.0, most=4).track(path)
    assert len(traced()) == 4
    assert "4 of 9 attempts written; tracker.max_traces ends them" in capsys.readouterr().err
    showing(tracker, 1.0).track(path)
    (job,), infos = logged(), [trace.info for trace in traced()]
    assert len(infos) == 9
    assert {info.trace_metadata["mlflow.sourceRun"] for info in infos} == {job.info.run_id}
    assert {(info.tags["task_id"], info.tags["attempt"]) for info in infos} >= {("t/2", "3"), ("t/3", "1")}
    assert {str(info.state.value) for info in infos} == {"OK"}
    tracker.track(path)
    assert traced() == [], "by default nothing is traced"


def test_a_trace_reads_back_with_roles_tokens_and_verdicts(tracker, run, traced):
    showing(tracker, 1.0).track(run(solved_at=(2,), n_expected=1))
    first = next(trace for trace in traced() if trace.info.tags["attempt"] == "1")
    root, *inner = first.data.spans
    assert [span.name for span in inner] == ["actor", "evaluator", "reflector"]
    assert [span.span_type for span in (root, *inner)] == ["AGENT", "LLM", "EVALUATOR", "LLM"]
    assert {span.parent_id for span in inner} == {root.span_id}
    assert first.info.token_usage == {"input_tokens": 87, "output_tokens": 23, "total_tokens": 110}
    assert root.name == "attempt 1: t/0"
    assert first.info.request_preview == first.info.tags["mlflow.traceName"] == "t/0, attempt 1: reflexion s0"
    assert first.info.response_preview == "feedback: fail; graded after the loop: fail"
    assert root.outputs["program"] == "```python\nx\n```"
    assert inner[1].outputs["outcome"] == first.info.tags["feedback"] == "fail"
    assert first.info.tags["graded after the loop"] == "fail"
    assert first.info.tags["arm"] == "reflexion"
    text = first.to_json()
    assert not [secret for secret in ("hunter2", "abc-auth-token", "SOME_API_KEY", "/home/someone") if secret in text]


def test_traces_of_tasks_with_long_names_keep_to_their_sessions(tracker, run, traced):
    folder = run(solved_at=(0, 0), n_expected=2)
    for path in folder.glob("*.jsonl"):
        path.write_text(path.read_text().replace("t/", "long" * 75))
    showing(tracker, 1.0).track(folder)
    sessions = {trace.info.tags["task_id"]: trace.info.trace_metadata["mlflow.trace.session"] for trace in traced()}
    assert len(sessions) == len(set(sessions.values())) == 2


def test_a_failure_within_traces_leaves_the_former_run(tracker, run, logged, monkeypatch):
    path = run(solved_at=(1, 2), n_expected=2)
    tracker.track(path)
    (former,) = logged()

    def broken(*_, **__):
        raise OSError("no space left")

    monkeypatch.setattr(trace_writing, "write", broken)
    with pytest.raises(TrackerError, match=r"no space left.*the run is safe in its folder"):
        showing(tracker, 1.0).track(path)
    assert [job.info.run_id for job in logged()] == [former.info.run_id]


@pytest.mark.parametrize(("arguments", "key"), [((-0.1,), "traces"), ((1.5,), "traces"), ((1.0, 0), "max_traces")])
def test_an_impossible_share_or_cap_is_refused(arguments, key):
    with pytest.raises(ValueError, match=rf"tracker\.{key}: "):
        MlflowTracker("sqlite:///some.db", "trial", None, "127.0.0.1", 5000, *arguments)
