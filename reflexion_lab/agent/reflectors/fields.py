"""The fields of a reflection: the grammar that makes a model write them, and how they are read from its reply."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping

from reflexion_lab.records import Category, Record
from reflexion_lab.text.replies.blocks import without_thoughts
from reflexion_lab.text.replies.labelled import BULLET, Labels, entries, has_words, number, objects, one_line

LABELS = ("ROOT_CAUSE", "WHAT_WENT_WRONG", "WHAT_TO_CHANGE", "CONFIDENCE")
FURTHER = ("WHAT_WORKED", "KEY_INSIGHT", "LESSONS", "ACTION_ITEMS")
"""Labels that a reply may have, and need not."""
LISTS = ("LESSONS", "ACTION_ITEMS")

GRAMMAR = r"""
root ::= cause wrong change confidence
cause ::= "ROOT_CAUSE: My mistake is that " value
wrong ::= "WHAT_WENT_WRONG: The check failed because " value
change ::= "WHAT_TO_CHANGE: In my function I will " value
confidence ::= "CONFIDENCE: 0." [0-9] [0-9] "\n"
value ::= [A-Za-z] [a-zA-Z]{0,23} (" " word){3,13} "\n"
word ::= [a-zA-Z_.,`']{1,24} | [!-~]{1,10}
"""
"""GBNF for `Sampling.grammar`: the four lines in order, each text an opening and 4..14 words of ASCII.

The openings are for small models: without them SmolLM2-135M repeats the prompt's explanation of each label.
Words are bounded, and short where they hold digits or symbols, because those cost a token each: a reply that
ends in a loop of them must still fit into `max_tokens`.
"""

KEYS = {
    "ROOT_CAUSE": ("rootcause", "analysis"),
    "WHAT_WENT_WRONG": ("whatwentwrong", "whatfailed", "analysis"),
    "WHAT_TO_CHANGE": ("whattochange", "strategychange", "suggestion"),
    "CONFIDENCE": ("confidence",),
    "WHAT_WORKED": ("whatworked",),
    "KEY_INSIGHT": ("keyinsight",),
    "LESSONS": ("lessons",),
    "ACTION_ITEMS": ("actionitems",),
    "CATEGORY": ("category",),
}
"""By label, the JSON keys that give its value, letters alone; the first one that has words counts."""
WITHOUT_CONFIDENCE = {"whatfailed", "strategychange", "analysis"}
"""Keys of the JSON shapes in which a missing confidence is a neutral one."""
ANALYSIS_CHARS = 500
ITEMS, ITEM_CHARS = 5, 200
"""Most entries of a list, and the length of each."""
NEUTRAL = 0.5
"""The confidence of a reply that states none: it speaks neither for a reflection nor against it."""

Values = Mapping[str, tuple[str, ...]]
"""Texts on one line by label: one each, of `LISTS` several; labels without any are left out."""


@functools.cache
def _labels() -> Labels:
    return Labels({label: (label,) for label in (*LABELS, *FURTHER)})


class ParseError(ValueError):
    """A reply that does not hold the four fields; the message names every missing or bad one."""


class Fields(Record, frozen=True, kw_only=True):
    """The fields of one reply. Texts are on one line. `confidence` is in [0, 1]."""

    root_cause: str
    """Never empty, nor is `what_to_change`."""
    what_went_wrong: str
    """"" where an `analysis` says both: it is the root cause then."""
    what_to_change: str
    confidence: float
    is_stated: bool = True
    """Whether the reply states the confidence as a number; without one it is neutral."""
    what_worked: str = ""
    key_insight: str = ""
    category: str = ""
    """One of `Category`, as the reply names it; "" where it names none, as labelled lines never do."""
    action_items: tuple[str, ...] = ()
    """At most 5 of at most 200 characters, as are `lessons`."""
    lessons: tuple[str, ...] = ()


def parse_fields(text: str) -> Fields:
    """Read the fields of a reply: labelled lines, or one JSON object where it has more of the four labels.

    Of a label that occurs twice the first with a value counts; `<think>` sections do not.

    Lines: what `Labels` tolerates, values over several lines (joined by a space; of LESSONS each line is one), code
    fences, prose before the first label.

    JSON: an object anywhere in the reply; of several the one with most of the four labels, the earlier on a tie. Three
    shapes, which may be mixed: our labels as keys; `category, analysis, suggestion, actionItems, confidence`, whose
    analysis, cut at 500 characters, is root cause and what went wrong in one; `what_worked, what_failed, root_cause,
    strategy_change, key_insight`. The last two may lack a confidence, which is neutral then.

    Confidence: `85%`, `8/10`, `[0.9]`, `about 0.8`; whole numbers above 1 are tenths up to 10 and percent up to 100.
    One that is no clear number is neutral and not stated.

    Raises
    ------
    ParseError
        A field is missing or empty (all are named). Nothing else, ever.
    """
    reply = without_thoughts(text)[0]
    values = _from_lines(reply)
    if _stated(values) < len(LABELS):
        values = max(values, _from_json(reply), key=_stated)
    if missing := [label for label in LABELS if label not in values]:
        expected = f"one line each for {', '.join(LABELS)}, or a JSON object with these keys"
        raise ParseError(f"the reply lacks {', '.join(missing)}; expected {expected}")
    first = {label: texts[0] for label, texts in values.items()}
    confidence = _confidence(first["CONFIDENCE"])
    return Fields(
        root_cause=first["ROOT_CAUSE"],
        what_went_wrong=first["WHAT_WENT_WRONG"],
        what_to_change=first["WHAT_TO_CHANGE"],
        confidence=NEUTRAL if math.isnan(confidence) else confidence,
        is_stated=not math.isnan(confidence),
        what_worked=first.get("WHAT_WORKED", ""),
        key_insight=first.get("KEY_INSIGHT", ""),
        category=named(first["CATEGORY"]).value if "CATEGORY" in first else "",
        action_items=values.get("ACTION_ITEMS", ()),
        lessons=values.get("LESSONS", ()),
    )


def _stated(values: Values) -> int:
    """How many of the four labels have a value."""
    return sum(label in values for label in LABELS)


def _from_lines(text: str) -> Values:
    values: dict[str, tuple[str, ...]] = {}
    for label, lines in _labels().sections(text):
        if label in LISTS:
            texts = entries((" ".join(BULLET.sub("", line, count=1).split()) for line in lines), ITEMS, ITEM_CHARS)
        else:
            texts = tuple(filter(has_words, [" ".join(" ".join(lines).split())]))
        if texts:
            values.setdefault(label, texts)
    return values


def _from_json(text: str) -> Values:
    best: Values = {}
    for values in map(_labelled, objects(text)):
        if not best or _stated(values) > _stated(best):
            best = values
        if _stated(best) == len(LABELS):
            break
    return best


def _labelled(fields: Mapping[str, object]) -> Values:
    """The values of one JSON object by label."""
    values = {label: _first(fields, keys, label in LISTS) for label, keys in KEYS.items()}
    if fields.get("confidence") is None and WITHOUT_CONFIDENCE & fields.keys():
        values["CONFIDENCE"] = ("not stated",)
    if fields.get("analysis") and values["WHAT_WENT_WRONG"] == values["ROOT_CAUSE"]:
        values["WHAT_WENT_WRONG"] = ("",)
    return {label: texts for label, texts in values.items() if texts}


def _first(fields: Mapping[str, object], keys: tuple[str, ...], is_list: bool) -> tuple[str, ...]:
    for key in keys:
        value = fields.get(key)
        texts = [one_line(entry) for entry in (value if isinstance(value, list) else [value]) if isinstance(entry, str)]
        if is_list:
            return entries(texts, ITEMS, ITEM_CHARS)
        text = " ".join(filter(None, texts))
        if has_words(text):
            return (text[:ANALYSIS_CHARS].rstrip() if key == "analysis" else text,)
    return ()


def _confidence(stated: str) -> float:
    """Clamped to [0, 1]; NaN when `stated` is no clear number."""
    measure = number(stated)
    if measure is None:
        return math.nan
    value, scale = measure.value, measure.scale
    if scale is None:
        scale = 1.0
        if value > 1:
            scale = (10.0 if value <= 10 else 100.0) if value <= 100 and value.is_integer() else 0.0
    value = value / scale if scale > 0 else math.nan
    return value if math.isnan(value) else min(1.0, max(0.0, value))


def named(stated: str, otherwise: Category = Category.ROOT_CAUSE) -> Category:
    """The category of that name, in any case, with any separators, with or without "error"; else `otherwise`."""
    return _by_letters().get(_letters(stated), otherwise)


def _letters(name: str) -> str:
    return re.sub(r"[\W_]", "", name).casefold().removesuffix("error")


@functools.cache
def _by_letters() -> dict[str, Category]:
    return {_letters(category): category for category in Category}


SUCCESS = r"""
root ::= worked cause wrong change confidence
worked ::= "WHAT_WORKED: My program passed because " value
cause ::= "ROOT_CAUSE: This task is easy to get wrong because " value
wrong ::= "WHAT_WENT_WRONG: A careless version would " value
change ::= "WHAT_TO_CHANGE: In similar tasks I will " value
""" + GRAMMAR[GRAMMAR.index("confidence ::=") :]
"""Labelled fields on an attempt that passed."""

LESSONS = (
    GRAMMAR[: GRAMMAR.index("confidence ::=")].replace("change confidence", "change action lesson confidence", 1)
    + r"""action ::= "ACTION_ITEMS: " value
lesson ::= "LESSONS: " value
"""
    + GRAMMAR[GRAMMAR.index("confidence ::=") :]
)
"""Labelled fields with an action item and a lesson."""

_WORDS = r"""text ::= "\"" [A-Za-z] [a-zA-Z]{0,23} (" " word){3,13} "\""
word ::= [a-zA-Z_.,`']{1,24} | [!#-[\]-~]{1,10}
"""

SERVICE = (
    r"""
root ::= "{\"category\": " category ", \"analysis\": " text ", \"suggestion\": " text items lessons confidence "}"
category ::= "\"" kind "\""
kind ::= "root_cause" | "approach_flaw" | "missing_context" | "tool_misuse" | "test_gap" | "verification"
items ::= ", \"actionItems\": [" text (", " text)? "]"
lessons ::= ", \"lessons\": [" text "]"
confidence ::= ", \"confidence\": 0." [0-9] [0-9]
"""
    + _WORDS
)
"""`category, analysis, suggestion, actionItems, lessons, confidence`."""

SESSION = (
    r"""
root ::= "{\"what_worked\": " text ", \"what_failed\": " text ", \"root_cause\": " text change insight "}"
change ::= ", \"strategy_change\": " text
insight ::= ", \"key_insight\": " text
"""
    + _WORDS
)
"""`what_worked, what_failed, root_cause, strategy_change, key_insight`."""
