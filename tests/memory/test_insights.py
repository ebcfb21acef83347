import pytest

from reflexion_lab.memory.lessons.insights import Insights, insight_of, with_insight
from reflexion_lab.memory.session import session_after
from reflexion_lab.records import Session
from tests import builders


def reflected(**fields):
    return builders.reflection(**{"what_to_change": "change it"} | fields)


def test_a_new_insight_is_appended_and_at_twenty_the_oldest_leaves_but_not_for_a_repetition():
    assert with_insight(("Check bounds",), "  Handle\n None first ") == ("Check bounds", "Handle None first")
    assert with_insight(["Check bounds"], "x") == ("Check bounds", "x")
    insights = ()
    for number in range(23):
        insights = with_insight(insights, f"{number} is an insight")
    assert insights == tuple(f"{number} is an insight" for number in range(3, 23))
    assert with_insight(insights, "3 IS AN INSIGHT") == insights


ALWAYS = "Always check the bounds of the list"


@pytest.mark.parametrize(
    ("known", "text", "is_new"),
    [
        *(("known", text, False) for text in ("", "  \n", "N/A", "n/a", " N/a ")),
        (ALWAYS, "ALWAYS  CHECK\tTHE BOUNDS of the list.", False),
        (ALWAYS, "I will always check the bounds of the list", False),
        (ALWAYS, "In my function I will always check the bounds of the list", False),
        (ALWAYS, "Always check the bounds of the dict", True), (ALWAYS, "Always check the bounds", True),
        (ALWAYS, "Sort first", True), ("Sort first", "sort FIRST", False),
        ("Sort first", "Sort first, then search", True), ("STRASSE", "straße", False),
    ],
)  # fmt: skip
def test_empty_and_repeated_insights_are_not_added(known, text, is_new):
    assert with_insight((known,), text) == ((known, text) if is_new else (known,))


CHANGES = (
    "In my function I will start the range at zero", "In my function I will start the range at one",
    "In my function I will return x < y", "In my function I will return x <= y",
)  # fmt: skip


def test_different_changes_with_one_opening_are_all_kept():
    session, book = Session(session_id="s"), Insights()
    for number, change in enumerate(CHANGES):
        about = builders.attempt(number=number, reflection=reflected(what_to_change=change))
        session = session_after(session, about)
        book.add(f"t{number}", change)
    assert session.key_insights == book.newest() == CHANGES


def test_the_insight_is_the_first_text_that_is_not_empty():
    assert insight_of(reflected(key_insight=" key ", lessons=("lesson",))) == "key"
    assert insight_of(reflected(key_insight="N/A", lessons=("", "lesson"))) == "lesson"
    assert insight_of(reflected(lessons=("n/a",))) == "change it"
    assert insight_of(reflected(what_to_change=" ")) == ""


def test_a_task_reads_the_insights_of_the_others_only_and_a_common_one_crowds_out_none():
    known = Insights()
    for task, text in (("a", "mind the sign"), ("b", "sort first"), ("c", "mind the sign")):
        known.add(task, text)
    assert known.newest() == ("mind the sign", "sort first")
    assert known.newest("a") == ("sort first", "mind the sign")
    assert known.newest("c") == ("mind the sign", "sort first")
    assert known.newest("b") == ("mind the sign",)
    known = Insights()
    known.add("a", "sort first")
    for number in range(100):
        known.add(f"t{number}", "read the task")
    assert known.newest("a") == ("read the task",)
    assert known.newest("t0") == ("sort first", "read the task")


def test_the_insights_of_one_task_leave_twenty_of_the_others():
    known = Insights()
    for number in range(25):
        known.add("other", f"{number} said by another")
    for number in range(50):
        known.add("own", f"{number} said by itself")
    assert known.newest("own") == tuple(f"{number} said by another" for number in range(5, 25))
    assert known.newest("other") == tuple(f"{number} said by itself" for number in range(30, 50))
    assert len(known.newest()) == 20
