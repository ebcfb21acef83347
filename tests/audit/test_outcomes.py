"""Logs of other evaluation tools: outcomes by task, and paired comparisons of two logs."""

import json
import zipfile

import pytest

from reflexion_lab.analysis.stats.intervals import mcnemar
from reflexion_lab.audit.outcomes import compare, read_outcomes
from reflexion_lab.cli.main import main

GRADES = {"a": "C", "b": "C", "c": "I", "d": "N", "e": "C"}
OTHERS = {"a": "C", "b": "I", "c": "I", "d": "C", "e": "I"}


def lm_eval_row(number, passed, **fields):
    """A line of `samples_gsm8k_TIME.jsonl`, as `--log_samples` writes it."""
    row = {
        "doc_id": number,
        "doc": {"question": f"What is {number} + 1?", "answer": f"#### {number + 1}"},
        "target": str(number + 1),
        "arguments": {"gen_args_0": {"arg_0": f"Q: What is {number} + 1?\nA:", "arg_1": {"until": ["Q:"]}}},
        "resps": [[f"It is {number + passed}."]],
        "filtered_resps": [str(number + passed)],
        "filter": "strict-match",
        "metrics": ["exact_match"],
        "doc_hash": f"{number:064x}",
        "prompt_hash": f"{number + 1:064x}",
        "target_hash": f"{number + 2:064x}",
        "exact_match": float(passed),
    }
    return row | fields


def inspect_log(grades, **fields):
    """A log of inspect_ai in JSON."""
    samples = [
        {
            "id": name,
            "epoch": epoch,
            "input": "?",
            "target": "!",
            "messages": [{"role": "user", "content": "?"}],
            "scores": {"match": {"value": grade, "answer": "!", "explanation": "?"}},
        }
        for epoch, of_epoch in enumerate(grades, 1)
        for name, grade in of_epoch.items()
    ]
    evaluation = {"task": "toy", "model": "mockllm/model", "created": "2026-01-01T00:00:00+00:00"}
    log = {"version": 2, "status": "success", "eval": evaluation, "plan": {}, "results": {}, "stats": {}}
    return json.dumps({**log, "samples": samples, **fields}, indent=2)


def evalplus_results(statuses):
    """`*_eval_results.json` of evalplus: base and plus status by task."""
    entries = {
        task: [
            {"task_id": task, "solution": "", "base_status": base, "plus_status": plus, "plus_fail_tests": []}
            for base, plus in samples
        ]
        for task, samples in statuses.items()
    }
    return json.dumps({"date": "2026-01-01 00:00", "hash": "0" * 32, "eval": entries})


def test_lm_eval_samples_are_read_by_document_metric_and_filter(write_rows):
    rows = [lm_eval_row(n, n > 1) for n in range(4)]
    strict = read_outcomes(write_rows(*rows))
    assert (strict.format, strict.metric, strict.n) == ("lm-evaluation-harness", "exact_match", 4)
    assert list(strict.by_task.values()) == [(False,), (False,), (True,), (True,)]
    flexible = [lm_eval_row(n, True, filter="flexible-extract", length=12.5) for n in range(4)]
    both = write_rows(*rows, *flexible)
    with pytest.raises(ValueError, match="one of exact_match,flexible-extract, exact_match,strict-match"):
        read_outcomes(both)
    assert read_outcomes(both, "exact_match,flexible-extract").share.value == 1
    with pytest.raises(ValueError, match=r"got no metric of 0 and 1"):
        read_outcomes(write_rows(lm_eval_row(0, True, exact_match=0.4)))


def test_evalplus_counts_plus_only_with_base(write_rows):
    statuses = {
        "HumanEval/0": [("pass", "pass"), ("pass", "fail")],
        "HumanEval/1": [("fail", "pass"), ("timeout", "fail")],
    }
    path = write_rows(evalplus_results(statuses))
    assert read_outcomes(path).by_task == {"HumanEval/0": (True, False), "HumanEval/1": (False, False)}
    assert read_outcomes(path, "base").by_task == {"HumanEval/0": (True, True), "HumanEval/1": (False, False)}
    older = {"nfiles": 2, "base": [["success", []], ["failed", []]], "plus": [["failed", []], ["failed", []]]}
    path = write_rows(json.dumps({"hash": "", "eval": {"HumanEval/0": older}}))
    assert (read_outcomes(path, "base").by_task, read_outcomes(path).by_task) == (
        {"HumanEval/0": (True, False)},
        {"HumanEval/0": (False, False)},
    )


