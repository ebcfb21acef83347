"""Runs as logs of inspect_ai and as ATIF trajectories: the same verdicts, and nothing that a reader must not see."""

import json
import math
import re
import sys

import pytest
from inspect_ai.log import read_eval_log, write_eval_log
from inspect_ai.scorer import SampleScore, stderr
from msgspec.structs import replace

from reflexion_lab.analysis.comparison.inspect_logs import load_logs
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.summary import summary
from reflexion_lab.cli.main import main
from reflexion_lab.errors import DataError
from reflexion_lab.records import Critique, Message, Step, Usage
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.studies.export import atif, inspect_log
from tests import builders
from tests.analysis.conftest import BASE, RIGHT, WORDS, WRONG, lines_of, run_writer

AGENT_ONLY = {"model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics"}
FIELDS = {
    "root": "schema_version session_id trajectory_id agent steps notes final_metrics continued_trajectory_ref extra",
    "agent": "name version model_name tool_definitions extra",
    "step": "step_id timestamp source message observation is_copied_context llm_call_count extra "
    + " ".join(AGENT_ONLY),
    "metrics": "prompt_tokens completion_tokens cached_tokens cost_usd logprobs extra",
    "final": "total_prompt_tokens total_completion_tokens total_cached_tokens total_cost_usd total_steps extra",
    "call": "tool_call_id function_name arguments extra",
    "result": "source_call_id content extra",
}


def atif_problems(whole):
    """What breaks the rules of RFC 0001, version 1.8, written from its text."""
    steps = whole["steps"]
    parts = [("root", whole), ("agent", whole["agent"]), ("final", whole["final_metrics"])]
    parts += [("step", step) for step in steps] + [("metrics", step["metrics"]) for step in steps if "metrics" in step]
    parts += [("call", call) for step in steps for call in step.get("tool_calls", ())]
    parts += [("result", each) for step in steps for each in step.get("observation", {}).get("results", ())]
    yield from (f"{kind}: {name}" for kind, part in parts for name in part.keys() - {*FIELDS[kind].split()})
    yield from (f"{kind}: null" for kind, part in parts for name, value in part.items() if value is None)
    if whole["schema_version"] != "ATIF-v1.8" or not {"name", "version"} <= whole["agent"].keys() or not steps:
        yield "head"
    for number, step in enumerate(steps, 1):
        if step["step_id"] != number or step["source"] not in ("system", "user", "agent"):
            yield f"step {number}"
        if not isinstance(step["message"], str) or (step["source"] != "agent" and AGENT_ONLY & step.keys()):
            yield f"step {number}: fields of agents"
        if step.get("llm_call_count") == 0 and {"metrics", "reasoning_content"} & step.keys():
            yield f"step {number}: metrics without a call"
        ids = {call["tool_call_id"] for call in step.get("tool_calls", ())}
        sources = {each.get("source_call_id") for each in step.get("observation", {}).get("results", ())}
        if not sources - {None} <= ids:
            yield f"step {number}: an unknown call"


def exported(folder, tmp_path):
    """The run's log, read back by inspect_ai, and its trajectories by task; both checked for form."""
    log = Log.read(RunFolder(folder.path))
    back = read_eval_log(str(inspect_log.save(tmp_path / f"{log.manifest.run_id}.eval", log)))
    (out := tmp_path / f"{log.manifest.run_id}.atif").mkdir()
    trajectories = [json.loads(path.read_text()) for path in atif.save(out, log)]
    assert [problem for each in trajectories for problem in atif_problems(each)] == []
    return log, back, {each["extra"]["task"]: each for each in trajectories}


@pytest.mark.parametrize("clusters", [None, {"a": "x", "b": "x", "c": "y", "d": "z"}])
def test_verdicts_accuracy_and_clustered_error_are_those_of_inspect(write_run, tmp_path, clusters):
    log, back, trajectories = exported(write_run(WORDS, clusters=clusters), tmp_path)
    verdicts = {task_id: grade.passed for task_id, (_, grade) in log.submitted.items()}
    assert {sample.id: sample.scores["judge"].value == "C" for sample in back.samples} == verdicts
    assert {task_id: each["extra"]["passed"] for task_id, each in trajectories.items()} == verdicts
    (score,) = back.results.scores
    assert score.metrics["accuracy"].value == summary(log).pass_at_1.share == 0.75
    cases = [SampleScore(score=s.scores["judge"], sample_id=s.id, sample_metadata=s.metadata) for s in back.samples]
    assert math.isclose(score.metrics["stderr"].value, stderr(cluster="cluster")(cases), rel_tol=1e-12)
    if not clusters:
        assert math.isclose(score.metrics["stderr"].value, stderr()(cases), rel_tol=1e-12)
    assert back.stats.role_usage["reflector"].total_tokens == summary(log).usage["reflector"].tokens > 0


