import hashlib
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reflexion_lab.agent.critique.verdict import Unreadable, parse_verdict
from reflexion_lab.agent.reflectors.fields import (
    FURTHER,
    GRAMMAR,
    LABELS,
    LISTS,
    Fields,
    ParseError,
    parse_fields,
    prose,
)
from reflexion_lab.text.replies.labelled import PROMPTS
from tests.builders import TABLES

PLAIN = """ROOT_CAUSE: The loop stops one short.
WHAT_WENT_WRONG: The last item was never added.
WHAT_TO_CHANGE: I will loop to len(xs).
CONFIDENCE: 0.85
"""
EXPECTED = Fields(
    root_cause="The loop stops one short.",
    what_went_wrong="The last item was never added.",
    what_to_change="I will loop to len(xs).",
    confidence=0.85,
)
TOKEN = r'"(?:\\.|[^"])*"|\[[^\]]+\]|\{\d+,\d+\}|[()|?]|\w+'
"""Of GBNF: a literal, a class, a repetition, a bracket or bar, a rule's name."""

values = st.text().map(lambda text: " ".join(text.split())).filter(lambda text: any(map(str.isalnum, text)))
lessons = values.filter(lambda text: len(text) <= 200 and not re.match(r"[-+*•>] |\d+[.)] ", text))
fields = st.builds(
    Fields,
    root_cause=values,
    what_went_wrong=values,
    what_to_change=values,
    confidence=st.floats(0, 1),
    what_worked=st.just("") | values,
    key_insight=st.just("") | values,
    category=st.just(""),
    action_items=st.lists(lessons, max_size=5).map(tuple),
    lessons=st.lists(lessons, max_size=5).map(tuple),
)


def rendered(fields: Fields) -> str:
    """As labelled lines, those that say nothing left out."""
    values = [str(getattr(fields, label.lower())) for label in (*LABELS, *FURTHER[:2])]
    lines = [f"{label}: {value}" for label, value in zip((*LABELS, *FURTHER), values, strict=False) if value]
    for label in LISTS:
        lines += [f"{label}:", *(f"- {entry}" for entry in getattr(fields, label.lower()))]
    return "\n".join(lines)


@given(fields)
def test_what_is_written_in_form_is_read_back(fields: Fields) -> None:
    assert parse_fields(rendered(fields)) == fields


@given(st.lists(st.sampled_from([*LABELS, ":", "**", "#", "- ", "\n", "```", " ", "x", "0.5", "%", "/", "nan"])))
def test_label_soup_gives_fields_or_a_parse_error(pieces: list[str]) -> None:
    try:
        fields = parse_fields("".join(pieces))
    except ParseError:
        return
    assert 0 <= fields.confidence <= 1
    assert fields.root_cause and fields.what_went_wrong and fields.what_to_change


@given(
    st.lists(st.sampled_from([*LABELS, *FURTHER, "conf\u0130dence", "WHAT_WOR\u212aED", "\u017f", ":", "\n", "{", "x"]))
)
def test_letters_that_only_look_like_a_labels_are_text(pieces: list[str]) -> None:
    with pytest.raises(ParseError, match="CONFIDENCE"):  # no piece is a number
        parse_fields("".join(pieces))


@pytest.mark.parametrize(
    "reply",
    [
        PLAIN,
        "Here is what I think.\n\n" + PLAIN,
        "\n\n".join("    " + line for line in PLAIN.splitlines()),
        PLAIN.lower().replace("the loop", "The loop").replace("the last", "The last").replace("i will", "I will"),
        re.sub(r"^(\w+):", r"**\1**:", PLAIN, flags=re.M),
        re.sub(r"^(\w+):", r"- __\1__:", PLAIN, flags=re.M),
        re.sub(r"^(\w+):", r"`\1`:", PLAIN, flags=re.M),
        re.sub(r"^(\w+):", r"1. **\1:**", PLAIN, flags=re.M),
        re.sub(r"^(\w+): (.*)$", r"**\1: \2**", PLAIN, flags=re.M),
        re.sub(r"^(\w+): ", r"### \1\n\n", PLAIN, flags=re.M),
        re.sub(r"^(\w+): ", r"**\1**\n", PLAIN, flags=re.M),
        re.sub(r"^(\w+): ", r"\1:", PLAIN, flags=re.M),
        f"```text\n{PLAIN}```",
        PLAIN.replace("\n", "\r\n"),
        PLAIN.replace(" stops", "\n\n  stops"),
        PLAIN + "\nI hope that this helps.",
        "\n".join(reversed(PLAIN.splitlines())),
        "ROOT_CAUSE:\n" + PLAIN + "ROOT_CAUSE: Something else.\n",
        PLAIN.replace(":", "："),
    ],
)
def test_form_and_order_of_the_labels_do_not_matter(reply: str) -> None:
    assert parse_fields(reply) == EXPECTED


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("**ROOT_CAUSE:** *x* y**", "*x* y**"),  # the label's emphasis was closed before: these stars are the value's
        ("**ROOT_CAUSE**: x**", "x**"),
        ("**ROOT_CAUSE: *x* y**", "*x* y"),
    ],
)
def test_the_closing_mark_of_a_label_is_removed(line, cause):
    assert parse_fields(re.sub("^ROOT_CAUSE: .*$", line, PLAIN, flags=re.M)).root_cause == cause


