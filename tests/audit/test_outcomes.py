"""Logs of other evaluation tools: outcomes by task, as logged."""

import json

import pytest

from reflexion_lab.audit.outcomes import read_outcomes
from reflexion_lab.cli.main import main


def lm_eval_row(number, passed, **fields):
    """A line of `samples_gsm8k_TIME.jsonl`, as `--log_samples` writes it."""
    row = {
        "doc_id": number, "doc": {"question": f"What is {number} + 1?", "answer": f"#### {number + 1}"},
        "target": str(number + 1),
        "arguments": {"gen_args_0": {"arg_0": f"Q: What is {number} + 1?\nA:", "arg_1": {"until": ["Q:"]}}},
        "resps": [[f"It is {number + passed}."]], "filtered_resps": [str(number + passed)], "filter": "strict-match",
        "metrics": ["exact_match"], "doc_hash": f"{number:064x}", "prompt_hash": f"{number + 1:064x}",
        "target_hash": f"{number + 2:064x}", "exact_match": float(passed),
    }  # fmt: skip
    return row | fields


def evalplus_results(statuses):
    """`*_eval_results.json` of evalplus: base and plus status by task."""
    entries = {
        task: [
            {"task_id": task, "base_status": base, "plus_status": plus, "plus_fail_tests": []} for base, plus in samples
        ]
        for task, samples in statuses.items()
    }
    return json.dumps({"date": "2026-01-01 00:00", "hash": "0" * 32, "eval": entries})


def test_lm_eval_samples_are_read_by_document_metric_and_filter(write_rows):
    rows = [lm_eval_row(n, n > 1) for n in range(4)]
    (strict,) = read_outcomes(write_rows(*rows))
    assert (strict.format, strict.metric, strict.n) == ("lm-evaluation-harness", "exact_match", 4)
    assert list(strict.by_task.values()) == [(False,), (False,), (True,), (True,)]
    flexible = [lm_eval_row(n, True, filter="flexible-extract", length=12.5) for n in range(4)]
    both = read_outcomes(write_rows(*rows, *flexible))
    assert [(log.metric, log.share.value) for log in both] == [
        ("exact_match,flexible-extract", 1), ("exact_match,strict-match", 0.5),
    ]  # fmt: skip
    with pytest.raises(ValueError, match=r"got no metric of 0 and 1"):
        read_outcomes(write_rows(lm_eval_row(0, True, exact_match=0.4)))


def test_evalplus_counts_plus_only_with_base(write_rows):
    statuses = {
        "HumanEval/0": [("pass", "pass"), ("pass", "fail")],
        "HumanEval/1": [("fail", "pass"), ("timeout", "fail")],
    }
    plus, base = read_outcomes(write_rows(evalplus_results(statuses)))
    assert (plus.metric, plus.by_task) == ("plus", {"HumanEval/0": (True, False), "HumanEval/1": (False, False)})
    assert (base.metric, base.by_task) == ("base", {"HumanEval/0": (True, True), "HumanEval/1": (False, False)})
    older = {"nfiles": 2, "base": [["success", []], ["failed", []]], "plus": [["failed", []], ["failed", []]]}
    logs = read_outcomes(write_rows(json.dumps({"hash": "", "eval": {"HumanEval/0": older}})))
    assert [log.by_task["HumanEval/0"] for log in logs] == [(False, False), (True, False)]
    (alone,) = read_outcomes(write_rows(evalplus_results({"HumanEval/0": [("pass", None)]})))
    assert alone.metric == "base"


def test_the_audit_prints_what_was_logged_and_says_that_nothing_was_executed(write_rows, capsys):
    path = write_rows(evalplus_results({"HumanEval/0": [("pass", "fail")], "HumanEval/1": [("pass", "pass")]}))
    assert main(["audit", str(path), str(write_rows(lm_eval_row(0, True))), "--json"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert [(log["metric"], log["share"], log["n"]) for log in json.loads(last)["outcomes"]] == [
        ("plus", 0.5, 2), ("base", 1, 2), ("exact_match", 1, 1),
    ]  # fmt: skip
    assert sum(line.startswith("Logged, not executed: ") for line in lines) == 3


@pytest.mark.parametrize(
    "text",
    ['{"eval": {"a": 3}}', '{"eval": {"a": [3]}}', '{"eval": ' + "[" * 100_000, '{"eval": {"a": {"base": [[]]}}}'],
)
def test_a_hostile_log_is_one_line(write_rows, capsys, text):
    assert main(["audit", str(write_rows(text))]) == 2
    assert len(capsys.readouterr().err.splitlines()) <= 2


@pytest.mark.parametrize(
    ("samples", "message"),
    [([("pass", "pass"), ("pass", None)], "no plus status"), ([(None, None)], "a sample without `base_status`")],
)
def test_a_sample_without_a_status_is_no_failure(write_rows, samples, message):
    with pytest.raises(ValueError, match=message):
        read_outcomes(write_rows(evalplus_results({"HumanEval/0": samples})))
