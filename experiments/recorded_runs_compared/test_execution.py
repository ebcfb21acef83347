"""Recorded runs of other systems: executed here, nothing invented, nothing dropped, and no text in the evidence."""

import csv
import gzip
from collections import Counter

import pytest

from experiments.recorded_runs_compared.cases import CASES, COMPARED, RUNS, read_cases
from experiments.recorded_runs_compared.execution import execute, main, read_recordings, trials_of
from reflexion_lab.errors import DataError

PROMPT = 'def double(x):\n    """Twice x."""\n'
TEST = "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(0) == 0\n"
RIGHT, WRONG = "def double(x):\n    return x + x\n", "def double(x):\n    return x\n"
WORDS = "It returns x itself."


def step(code=RIGHT, passed=True, **fields):
    test = "assert double(1) == 2"
    feedback = {"recomputed_passed": [test] * passed, "recomputed_failed": [test] * (not passed)}
    return {"code": code, "feedback": feedback, "own_pass": code == RIGHT, "own_lenient": code == RIGHT, **fields}


def transcript(*attempts, problem="own/1", **fields):
    row = {"source": "somebody/else", "run": "m/run1", "model": "m", "strategy": "reflexion(max_iters=2)"}
    row |= {"bench": "own", "problem": problem, "entry_point": "double"}
    row |= {"prompt": PROMPT, "test": TEST, "visible_tests": None}
    return row | {"attempts": list(attempts), "logged_is_solved": True, "solution_is_attempt": 0} | fields


@pytest.fixture
def take(write_rows, tmp_path):
    """The evidence of rows, executed."""

    def take(*rows):
        execute(list(read_recordings(write_rows(*rows, name="log.jsonl"))), tmp_path, workers=2)
        return read_cases(tmp_path)

    return take


def test_a_recording_is_evidence_without_texts(take, tmp_path):
    wrong = step(WRONG, passed=False, reflection=WORDS)
    rows = [transcript(wrong, step(), run=f"m/run{n}", solution_is_attempt=n - 1) for n in (1, 2)]
    first, second = take(*rows)
    assert (first.run.arm, first.run.method, first.run.seed, second.run.seed) == ("reflexion-m-log", "reflexion", 1, 2)
    assert (first.run.overlapping, first.run.excluded, first.run.max_attempts) == (0, 0, 2)
    assert (first.run.same_as, second.run.same_as) == ("", "m/run1")
    assert first.log.manifest.feedback_source == "self_tests"
    assert first.log.manifest.model_fingerprint == "recorded:somebody/else/m"
    assert [(case.feedback, case.hidden, case.feedback_recorded, case.hidden_recorded) for case in first.cases] == [
        ("fail", "fail", "0", "0"), ("pass", "pass", "1", "1"),
    ]  # fmt: skip
    assert [[case.by_source for case in run.cases] for run in (first, second)] == [["1", ""], ["", "1"]]
    assert [bool(attempt.reflection) for attempt in first.log.every] == [True, False]
    assert {len(own) for own in first.cut(1).attempts.values()} == {1} and first.cut(1).is_graded
    text = (tmp_path / RUNS).read_text() + gzip.decompress((tmp_path / CASES).read_bytes()).decode()
    assert "own/1" in text and WORDS not in text and "double" not in text
    (tmp_path / RUNS).write_text("arm\nx\n")
    with pytest.raises(ValueError, match=RUNS):
        read_cases(tmp_path)


BODY = "return x + x\n"


