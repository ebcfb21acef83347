"""Going round in circles: asked for another approach, then stopped."""

import pytest

from reflexion_lab.loop.stop import Stuck
from reflexion_lab.records import Check
from tests import builders as make


def attempt(program, value="", number=1):
    checks = (Check(name="assert f(1) == 2", outcome="fail", message=f"expected 2, got {value}"),) if value else ()
    return make.attempt(*checks, acted={"solution": program}, number=number)


def decisions(stuck, *attempts):
    """What is advised before each attempt, and why each one ends the loop."""
    items = [attempt(*program, number=n) for n, program in enumerate(attempts, 1)]
    return [(stuck.advice(items[:n]), stuck.reached(items[n], items[:n])) for n in range(len(items))]


def test_a_repeated_program_or_failure_gets_advice_and_then_a_stop():
    text = decisions(Stuck(3), ("a = 1\n", "1"), ("a = 1\n\n", "2"), ("a = 1  ", "3"))
    assert text == [("", None), ("", None), ("The last 2 attempts were the same program.", "stuck")]
    text = decisions(Stuck(3), ("a", "7"), ("b", "7"), ("c", "7"))
    assert text[2] == ("The last 2 attempts failed in the very same way.", "stuck")
    for no_circle in ((("a", "7"), ("b", "8"), ("c", "9")), (("a", ""), ("b", ""))):
        assert decisions(Stuck(2), *no_circle) == [("", None)] * len(no_circle)
    assert decisions(Stuck(None), *[("a", "1")] * 9) == [("", None)] * 9


def test_only_the_last_attempts_count_and_replies_without_a_program_are_no_same_program():
    text = decisions(Stuck(3), ("a", "1"), ("a", "1"), ("b", "2"), ("a", "1"), ("a", "1"))
    assert [reason for _, reason in text] == [None] * 5
    assert [bool(advice) for advice, _ in text] == [False, False, True, False, False]
    # A refusal, then a reply that was cut off; only the same reason again is a circle.
    assert decisions(Stuck(2), ("", "refusal"), ("", "extraction_failed"), ("", "")) == [("", None)] * 3
    again = decisions(Stuck(2), ("", "refusal"), ("", "refusal"), ("", ""))
    assert again[1:] == [("", "stuck"), ("The last 2 attempts failed in the very same way.", None)]


@pytest.mark.parametrize("after", [1, 0, -3])
def test_once_is_no_repeat(after):
    with pytest.raises(ValueError, match=rf"Stuck\.after: got {after}, expected 2 or more"):
        Stuck(after)


def test_the_repetition_is_named_by_what_the_task_asks_for():
    history = [attempt("look\nlook", value, n) for n, value in ((1, "1"), (2, "2"))]
    words = {kind: Stuck(3).advice(history, kind) for kind in ("function", "program", "answer", "actions")}
    assert words["function"] == words["program"] == "The last 2 attempts were the same program."
    assert (words["answer"], words["actions"]) == (
        "The last 2 attempts gave the same answer.", "The last 2 attempts took the same actions.",
    )  # fmt: skip
