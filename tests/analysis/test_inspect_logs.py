"""Logs of inspect_ai in `compare` and `audit`: its own, and every kind of value that they may hold."""

import json
import math
import re

import pytest
from inspect_ai import Task, eval
from inspect_ai import log as logs
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageSystem, ChatMessageUser, ContentText, ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import SampleScore, Score, match, stderr
from inspect_ai.solver import solver

from reflexion_lab.analysis.comparison.inspect_logs import load_logs, verdict
from reflexion_lab.analysis.stats.bootstrap import linearised
from reflexion_lab.audit.outcomes import read_outcomes
from reflexion_lab.cli.main import main
from tests.analysis.conftest import lines_of

TASKS, EPOCHS, BROKEN = 9, 2, 4
USAGE = ModelUsage(input_tokens=8, output_tokens=2, total_tokens=10)


@solver
def breaks_at_one():
    async def solve(state, generate):
        if state.sample_id == BROKEN:
            raise RuntimeError("this sample ends with an error")
        return await generate(state)

    return solve


@pytest.fixture(scope="module")
def own_logs(tmp_path_factory):
    """Two logs that inspect_ai itself wrote, of two systems on the same tasks; one sample of each epoch broke."""
    folder = tmp_path_factory.mktemp("logs")
    samples = [Sample(id=i, input=f"What is {i} + {i}?", target=str(2 * i), metadata={"cluster": f"c{i // 2}"})
               for i in range(TASKS)]  # fmt: skip
    places = []
    for hard in (3, 6):  # the first tasks are wrong, up to this one

        def reply(messages, *_, hard=hard):
            number = int(re.search(r"\d+", messages[-1].text)[0])
            output = ModelOutput.from_content("mockllm/model", str(2 * number + (number < hard)))
            output.usage = USAGE  # else it looks tokens up, online
            return output

        task = Task(dataset=MemoryDataset(samples, name="sums"), solver=breaks_at_one(), scorer=match(), epochs=EPOCHS)
        model = get_model("mockllm/model", custom_outputs=reply)
        (log,) = eval(task, model, log_dir=str(folder / str(hard)), display="none", fail_on_error=False)
        places.append(log.location.removeprefix("file://"))
    return places


def test_two_logs_of_inspect_are_compared_as_pairs(own_logs, tmp_path, capsys):
    assert main(["compare", *own_logs, "--csv", str(tmp_path / "t.csv"), "--json"]) == 0
    line = next(line for key, line in lines_of(tmp_path / "t.csv").items() if key[1:] == ("pass_at_1", "as_run"))
    assert math.isclose(float(line["value"]), -2 / 8) and float(line["low"]) < -2 / 8 < float(line["high"])
    arms = json.loads(capsys.readouterr().out.splitlines()[-1])["arms"]
    assert [(len(arm["no_verdict"]), arm["seeds"]) for arm in arms] == [(EPOCHS, [1, 2])] * 2


def test_logs_of_inspect_are_read_alike_as_json_and_packed_with_its_clustered_error(own_logs, tmp_path):
    log, (arm,) = logs.read_eval_log(own_logs[1]), load_logs([own_logs[1]])
    scored = [sample for sample in log.samples if not sample.error]
    cases = [SampleScore(score=s.scores["match"], sample_id=s.id, sample_metadata=s.metadata) for s in scored]
    share, means = linearised(arm.by_cluster(arm.verdicts()))
    assert math.isclose(stderr(cluster="cluster")(cases), means.std(ddof=1) / len(means) ** 0.5, rel_tol=1e-12)
    assert math.isclose(share, log.results.scores[0].metrics["accuracy"].value, rel_tol=1e-12)
    logs.write_eval_log(logs.read_eval_log(own_logs[0]), str(tmp_path / "same.json"))
    (packed,), (plain,) = load_logs(own_logs[:1]), load_logs([str(tmp_path / "same.json")])
    assert packed.verdicts() == plain.verdicts() and packed.clusters == plain.clusters
    assert packed.usage.tokens == plain.usage.tokens == 10 * (TASKS - 1) * EPOCHS


def test_the_audit_reports_shares_and_what_is_odd_in_them(own_logs, capsys):
    assert main(["audit", *own_logs, "--json"]) == 0
    *_, last = capsys.readouterr().out.splitlines()
    first, second = json.loads(last)["outcomes"]
    assert (first["metric"], first["format"], first["n"], first["tasks"]) == ("match", "inspect_ai", 16, 8)
    assert first["notes"] == ["2 of 18 samples have no verdict, 2 after an error"]
    assert second["share"] == 3 / 8 and second["notes"] == first["notes"]


def sample(number, value, epoch=1, text="", **fields):
    values = value if isinstance(value, dict) else {"s": value}
    scores = {name: each if isinstance(each, Score) else Score(value=each) for name, each in values.items()}
    messages, output = [ChatMessageUser(content=f"question {number}")], ModelOutput.from_content("m", text)
    fields = {"messages": messages, "output": output, "target": "t", "input": f"question {number}"} | fields
    return logs.EvalSample(id=number, epoch=epoch, scores=scores, **fields)


def log_of(path, *samples, status="success", total=0, accuracy=None):
    metrics = {} if accuracy is None else {"accuracy": logs.EvalMetric(name="accuracy", value=accuracy)}
    spec = logs.EvalSpec(created="2026-01-01T00:00:00+00:00", task="quiz", model="m\x1b[2J", config=logs.EvalConfig(),
                    dataset=logs.EvalDataset(name="quiz", samples=len({s.id for s in samples})))  # fmt: skip
    results = logs.EvalResults(
        total_samples=total or len(samples), scores=[logs.EvalScore(name="s", scorer="s", metrics=metrics)]
    )
    logs.write_eval_log(logs.EvalLog(eval=spec, status=status, results=results, samples=list(samples)), str(path))
    return str(path)


