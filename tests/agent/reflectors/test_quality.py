from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reflexion_lab.agent.reflectors.reviewed import FLAGS, flags
from reflexion_lab.records import Attempt, Check, Delta, Reflection
from tests import builders as make

PROGRAM = (
    "def mean_gap(times):\n    total = times[-1] - times[0]\n    pairs = len(times) - 1\n    return total / pairs\n"
)
CHECK = Check(
    name="assert mean_gap([2.0, 4.5, 9.0]) == 3.75",
    outcome="fail",
    expected="3.75",
    actual="7.25",
    message="expected 3.75, got 7.25",
    line=3,
)
EMPTY_LIST = Check(
    name="assert mean_gap([]) == 0.0",
    outcome="error",
    error_type="IndexError",
    message="list index out of range",
    line=2,
)
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
    said = reflection(root_cause=cause, what_went_wrong=error, what_to_change=change, **fields)
    return flags(said, attempt_with(*checks), [])


def test_good_words_have_no_flag() -> None:
    assert flags(reflection(), attempt_with(EMPTY_LIST), []) == ()


def test_every_flag_has_a_sentence_and_none_is_given_without_one() -> None:
    assert all(sentence.endswith(".") for sentence in FLAGS.values())
    given = wrong("", "", "", confidence=0.9)
    assert set(given) <= set(FLAGS)
    assert list(given) == [name for name in FLAGS if name in given]


def test_words_below_a_hundred_characters_are_short() -> None:
    assert "short" in wrong("a" * 99)
    assert "short" not in wrong("a" * 100)
    assert "short" in wrong("a" * 60, "a" * 60)  # the same words twice are said once


@pytest.mark.parametrize(
    "change",
    ["I will be more careful.", "I need to handle this properly.", "Consider all the cases.", "", "The sum is wrong."],
)
def test_vague_intentions_are_no_action(change: str) -> None:
    assert "no_action" in wrong("The list is empty there.", "It raised an IndexError.", change)


@pytest.mark.parametrize(
    "words",
    [
        "I will return 0.0 at once for fewer than two times.",
        "To fix this, the guard needs to be added before the look-up.",
        "The loop should iterate over all the pairs.",
        "Adding a return statement would fix it.",
    ],
)
def test_an_intended_act_counts_wherever_it_stands(words: str) -> None:
    assert "no_action" not in wrong(words)
    assert "no_action" not in wrong("", "", words)


@pytest.mark.parametrize(
    "words",
    [
        "The division uses a wrong number.",
        "It goes wrong at line 3.",
        "The variable pairs is off.",
        "It only considers sorted input.",
        "My loop ends too early.",
    ],
)
def test_naming_a_line_a_name_or_a_decision_is_credit(words: str) -> None:
    assert "no_credit" not in wrong(words)


@pytest.mark.parametrize(
    "words", ["The answer was not right.", "mean_gap does not handle this.", "It fails for an empty list."]
)
def test_naming_no_part_of_the_program_is_no_credit(words: str) -> None:
    assert "no_credit" in wrong(words)


def test_a_name_in_a_comment_or_a_docstring_is_no_name_of_the_program() -> None:
    program = 'def f(x):\n    """Uses zebra."""\n    return x  # giraffe\n'
    words = reflection(root_cause="The zebra and the giraffe.", what_went_wrong="", what_to_change="")
    assert "no_credit" in flags(words, attempt_with(EMPTY_LIST, program=program), [])


@pytest.mark.parametrize(
    "words",
    [
        "My code is incorrect. I should be more careful and test edge cases.",
        "The function failed because the logic was wrong. I need to understand the problem better.",
        "I will check my implementation again and make sure it works for all the inputs.",
        "The implementation did not handle the test case correctly and returned an unexpected result.",
    ],
)
def test_what_fits_any_failure_is_generic(words: str) -> None:
    assert "generic" in wrong(words)


