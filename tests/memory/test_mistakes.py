import hashlib

import pytest
from msgspec.structs import replace

from reflexion_lab.memory.episodic import episode_of
from reflexion_lab.memory.lessons.mistakes import Mistakes
from reflexion_lab.memory.lessons.mistakes import mistakes_of as mistakes_of_loop
from reflexion_lab.memory.retrieval.jaccard import Jaccard
from reflexion_lab.records import Check, Critique, Evaluation, Mistake, Step, Task
from reflexion_lab.text.prompts.render import Prompts
from tests import builders

TASK = Task(task_id="own/double", prompt="Double a number", entry_point="f")


def mistakes_of(task, attempts):
    return mistakes_of_loop([episode_of(task, attempt, f"run/{task.loop_id}", "arm") for attempt in attempts])


def mistake(name, prompt="sort a list", **fields):
    defaults = {"task_id": f"t{name}", "prompt_hash": "", "mistake": "wrong", "correction": "right", "severity": 0.5}
    return Mistake(mistake_id=name, prompt=prompt, **{**defaults, **fields})


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
        number=number, task_id=TASK.task_id, evaluation=Evaluation(**{**judged, "checks": checks, **fields}),
        reflection=builders.reflection(about_attempt=number, what_to_change=change) if change else None,
    )  # fmt: skip


def test_at_capacity_the_oldest_leaves_and_a_known_id_is_replaced_in_its_place_also_in_one_batch():
    memory = remembering(*(mistake(f"Q{n}", f"question {n} alone") for n in range(1, 6)), max_entries=3)
    assert len(memory) == 3
    assert names(memory.retrieve_similar("question alone", 9)) == ["Q5", "Q4", "Q3"]
    memory.extend([mistake("Q6", "question 6")])
    assert names(memory.retrieve_similar("question 3 alone", 9)) == ["Q5", "Q4", "Q6"]
    memory = remembering(mistake("m1"), mistake("m2"), max_entries=2)
    memory.extend([mistake("m1", mistake="other words", severity=1.0)])
    _, kept = memory.retrieve_similar("sort list", 9)
    assert (len(memory), kept.mistake_id, kept.mistake, kept.severity) == (2, "m1", "other words", 1.0)
    memory.extend([mistake("m3")])
    assert names(memory.retrieve_similar("sort list", 9)) == ["m3", "m2"]
    memory = remembering(*(mistake(f"m{n % 5}", f"task {n % 5}", severity=n / 10) for n in range(10)), max_entries=2)
    entries = memory.retrieve_similar("task", 9)
    assert {entry.mistake_id: entry.severity for entry in entries} == {"m4": 0.9, "m3": 0.8}


def test_similar_prompts_are_best_first_with_inclusive_threshold():
    stored = (mistake("far", "calculate 15 multiplication 23"), mistake("near", "calculate 15 times 23"))
    query = "quickly calculate 15 times 23"  # shares 4 words of 5 with the near one, 3 of 6 with the far one
    assert names(remembering(*stored, threshold=0.5).retrieve_similar(query, 3)) == ["near", "far"]
    assert names(remembering(*stored, threshold=0.51).retrieve_similar(query, 3)) == ["near"]
    assert names(remembering(*stored, threshold=0.5).retrieve_similar(query, 1)) == ["near"]
    assert remembering(*stored).retrieve_similar("paint fences", 3) == []
    assert [remembering(*stored, threshold=0.0).retrieve_similar(query, k) for k in (0, -2)] == [[], []]
    for threshold, expected in ((0.6, ["m"]), (0.7, [])):  # two thirds alike
        memory = remembering(mistake("m", "multiply 15 23"), threshold=threshold)
        assert names(memory.retrieve_similar("15 23")) == expected


def test_excluded_own_mistakes_do_not_reduce_the_number_of_others():
    stored = [mistake(f"own{n}", "sort a list", task_id="own") for n in range(4)]
    memory = remembering(mistake("other", "sort a list quickly", task_id="other"), *stored)
    assert names(memory.retrieve_similar("sort a list", 2)) == ["own3", "own2"]
    assert names(memory.retrieve_similar("sort a list", 2, except_task="own")) == ["other"]