def test_inspect_logs_are_read_as_json_and_as_an_archive(write_rows, tmp_path):
    log = inspect_log([GRADES, OTHERS])
    outcomes = read_outcomes(write_rows(log))
    assert (outcomes.format, outcomes.metric) == ("inspect_ai", "match")
    assert outcomes.by_task["b"] == (True, False)
    path = tmp_path / "log.eval"
    for members in ({"summaries.json": json.loads(log)["samples"]}, dict(enumerate(json.loads(log)["samples"]))):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("header.json", "{}")
            for name, member in members.items():
                archive.writestr(name if isinstance(name, str) else f"samples/{name}.json", json.dumps(member))
        assert read_outcomes(path).by_task == outcomes.by_task


def test_a_pair_is_tested_over_tasks(write_rows, capsys):
    first, second = (str(write_rows(inspect_log([grades, GRADES]))) for grades in (GRADES, OTHERS))
    pair = compare(read_outcomes(first), read_outcomes(second))
    assert (pair.tasks, pair.cases, pair.gained, pair.lost, pair.alone) == (5, 10, 1, 2, 0)
    assert pair.difference.value == pytest.approx(-0.1)
    assert pair.p == mcnemar(1, 2) == 1
    short = str(write_rows(inspect_log([{"a": "I", "z": "C"}])))
    assert main(["audit", "--paired", first, second, short, "--json"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    result = json.loads(last)
    assert [(row["pairs"], row["gained"], row["lost"], row["left_out"]) for row in result["pairs"]] == [
        (10, 1, 2, 0), (1, 0, 1, 5)
    ]  # fmt: skip
    assert any("5 tasks of one log alone, left out" in line for line in lines)


def test_logs_without_a_common_task_and_single_logs_are_refused(write_rows, capsys):
    first, second = str(write_rows(inspect_log([GRADES]))), str(write_rows(lm_eval_row(0, True)))
    assert main(["audit", "--paired", first, second]) == 2
    assert "no common task" in capsys.readouterr().err
    assert main(["audit", "--paired", first]) == 2
    assert main(["audit", first, second]) == 0
    assert "60.0 % [" in capsys.readouterr().out


@pytest.mark.parametrize(
    "text",
    [
        '{"eval": {"a": 3}}',
        '{"eval": {"a": [3]}}',
        '{"eval": {}, "samples": [3]}',
        '{"eval": {}, "samples": [{"id": 1, "scores": {"match": {"value": "P"}}}]}',
        '{"eval": ' + "[" * 100_000,
        '{"eval": {"a": {"base": [[]]}}}',
        "PK\x03\x04broken",
    ],
)
def test_a_hostile_log_is_one_line(write_rows, capsys, text):
    assert main(["audit", "--paired", *2 * [str(write_rows(text))]]) == 2
    assert len(capsys.readouterr().err.splitlines()) <= 2


@pytest.mark.parametrize("damage", ["deflated", "lzma", "encrypted"])
def test_a_damaged_or_encrypted_archive_is_one_line(tmp_path, capsys, damage):
    path = tmp_path / "log.eval"
    method = zipfile.ZIP_LZMA if damage == "lzma" else zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("summaries.json", inspect_log([GRADES]))
    data = bytearray(path.read_bytes())
    if damage == "encrypted":
        data[6] |= 1
        data[data.find(b"PK\x01\x02") + 8] |= 1
    else:
        data[55:75] = b"\xff" * 20
    path.write_bytes(data)
    assert main(["audit", str(path)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_an_archive_that_expands_without_limit_is_refused(tmp_path):
    path = tmp_path / "bomb.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("summaries.json", b" " * (80 << 20))
    with pytest.raises(ValueError, match="bytes that unpack to 83"):
        read_outcomes(path)


HOTPOT = """
########################################
BEGIN TRIAL {number}
Trial summary: Correct: {correct}, Incorrect: {incorrect}
#######################################
------------- BEGIN CORRECT AGENTS -------------

{right}
------------- BEGIN INCORRECT AGENTS -----------

{wrong}
"""


def hotpot(tmp_path, name, *trials):
    """A text log: by trial, for each question its answer and whether it is right."""
    texts = []
    for number, answers in enumerate(trials, 1):
        agents = {True: [], False: []}
        for question, (answer, is_right) in answers.items():
            grade = "CORRECT" if is_right else "INCORRECT"
            hint = "You have attempted to answer following question before and failed." * (number > 1 and not is_right)
            lines = [f"Question: {question}?{hint}", f"Thought 1: {answer}", f"Observation 1: Answer is {grade}"]
            agents[is_right].append("\n".join([*lines, "Correct answer: x", ""]))
        right, wrong = ("\n".join(agents[side]) for side in (True, False))
        counts = {"correct": len(agents[True]), "incorrect": len(agents[False])}
        texts.append(HOTPOT.format(number=number, right=right, wrong=wrong, **counts))
    path = tmp_path / name
    path.write_text("".join(texts))
    return str(path)


def test_text_trials_are_paired_at_their_last_common_trial(tmp_path, capsys):
    failed = [{f"q{n}": (f"no {trial}", False) for n in range(12)} for trial in range(4)]
    right = {"q0": ("x", True)}
    base = hotpot(tmp_path, "base.txt", failed[0], failed[1], failed[1])
    learns = hotpot(tmp_path, "learns.txt", failed[0], failed[1] | right, failed[2] | right, failed[3] | right)
    assert main(["audit", "--paired", base, learns, "--json"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    result = json.loads(last)
    assert (result["pairs"][0]["metric"], result["pairs"][0]["gained"]) == ("solved by trial 3", 1)
    assert [log["identical_retries"] for log in result["logs"]] == [[12, 24], [0, 33]]
    assert [line for line in lines if line.startswith("Control")] == [
        "Control that cannot change: 12 of 24 retries repeat the attempt before"
    ]


@pytest.mark.parametrize(
    ("correct", "wrong", "message"),
    [
        (3, "", "got 1 transcripts of correct agents, expected 3, as its summary says"),
        (1, "Question: a\ny\n", "got a correct and a failed transcript of 'a'"),
    ],
)
def test_a_text_log_that_cannot_be_taken_apart_is_refused(tmp_path, capsys, correct, wrong, message):
    path = tmp_path / "log.txt"
    path.write_text(HOTPOT.format(number=1, correct=correct, incorrect=1, right="Question: a\nx\n", wrong=wrong))
    assert main(["audit", "--paired", str(path), str(path)]) == 2
    assert f"trial 1: {message}" in capsys.readouterr().err


def test_different_metrics_are_not_compared(write_rows, capsys):
    full = str(write_rows(evalplus_results({"HumanEval/0": [("pass", "fail")]})))
    base_only = str(write_rows(evalplus_results({"HumanEval/0": [("pass", None)]})))
    assert main(["audit", "--paired", full, base_only]) == 2
    assert "--metric: got plus of " in capsys.readouterr().err
    assert main(["audit", "--paired", full, base_only, "--metric", "base"]) == 0


@pytest.mark.parametrize(
    ("samples", "message"),
    [([("pass", "pass"), ("pass", None)], "no plus status"), ([(None, None)], "a sample without `base_status`")],
)
def test_a_sample_without_a_status_is_no_failure(write_rows, samples, message):
    with pytest.raises(ValueError, match=message):
        read_outcomes(write_rows(evalplus_results({"HumanEval/0": samples})))


def test_samples_that_cannot_be_paired_are_counted(write_rows, capsys):
    path = str(write_rows(inspect_log([GRADES | {"p": "P", "half": 0.5, "none": None}])))
    assert main(["audit", path, "--json"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert [(log["n"], log["ungraded"]) for log in json.loads(last)["outcomes"]] == [(5, 3)]
    assert any("left out: 3 samples of " in line for line in lines)
    log = json.loads(inspect_log([{"a": "C"}]))
    del log["samples"][0]["id"]
    with pytest.raises(ValueError, match="a sample without `id`"):
        read_outcomes(write_rows(json.dumps(log)))


@pytest.mark.parametrize("options", [["--metric", "base"], ["--paired", "--limit", "1"], ["--paired", "--attempts"]])
def test_an_option_without_effect_is_refused(write_rows, capsys, options):
    paths = [str(write_rows(evalplus_results({"HumanEval/0": [("pass", "fail")]}))) for _ in range(2)]
    assert main(["audit", *paths, *options]) == 2
    assert options[0 if options[0] == "--metric" else 1] in capsys.readouterr().err


def test_the_papers_control_on_hotpotqa_cannot_change(recorded_runs):
    logs = recorded_runs / "trials" / "hotpotqa"
    base, reflexion = (
        read_outcomes(logs / f"ReAct__{name}__100_questions_5_trials.txt.gz").trials for name in ("base", "reflexion")
    )
    assert [rate.k for rate in base.curve] == [34] * 5
    assert [rate.k for rate in reflexion.curve] == [32, 42, 48, 50, 51]
    assert [str(retries) for retries in base.retries] == ["47 of 66", "49 of 66", "51 of 66", "56 of 66"]
    assert (base.repeats.is_fixed, reflexion.repeats.is_fixed) == (True, False)