@pytest.mark.parametrize("words", [GOOD["root_cause"], "The division takes the number of gaps, not of items."])
def test_what_fits_one_failure_alone_is_not_generic(words: str) -> None:
    assert "generic" not in wrong(words)


@pytest.mark.parametrize(
    "words",
    [
        "The test case is incorrect.",
        "The tests themselves seem to be wrong here.",
        "There is a bug in the test harness.",
        "The expected value is wrong for this input.",
        "The problem statement is ambiguous.",
        "My function is correct, but the check failed.",
        "I will remove the test.",
    ],
)
def test_fault_found_outside_the_program_is_named(words: str) -> None:
    assert "blames_externals" in wrong(words)


@pytest.mark.parametrize(
    "words",
    [
        "The test failed because my loop is wrong.",
        "This leads to incorrect results in the failed tests.",
        "The program is incorrect because it sorts the wrong way.",
        "The unexpected EOF error in the failed test cases comes from my bracket.",
        "The expected value is 3.75.",
    ],
)
def test_fault_found_within_the_program_blames_nobody_else(words: str) -> None:
    assert "blames_externals" not in wrong(words)


@pytest.mark.parametrize(("confidence", "flagged"), [(0.79, False), (0.8, True), (1.0, True)])
def test_much_confidence_needs_evidence(confidence: float, flagged: bool) -> None:
    assert ("unsupported_confidence" in wrong("My loop is wrong.", confidence=confidence)) is flagged
    for cited in ("It raised an IndexError.", "It goes wrong at line 2.", "mean_gap([]) fails."):
        assert "unsupported_confidence" not in wrong(f"My loop is wrong. {cited}", confidence=confidence)


@pytest.mark.parametrize(
    ("words", "is_duplicate"),
    [
        (GOOD["root_cause"], True),
        (GOOD["root_cause"].upper().replace(" ", "  ").rstrip("."), True),
        ("My mistake is that the sum is taken over the squares.", False),
    ],
)
def test_what_was_said_before_on_this_task_is_a_duplicate(words: str, is_duplicate: bool) -> None:
    before = reflection(what_went_wrong="", what_to_change="")
    changed = replace(before, root_cause=words)
    attempt = attempt_with(EMPTY_LIST)
    assert ("duplicate" in flags(changed, attempt, [make.episode(reflection=before)])) is is_duplicate
    assert "duplicate" not in flags(changed, attempt, [make.episode(reflection=before, task_id="t/2")])
    assert "duplicate" not in flags(changed, attempt, [])


@pytest.mark.parametrize(("changed", "is_duplicate"), [(1, True), (2, False)])
def test_nine_words_of_ten_in_common_are_a_duplicate(changed: int, is_duplicate: bool) -> None:
    words = [f"word{n}" for n in range(20)]
    before = reflection(root_cause=" ".join(words), what_went_wrong="", what_to_change="")
    copy = replace(before, root_cause=" ".join([*words[changed:], *(f"new{n}" for n in range(changed))]))
    assert ("duplicate" in flags(copy, attempt_with(EMPTY_LIST), [make.episode(reflection=before)])) is is_duplicate


def test_empty_words_are_no_duplicate_of_empty_words() -> None:
    none = reflection(root_cause="", what_went_wrong="", what_to_change="")
    assert "duplicate" not in flags(none, attempt_with(EMPTY_LIST), [make.episode(reflection=none)])


def test_words_that_state_no_confidence_have_none_that_is_low() -> None:
    words = reflection(confidence=0.0, confidence_source="none")
    assert "low_confidence" not in flags(words, attempt_with(EMPTY_LIST), [])


@pytest.mark.parametrize(
    ("confidence", "improved", "number", "flagged"),
    [(0.49, False, 2, True), (0.5, False, 2, False), (0.1, True, 2, False), (0.49, False, 1, False)],
)
def test_little_confidence_without_improvement_on_an_earlier_attempt_is_low(
    confidence: float, improved: bool, number: int, flagged: bool
) -> None:
    attempt = attempt_with(EMPTY_LIST, number=number, delta=Delta(is_improvement=improved))
    assert ("low_confidence" in flags(reflection(confidence=confidence), attempt, [])) is flagged


