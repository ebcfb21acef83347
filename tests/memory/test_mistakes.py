import hashlib
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from reflexion_lab.memory.mistakes import Mistakes, mistakes_of
from reflexion_lab.memory.retrieval.jaccard import Jaccard
from reflexion_lab.records import Check, Evaluation, MemoryState, Mistake, Task
from reflexion_lab.text.prompts.render import Prompts
from tests import builders

STATE = MemoryState(capacity=1, size=0, in_context=0, total=0)
TASK = Task(task_id="own/double", prompt="Double a number", entry_point="f")


def mistake(name, prompt="sort a list", **fields):
    told = {"task_id": f"t{name}", "prompt_hash": "", "mistake": "wrong", "correction": "right", "severity": 0.5}
    return Mistake(mistake_id=name, prompt=prompt, **{**told, **fields})


def remembering(*mistakes, **fields):
    memory = Mistakes(Jaccard(), **fields)
    memory.extend(mistakes)
    return memory


def names(mistakes):
    return [entry.mistake_id for entry in mistakes]


def attempt(number, message="", change="", outcome="fail", **fields):
    """Passes where there is no message; `change` is what its reflection asks for."""
    checks = (Check(name="assert f(1) == 2", outcome=outcome if message else "pass", message=message),)
    judged = {"passed": not message, "outcome": outcome if message else "pass", "reward": 0.25 if message else 1.0}
    return builders.attempt(
        number=number,
        task_id=TASK.task_id,
        evaluation=Evaluation(**{**judged, "checks": checks, **fields}),
        reflection=builders.reflection(about_attempt=number, what_to_change=change) if change else None,
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [("max_entries", 0), ("max_entries", -1), ("max_entries", 2.5), ("max_entries", True)]
    + [("threshold", 1.5), ("threshold", -0.1), ("threshold", float("nan")), ("threshold", "0.5")],
)
def test_a_bound_that_is_out_of_range_is_named(field, value):
    with pytest.raises(ValueError, match=rf"Mistakes\.{field}"):
        Mistakes(Jaccard(), **{field: value})


def test_at_capacity_the_oldest_leaves():
    memory = remembering(*(mistake(f"Q{n}", f"question {n} alone") for n in range(1, 6)), max_entries=3)
    assert len(memory) == 3
    assert names(memory.retrieve_similar("question alone", 9)) == ["Q5", "Q4", "Q3"]
    memory.extend([mistake("Q6", "question 6")])
    assert names(memory.retrieve_similar("question 3 alone", 9)) == ["Q5", "Q4", "Q6"]


def test_similar_prompts_come_best_first_and_the_threshold_is_inclusive():
    stored = (mistake("far", "calculate 15 multiplication 23"), mistake("near", "calculate 15 times 23"))
    query = "quickly calculate 15 times 23"  # shares 4 words of 5 with the near one, 3 of 6 with the far one
    assert names(remembering(*stored, threshold=0.5).retrieve_similar(query, 3)) == ["near", "far"]
    assert names(remembering(*stored, threshold=0.51).retrieve_similar(query, 3)) == ["near"]
    assert names(remembering(*stored, threshold=0.5).retrieve_similar(query, 1)) == ["near"]
    assert remembering(*stored).retrieve_similar("paint fences", 3) == []


def test_two_thirds_alike_is_found_at_six_tenths_and_not_at_seven():
    stored = mistake("m", "multiply 15 23")
    assert names(remembering(stored, threshold=0.6).retrieve_similar("15 23")) == ["m"]
    assert remembering(stored, threshold=0.7).retrieve_similar("15 23") == []


@pytest.mark.parametrize("k", [0, -2])
def test_asking_for_none_finds_none(k):
    assert remembering(mistake("m"), threshold=0.0).retrieve_similar("sort a list", k) == []


def test_a_tasks_own_mistakes_can_be_left_out_without_making_room_for_fewer():
    stored = [mistake(f"own{n}", "sort a list", task_id="own") for n in range(4)]
    memory = remembering(mistake("other", "sort a list quickly", task_id="other"), *stored)
    assert names(memory.retrieve_similar("sort a list", 2)) == ["own3", "own2"]
    assert names(memory.retrieve_similar("sort a list", 2, except_task="own")) == ["other"]


def test_a_known_id_is_replaced_in_its_place():
    memory = remembering(mistake("m1"), mistake("m2"), max_entries=2)
    (kept,) = memory.extend([mistake("m1", mistake="other words", severity=1.0)])
    assert (len(memory), kept.mistake, kept.severity) == (2, "other words", 1.0)
    assert names(memory.retrieve_similar("sort list", 9)) == ["m2", "m1"]
    memory.extend([mistake("m3")])
    assert names(memory.retrieve_similar("sort list", 9)) == ["m3", "m2"]


