"""Evidence of imported runs: figures from the files are those from the run folders, and no text is in them."""

import gzip

import pytest

from experiments._tools.recorded_cases import CASES, RUNS, main, read_cases
from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.comparison import compare
from reflexion_lab.analysis.comparison.grouping import arms
from reflexion_lab.analysis.report.documents import rows
from reflexion_lab.audit.import_runs import import_files

PROMPT = 'def double(x):\n    """Twice x."""\n'
TEST = "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(0) == 0\n"
RIGHT, WRONG = "def double(x):\n    return x + x\n", "def double(x):\n    return x\n"
WORDS = "It returns x itself."
LEFT_OUT = ("models", "run_ids")
"""Columns of what is not in the evidence."""


def attempt(code, passed, **fields):
    check = ["assert double(1) == 2"]
    feedback = {"recomputed_passed": check * passed, "recomputed_failed": check * (not passed)}
    return {"code": code, "feedback": feedback, "own_pass": code == RIGHT, "own_lenient": code == RIGHT, **fields}


def loop(*attempts, problem, run, strategy="reflexion"):
    task = {"problem": problem, "entry_point": "double", "prompt": PROMPT, "test": TEST, "visible_tests": None}
    named = {"source": "somebody/else", "bench": "own", "run": f"m/run{run}", "model": "m", "strategy": strategy}
    return named | task | {"attempts": list(attempts), "solution_is_attempt": 0}


@pytest.fixture
def folders(write_rows, tmp_path):
    """Run folders of two strategies with two runs each, in which the second task is repaired by one of them alone."""
    wrong, right = attempt(WRONG, False, reflection=WORDS), attempt(RIGHT, True)
    loops = [
        loop(*attempts, problem=f"own/{task}", run=run, strategy=strategy)
        for strategy, second in (("reflexion", wrong), ("simple_repeat", right))
        for run in (1, 2)
        for task, attempts in ((1, [attempt(RIGHT, run == 1)]), (2, [wrong, second]), (3, [wrong]))
    ]
    imported = import_files([write_rows(*loops, name="log.jsonl")], tmp_path / "runs", quiet=True, workers=2)
    return [run.folder for run in imported]


@pytest.fixture
def evidence(folders, tmp_path):
    words = [*map(str, folders), "--transcripts", str(tmp_path), "--out", str(tmp_path / "out")]
    assert main(words) == 0
    return tmp_path / "out"


def compared(grouped):
    lines = rows(compare(grouped, "reflexion", "calls"))
    return [{name: value for name, value in line.items() if name not in LEFT_OUT} for line in lines]


def test_comparisons_of_the_files_are_those_of_the_run_folders(folders, evidence):
    by_arm = {}
    for run in read_cases(evidence):
        by_arm.setdefault(run.run.method, []).append(run.log)
    lines = compared([Arm(name, logs) for name, logs in by_arm.items()])
    assert lines == compared(arms(folders))
    assert [line["pass_at_1"] for line in lines] == [pytest.approx(1 / 3), pytest.approx(2 / 3)]


def test_the_files_hold_verdicts_and_no_text(evidence, tmp_path):
    (first, second, *_) = read_cases(evidence)
    assert {task: len(own) for task, own in first.log.attempts.items()} == {"own/1": 1, "own/2": 2, "own/3": 1}
    assert {len(own) for own in first.cut(1).attempts.values()} == {1}
    assert first.cut(1).is_graded
    assert [(case.feedback, case.feedback_recorded, case.hidden_recorded) for case in first.cases] == [
        ("pass", "1", "1"),
        *[("fail", "0", "0")] * 3,
    ]
    assert (second.cases[0].feedback, second.cases[0].feedback_recorded) == ("pass", "0")
    assert [case.by_source for case in first.cases] == ["1", "1", "", "1"]
    assert [bool(attempt.reflection) for attempt in first.log.every] == [False, True, True, True]
    text = (evidence / RUNS).read_text() + gzip.decompress((evidence / CASES).read_bytes()).decode()
    assert "own/2" in text and WORDS not in text and "double" not in text

    with pytest.raises(ValueError, match=RUNS):
        read_cases(tmp_path / "elsewhere")
    path = evidence / CASES
    text = gzip.decompress(path.read_bytes())
    for name in (b"hidden,", b"by_source\n"):
        path.write_bytes(gzip.compress(text.replace(name, b"other" + name[-1:], 1)))
        with pytest.raises(ValueError, match=name[:-1].decode()):
            read_cases(evidence)
