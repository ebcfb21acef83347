import json

import msgspec
import pytest

from reflexion_lab.errors import DataError
from reflexion_lab.tasks.benchmarks.jsonl import jsonl
from reflexion_lab.tasks.evaluators.unit_tests import run_tests

GSM8K = {"question": "3 boxes of 14?", "answer": "Each has 14, so 3 * 14 = <<3*14=42>>42 pens.\n#### 42"}
AIME = {"id": 60, "problem": "Find $n$.", "answer": 204, "year": "2024"}
SENTENCES = [["Ann Lee", ["Ann Lee was born in Oslo.", "She paints."]], ["Oslo", ["Oslo is a city."]]]
BORN = {"_id": "5a", "question": "Where was the painter born?", "answer": "Oslo", "level": "hard"}
HOTPOT = {**BORN, "context": SENTENCES}
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


MMLU = {"question": "2 + 2?", "choices": ["0", "4", "-4", "6"], "answer": 1}
ASKED = "2 + 2?\n\nA) 0\nB) 4\nC) -4\nD) 6\n\nAnswer with one of A, B, C, D."


@pytest.mark.parametrize(("row", "prompt", "right", "wrong"), [
    ({"question": "x?", "answer": "[-2, 7]"}, "x?", ["[-2,7]"], ["-2", "7"]),
    ({"question": "x?", "answer": "['cat', 'dog']"}, "x?", ["['cat', 'dog']"], ["cat"]),
    ({"question": "x?", "answer": "{1, 2}"}, "x?", ["{1, 2}"], ["1"]),
    ({"question": "x?", "answer": "[]"}, "x?", ["[]"], [""]),
    ({"question": "x?", "answer": [2, 3]}, "x?", ["2", "3.0"], ["[2, 3]"]),
    ({"question": "x?", "answer": True}, "x?", ["Yes", "true"], ["no"]),
    ({"problem": "x?", "answer": "False"}, "x?", ["No."], ["yes"]),
    ({"ID": "a", "Problem": "x?", "Answer": 33, "unique_id": "b"}, "x?", ["33"], ["3"]),
    ({"ID": "b", "Body": "He has 2.", "Question": "x?", "Answer": 6.0}, "He has 2. x?", ["6"], ["2"]),
    (MMLU, ASKED, ["B", "(B)", "B. 4", "Option B"], ["1", "A", "4", "C) -4"]),
    (MMLU | {"answer": "b", "choices": [*MMLU["choices"], None]}, ASKED, ["b"], ["C"]),
    ({"question": "x?", "answer": "Oslo", "options": "of another kind"}, "x?", ["Oslo"], ["B"]),
    ({"question": "x?", "answer": 5, "choices": [4, 5]}, "x?\n\nA) 4\nB) 5\n\nAnswer with one of A, B.", ["B"], ["A"]),
    ({"question": "x?", "options": "['cat', 'dog']", "answer": "dog"},
     "x?\n\nA) cat\nB) dog\n\nAnswer with one of A, B.", ["B", "dog", "B) dog"], ["A", "cat"]),
    ({"question": "x?", "choices": {"label": ["1", "2"], "text": ["a", "b"]}, "answer": "1"},
     "x?\n\n1) a\n2) b\n\nAnswer with one of 1, 2.", ["1"], ["2"]),
])  # fmt: skip
def test_what_an_answer_or_a_question_is_follows_from_the_columns(tmp_path, row, prompt, right, wrong):
    (task,) = read(tmp_path, row)
    assert (task.prompt, [passes(task, each) for each in (*right, *wrong)]) == (
        prompt, [True] * len(right) + [False] * len(wrong)
    )  # fmt: skip


@pytest.mark.parametrize("row", [
    GSM8K, {"task_id": "a", "prompt": "x", "kind": "program"},
    {"task_id": "a", "prompt": "def f(x):", "entry_point": "f", "test": "def check(f):\n    assert f(1)"},
])  # fmt: skip
def test_rows_of_every_form_have_date_cluster_and_tags(tmp_path, row):
    (task,) = read(tmp_path, row | {"released": "2024-05-04T19:30:00", "cluster": "c", "tags": ["x"]})
    assert (task.released, task.cluster, task.tags) == ("2024-05-04", "c", ("x",))


@pytest.mark.parametrize("tests", [
    '[{"input": "1\\n2", "output": "3"}]', "[{'input': '1\\n2', 'output': '3'}]", [{"input": ["1", 2], "output": 3}],
    [{"input": "1\n2", "output": "3", "testtype": "stdin"}],
])  # fmt: skip
def test_tests_of_programs_may_be_texts_numbers_and_lists_of_lines(tmp_path, tests):
    (task,) = read(tmp_path, {"task_id": "a", "prompt": "Add.", "kind": "program", "hidden_tests": tests})
    assert [json.loads(test) for test in task.hidden_tests] == [{"input": "1\n2", "output": "3"}]


def test_rows_of_our_own_fields_name_their_checks(tmp_path):
    check = {"rule": "numeric", "answers": ["7"]}
    (task,) = read(tmp_path, {"task_id": "a", "prompt": "3 + 4?", "kind": "answer", "hidden_tests": [check]})
    assert passes(task, "7.0") and not passes(task, "8")


@pytest.mark.parametrize(("row", "message"), [
    ({"question": "?", "answer": ""}, "answer"), ({"question": "?", "answer": "####"}, "answer"),
    ({"question": " ", "answer": "4"}, "question"),
    ({"question": "?", "answer": "four", "rule": "numeric"}, "a number"),
    ({"question": "?", "answer": "4", "rule": "fuzzy"}, "exact, literal or numeric"),
    ({"question": "?", "answer": "4", "context": {"title": ["a"], "sentences": []}}, "sentences"),
    ({"question": "?", "answer": "4", "context": [["a", "no list"]]}, "sentences"),
    ({"question": "?", "answer": {"a": 1}}, "answer"), ({"question": "?", "answer": []}, "an answer"),
    ({"question": "?", "answerKey": "B"}, "benchmark.fields.answer=answerKey"),
    ({"Question": "?", "Correct Answer": "B"}, "another column: Correct Answer"),
    ({"question": "?", "answer": "5", "choices": ["3", "4"]}, "one of A, B, its number"),
    ({"question": "?", "answer": "1", "choices": ["1", "2"]}, "one of A, B, its number"),
    ({"question": "?", "answer": ["A", "B"], "choices": ["1", "2"]}, "one of A, B"),
    ({"question": "?", "answer": "a", "options": "a ) 38 , b ) 27"}, "a list of texts"),
    ({"task_id": "a", "prompt": "?", "kind": "answer", "hidden_tests": [{"rule": "eval", "answers": ["1"]}]}, "Oslo"),
    ({"task_id": "a", "prompt": "?", "kind": "answer", "hidden_tests": ["42"]}, "hidden_tests"),
])  # fmt: skip
def test_errors_name_the_field(tmp_path, row, message):
    with pytest.raises(DataError, match=message):
        read(tmp_path, row)


def test_a_list_of_texts_in_a_table_holds_alternatives(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('id,question,answer\na,x?,"[""Oslo"", ""Oslo, Norway""]"\nb,y?,"[1, 2]"\n')
    first, second = jsonl(str(path)).tasks
    path.write_text(path.read_text().replace("answer", "places"))
    assert passes(jsonl(str(path), fields={"answer": "places"}).tasks[0], "Oslo, Norway")
    assert (passes(first, "Oslo"), passes(first, "Rome"), passes(second, "1")) == (True, False, False)