def test_a_correction_is_replaced_by_a_newer_one_and_never_by_none():
    memory = remembering(mistake("m", correction=""))
    for given, expected in (("use a heap", "use a heap"), ("", "use a heap"), ("use sorted", "use sorted")):
        (kept,) = memory.extend([mistake("m", correction=given)])
        assert kept.correction == expected
        assert memory.retrieve_similar("sort a list") == [kept]


def test_one_batch_may_hold_an_id_twice_and_more_than_fits():
    memory = remembering(*(mistake(f"m{n % 5}", f"task {n % 5}", severity=n / 10) for n in range(10)), max_entries=2)
    found = memory.retrieve_similar("task", 9)
    assert {entry.mistake_id: entry.severity for entry in found} == {"m4": 0.9, "m3": 0.8}


@pytest.mark.usefixtures("restless")
def test_threads_at_once_keep_the_bound_and_mix_up_no_prompts():
    memory = Mistakes(Jaccard(), max_entries=50)

    def extend(thread):
        for n in range(60):
            memory.extend([mistake(f"{thread}-{n}", f"sort list{thread}x{n}")])

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(extend, range(8)))
    kept = memory.retrieve_similar("sort", 99)
    assert len(memory) == len(kept) == 50
    for entry in kept:
        assert memory.retrieve_similar(entry.prompt, 1) == [entry]


def test_a_failed_attempt_is_a_mistake_and_what_led_to_the_pass_is_its_correction():
    attempts = [attempt(1, "got 3", change="add one"), attempt(2, "got -1", change="multiply"), attempt(3)]
    first, second = mistakes_of(TASK, attempts, timestamp=5.0)
    assert (first.correction, second.correction) == ("multiply", "multiply")
    assert first.task_id == "own/double"
    assert first.prompt == "Double a number"
    assert first.prompt_hash == hashlib.sha256(b"Double a number").hexdigest()[:16]
    assert (first.severity, first.timestamp) == (0.75, 5.0)
    assert first.mistake.startswith("fail got")
    assert first.mistake.endswith("Failing check: assert f(1) == 2")


def test_a_run_that_never_passed_leaves_mistakes_without_corrections():
    attempts = [attempt(1, "ValueError", change="try again"), attempt(2, "KeyError", change="once more")]
    assert [entry.correction for entry in mistakes_of(TASK, attempts)] == ["", ""]


def test_a_pass_without_a_reflection_before_it_teaches_no_correction():
    assert [entry.correction for entry in mistakes_of(TASK, [attempt(1, "off by one"), attempt(2)])] == [""]


def test_a_pass_that_came_first_mends_nothing():
    attempts = [attempt(1, "bad", change="keep it"), attempt(2), attempt(3, "worse")]
    assert [entry.correction for entry in mistakes_of(TASK, attempts)] == ["keep it", ""]


@pytest.mark.parametrize("outcome", ["no_tests", "harness_error"])
def test_what_nobody_could_judge_is_no_mistake(outcome):
    assert mistakes_of(TASK, [attempt(1, "x", outcome=outcome), attempt(2)]) == []
    assert mistakes_of(TASK, []) == []


def test_an_attempt_without_a_failing_check_is_told_by_its_outcome():
    (entry,) = mistakes_of(TASK, [attempt(1, "x", outcome="extraction_failed", checks=(), reward=0.0)])
    assert (entry.mistake, entry.severity) == ("extraction_failed", 1.0)


def test_the_same_mistake_has_the_same_id_on_every_run_and_is_told_once():
    attempts = [attempt(1, "got 3", change="a"), attempt(2, "got 3", change="b"), attempt(3)]
    (entry,), (again,) = mistakes_of(TASK, attempts, 1.0), mistakes_of(TASK, attempts[1:], 2.0)
    assert entry.mistake_id == again.mistake_id
    elsewhere = mistakes_of(replace(TASK, task_id="own/other"), attempts)
    assert entry.mistake_id != elsewhere[0].mistake_id


def test_mistakes_are_told_as_questions_with_what_went_wrong_and_what_mended_it():
    text = Prompts().render(
        "mistakes", mistakes=[mistake("m1"), mistake("m2", "reverse", mistake="late", correction="")]
    )
    head, first, second = text.split("\n\n")
    assert head.endswith(":")
    assert first == "Question: sort a list\nMistake: wrong\nCorrection: right"
    assert second == "Question: reverse\nMistake: late\nCorrection: none was found"
    assert Prompts().render("mistakes", mistakes=[]) == ""


def test_long_texts_are_cut_in_a_prompt():
    text = Prompts().render(
        "mistakes", mistakes=[mistake("m", "q" * 9999, mistake="m" * 9999, correction="c" * 9999)] * 3
    )
    assert len(text) < 3 * 1300
    assert text.count("Correction: ccc") == 3