@pytest.mark.parametrize(
    ("prompt", "reply", "solution"),
    [
        ("It's twice its argument.", RIGHT, RIGHT),
        (PROMPT.rstrip("\n"), f"    {BODY}", f"{PROMPT}    {BODY}"),
        (f"{PROMPT}    ", BODY, f"{PROMPT}    {BODY}"),
        (f"{PROMPT}    ", f"    {BODY}", f"{PROMPT}    {BODY}"),
        (f"{PROMPT}    ", RIGHT, f"{PROMPT}{RIGHT}"),
    ],
)
def test_a_reply_completes_its_prompt_or_stands_alone(take, tmp_path, write_rows, prompt, reply, solution):
    row = transcript({"code": None, "raw": reply, "own_lenient": True}, prompt=prompt)
    row |= {"visible_tests": ["assert double(1) == 2"]}
    (run,) = take(row)
    assert [(case.feedback, case.hidden) for case in run.cases] == [("pass", "pass")]
    (recording,) = read_recordings(tmp_path / "log.jsonl")
    assert [trial.program for trial in trials_of(recording)] == [solution]


def test_loops_see_the_program_as_it_was_and_the_judge_is_lenient(take):
    needs = "def double(x: Optional[int]):\n    return x + x\n"
    (run,) = take(transcript(step(needs, passed=False), step(None, own_lenient=False, feedback=None)))
    assert [(case.feedback, case.hidden) for case in run.cases] == [
        ("error", "pass"), ("extraction_failed", "extraction_failed"),
    ]  # fmt: skip
    assert not run.cases[1].program


def test_a_single_shot_has_no_feedback_despite_visible_tests(take):
    (run,) = take(transcript(step(WRONG), strategy="simple", visible_tests=["assert double(1) == 2"]))
    assert (run.log.manifest.feedback_source, run.cases[0].feedback) == ("none", "no_tests")


def test_rows_that_cannot_be_used_are_counted_and_named(write_rows, tmp_path, capsys):
    path = write_rows(transcript(step()), transcript(step(WRONG)), transcript(problem="own/2"))
    assert main([str(path), "--out", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert "line 2, field problem: got a second row of own/1" in output and "line 3, field attempts: got none" in output
    (line,) = csv.DictReader((tmp_path / RUNS).open())
    assert line["excluded"] == "2"


def test_compared_runs_are_judged_by_humaneval(take):
    add = step("def add(x: int, y: int):\n    return x + y\n", he_lenient=True, own_lenient=None)
    (run,) = take(transcript(add, problem="HumanEval/53", entry_point="add", source=COMPARED))
    assert (run.run.arm, run.cases[0].hidden, run.cases[0].hidden_recorded) == ("reflexion-m-humaneval", "pass", "1")


def test_an_unknown_strategy_and_a_name_twice_are_refused(take):
    with pytest.raises(DataError, match="got strategy 'tree of thoughts', expected one of simple, "):
        take(transcript(step(), strategy="tree of thoughts"))
    with pytest.raises(DataError, match="reflexion-m-log: got two runs 1, expected one"):
        take(transcript(step(), run="a/m/run1"), transcript(step(), run="b/m/run1"))


@pytest.mark.slow
@pytest.mark.soak
def test_our_execution_reproduces_gpt4_on_mbpp(recorded_runs, tmp_path):
    """Curves are by current attempt: a task whose loop has ended keeps its last verdict."""
    execute(list(read_recordings(recorded_runs / "transcripts" / "noah_mbpp_gpt4.jsonl.gz")), tmp_path)
    (run,) = read_cases(tmp_path)
    passed = {task: [case.hidden == "pass" for case in own] for task, own in run.by_task.items()}
    current = [sum(of_task[min(t, len(of_task)) - 1] for of_task in passed.values()) for t in range(1, 6)]
    assert current == [311, 278, 292, 279, 295]
    assert [sum(any(of_task[:t]) for of_task in passed.values()) for t in range(1, 6)] == [311, 326, 329, 329, 330]
    assert [point.solved for point in run.log.points] == [311, 305, 305, 303, 304]
    crossed = Counter((own[0].feedback == "pass", own[0].hidden == "pass") for own in run.by_task.values())
    assert crossed == {(True, True): 212, (True, False): 27, (False, True): 99, (False, False): 39}
    recorded = [(case.hidden_recorded, case.feedback_recorded) for case in run.cases]
    assert recorded == [(str(int(c.hidden == "pass")), str(int(c.feedback == "pass"))) for c in run.cases]
