import pytest

from reflexion_lab.memory.insights import insight_of, with_insight
from reflexion_lab.records import Reflection


def reflected(**fields):
    told = {
        "root_cause": "c",
        "what_went_wrong": "w",
        "what_to_change": "change it",
        "confidence": 0.5,
        "source": "llm",
    }
    return Reflection(reflection_id="r", about_attempt=1, **{**told, **fields})


def test_a_new_insight_comes_last_and_the_given_ones_stay_as_they_were():
    known = ("Check bounds",)
    assert with_insight(known, "  Handle\n None first ") == ("Check bounds", "Handle None first")
    assert known == ("Check bounds",)
    assert with_insight(["Check bounds"], "x") == ("Check bounds", "x")


@pytest.mark.parametrize("text", ["", "  \n", "N/A", "n/a", " N/a "])
def test_an_insight_that_says_nothing_is_never_stored(text):
    assert with_insight(("known",), text) == ("known",)


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("Always check the bounds", False),
        ("ALWAYS  CHECK\tTHE BOUNDARIES of a list", False),  # agrees in "always check the bou"
        ("Always check the box", True),  # differs at the 20th character
        ("Always check the bo", True),  # 19 characters: compared as a whole
        ("Always", True),
        ("Sort first", True),
    ],
)
def test_insights_are_one_where_their_first_twenty_characters_agree(text, stored):
    insights = with_insight(("Always check the bounds of the list",), text)
    assert (len(insights) == 2) == stored


def test_a_short_insight_equals_only_itself():
    assert with_insight(("Sort first",), "sort FIRST") == ("Sort first",)
    assert with_insight(("Sort first",), "Sort first, then search") == ("Sort first", "Sort first, then search")


def test_beginnings_are_casefolded_not_lowered():
    assert with_insight(("STRASSE",), "straße") == ("STRASSE",)


def test_at_twenty_the_oldest_leaves_and_a_repetition_pushes_nothing_out():
    insights = ()
    for number in range(23):
        insights = with_insight(insights, f"{number} is an insight")
    assert insights == tuple(f"{number} is an insight" for number in range(3, 23))
    assert with_insight(insights, "3 IS AN INSIGHT") == insights


def test_the_insight_of_a_reflection_is_the_first_of_its_texts_that_says_something():
    assert insight_of(reflected(key_insight=" key ", lessons=("lesson",))) == "key"
    assert insight_of(reflected(key_insight="N/A", lessons=("", "lesson"))) == "lesson"
    assert insight_of(reflected(lessons=("n/a",))) == "change it"
    assert insight_of(reflected(what_to_change=" ")) == ""