@pytest.mark.parametrize(
    "words",
    [
        "It raised an IndexError.",
        "There is an index error.",
        "The list index out of range shows it.",
        "mean_gap( [] ) breaks.",
        'It should be "3.75" there.',
        "It gave 7.25 then.",
        "The time 4.5 is taken twice.",
    ],
)
def test_naming_a_check_its_exception_or_a_value_of_it_is_enough(words: str) -> None:
    assert "misses_check" not in wrong(words, checks=(CHECK, EMPTY_LIST))


@pytest.mark.parametrize("words", ["It gave 13.75 and 7.254.", "The list is empty.", "mean_gap is wrong."])
def test_naming_nothing_of_the_check_misses_it(words: str) -> None:
    assert "misses_check" in wrong(words, checks=(CHECK,))


@pytest.mark.parametrize(
    ("outcome", "words"), [("timeout", "The loop never ends."), ("memory", "The recursion has no base case.")]
)
def test_how_a_program_was_stopped_is_named_in_words(outcome: str, words: str) -> None:
    late = Check(name="assert mean_gap(x) == y", outcome=outcome)
    assert "misses_check" not in wrong(words, checks=(late,))
    assert "misses_check" in wrong("It is wrong.", checks=(late,))


def test_without_a_failing_check_none_is_missed() -> None:
    assert "misses_check" not in wrong("It is wrong.", checks=())


@pytest.mark.parametrize(
    ("call", "expected", "words", "leaks"),
    [
        ("f(4)", "[1, 3, 2]", "It should return [1,3,2] here.", True),
        ("f(4)", "27", "For 4 the answer is 27.", True),
        ("f(4)", "27", "For 4 the answer is 271 or 2.7 or 27.5.", False),
        ("f(4)", "'odd'", "It should return “odd” then.", True),
        ("f(4)", "'odd'", "It should take odd numbers.", False),
        ("f(27)", "27", "For 27 nothing changes.", False),
        ("f(4)", "True", "It should be True.", False),
        ("f(4)", "None", "It should be None.", False),
        ("f(4)", "7", "It should be 7.", False),
        ("f(4)", "''", "It should be ''.", False),
        ("f(4)", "", "It should be 27.", True),
    ],
)
def test_the_expected_value_leaks_where_it_tells_the_answer(call: str, expected: str, words: str, leaks: bool) -> None:
    check = Check(name=f"assert {call} == {expected or 27}", outcome="fail", expected=expected)
    assert ("leaks_value" in wrong(words, checks=(check,))) is leaks


@pytest.mark.parametrize(
    "words",
    [
        "Use ```python\nx = 1\n``` here.",
        "I will write def f(x): return x + 1.",
        "I will return len(times) at once.",
        "I will return a + b in the end.",
        "x = 1\ny = 2\n",
        "I will use if total == 0: return 0.",
    ],
)
def test_code_that_is_not_the_programs_own_is_held(words: str) -> None:
    assert "holds_code" in wrong(words)


@pytest.mark.parametrize(
    "words",
    [
        "The line `return total / pairs` divides by the wrong number.",
        "It should return (1, 0) as the smallest pair.",
        "It should return the sum of a list.",
        "I will return 0.0 if there are none: that is what the task says.",
        "x = 1 is wrong.",
    ],
)
def test_quoting_the_program_or_a_value_is_no_code(words: str) -> None:
    assert "holds_code" not in wrong(words)


def test_of_a_success_nothing_is_asked_that_needs_a_failing_check() -> None:
    attempt = attempt_with(Check(name="assert mean_gap([]) == 0.0", outcome="pass"))
    given = flags(reflection(root_cause="", confidence=0.1), attempt, [])
    assert not {"misses_check", "leaks_value", "low_confidence"} & set(given)


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
