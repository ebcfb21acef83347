from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reflexion_lab.agent.reflectors.reviewed import flags
from reflexion_lab.records import Attempt, Check, Delta, Reflection
from tests import builders as make
from tests.builders import TABLES

PROGRAM = (
    "def mean_gap(times):\n    total = times[-1] - times[0]\n    pairs = len(times) - 1\n    return total / pairs\n"
)
CHECK = Check(
    name="assert mean_gap([2.0, 4.5, 9.0]) == 3.75", outcome="fail", expected="3.75", actual="7.25",
    message="expected 3.75, got 7.25", line=3,
)  # fmt: skip
EMPTY_LIST = Check(
    name="assert mean_gap([]) == 0.0", outcome="error", error_type="IndexError", message="list index out of range",
    line=2,
)  # fmt: skip
GOOD = {
    "root_cause": "My mistake is that `times[-1]` is read without asking whether the list holds any number.",
    "what_went_wrong": "For an empty list the look-up raised an IndexError.",
    "what_to_change": "I will return 0.0 at once when there are fewer than two times.",
}


def attempt_with(*checks: Check, program: str = PROGRAM, **fields: object) -> Attempt:
    return make.attempt(*checks, acted={"solution": program}, **{"number": 2, **fields})


def reflection(**fields: object) -> Reflection:
    return make.reflection(2, **{"confidence": 0.6, **GOOD, **fields})


def wrong(*words: str, checks: tuple[Check, ...] = (EMPTY_LIST,), **fields: object) -> tuple[str, ...]:
    """The flags of `words`, told as cause, error and change; those missing are empty."""
    cause, error, change = (*words, "", "", "")[:3]
    written = reflection(root_cause=cause, what_went_wrong=error, what_to_change=change, **fields)
    return flags(written, attempt_with(*checks), [])


def test_good_words_have_no_flag_nor_those_on_a_success_one_about_failing_checks() -> None:
    assert flags(reflection(), attempt_with(EMPTY_LIST), []) == ()
    attempt = attempt_with(Check(name="assert mean_gap([]) == 0.0", outcome="pass"))
    raised = flags(reflection(root_cause="", confidence=0.1), attempt, [])
    assert not {"misses_check", "leaks_value", "low_confidence"} & set(raised)


@pytest.mark.parametrize(("confidence", "flagged"), [(0.79, False), (0.8, True), (1.0, True)])
def test_much_confidence_needs_evidence(confidence: float, flagged: bool) -> None:
    assert ("unsupported_confidence" in wrong("My loop is wrong.", confidence=confidence)) is flagged
    for cited in ("It raised an IndexError.", "It goes wrong at line 2.", "mean_gap([]) fails."):
        assert "unsupported_confidence" not in wrong(f"My loop is wrong. {cited}", confidence=confidence)


@pytest.mark.parametrize(("call", "expected", "words", "leaks"), TABLES["leaks of the expected value"])
def test_the_expected_value_leaks_where_it_tells_the_answer(call: str, expected: str, words: str, leaks: bool) -> None:
    check = Check(name=f"assert {call} == {expected or 27}", outcome="fail", expected=expected)
    assert ("leaks_value" in wrong(words, checks=(check,))) is leaks


@given(text=st.text(max_size=300), program=st.text(max_size=300), value=st.text(max_size=30))
def test_any_words_about_any_program_have_flags_and_no_error(text: str, program: str, value: str) -> None:
    check = Check(
        name=f"assert {value}", outcome="error", expected=value, actual=value, error_type=value, message=value
    )
    attempt = attempt_with(check, program=program)
    words = reflection(root_cause=text, what_went_wrong=program, what_to_change=value)
    assert flags(words, attempt, [make.episode(reflection=words)]) == flags(
        words, attempt, [make.episode(reflection=words)]
    )


