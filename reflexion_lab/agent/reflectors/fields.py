"""The fields of a reflection: their grammars and their parser."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from reflexion_lab.records import Category, Record
from reflexion_lab.text.replies.extract import blocks, is_prose, without_thoughts
from reflexion_lab.text.replies.labelled import BULLET, Labels, entries, has_words, letters, number, objects, one_line
from reflexion_lab.text.shorten import bounded

LABELS = ("ROOT_CAUSE", "WHAT_WENT_WRONG", "WHAT_TO_CHANGE", "CONFIDENCE")
FURTHER = ("WHAT_WORKED", "KEY_INSIGHT", "LESSONS", "ACTION_ITEMS")
"""Optional labels."""
LISTS = ("LESSONS", "ACTION_ITEMS")

VALUE = r"""value ::= [A-Za-z] [a-zA-Z]{0,23} (" " word){3,13} "\n"
word ::= [a-zA-Z_.,`']{1,24} | [!-~]{1,10}
"""
"""GBNF of the rest of a line: 4 to 14 words of ASCII."""

GRAMMAR = (
    r"""
root ::= cause wrong change confidence
cause ::= "ROOT_CAUSE: My mistake is that " value
wrong ::= "WHAT_WENT_WRONG: The check failed because " value
change ::= "WHAT_TO_CHANGE: In my function I will " value
confidence ::= "CONFIDENCE: 0." [0-9] [0-9] "\n"
"""
    + VALUE
)
"""GBNF for `Sampling.grammar`: the four lines in order, each text an opening and 4 to 14 words of ASCII.

The openings are for small models: without them SmolLM2-135M repeats the prompt's explanation of each label. The length
of words is bounded, and shorter for digits and symbols, which cost one token each, so that a reply that ends in a
repetition fits into `max_tokens`.
"""

OF_FUNCTIONS = {"The check failed because": "It failed because", "In my function I will": "Next time I will"}
"""Openings of `GRAMMAR` for functions, and those for tasks of another kind."""

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
"""JSON keys of each label, reduced to letters; the first with words counts."""
WITHOUT_CONFIDENCE = {"whatfailed", "strategychange", "analysis"}
"""Keys of the JSON forms in which the confidence is optional."""
ANALYSIS_CHARS = 500
FEW = 5
"""Words from which a reply in prose is a reflection."""
_NO_ANSWER = re.compile(
    r"""^[{]|[{]\s*+["']?(?:root|what|cause|category|analysis)
    |\b(?:I|we)\s(?:can(?:['’]?t|not)|(?:am\ |are\ )?unable\ to|won['’]t)\s(?:\w+\s){0,2}
    (?:help|assist|comply|fulfil|provide)
    |\byou\b[^.!?\n]{0,200}\?|\bplease\s(?:provide|share|send|paste|give|clarify|tell)
    |\A(?!(?s:.*)\bI\ will\b)(?s:.*)\?\W*\Z""",
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
"""JSON, even a torn object; a refusal; a question to the reader, or at the end of a text without "I will"."""
ITEMS, ITEM_CHARS = 5, 200
"""Largest number of entries of a list, and their length."""
NEUTRAL = 0.5
"""Confidence of a reply that states none."""

Values = Mapping[str, tuple[str, ...]]
"""Texts by label: several for `LISTS`, else one. Labels without text are left out."""
_LABELS = Labels({label: (label,) for label in (*LABELS, *FURTHER)}, "reflect*")
_CATEGORIES = {letters(category).removesuffix("error"): category for category in Category}


class ParseError(ValueError):
    """The reply lacks required fields; the message names them."""


class Fields(Record, frozen=True, kw_only=True):
    """The fields of one reply. Texts are single lines; `confidence` is in [0, 1]."""

    root_cause: str
    """Never empty, like `what_to_change`."""
    what_went_wrong: str
    """"" if the reply has an `analysis`, which is the root cause."""
    what_to_change: str
    confidence: float
    is_stated: bool = True
    """Whether the reply states a confidence; else it is `NEUTRAL`."""
    what_worked: str = ""
    key_insight: str = ""
    category: str = ""
    """One of `Category`; "" if the reply names none, as in labelled lines."""
    action_items: tuple[str, ...] = ()
    """At most 5 entries of at most 200 characters, like `lessons`."""
    lessons: tuple[str, ...] = ()


def parse_fields(text: str) -> Fields:
    """Parse labelled lines, or one JSON object if it has more of the four labels.

    Of repeated labels the last complete set counts. Echoes of the prompt's form, `<think>` sections and answers to a
    task that the reply invents are ignored.

    Lines: the forms that `Labels` tolerates, values over several lines (joined by spaces; each line of LESSONS is an
    entry), code fences, prose before the first label.

    JSON: an object anywhere in the reply, except within a complete one; of several, the one with most of the four
    labels, the later on a tie. Keys of three forms may be mixed: our labels; `category, analysis, suggestion,
    actionItems, confidence`, where the analysis, cut to 500 characters, is the root cause; `what_worked, what_failed,
    root_cause, strategy_change, key_insight`. In the last two the confidence is optional.

    Confidence: `85%`, `8/10`, `[0.9]`, `about 0.8`; integers above 1 are tenths up to 10 and percent up to 100. An
    ambiguous one counts as not stated. Raises only ParseError: required fields are missing or empty.
    """
    reply = _LABELS.answer(without_thoughts(text)[0])
    values = _from_lines(reply)
    if _stated(values) < len(LABELS):
        whole = objects(reply, lambda fields: _stated(_labelled(fields)) == len(LABELS))
        values = max([values, *reversed([*map(_labelled, whole)])], key=_stated)
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


def prose(text: str, prompt: str) -> str:
    """The sentences of a reply without labels and JSON, at most `ANALYSIS_CHARS`; "" if it has fewer than `FEW` words,
    refuses, or asks something back.

    Lines of the `prompt` and its form, code, and lines that introduce something are left out.
    """
    reply = without_thoughts(text)[0]
    if any(_LABELS.sections(reply)) or any(objects(reply)):
        return ""
    lines = [line.strip() for block in blocks(reply) if not block.fenced for line in block.text.splitlines()]
    for part in Labels.FRAME.split("\n".join(lines)):  # what follows an invented task is no answer
        own = [line for line in part.splitlines() if is_prose(line) and line not in prompt and _LABELS.own(line)]
        words = one_line(" ".join(line for line in own if not line.endswith(":")))
        if len(words.split()) >= FEW:
            return "" if _NO_ANSWER.search("\n".join(own)) else bounded(words, ANALYSIS_CHARS)
    return ""


def _stated(values: Values) -> int:
    """Number of the four labels that have a value."""
    return sum(label in values for label in LABELS)


def _from_lines(text: str) -> Values:
    values: dict[str, tuple[str, ...]] = {}
    for label, lines, _ in _LABELS.last(text, LABELS):
        if label in LISTS:
            texts = entries((" ".join(BULLET.sub("", line, count=1).split()) for line in lines), ITEMS, ITEM_CHARS)
        else:
            texts = tuple(filter(has_words, [" ".join(" ".join(lines).split())]))
        if texts:
            values.setdefault(label, texts)
    return values


def _labelled(fields: Mapping[str, object]) -> Values:
    """The values of a JSON object by label."""
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
        texts = [text for text in map(_LABELS.own, texts) if text]
        if is_list:
            return entries(texts, ITEMS, ITEM_CHARS)
        text = " ".join(filter(None, texts))
        if has_words(text):
            return (text[:ANALYSIS_CHARS].rstrip() if key == "analysis" else text,)
    return ()


def _confidence(stated: str) -> float:
    """Confidence clamped to [0, 1]; NaN if `stated` is not a clear number."""
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


def named(stated: str) -> Category:
    """The category with this name, in any case and with any separators, with or without "error"; else ROOT_CAUSE."""
    return _CATEGORIES.get(letters(stated).removesuffix("error"), Category.ROOT_CAUSE)


SUCCESS = r"""
root ::= worked cause wrong change confidence
worked ::= "WHAT_WORKED: My program passed because " value
cause ::= "ROOT_CAUSE: This task is easy to get wrong because " value
wrong ::= "WHAT_WENT_WRONG: A careless version would " value
change ::= "WHAT_TO_CHANGE: In similar tasks I will " value
""" + GRAMMAR[GRAMMAR.index("confidence ::=") :]
"""Labelled fields for an attempt that passed."""

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
