import json

import msgspec
import pytest

from reflexion_lab.errors import DataError
from reflexion_lab.tasks.benchmarks.jsonl import jsonl
from reflexion_lab.tasks.evaluators.unit_tests import run_tests

GSM8K = {"question": "3 boxes of 14?", "answer": "Each has 14, so 3 * 14 = <<3*14=42>>42 pens.\n#### 42"}
AIME = {"id": 60, "problem": "Find $n$.", "answer": 204, "year": "2024"}
SENTENCES = [["Ann Lee", ["Ann Lee was born in Oslo.", "She paints."]], ["Oslo", ["Oslo is a city."]]]
HOTPOT = {
    "_id": "5a",
    "question": "Where was the painter born?",
    "answer": "Oslo",
    "context": SENTENCES,
    "level": "hard",
}
HUB = {**HOTPOT, "context": {"title": [t for t, _ in SENTENCES], "sentences": [s for _, s in SENTENCES]}}


def read(tmp_path, *rows):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return jsonl(str(path)).tasks


def passes(task, answer):
    return run_tests(None, task, answer, task.hidden_tests).passed


def test_rows_of_gsm8k_keep_the_number_alone(tmp_path):
    (task,) = read(tmp_path, GSM8K)
    assert (task.kind, task.canonical_solution, task.visible_tests) == ("answer", "42", ())
    assert task.prompt == "3 boxes of 14?" and task.task_id == "question-9a7342215859"
    assert b"14, so" not in (public := msgspec.json.encode(task.public)) and b"#### 42" not in public, (
        "neither the number nor the solution in words"
    )
    assert passes(task, "42.0") and passes(task, "$42") and not passes(task, "43") and not passes(task, "14 or 42")


def test_rows_of_aime_are_compared_as_numbers(tmp_path):
    (task,) = read(tmp_path, AIME)
    assert (task.task_id, task.prompt, task.canonical_solution) == ("60", "Find $n$.", "204")
    assert passes(task, "204") and not passes(task, "20")


@pytest.mark.parametrize("row", [HOTPOT, HUB], ids=["pairs", "object of lists"])
def test_rows_of_hotpotqa_have_passages_and_exact_answers(tmp_path, row):
    (task,) = read(tmp_path, row)
    assert task.data == {"is_number": False, "passages": SENTENCES}
    assert passes(task, "the Oslo.") and not passes(task, "Oslo, Norway")


def test_the_rule_follows_from_the_answer_unless_the_row_names_one(tmp_path):
    year = {"question": "When?", "answer": "1999"}
    several = {"question": "Who?", "answer": ["Ann", "Ann Lee"]}
    tasks = read(tmp_path, year, {**year, "question": "When then?", "rule": "exact"}, several)
    assert [json.loads(task.hidden_tests[0])["rule"] for task in tasks] == ["numeric", "exact", "exact"]
    assert passes(tasks[0], "1,999") and not passes(tasks[1], "1999.0")
    assert passes(tasks[2], "ann lee") and passes(tasks[2], "Ann") and not passes(tasks[2], "Lee")


def test_rows_of_our_own_fields_name_their_checks(tmp_path):
    check = {"rule": "numeric", "answers": ["7"]}
    (task,) = read(tmp_path, {"task_id": "a", "prompt": "3 + 4?", "kind": "answer", "hidden_tests": [check]})
    assert passes(task, "7.0") and not passes(task, "8")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"question": "?", "answer": ""}, "answer"),
        ({"question": "?", "answer": "####"}, "answer"),
        ({"question": " ", "answer": "4"}, "question"),
        ({"question": "?", "answer": "four", "rule": "numeric"}, "a number"),
        ({"question": "?", "answer": "4", "rule": "fuzzy"}, "exact, literal or numeric"),
        ({"question": "?", "answer": "4", "context": {"title": ["a"], "sentences": []}}, "sentences"),
        ({"question": "?", "answer": "4", "context": [["a", "no list"]]}, "sentences"),
        ({"question": "?", "answer": {"a": 1}}, "answer"),
        (
            {"task_id": "a", "prompt": "?", "kind": "answer", "hidden_tests": [{"rule": "eval", "answers": ["1"]}]},
            "Oslo",
        ),
        ({"task_id": "a", "prompt": "?", "kind": "answer", "hidden_tests": ["42"]}, "hidden_tests"),
    ],
)
def test_errors_name_the_field(tmp_path, row, message):
    with pytest.raises(DataError, match=message):
        read(tmp_path, row)
