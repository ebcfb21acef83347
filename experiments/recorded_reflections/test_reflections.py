"""Recorded reflections: what counts as followed, repaired and whole; chance; and a difference within strata."""

from __future__ import annotations

import gzip
import itertools

import pytest

from experiments._tools.evidence import CASES, read_rows
from experiments.recorded_reflections.analysis import LABELS, SECOND, pairs, read_cases, read_labels, wrong
from experiments.recorded_reflections.cases import digest, ending, is_whole, main, nearest, next_step
from experiments.recorded_reflections.coverage import COVERAGE, FOLDER, SCENARIOS, coverage
from experiments.recorded_reflections.stratified import Outcome, counts, difference, of_two_flags, stratified
from experiments.words_and_their_controls.words import plain_tokens
from reflexion_lab.audit.transcripts import Row, Transcript, read_transcripts

RIGHT, WRONG = "def double(x):\n    return x + x\n", "def double(x):\n    return x\n"
SEQUENTIAL = ("agentevals_reflexion_humaneval", "cray_deepseek_humaneval", "noah_mbpp_gpt4")


def outcomes(stratum, flag, passed, failed):
    return [Outcome(f"{stratum}{flag}{n}", stratum, flag, n < passed) for n in range(passed + failed)]


def test_in_one_stratum_it_is_the_difference_of_shares():
    rows = [*outcomes("a", True, 6, 2), *outcomes("a", False, 1, 3)]
    estimate, p = stratified(rows)
    assert estimate.value == pytest.approx(0.75 - 0.25)
    assert estimate.low < 0.5 < estimate.high and 0 < p < 1


def test_strata_that_differ_in_both_shares_make_no_difference():
    """A model that names more and repairs more; within each model the flag makes no difference."""
    rows = [*outcomes("a", True, 16, 4), *outcomes("a", False, 4, 1)]
    rows += [*outcomes("b", True, 1, 4), *outcomes("b", False, 4, 16)]
    assert stratified(rows)[0].value == pytest.approx(0)
    together = [row._replace(stratum="", cluster=row.cluster + row.stratum) for row in rows]
    assert stratified(together)[0].value > 0.3


def test_weights_are_those_of_mantel_and_haenszel():
    rows = [
        *outcomes("a", True, 3, 1),
        *outcomes("a", False, 1, 1),
        *outcomes("b", True, 0, 2),
        *outcomes("b", False, 1, 1),
    ]
    weights = 4 * 2 / 6, 2 * 2 / 4
    expected = (weights[0] * (0.75 - 0.5) + weights[1] * (0 - 0.5)) / sum(weights)
    assert difference(counts(rows).sum(axis=0)) == pytest.approx(expected)


def test_without_both_flags_in_a_stratum_there_is_no_difference():
    assert stratified([]) is None
    assert stratified(outcomes("a", True, 3, 1)) is None


def test_two_flags_on_the_same_cases_are_compared_within_tasks():
    """Equal flags have no standard error; repairs go with one flag and not with the other."""
    cause = [Outcome(f"t{n}", "a", n % 2 == 0, n % 2 == 0 or n % 10 == 1) for n in range(40)]
    check = [outcome._replace(flag=n % 4 < 2) for n, outcome in enumerate(cause)]
    assert of_two_flags(cause, cause) is None
    estimate, p = of_two_flags(check, cause)
    assert estimate.value == pytest.approx(stratified(cause)[0].value - stratified(check)[0].value)
    assert estimate.low > 0 and p < 0.05
    assert of_two_flags(cause, check)[0].value == pytest.approx(-estimate.value)
    with pytest.raises(AssertionError, match="same cases"):
        of_two_flags(cause, check[:-1])


def test_coverage_is_that_of_the_simulation():
    rows = read_rows(FOLDER / COVERAGE)
    assert len(rows) == len(SCENARIOS)
    assert all(float(row["coverage"]) >= 0.93 for row in rows if row["cases"] != "cut programs")
    assert rows[0] == {name: str(value) for name, value in coverage(FOLDER, *SCENARIOS[0]).items()}


def loop(*states, starts=()):
    attempts = [{"code": WRONG, "reflection": "words"} for _ in states]
    fields = {"attempts": attempts, "states": [list(state) for state in states], "expanded_state": list(starts)}
    return Transcript.of(Row(file="log.jsonl", line=1, fields=fields))


def test_the_next_attempt_reads_a_reflection_and_in_a_search_the_one_that_surely_starts_there():
    plain = loop((True,), (True,), (False,), starts=[None, "(True,)", "(True,)"])
    numbers = [
        [getattr(next_step(plain, step, search), "number", None) for step in plain.steps] for search in (False, True)
    ]
    assert numbers == [[2, 3, None], [2, None, None]]  # the third starts from a state of two attempts
    branches = loop((True,), (False,), (True, True), starts=[None, "(True,)", "(True,)"])
    assert [getattr(next_step(branches, step, True), "number", None) for step in branches.steps] == [2, None, None]


@pytest.mark.parametrize(
    ("program", "whole"),
    [
        (RIGHT, True),
        ("def double(x):\n    return [x", False),
        ("def double(x):\n    def inner(y):\n        return y\n", False),
        ("def double(x):\n    if x:\n        return x\n", True),
        ("def double(x):\n    return\n", False),
        ("def other(x):\n    return x\n", False),
    ],
)
def test_a_program_is_whole_if_its_own_function_returns_a_value(program, whole):
    assert is_whole(program, "double") is whole


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (RIGHT, "whole"),
        ("def double(x):\n    return [x", "unparsed"),
        ("def double(x):\n    def inner(y):\n        return y\n", "nested"),
        ("def double(x):\n    print(x)\n", "no_value"),
    ],
)
def test_endings_of_programs(program, expected):
    assert ending(program, "double") == expected