def test_a_correction_is_replaced_by_a_newer_one_and_never_by_none():
    memory = remembering(mistake("m", correction=""))
    for correction, expected in (("use a heap", "use a heap"), ("", "use a heap"), ("use sorted", "use sorted")):
        memory.extend([mistake("m", correction=correction)])
        assert [kept.correction for kept in memory.retrieve_similar("sort a list")] == [expected]


def test_the_reflection_before_the_pass_is_the_correction():
    attempts = [attempt(1, "got 3", change="add one"), attempt(2, "got -1", change="multiply"), attempt(3)]
    first, second = mistakes_of(TASK, attempts)
    assert (first.correction, second.correction) == ("multiply", "multiply")
    assert first.task_id == "own/double"
    assert first.prompt == "Double a number"
    assert first.prompt_hash == hashlib.sha256(b"Double a number").hexdigest()[:16]
    assert first.severity == 0.75 and first.timestamp > 1.7e9
    assert first.mistake.startswith("fail got")
    assert first.mistake.endswith("Failing check: assert f(1) == 2")


@pytest.mark.parametrize(
    ("attempts", "corrections"),
    [
        ([attempt(1, "ValueError", change="try again"), attempt(2, "KeyError", change="once more")], ["", ""]),
        ([attempt(1, "off by one"), attempt(2)], [""]),  # no reflection before the pass
        ([attempt(1, "bad", change="keep it"), attempt(2), attempt(3, "worse")], ["keep it", ""]),
    ],
)
def test_only_a_reflection_before_a_later_pass_is_a_correction(attempts, corrections):
    assert [entry.correction for entry in mistakes_of(TASK, attempts)] == corrections


@pytest.mark.parametrize("outcome", ["no_tests", "harness_error"])
def test_an_attempt_without_a_verdict_is_no_mistake(outcome):
    assert mistakes_of(TASK, [attempt(1, "x", outcome=outcome), attempt(2)]) == []
    assert mistakes_of(TASK, []) == []


def test_a_mistake_names_one_failing_check_and_the_first_issue_else_its_outcome():
    checks = tuple(Check(name=name, outcome="fail", message="got 3") for name in ("first check", "second check"))
    drafts = (("early", "earlier"), ("late", "later"))
    steps = tuple(Step(critique=Critique(severity=1.0, issues=issues, source="llm")) for issues in drafts)
    failed = replace(attempt(1, "got 3", checks=checks), trajectory=builders.trajectory(steps=steps))
    (entry,) = mistakes_of(TASK, [failed])
    assert entry.mistake == "fail got 3\nFailing check: first check\nIssue: late"
    (entry,) = mistakes_of(TASK, [attempt(1, "x", outcome="extraction_failed", checks=(), reward=0.0)])
    assert (entry.mistake, entry.severity) == ("extraction_failed", 1.0)


def test_a_repeated_mistake_has_one_id_and_one_entry():
    attempts = [attempt(1, "got 3", change="a"), attempt(2, "got 3", change="b"), attempt(3)]
    (entry,), (again,) = mistakes_of(TASK, attempts), mistakes_of(TASK, attempts[1:])
    assert entry.mistake_id == again.mistake_id
    elsewhere = mistakes_of(replace(TASK, task_id="own/other"), attempts)
    assert entry.mistake_id != elsewhere[0].mistake_id


def test_mistakes_are_rendered_as_questions_with_corrections_and_long_texts_cut():
    mistakes = [mistake("m1"), mistake("m2", "reverse", mistake="late", correction="")]
    text = Prompts().render("mistakes", mistakes=mistakes)
    head, first, second = text.split("\n\n")
    assert head.endswith(":")
    assert first == "Question: sort a list\nMistake: wrong\nCorrection: right"
    assert second == "Question: reverse\nMistake: late\nCorrection: none was found"
    assert Prompts().render("mistakes", mistakes=[]) == ""
    text = Prompts().render(
        "mistakes", mistakes=[mistake("m", "q" * 9999, mistake="m" * 9999, correction="c" * 9999)] * 3
    )
    assert len(text) < 3 * 1300
    assert text.count("Correction: ccc") == 3