@pytest.mark.parametrize("absent", [(0,), (3,), (0, 2), (1, 2, 3)])
@pytest.mark.parametrize("empty", ["", "\n", "**", " ...", "```\n"])
def test_missing_and_empty_fields_are_all_named(absent: tuple[int, ...], empty: str) -> None:
    lines = PLAIN.splitlines()
    for i in absent:
        lines[i] = f"{LABELS[i]}:{empty}"
    with pytest.raises(ParseError) as caught:
        parse_fields("\n".join(lines))
    named = str(caught.value).partition(";")[0]
    assert [label in named for label in LABELS] == [i in absent for i in range(4)]


def as_regex(grammar: str) -> str:
    """The language of a GBNF grammar without recursion, in Python's notation."""
    rules = dict(line.split(" ::= ") for line in grammar.strip().splitlines())

    def translate(token: str) -> str:
        if token[0] == '"':
            return re.escape(token[1:-1].replace(r"\n", "\n"))
        if token[0].isalpha():
            return f"(?:{''.join(map(translate, re.findall(TOKEN, rules[token])))})"
        return "(?:" if token == "(" else token

    return translate("root")


@given(st.from_regex(as_regex(GRAMMAR), fullmatch=True))
def test_every_reply_that_the_grammar_allows_is_understood(reply: str) -> None:
    fields = parse_fields(reply)
    assert fields.what_to_change.startswith("In my function I will ")
    assert 0 <= fields.confidence < 1


@pytest.mark.parametrize("label", FURTHER)
@pytest.mark.parametrize("form", ["{0}: {1}", "**{0}:** {1}", "### {0}\n{1}", "- {0} - {1}"])
def test_further_labels_are_read_and_end_the_field_before_them(label: str, form: str) -> None:
    lines = PLAIN.splitlines()
    for place in range(5):
        reply = "\n".join([*lines[:place], form.format(label.replace("_", " ").title(), "Kept."), *lines[place:]])
        fields = parse_fields(reply)
        assert getattr(fields, label.lower()) == (("Kept.",) if label in LISTS else "Kept.")
        assert [getattr(fields, name.lower()) for name in LABELS] == [getattr(EXPECTED, key.lower()) for key in LABELS]


def test_drafts_within_thoughts_do_not_count() -> None:
    draft = PLAIN.replace("one short", "one long")
    assert parse_fields(f"<think>\n{draft}</think>\n{PLAIN}") == EXPECTED
    with pytest.raises(ParseError, match=", ".join(LABELS)):
        parse_fields(f"<think>\n{PLAIN}")


def test_the_grammar_is_the_one_that_calls_were_cached_under() -> None:
    assert hashlib.sha256(GRAMMAR.encode()).hexdigest()[:16] == "65d5fe3ef9c577e3"


@pytest.mark.parametrize(
    ("stated", "confidence"),
    [
        ("1", 1.0), ("0", 0.0), ("-0.2", 0.0), ("8", 0.8), ("10", 1.0), ("90", 0.9), ("85%", 0.85), ("250%", 1.0),
        ("8/10", 0.8), ("about 0.8", 0.8), ("high", None), ("nan", None), ("1.7", None), ("250", None), ("1e400", None),
        ("1/0", None), ("0/0", None), ("0,85", None), ("1" * 100_000 + "x", None),
    ],
    ids=lambda value: str(value)[:9],
)  # fmt: skip
def test_confidence_is_clamped_and_neutral_if_unclear(stated: str, confidence: float | None) -> None:
    read = parse_fields(PLAIN.replace("0.85", stated))
    assert (read.confidence, read.is_stated) == (
        pytest.approx(0.5 if confidence is None else confidence),
        confidence is not None,
    )
    assert read.root_cause


@pytest.mark.parametrize(
    ("old", "new", "cause"),
    [
        ("one short.", "one short; my confidence: low.", "The loop stops one short; my confidence: low."),
        ("one short.", "one short.\nRoot cause\nof it all.", "The loop stops one short. Root cause of it all."),
        ("The loop", "__init__", "__init__ stops one short."),
    ],
)
def test_labels_and_marks_within_a_value_are_text(old: str, new: str, cause: str) -> None:
    assert parse_fields(PLAIN.replace(old, new)).root_cause == cause


def test_each_line_below_lessons_is_a_lesson_within_bounds() -> None:
    reply = PLAIN + "LESSONS: first\n- second\n2. third\n\n  * **fourth**\n-\n"
    assert parse_fields(reply).lessons == ("first", "second", "third", "**fourth**")
    assert parse_fields(PLAIN + "LESSONS:\n" + ("- " + "x" * 400 + "\n") * 9).lessons == ("x" * 200,) * 5
    assert parse_fields(PLAIN + "KEY_INSIGHT:\nLESSONS: ...\n") == EXPECTED