@pytest.mark.parametrize(
    "piece", [" ", "a ", "adding ", "return f(", "return [", "def f(", "should ", '"""', "[ ", "é"]
)
def test_hostile_lengths_are_read_in_bounded_time(piece: str) -> None:
    long = piece * (200_000 // len(piece))
    check = Check(name="assert f(1) == 2", outcome="fail", expected=long[:300], message=long[:300])
    words = reflection(root_cause=long, what_to_change=long)
    assert "short" not in flags(words, attempt_with(*[check] * 5, program=long), []) or not long.strip()


FLAGGED, UNFLAGGED = yaml.safe_load((Path(__file__).parent / "flags.yaml").read_text()).values()


@pytest.mark.parametrize("flag", FLAGGED)
def test_a_flag_fits_its_examples_and_no_counterexample(flag: str) -> None:
    def is_flagged(text: str) -> list[bool]:
        return [flag in wrong(*texts, checks=(CHECK, EMPTY_LIST)) for texts in ((text,), ("", "", text))]

    assert [text for text in FLAGGED[flag] if not all(is_flagged(text))] == []
    assert [text for text in UNFLAGGED[flag] if any(is_flagged(text))] == []


def test_equal_texts_and_names_in_comments_and_docstrings_count_for_nothing() -> None:
    assert "short" in wrong("a" * 60, "a" * 60)
    program = 'def f(x):\n    """Uses zebra."""\n    return x  # giraffe\n'
    words = reflection(root_cause="The zebra and the giraffe.", what_went_wrong="", what_to_change="")
    assert "no_credit" in flags(words, attempt_with(EMPTY_LIST, program=program), [])


TWENTY = [f"word{number}" for number in range(20)]


@pytest.mark.parametrize(
    ("cause", "earlier", "is_duplicate"),
    [
        (GOOD["root_cause"], GOOD["root_cause"], True),
        (GOOD["root_cause"].upper().replace(" ", "  ").rstrip("."), GOOD["root_cause"], True),
        ("My mistake is that the sum is taken over the squares.", GOOD["root_cause"], False),
        (" ".join(["new", *TWENTY[1:]]), " ".join(TWENTY), True),
        (" ".join(["new", "other", *TWENTY[2:]]), " ".join(TWENTY), False),
        ("", "", False),
    ],
)
def test_duplicates_share_nine_words_of_ten(cause: str, earlier: str, is_duplicate: bool) -> None:
    before = reflection(root_cause=earlier, what_went_wrong="", what_to_change="")
    changed, attempt = replace(before, root_cause=cause), attempt_with(EMPTY_LIST)
    assert ("duplicate" in flags(changed, attempt, [make.episode(reflection=before)])) is is_duplicate
    assert "duplicate" not in flags(changed, attempt, [])


@pytest.mark.parametrize(
    ("confidence", "source", "improved", "number", "flagged"),
    [
        (0.49, "stated", False, 2, True), (0.5, "stated", False, 2, False), (0.1, "stated", True, 2, False),
        (0.49, "stated", False, 1, False), (0.0, "none", False, 2, False),
    ],
)  # fmt: skip
def test_low_confidence_is_stated_and_without_improvement(confidence, source, improved, number, flagged):
    attempt = attempt_with(EMPTY_LIST, number=number, delta=Delta(is_improvement=improved))
    words = reflection(confidence=confidence, confidence_source=source)
    assert ("low_confidence" in flags(words, attempt, [])) is flagged


@pytest.mark.parametrize(
    ("outcome", "words"), [("timeout", "The loop never ends."), ("memory", "The recursion has no base case.")]
)
def test_time_and_memory_outcomes_are_cited_in_words(outcome: str, words: str) -> None:
    late = Check(name="assert mean_gap(x) == y", outcome=outcome)
    assert "misses_check" not in wrong(words, checks=(late,))
    assert "misses_check" in wrong("It is wrong.", checks=(late,))
    assert "misses_check" not in wrong("It is wrong.", checks=())


def test_words_on_an_answer_or_on_actions_are_not_reviewed_as_words_on_a_program():
    words = reflection(
        root_cause="I took the mill for the bridge, and wrote 17.", what_to_change="I go to ```Oslo``` first."
    )
    attempt = attempt_with(Check(name="the answer", outcome="fail", message="the answer '17' is wrong"))
    of_program, of_answer = (set(flags(words, attempt, [], kind)) for kind in ("function", "answer"))
    assert of_program - of_answer == {"no_action", "holds_code"}
    assert "misses_check" not in of_answer
    other = reflection(root_cause="I took the mill for the bridge.", what_to_change="I go to Oslo first.")
    assert "misses_check" in flags(other, attempt, [], "answer")