@pytest.mark.parametrize(("value", "meaning"), [
    ("C", True), ("I", False), ("N", False), ("P", "partial"), (1, True), (0.0, False), (True, True), (False, False),
    ("yes", True), ("No", False), ("1", True), ("0.0", False), (math.nan, None), (0.5, "refused"), (2, "refused"),
    ("A", "refused"), ([1, 0], "refused"), ({"a": 1}, "refused"), ("", "refused"), (math.inf, "refused"),
], ids=str)  # fmt: skip
def test_every_value_has_a_meaning_or_is_refused(value, meaning):
    case = sample("q", {"s": Score(value=value)})
    if meaning == "refused":
        with pytest.raises(ValueError, match=r"x.eval, sample q, epoch 1, score s: got .* expected C, I, P, N"):
            verdict("x.eval", case, "s")
    else:
        assert verdict("x.eval", case, "s") == ((False, True) if meaning == "partial" else (meaning, False))
    assert verdict("x.eval", case, "absent") == (None, False)


def test_an_error_that_was_scored_counts_and_partial_credit_is_named(tmp_path):
    error = logs.EvalError(message="m", traceback="", traceback_ansi="")
    samples = [sample(1, "C", error=error), sample(2, {}, error=error), sample(3, "P"), sample(4, math.nan)]
    with pytest.warns(UserWarning, match="partial credit of 1 samples"):
        (arm,) = load_logs([log_of(tmp_path / "a.eval", *samples)])
    assert {case.task_id: passed for case, passed in arm.verdicts().items()} == {"1": True, "3": False}


@pytest.mark.parametrize(("samples", "fields", "message"), [
    ([sample(1, "C")], {"total": 5, "status": "error"}, "got 1 of 5 samples, status error, expected each of them once"),
    ([sample(1, {"a": 1, "b": 0})], {}, "got scores a, b, expected one score per sample; --score NAME"),
    ([sample(1, {"f": Score(value={"a": 1, "b": 0})})], {}, "got scores f.a, f.b, expected one score per sample"),
    ([sample(1, {})], {}, "got no score, status success"),
    ([sample(1, 0.5)], {}, "sample 1, epoch 1, score s: got 0.5"),
    ([], {}, "got no sample"),
])  # fmt: skip
def test_what_cannot_be_compared_is_refused_by_file_and_reason(tmp_path, samples, fields, message):
    with pytest.raises(ValueError, match=rf"a\.eval.*{message}"):
        load_logs([log_of(tmp_path / "a.eval", *samples, **fields)])


@pytest.mark.parametrize(
    "data", [b"", b"PK\x03\x04torn", b'{"version": 2, "status": "success", "eval": {}}', b"[" * 9999]
)
@pytest.mark.parametrize("name", ["a.eval", "a.json"])
@pytest.mark.parametrize("command", ["compare", "audit"])
def test_a_damaged_log_is_one_line(tmp_path, capsys, command, name, data):
    (tmp_path / name).write_bytes(data)
    assert main([command, str(tmp_path / name)]) == 2
    assert len(capsys.readouterr().err.splitlines()) <= 2


def test_one_of_several_scores_is_chosen_and_logs_stand_alone(tmp_path, capsys):
    path = log_of(tmp_path / "a.eval", *(sample(n, {"a": n % 2, "b": 1, "f1": 0.3}) for n in range(6)))
    assert main(["compare", path, "--score", "a"]) == 0
    assert "50.0" in (text := capsys.readouterr().out) and "\x1b[2J" not in text and "x1b[2J" in text
    assert [(log.metric, log.share.value) for log in read_outcomes(path)] == [("a", 0.5), ("b", 1)]
    for others in ([path, "runs"], [path, "cases.csv"], ["cases.csv", "--score", "a"]):
        assert main(["compare", *others]) == 2
        assert ("beside others" if path in others else "expected logs of inspect_ai") in capsys.readouterr().err


def test_logs_of_messages_and_of_scores_with_parts_are_compared(tmp_path, capsys):
    def log(name, text):
        content = [ContentText(text=f"another {text}")]
        inputs = [[ChatMessageSystem(content=text), ChatMessageUser(content=content)] for _ in range(6)]
        scores = [{"f": Score(value={"a": "CI"[n % 2], "b": 0.5})} for n in range(6)]
        return log_of(tmp_path / name, *(sample(n, scores[n], input=inputs[n]) for n in range(6)))

    paths = log("a.eval", "q"), log("b.eval", "q"), log("c.eval", "p")
    assert [main(["compare", *of, "--score", "f.a"]) for of in (paths[:2], paths[1:])] == [0, 2]
    assert "expected one benchmark" in capsys.readouterr().err


def test_findings_of_an_audit(tmp_path):
    long = {"target": "a long target", "messages": [ChatMessageUser(content="say: a long target")]}
    samples = [sample(n, "I", epoch, "same", **long) for n in range(6) for epoch in (1, 2, 3)]
    (log,) = read_outcomes(log_of(tmp_path / "a.eval", *samples, sample(9, "P"), status="cancelled", accuracy=0.9))
    assert log.notes == (
        "status cancelled", "partial credit of 1 samples counts as not passed",
        "the target is in the prompt of 18 samples, such as 0",
    )  # fmt: skip
    (stated,) = read_outcomes(log_of(tmp_path / "b.eval", sample(1, 1), sample(2, 0), accuracy=0.9))
    assert stated.notes == ("states an accuracy of 0.9000, its samples have 0.5000",)