def test_exported_logs_compare_as_their_runs(write_run, tmp_path, capsys):
    (runs := tmp_path / "runs").mkdir()
    write = run_writer(write_run, runs)
    for arm, verdicts in (("feedback_only", BASE), ("words", WORDS)):
        for seed in (7, 8):
            write(arm, verdicts, seed)
    assert main(["export", "--inspect", "--atif", str(runs), "--out", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out.count("4 trajectories") == 4
    tables = []
    for paths in (sorted(runs.iterdir()), sorted((tmp_path / "out").glob("*.eval"))):
        assert main(["compare", *map(str, paths), "--csv", str(tmp_path / "t.csv")]) == 0
        tables.append({key: line for key, line in lines_of(tmp_path / "t.csv").items() if key[2]})
    assert tables[0] == tables[1] and ("words", "pass_at_1", "equal_tokens") in tables[0]
    first = str(paths[-1])
    assert main(["compare", first, first]) == 2
    assert "task a at seed 8 of words in both" in capsys.readouterr().err
    (log := read_eval_log(first)).eval.model = "other"
    write_eval_log(log, str(tmp_path / "other.eval"))
    assert [arm.label for arm in load_logs([first, str(tmp_path / "other.eval")])] == ["words scripted", "words other"]
    log.samples[0].scores["judge"].value = "I" if log.samples[0].scores["judge"].value == "C" else "C"
    write_eval_log(log, str(tmp_path / "other.eval"))
    with pytest.raises(DataError, match="expected equal verdicts"):
        load_logs([str(tmp_path / "other.eval")])


def test_tasks_without_a_verdict_are_neither_right_nor_wrong(write_run, tmp_path):
    folder = write_run({"a": [RIGHT], "b": [WRONG], "c": [WRONG], "d": [WRONG], "train": [RIGHT]}, sealed=False)
    folder.append("results.jsonl", replace(folder.results["train"], split="train"))
    for task_id, outcome in (("b", "harness_error"), ("c", "no_tests")):
        folder.append("grades.jsonl", replace(builders.grade(task_id), outcome=outcome))
    log, back, trajectories = exported(folder, tmp_path)
    a, b, c, d, train = sorted(back.samples, key=lambda sample: sample.id)
    assert (a.scores["judge"].value, d.scores["judge"].value) == ("C", "I")
    assert not train.scores and b.error and not b.scores and math.isnan(c.scores["judge"].value) and not c.error
    assert back.results.scores[0].metrics["accuracy"].value == summary(log).pass_at_1.share == 0.5
    assert (back.results.completed_samples, back.results.scores[0].unscored_samples) == (4, 2)
    assert trajectories["b"]["extra"].get("passed") is None
    assert main(["compare", str(tmp_path / "run-1.eval"), "--csv", str(tmp_path / "t.csv")]) == 0
    assert lines_of(tmp_path / "t.csv")["run", "pass_at_1", ""]["n"] == "2"


def test_an_unfinished_run_is_cancelled_and_no_comparison_takes_it(write_run, tmp_path, capsys):
    _, back, _ = exported(write_run({"a": [RIGHT], "a@pass2": [WRONG]}, n_expected=3), tmp_path)
    assert (back.status, back.results.scores, back.results.total_samples) == ("cancelled", [], 3)
    assert [(sample.id, sample.epoch) for sample in back.samples] == [("a", 1), ("a", 2)]
    assert main(["compare", str(tmp_path / "run-1.eval")]) == 2
    assert "got 2 of 3 samples, status cancelled, expected each of them once" in capsys.readouterr().err


def test_turns_tools_and_roles_are_kept_and_upper_bounds_named(write_run, tmp_path, attempt):
    said, paid = (Message(role="system", content="be brief"), Message(role="user", content="go")), Usage(calls=1)
    seen = {"thought": "why", "messages": said, "usage": paid}
    turns = tuple(Step(action=do, observation=f"saw {do}", reply=f"  {do}", **seen) for do in ("look", "finish"))
    first = attempt("a/b", 1, 0.0)
    first = replace(first, trajectory=replace(first.trajectory, messages=said, steps=turns, extraction="play"))
    given = attempt("a_b", 1, 1.0)
    given = replace(
        given, trajectory=replace(given.trajectory, usage=Usage(), reply="", solution="\x00given \U0001f40d")
    )
    folder = write_run(attempts={"a/b": [first], "a_b": [given]}, feedback_source="oracle")
    _, back, trajectories = exported(folder, tmp_path)
    roles = {s.id: [message.role for message in s.messages] for s in back.samples}
    whole = next(sample for sample in back.samples if sample.id == "a/b")
    assert [message.text for message in whole.input] == [
        "be brief",
        "go",
    ] and whole.output.completion == "why\n\n  finish"
    assert roles["a/b"] == ["system", "user", "assistant", "tool", "assistant", "tool", "user"]
    steps = trajectories["a/b"]["steps"]
    assert [step["source"] for step in steps] == ["system", "user", "agent", "agent"]
    assert [len(step["observation"]["results"]) for step in steps[2:]] == [1, 2]
    (call,) = steps[2]["tool_calls"]
    assert (steps[2]["message"], steps[2]["reasoning_content"]) == ("  look", "why")
    assert (call["function_name"], call["arguments"]) == ("act", {"action": "look"})
    assert trajectories["a_b"]["steps"][0]["llm_call_count"] == 0
    assert "upper_bound" in back.results.scores[0].metrics and back.eval.tags == ["upper bound: hidden tests"]


def test_the_feedback_stands_at_the_submitted_draft_and_every_prompt_and_tool_is_there(write_run, tmp_path, attempt):
    """Of several drafts, an earlier one is submitted; a critic's and a reviser's prompts are new conversations."""
    ask, correct = ((Message(role="user", content=text),) for text in ("write", "correct"))
    paid, rung = Usage(calls=1, completion_tokens=1), Usage(calls=1, completion_tokens=5, uncounted_replies=1)
    notes = Critique(severity=1.0, issues=("adds 2",), source="tests", seconds=2.0)
    drafts = (Step(program="right", reply="right", messages=ask, usage=paid, critique=notes, seconds=3.0),
              Step(program="wrong", reply="wrong", messages=correct, usage=paid, observation="1 of 2"))  # fmt: skip
    several, retry = attempt("a", 1, 0.0), attempt("a", 2, 1.0)
    work = replace(several.trajectory, messages=ask, steps=drafts, usage=paid + paid, reply="right", solution="right")
    next_model = replace(retry.trajectory, strategy="escalation", usage=Usage(), others={"strong": rung})
    both = [replace(several, trajectory=work), replace(retry, trajectory=next_model)]
    _, back, trajectories = exported(write_run(attempts={"a": both}), tmp_path)
    first, second, third = (s for s in trajectories["a"]["steps"] if s.get("llm_call_count"))
    assert [step["extra"]["role"] for step in (first, second, third)] == ["actor", "actor", "strong"]
    assert [len(step["observation"]["results"]) for step in (first, second)] == [1, 1]
    assert first["observation"]["results"][0]["extra"]["outcome"] == both[0].evaluation.outcome
    assert [s["message"] for s in trajectories["a"]["steps"][:5]] == ["write", "right", "adds 2", "correct", "wrong"]
    (sample,) = back.samples
    calls = [event for event in sample.events if event.event == "model"]
    assert [call.output.completion for call in calls][:2] == ["right", "wrong"] and calls[2].role == "strong"
    assert sample.output.completion == next_model.solution and calls[2].output.usage is None
    assert sample.model_usage == {} and sample.role_usage.keys() >= {"actor"} and "strong" not in sample.role_usage
    assert math.isclose(sample.working_time, sum(each.seconds for each in both))


def test_no_hidden_test_and_no_secret_is_in_an_export(tmp_path, capsys):
    task = {"task_id": "own/1", "prompt": 'def up(n):\n    """Return n + 1."""\n', "entry_point": "up",
            "visible_tests": ["assert up(1) == 2"], "hidden_tests": ["assert up(98765) == 98766"],
            "canonical_solution": "    return n + 1\n"}  # fmt: skip
    (tmp_path / "own.jsonl").write_text(json.dumps(task) + "\n")
    assert main(["run", "model=simulated", f"benchmark={tmp_path / 'own.jsonl'}", "tracker=none", "quiet=true",
                 f"run_root={tmp_path / 'runs'}", "experiment=reflexion", "temperature=0.8"]) == 0  # fmt: skip
    (manifest := next((tmp_path / "runs").glob("*/manifest.json"))).write_text(
        manifest.read_text().replace('"config": {', '"config": {"api_key": "hunter2hunter2",', 1)
    )
    assert main(["export", "--inspect", "--atif", str(manifest.parent)]) == 0
    out = tmp_path / "runs" / "exports"
    texts = [path.read_text() for path in out.glob("*.atif/*.json")]
    texts.append(read_eval_log(str(next(out.glob("*.eval"))), resolve_attachments=True).model_dump_json())
    assert len(texts) == 2 and all("Return n + 1" in text for text in texts)
    assert not any(re.search(r"98765|98766|hunter2", text) for text in texts)
    capsys.readouterr()


def test_without_a_format_or_the_package_one_line_says_what_to_do(write_run, tmp_path, monkeypatch, capsys):
    path, foreign = str(write_run(BASE).path), tmp_path / "a.eval"
    foreign.write_bytes(b"PK")
    assert main(["export", path]) == 2
    assert "got no format, expected --inspect, --atif or both" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "inspect_ai.log", None)
    for words in (["export", "--inspect", path], ["compare", str(foreign)], ["audit", str(foreign)]):
        assert main(words) == 2
        assert "pip install 'reflexion_lab[inspect]'" in capsys.readouterr().err
    assert main(["export", "--atif", path]) == 0
