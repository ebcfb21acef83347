"""Programs in files of other tools are executed, with their own tests, HumanEval's, or those of a file named beside."""

import json

import pytest

from reflexion_lab.cli.main import main

TWICE, SQUARE = "def twice(x):\n    return 2 * x\n", "def twice(x):\n    return x * x\n"
PROMPT = 'def twice(x):\n    """Two times x."""\n'
PROBLEM = {"task_id": "Own/0", "prompt": PROMPT, "entry_point": "twice", "canonical_solution": "    return 2 * x\n",
           "test": "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(3) == 6\n"}  # fmt: skip
LAST = "def last(items):\n    return items[-1] + 1\n"
MBPP = {"task_id": 2, "text": "One more than the last item.", "code": LAST,
        "test_list": ["assert last([BASE]) == 2", "assert last([0]) == 1"],
        "test_setup_code": "BASE = 1", "challenge_test_list": []}  # fmt: skip
ADD = "def add(x, y):\n    return x + y\n"


def evalplus(task_id, *samples):
    entry = [{"task_id": task_id, "solution": program, "base_status": base, "plus_status": plus}
             for program, base, plus in samples]  # fmt: skip
    return {"eval": {task_id: entry}}


def lm_eval(number, doc, program, passed, **fields):
    filtered = program if isinstance(program, list) else [program]
    row = {"doc_id": number, "doc": doc, "target": "", "resps": [["…"]], "filtered_resps": [filtered], "filter": "none"}
    return row | {"metrics": ["pass@1"], "doc_hash": f"h{number}", "pass@1": passed} | fields


CASES = {
    "samples of a problem file": (
        [{"task_id": "Own/0", "completion": "    return 2 * x\n", "passed": True},
         {"task_id": "Own/0", "completion": SQUARE, "passed": True}], PROBLEM, (2, 1, 1)),
    "the prompt's imports stay": (
        [{"task_id": "Own/0", "completion": "def twice(x: List) -> List:\n    return 2 * x\n", "passed": True}],
        PROBLEM | {"prompt": "from typing import List\n\n" + PROMPT}, (1, 1, 1)),
    "samples of MBPP": (
        [{"task_id": "Mbpp/2", "solution": LAST, "passed": True},
         {"task_id": "MBPP/2", "completion": LAST, "passed": True},
         {"task_id": "mbpp/2", "completion": LAST.replace("items[-1] + 1", "1"), "passed": False}], MBPP, (3, 2, 2)),
    "own tests give way": (
        [PROBLEM | {"test": "assert True", "solution": SQUARE, "is_solved": True}], PROBLEM, (1, 0, 0)),
    "transcripts": ([{"task_id": "Own/0", "attempts": [{"code": TWICE, "raw": ""}], "logged_is_solved": True}],
                    PROBLEM, (1, 1, 1)),
    "evalplus, base": ([evalplus("HumanEval/53", (ADD, "pass", "fail"), (ADD.replace("+", "-"), "pass", "pass"))],
                       None, (2, 1, 1)),
    "evalplus, base of a name": ([evalplus("HumanEval/53", (ADD, "pass", "fail"), (ADD, "fail", "pass"))],
                                 "humaneval", (2, 2, 1)),
    "evalplus, base of MBPP": ([evalplus("Mbpp/2", (LAST, "pass", "fail"))], MBPP | {"url": ""}, (1, 1, 1)),
    "evalplus, plus": ([evalplus("Own/0", (TWICE, "pass", "pass"), (SQUARE, "pass", "fail"))], PROBLEM, (2, 1, 2)),
    "lm-eval with HumanEval's form": (
        [lm_eval(0, PROBLEM, PROMPT + "    return 2 * x\n", 1.0), lm_eval(1, PROBLEM, SQUARE, 1.0),
         lm_eval(2, PROBLEM, SQUARE, 0.0)], None, (3, 1, 2)),
    "lm-eval with MBPP's form": ([lm_eval(0, MBPP, LAST, 1, metrics=None)], MBPP, (1, 1, 1)),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_programs_are_executed_with_the_tests_of_their_task(case, write_rows, tmp_path, capsys):
    rows, problem, expected = CASES[case]
    path = write_rows(*rows)
    if "eval" in rows[0]:
        path = path.rename(tmp_path / "x_eval_results.json")
    file = str(write_rows(problem) if isinstance(problem, dict) else problem)
    words = ["--benchmark", file] if problem else []
    assert main(["audit", str(path), "--json", *words]) == 0
    printed = capsys.readouterr()
    assert printed.err.count("fields not read: url") == (problem == MBPP | {"url": ""})
    *lines, last = printed.out.splitlines()
    report = json.loads(last)
    assert (report["n"], report["pass"], report["agree"]) == expected, report
    assert any(f"{expected[1]} of {expected[0]}" in line and line.startswith("Passes: ") for line in lines)
    assert [log["metric"] for log in report["outcomes"]] == ["plus"] * case.startswith("evalplus, base")


@pytest.mark.parametrize(("row", "name", "says"), [
    (evalplus("Mbpp/2", (LAST, "pass", "fail")), "x.json", "or --benchmark FILE"),
    (evalplus("HumanEval/53", (None, "pass", "pass")), "x.json", "a sample without `solution`"),
    (lm_eval(0, PROBLEM, [TWICE, SQUARE], 1), "x.jsonl", ""), (lm_eval(0, [[]], "2", 1), "x.jsonl", ""),
])  # fmt: skip
def test_what_is_not_executed_says_so(row, name, says, write_rows, tmp_path, capsys):
    assert main(["audit", str(write_rows(row).rename(tmp_path / name)), "--json"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("Logged, not executed: ") and says in printed.err
    assert json.loads(printed.out.splitlines()[-1])["n"] == 0