def test_pairs_are_of_one_model_task_and_program_and_of_two_runs():
    case = wrong(read_cases(FOLDER))[0]
    others = [case._replace(run="other"), case._replace(item="same run"), case._replace(run="other", program="other")]
    assert pairs([case, *others[1:]]) == []
    assert pairs([case, others[0]]) == [(case, others[0])]


def test_equal_texts_have_equal_digests_and_others_do_not():
    assert digest(RIGHT) == digest(RIGHT) != digest(RIGHT + " ") and len(digest("")) == 12


def test_digests_are_those_of_the_recorded_programs(recorded_runs):
    rows = {(row["file"], row["run"], row["task"], row["attempt"]): row for row in read_rows(FOLDER / CASES)}
    seen = 0
    for name in SEQUENTIAL:
        for transcript in read_transcripts(recorded_runs / "transcripts" / f"{name}.jsonl.gz"):
            for step in transcript.steps:
                if row := rows.get((name, transcript.run, transcript.task_id, str(step.number))):
                    seen += 1
                    assert (row["program"], row["reflection"]) == (digest(step.code), digest(step.reflection.strip()))
    assert seen == sum(row["file"] in SEQUENTIAL for row in rows.values())


def test_the_nearest_correct_program_has_most_tokens_in_common():
    programs = [RIGHT, "def double(x):\n    total = 0\n    for _ in range(2):\n        total += x\n    return total\n"]
    correct = [(program, plain_tokens(program)) for program in programs]
    assert nearest("def double(x):\n    return x - x\n", correct) == RIGHT
    assert nearest("def double(x):\n    for _ in range(2):\n        x += x\n    return x\n", correct) == programs[1]
    assert nearest(WRONG, []) == ""


def test_evidence_has_flags_verdicts_and_chance_and_no_text(write_rows, tmp_path):
    def attempt(code, words=None):
        failing = code == WRONG
        feedback = {"recomputed_passed": [], "recomputed_failed": ["assert double(3) == 6"] * failing}
        return {"code": code, "feedback": feedback, "reflection": words} | dict.fromkeys(
            ("own_pass", "own_lenient", "he_pass", "he_lenient"), not failing
        )

    def row(number, words):
        test = "def check(candidate):\n    assert candidate(2) == 4\n"
        fields = {"source": "somebody/else", "run": "m/run1", "model": "m", "strategy": "reflexion", "bench": "own"}
        fields |= {"problem": f"own/{number}", "entry_point": "double", "prompt": 'def double(x):\n    """Twice."""\n'}
        return fields | {"test": test, "visible_tests": None, "attempts": [attempt(WRONG, words), attempt(RIGHT)]}

    log = write_rows(row(1, "For double(3) I return the wrong value."), row(2, "I was careless."), name="log.jsonl")
    sheet = tmp_path / "sheet.csv"
    assert main([str(log), "--out", str(tmp_path), "--sheet", str(sheet), "--workers", "2"]) == 0
    first, second = read_rows(tmp_path / CASES)
    assert [(each["right"], each["next_right"], each["failing"]) for each in (first, second)] == [("0", "1", "1")] * 2
    assert [(each["names_check"], float(each["chance_check"])) for each in (first, second)] == [("1", 0), ("0", 1)]
    assert [each["names_cause"] for each in (first, second)] == ["", ""]  # no canonical program
    assert first["program"] == second["program"] == digest(WRONG) and first["reflection"] != second["reflection"]
    assert [(each["right_own"], each["ending"], each["others_alike"]) for each in (first, second)] == [
        ("0", "whole", "1")
    ] * 2
    text = gzip.decompress((tmp_path / CASES).read_bytes()).decode()
    assert "careless" not in text and "double" not in text
    assert len(sheet.read_text().splitlines()) == 1  # a sheet has reflections of the primary comparison alone


def test_two_readers_answer_for_the_same_items_in_yes_and_no():
    rows = [read_rows(FOLDER / name) for name in (LABELS, SECOND)]
    assert [row["item"] for row in rows[0]] == [row["item"] for row in rows[1]]
    assert len({row["reader"] for of_file in rows for row in of_file}) == 2
    answers = {row[name] for of_file in rows for row in of_file for name in ("names_check", "names_cause", "is_advice")}
    assert answers == {"yes", "no"}


def test_labels_are_of_the_primary_comparison_by_a_named_reader():
    primary = {case.item for case in wrong(read_cases(FOLDER))}
    assert set(read_labels(FOLDER)) < primary and len(primary) - len(read_labels(FOLDER)) == 1
    assert {row["reader"] for row in read_rows(FOLDER / LABELS)} == {"one reader, a language model"}


def test_verdicts_are_those_of_the_recorded_runs(recorded_runs):
    """Outside the search, every reflection that a further attempt followed, with both verdicts of the hidden tests."""
    expected = set()
    for name in SEQUENTIAL:
        for transcript in read_transcripts(recorded_runs / "transcripts" / f"{name}.jsonl.gz"):
            for step, following in itertools.pairwise(transcript.steps):
                kinds = ("he_lenient", "own_lenient")
                verdicts = [next(v for kind in kinds if (v := s.verdict(kind)) is not None) for s in (step, following)]
                if step.reflection.strip():
                    key = (name, transcript.run, transcript.task_id, str(step.number), str(following.number))
                    expected.add((*key, *(str(int(verdict)) for verdict in verdicts)))
    columns = ("file", "run", "task", "attempt", "next_attempt", "right", "next_right")
    rows = {tuple(row[name] for name in columns) for row in read_rows(FOLDER / CASES)}
    assert {row for row in rows if row[0] in SEQUENTIAL} == expected
