from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from reflexion_lab.agent.reflectors.evidence import classify_evaluation, describe
from reflexion_lab.agent.reflectors.rules import Rules
from reflexion_lab.records import Attempt, Check, Episode, Evaluation, Task
from tests import builders as make

TASK = Task(task_id="t/1", prompt="def add(a, b):\n", entry_point="add")
PASS = Check(name="assert add(0, 0) == 0", outcome="pass")
WRONG = Check(
    name="assert add(1, 2) == 3", outcome="fail", error_type="AssertionError", message="expected 3, got -1", line=2
)
SYNTAX = Check(name="assert add(1, 2) == 3", outcome="error", error_type="SyntaxError", message="invalid syntax")
LATE = Check(name="assert add(9, 9) == 18", outcome="timeout")
LARGE = Check(name="assert add(9, 9) == 18", outcome="memory")
VALUES = Check(name="assert f() == 1", outcome="fail", message="expected deadlock, got out of memory")
"""The values of a failed comparison do not decide its class, nor does the name of a check."""
NAMED = Check(name="test_import_types()", outcome="error", error_type="Odd", message="wrong value 3")


def attempt_with(*checks: Check, outcome: str = "fail", number: int = 1) -> Attempt:
    return make.attempt(*checks, judged={"passed": False, "outcome": outcome}, number=number)


def episode_with(what_to_change: str | None, number: int = 1, task_id: str = TASK.task_id) -> Episode:
    reflection = make.reflection(number, what_to_change=what_to_change) if what_to_change else None
    return make.episode(number, task_id=task_id, reflection=reflection)


@pytest.mark.parametrize(
    ("checks", "outcome", "category", "telling"),
    [
        ((PASS, WRONG, LATE), "fail", "assertion", WRONG), ((PASS, LATE, WRONG), "fail", "timeout", LATE),
        ((LARGE,), "fail", "memory", LARGE), ((WRONG, LATE), "timeout", "timeout", LATE),
        ((WRONG, LARGE), "memory", "memory", LARGE), ((SYNTAX,), "error", "syntax", SYNTAX),
        ((), "timeout", "timeout", None), ((), "memory", "memory", None), ((), "extraction_failed", "no_program", None),
        ((), "early_exit", "unknown", None), ((), "no_tests", "unknown", None), ((), "harness_error", "unknown", None),
        ((PASS,), "fail", "unknown", None), ((VALUES,), "fail", "assertion", VALUES),
        ((NAMED,), "error", "unknown", NAMED),
    ],
)  # fmt: skip
def test_outcome_decides_before_the_first_failing_check(checks, outcome, category, telling):
    assert classify_evaluation(attempt_with(*checks, outcome=outcome).evaluation) == (category, telling)


@pytest.mark.parametrize(("line", "suffix"), [(0, ""), (99, ""), (1, " (at `def add(a, b):`)")])
def test_evidence_shows_a_line_that_exists(line: int, suffix: str) -> None:
    check = Check(name="assert x", outcome="error", error_type="E", message="m", line=line)
    assert describe(attempt_with(check), check) == f"`assert x` -> E: m{suffix}"


def test_evidence_stays_short_on_one_line_and_is_quoted_even_with_braces() -> None:
    check = Check(name="assert " + "x" * 9000, outcome="fail", message="expected\n" + "y" * 9000, line=1)
    evidence = describe(attempt_with(check), check)
    assert len(evidence) < 700
    assert "\n" not in evidence
    check = Check(name="assert f({}) == {'a': 1}", outcome="fail", message="expected {'a': 1}, got {}")
    (action,) = Rules().reflect(TASK, attempt_with(check), []).action_items
    assert "`assert f({}) == {'a': 1}` -> expected {'a': 1}, got {}" in action


@pytest.mark.parametrize("outcome", ["extraction_failed", "early_exit", "timeout", "harness_error"])
def test_an_attempt_without_checks_still_has_evidence(outcome: str) -> None:
    attempt = attempt_with(outcome=outcome)
    assert describe(attempt, None) in Rules().reflect(TASK, attempt, []).action_items[0]


def test_rules_name_class_confidence_and_attempt() -> None:
    reflection = Rules().reflect(TASK, attempt_with(WRONG, number=3), [])
    assert reflection.reflection_id == "t/1#3"
    assert reflection.about_attempt == 3
    assert (reflection.source, reflection.category) == ("rules:assertion", "assertion")
    assert reflection.confidence == 0.5
    assert reflection.usage.calls == 0
    assert reflection.text == reflection.problem == ""


def test_only_the_last_earlier_reflection_is_quoted() -> None:
    episodes = [episode_with("First fix.", 1), episode_with("Second fix.", 2), episode_with(None, 3)]
    reflection = Rules().reflect(TASK, attempt_with(SYNTAX, number=4), episodes)
    assert reflection.confidence == 0.54
    assert 'not enough: "Second fix."' in reflection.what_went_wrong
    assert "First fix." not in reflection.what_went_wrong


def test_quotes_do_not_pile_up_over_attempts() -> None:
    episodes: list[Episode] = []
    texts = []
    for number in range(1, 7):
        reflection = Rules().reflect(TASK, attempt_with(WRONG, number=number), episodes)
        texts.append((reflection.what_went_wrong, reflection.what_to_change))
        episodes.append(episode_with(reflection.what_to_change, number))
    assert len({(len(wrong), len(change)) for wrong, change in texts[2:]}) == 1


def test_rules_on_a_success_name_what_worked() -> None:
    evaluation = Evaluation(passed=True, outcome="pass", reward=1.0, checks=(PASS,))
    attempt = replace(attempt_with(PASS, number=2), evaluation=evaluation)
    reflection = Rules().reflect(TASK, attempt, [episode_with("I will add.")])
    assert "1 check at attempt 2" in reflection.what_worked
    assert '"I will add."' in reflection.what_worked
    assert reflection.root_cause == reflection.what_went_wrong == reflection.what_to_change == ""
    assert (reflection.source, reflection.category) == ("rules:passed", "unknown")
    assert reflection == Rules().reflect(TASK, attempt, [episode_with("I will add.")])


REJECTED = make.episode(1, task_id=TASK.task_id, reflection=make.reflection(1, what_to_change=""))


@pytest.mark.parametrize("episode", [episode_with(None), REJECTED], ids=["none", "rejected"])
def test_an_episode_without_a_fix_for_this_task_changes_nothing(episode: Episode) -> None:
    attempt = attempt_with(SYNTAX, number=2)
    assert Rules().reflect(TASK, attempt, [episode]) == Rules().reflect(TASK, attempt, [])


@pytest.mark.parametrize(
    ("fixed", "cases", "enough", "confidence", "source"),
    [
        (0, 0, 20, 0.5, "class"), (19, 19, 20, 0.5, "class"), (0, 20, 20, 0.0455, "measured"),
        (5, 20, 20, 0.2727, "measured"), (20, 20, 20, 0.9545, "measured"), (1, 4, 4, 0.3333, "measured"),
        (1, 4, 5, 0.5, "class"),
    ],
)  # fmt: skip
def test_enough_cases_replace_the_constant_of_the_class(fixed, cases, enough, confidence, source):
    shared: Any = SimpleNamespace(outcomes={"assertion": (fixed, cases), "syntax": (99, 99)})
    reflection = Rules(shared, enough).reflect(TASK, attempt_with(WRONG), [])
    assert (reflection.confidence, reflection.confidence_source) == (confidence, source)
    again = Rules(shared, enough).reflect(TASK, attempt_with(WRONG, number=2), [episode_with("A fix.")])
    assert again.confidence == (confidence if source == "measured" else 0.45)