def explained(template: str) -> str:
    """The labelled lines, or the object, with which a template explains its form."""
    lines = (PROMPTS / template).read_text().splitlines()
    return "\n".join(line for line in lines if re.fullmatch(r"[A-Z_]+: [^{]*[a-z][^{]*", line))


@pytest.mark.parametrize("name", ["reflect.md", "reflect.terse.md", "reflect.paper_style.md", "reflect_lessons.md"])
def test_an_echo_of_the_form_is_no_reflection_and_the_last_complete_set_counts(name: str) -> None:
    form = explained(f"{name}.jinja")
    assert form.count("\n") >= 3
    for echo in (form, form.lower(), form.replace(": ", ": <").replace("\n", ">\n"), f"```\n{form}\n```"):
        with pytest.raises(ParseError, match="ROOT_CAUSE"):
            parse_fields(echo)
        assert parse_fields(f"{echo}\n\nHere are my four lines:\n{PLAIN}") == EXPECTED
    draft = PLAIN.replace("one short", "one long")
    assert parse_fields(f"{draft}\nWait, that is wrong. Final answer:\n{PLAIN}") == EXPECTED
    assert parse_fields(f"{PLAIN}\nROOT_CAUSE: The loop\nWHAT_WENT_WRONG: and so") == EXPECTED
    assert parse_fields(f"{PLAIN}\n{form}") == EXPECTED


CHANGE = "The one concrete change that I will make next"
ECHO = "ROOT_CAUSE: which line or decision of my program is to blame, and why"
NEXT = f"\n\nTask:\nSum a list.\n\nMy program:\n```python\nx\n```\n\n{PLAIN.replace('loop', 'sum')}"
NESTED = json.dumps({label: PLAIN.splitlines()[i].partition(": ")[2] for i, label in enumerate(LABELS)})


@pytest.mark.parametrize(
    ("reply", "changed"),
    [
        (PLAIN.replace("ROOT_CAUSE:", f"{ECHO}\n"), {}),
        (PLAIN.replace("ROOT_CAUSE:", f"{ECHO.replace(' is to', chr(10) + 'is to')}.\n"), {}),
        (PLAIN.replace("ROOT_CAUSE:", f"{ECHO}:"), {}),
        (PLAIN.replace("0.85", "a number from 0 to 1\n0.85"), {}),
        (PLAIN.replace("I will", f"{CHANGE} is to"), {"what_to_change": "loop to len(xs)."}),
        (PLAIN + NEXT, {}),
        (PLAIN + NEXT.replace("Task:\n", "**Task:** "), {}),
        (PLAIN + NEXT.replace("Task:", "[function]").replace("My program:", "[implementation, attempt 2]"), {}),
        (PLAIN + NEXT.partition("My")[0].replace("Task:", "Example 2") + NESTED.replace("loop", "sum"), {}),
        (NESTED + NEXT, {}),
        (f"## Attempt 1\n{PLAIN.replace('loop', 'sum')}\n\n## Attempt 2\n{PLAIN}", {}),
        (PLAIN.replace("\nCONF", "\nTask: done\nCONF"), {"what_to_change": "I will loop to len(xs). Task: done"}),
        (f'Task:\nSum {{"a": 1}}.\nMy program:\nx\n\n{PLAIN}', {}),
        (NESTED[:-1] + f', "other": {NESTED.replace("loop", "sum")}}}', {}),
    ],
)  # fmt: skip
def test_only_the_answer_to_this_task_is_read(reply: str, changed: dict[str, str]) -> None:
    assert parse_fields(reply) == replace(EXPECTED, **changed)


def test_only_the_critique_of_this_task_is_read() -> None:
    own = "ISSUE: none\nSEVERITY: 0.1"
    assert parse_verdict(
        f"{own}\n\nTask:\nSum.\n\nIts program:\nx\n\nISSUE: it subtracts\nSEVERITY: 0.9"
    ) == parse_verdict(own)
    within = parse_verdict(f"{own}\nMy program: is fine\nSUGGESTION: count to n\nSEVERITY: 0.9")
    assert (within.severity, within.suggestions) == (0.9, ("count to n",))
    form, fix = "SUGGESTION: the one concrete change that mends it", "return 0 for an empty list"
    for reply in (f"{form}\n{fix}", f"{form} is to {fix}"):
        assert parse_verdict(reply).suggestions == (fix,)


@pytest.mark.parametrize("name", ["critique.md", "critique.terse.md"])
def test_an_echo_of_the_form_is_no_critique(name: str) -> None:
    form, own = explained(f"{name}.jinja"), "ISSUE: the loop ends early\nSUGGESTION: count to n\nSEVERITY: 0.9"
    with pytest.raises(Unreadable):
        parse_verdict(form)
    assert parse_verdict(f"{form}\n{own}") == parse_verdict(own)


@pytest.mark.parametrize(("reply", "words"), TABLES["prose without labels"])
def test_prose_without_labels_is_the_change(reply: str, words: str) -> None:
    assert prose(reply, "Task:\nAdd two numbers, a and b.") == words
