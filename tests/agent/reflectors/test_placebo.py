from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflexion_lab.agent.reflectors.none import NoReflection
from reflexion_lab.agent.reflectors.placebo import FeedbackOnly, Generic, Keywords, LengthMatched
from reflexion_lab.protocols import Reflector
from reflexion_lab.records import Attempt, Check, Episode, Reflection, Task, Usage
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.text.filler import WORDS
from reflexion_lab.text.shorten import estimated, line
from tests import builders as make

TASK = Task(task_id="t/1", prompt='def add(a, b):\n    """The sum."""\n', entry_point="add")
WRONG = Check(name="assert add(1, 2) == 3", outcome="fail", message="expected 3, got -1", line=2)
LATE = Check(name="assert add(9, 9) == 18", outcome="timeout")
COST = Usage(calls=1, prompt_tokens=100, completion_tokens=40, seconds=0.5)


def reflection(**fields: object) -> Reflection:
    known = {
        "root_cause": "The line `return a - b` subtracts.", "what_went_wrong": "1 - 2 is -1, and the check wanted 3.",
        "what_to_change": "I will write a + b.", "confidence": 0.9, "category": "assertion",
        "key_insight": "Read the operator.", "action_items": ("I will write a + b.",), "lessons": ("Signs matter.",),
        "text": "the reply", "usage": COST,
    }  # fmt: skip
    return make.reflection(**known | fields)


class Gives:
    """A reflector that says the same, and remembers what it was told."""

    def __init__(self, reflection: Reflection | None) -> None:
        self.reflection = reflection
        self.read: list[Sequence[Episode]] = []

    def reflect(self, task: Task, attempt: Attempt, episodes: Sequence[Episode]) -> Reflection | None:
        self.read.append(episodes)
        return self.reflection


def test_feedback_stands_in_the_place_of_words_and_is_bounded() -> None:
    reflection = FeedbackOnly().reflect(TASK, make.attempt(WRONG, LATE), [])
    assert reflection.root_cause == reflection.what_to_change == ""
    assert "`assert add(1, 2) == 3` -> expected 3, got -1 (at `return a - b`)" in reflection.what_went_wrong
    assert LATE.name in reflection.what_went_wrong
    assert (reflection.source, reflection.category) == ("control:feedback_only", "assertion")
    assert (reflection.confidence, reflection.confidence_source, reflection.usage) == (0.0, "none", Usage())
    checks = [Check(name="x" * 300, outcome="fail", message="y" * 300) for _ in range(50)]
    assert len(FeedbackOnly(500).reflect(TASK, make.attempt(*checks), []).what_went_wrong) == 500


def test_generic_advice_is_the_same_whatever_happened() -> None:
    reflection = Generic().reflect(TASK, make.attempt(WRONG), [])
    other = Generic().reflect(
        Task(task_id="t/2", prompt="p", entry_point="f"),
        make.attempt(LATE, number=3, task_id="t/2"),
        [make.episode(reflection=reflection)],
    )
    assert reflection.texts == other.texts
    assert (reflection.source, reflection.confidence, reflection.confidence_source) == ("control:generic", 0.0, "none")
    assert other.category == "timeout"


def test_filler_has_the_length_of_the_texts_only() -> None:
    words = reflection()
    filler = LengthMatched(Gives(words), seed=0).reflect(TASK, make.attempt(WRONG), [])
    assert filler is not None
    assert list(map(estimated, filler.texts)) == list(map(estimated, words.texts))
    assert {word.strip(",").casefold() for text in filler.texts for word in text.split()} <= set(WORDS)


@pytest.mark.parametrize("chars", [120, 160, 200, 300])
def test_filler_is_as_long_as_what_templates_show_of_the_words(chars: int) -> None:
    words = (
        "In my function I will compare each pair of neighbouring numbers by `abs(a - b) < threshold`, sort the list "
        "first, and return True at the first pair that is close enough; at the end of the loop I return False. I also "
        "check the empty list and the list of one element, for which there is no pair, and keep the type of the result."
    )
    genuine = reflection(root_cause=words, what_to_change=words)
    filler = LengthMatched(Gives(genuine), seed=0).reflect(TASK, make.attempt(WRONG), [])
    assert filler is not None
    for text in (filler.root_cause, filler.what_to_change):
        assert abs(estimated(line(text, chars)) - estimated(line(words, chars))) <= 3


@given(st.text(max_size=400))
def test_filler_of_any_text_has_its_length_in_tokens(text: str) -> None:
    filler = LengthMatched(Gives(reflection(root_cause=text)), seed=1).reflect(TASK, make.attempt(WRONG), [])
    assert filler is not None
    assert estimated(filler.root_cause) == estimated(text)


def test_filler_goes_by_seed_task_and_attempt_alone() -> None:
    def filler(seed: int, number: int, task_id: str = "t/1") -> tuple[str, ...]:
        task = Task(task_id=task_id, prompt="p", entry_point="f")
        attempt = make.attempt(WRONG, number=number, task_id=task_id)
        words = LengthMatched(Gives(reflection()), seed).reflect(task, attempt, [])
        assert words is not None
        return words.texts

    assert filler(0, 1) == filler(0, 1)
    assert len({filler(0, 1), filler(1, 1), filler(0, 2), filler(0, 1, "t/2")}) == 4


def test_keywords_are_distinct_content_words_in_order() -> None:
    words = Keywords(Gives(reflection(root_cause="The loop in the loop is the line that I broke."))).reflect(
        TASK, make.attempt(WRONG), []
    )
    assert words is not None
    assert words.root_cause == "loop line broke"
    assert words.what_to_change == "write b"
    assert words.lessons == ("signs matter",)


@pytest.mark.parametrize(("control", "name"), [(LengthMatched, "length_matched"), (Keywords, "keywords")])
def test_a_reworded_control_keeps_all_but_the_texts(control: type, name: str) -> None:
    own = reflection(problem="parse_error: x")
    first = Gives(own)
    reflector: Reflector = control(first)
    reworded = reflector.reflect(TASK, make.attempt(WRONG), [])
    assert reworded is not None
    assert (reworded.source, reworded.problem) == (f"control:{name}", "parse_error: x")
    assert (reworded.confidence, reworded.category) == (0.9, "assertion")
    assert (reworded.text, reworded.usage) == ("the reply", COST)
    assert reworded.root_cause != own.root_cause
    reflector.reflect(TASK, make.attempt(WRONG, number=2), [make.episode(reflection=reworded)])
    assert [episode.reflection for episode in first.read[-1]] == [own]  # not the reworded one
    assert control(NoReflection()).reflect(TASK, make.attempt(WRONG), []) is None


@pytest.mark.parametrize("name", ["length_matched", "keywords"])
def test_a_control_has_the_config_of_its_arm(name: str) -> None:
    arm, control = compose("reflector=llm").reflector, compose(f"reflector={name}").reflector
    assert control.first == arm
    assert compose(f"reflector={name}", "seed=7").reflector.get("seed", 7) == 7
