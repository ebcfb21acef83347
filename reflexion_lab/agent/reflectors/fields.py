"""The labelled fields of a reflection: the grammar that makes a model write them, and their parser."""

from __future__ import annotations

import math
import re

from reflexion_lab.agent.reflectors import json_fields
from reflexion_lab.agent.reflectors.json_fields import Lines, items
from reflexion_lab.records import Record
from reflexion_lab.text.replies.blocks import without_thoughts

LABELS = json_fields.LABELS
FURTHER = ("WHAT_WORKED", "KEY_INSIGHT", "LESSONS")
"""Labels that a reply may have, and need not."""

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

# A label with no colon or dash after it counts only when it is marked as a heading or emphasised. Its letters are
# ASCII: the Kelvin sign would match K, and is no K in upper case.
_LABEL = re.compile(
    rf"""\s*(?:[-+*•>]\s+|\d+[.)]\s+)?(?P<heading>\#+\s*)?(?P<open>[*_`]+)?
    (?P<label>(?a:{"|".join(label.replace("_", "[ _-]?") for label in (*LABELS, *FURTHER))}))
    (?P<close>[*_`]*)
    (?:\s*[:：](?P<after>[*_`]*(?=\s|$))?|\s+[-–—](?=\s|$)|(?(heading)\s*$|(?(open)\s*$|(?!))))
    (?P<value>.*)""",
    re.IGNORECASE | re.VERBOSE,
)
_FENCE = re.compile(r"\s*```\w*\s*")
_BULLET = re.compile(r"\A\s*(?:[-+*•>]|\d+[.)])\s+")
_NUMBER = r"[-+]?(?:\d++(?:\.\d*+)?|\.\d++)(?:e[-+]?\d++)?"  # possessive: no string of digits makes it quadratic
# A number glued to more digits or letters ("0,85", "0.8-0.9", "1.2.3") could mean several things: rejected.
_CONFIDENCE = re.compile(
    rf"(?P<number>{_NUMBER})(?!\w|[.,–-]\w)\s*"
    rf"(?:(?P<percent>%|percent\b)|(?:/|out of)\s*(?P<scale>{_NUMBER})(?!\w|[.,]\w))?"
    r"(?!\s*(?:/|out of))",
    re.IGNORECASE,
)
_APPROXIMATELY = re.compile(r"\A[*_`~≈(\[\s]*(?:(?:about|around|approximately|roughly)\s+)?", re.IGNORECASE)


class ParseError(ValueError):
    """A reply that does not hold the four fields; the message names every missing or bad one."""


class Fields(Record, frozen=True, kw_only=True):
    """What a reply says. Texts are on one line; the first three are never empty. `confidence` is in [0, 1]."""

    root_cause: str
    what_went_wrong: str
    what_to_change: str
    confidence: float
    is_stated: bool = True
    """Whether the reply states the confidence as a number; without one it is neutral."""
    what_worked: str = ""
    key_insight: str = ""
    category: str = ""
    """One of `Category`, as the reply names it; "" where it names none, as labelled lines never do."""
    action_items: tuple[str, ...] = ()
    """At most 5 of at most 200 characters, as are `lessons`; () in labelled lines."""
    lessons: tuple[str, ...] = ()


def parse_fields(text: str) -> Fields:
    """Read the fields of `text`: labelled lines, or one JSON object (its shapes: `json_fields.values`).

    Of a label given twice, the first with a value counts; what stands in `<think>` sections does not. Lines are read as
    JSON only where a label is missing, and if the object has more of them.

    Tolerated: markdown around labels, any case, spaces or hyphens for underscores, indentation, blank lines,
    values over several lines (joined by a space; of LESSONS each line is one), code fences, prose before the first
    label, `85%`, `8/10`, `[0.9]`, `about 0.8`. Whole numbers above 1 are tenths up to 10 and percent up to 100; a
    confidence that is no clear number is neutral and not stated.

    Raises:
        ParseError: a field is missing or empty (all are named). Nothing else, ever.
    """
    found = _found(without_thoughts(text)[0])
    if missing := [label for label in LABELS if label not in found]:
        expected = f"one line each for {', '.join(LABELS)}, or a JSON object with these keys"
        raise ParseError(f"the reply lacks {', '.join(missing)}; expected {expected}")
    first = {label: lines[0] for label, lines in found.items()}
    confidence = _confidence(first["CONFIDENCE"])
    return Fields(
        root_cause=first["ROOT_CAUSE"],
        what_went_wrong=first["WHAT_WENT_WRONG"],
        what_to_change=first["WHAT_TO_CHANGE"],
        confidence=float(json_fields.NEUTRAL) if math.isnan(confidence) else confidence,
        is_stated=json_fields.UNSTATED not in found and not math.isnan(confidence),
        what_worked=first.get("WHAT_WORKED", ""),
        key_insight=first.get("KEY_INSIGHT", ""),
        category=first.get("CATEGORY", ""),
        action_items=found.get("ACTION_ITEMS", ()),
        lessons=found.get("LESSONS", ()),
    )


def _found(text: str) -> dict[str, Lines]:
    """What the reply says under each label, in the form that says more."""
    found = _values(text)
    if json_fields.stated(found) == len(LABELS):
        return found
    return max(found, json_fields.values(text), key=json_fields.stated)


def _values(text: str) -> dict[str, Lines]:
    """The first value of each label, on one line, or one line a lesson; labels without one are left out."""
    found: dict[str, Lines] = {}
    label, mark, lines = "", "", list[str]()
    for line in (*text.splitlines(), LABELS[0] + ":"):  # the last one closes the field before it
        match = _LABEL.fullmatch(line)
        if match is None:
            if not _FENCE.fullmatch(line):
                lines.append(line)
            continue
        if label not in found and (value := _value(label, lines, mark)):
            found[label] = value
        label = next(name for name in (*LABELS, *FURTHER) if _letters(name) == _letters(match["label"].upper()))
        mark = "" if match["close"] or match["after"] else match["open"] or ""
        lines = [match["value"]]
    return found


def _value(label: str, lines: list[str], mark: str) -> Lines:
    """What stands under `label`, without the `mark` that closes its emphasis; () where that is no words."""
    whole = "\n".join(lines).rstrip().removesuffix(mark)
    if label in json_fields.LISTS:
        return items(tuple(" ".join(_BULLET.sub("", line, count=1).split()) for line in whole.split("\n")))
    value = " ".join(whole.split())
    return (value,) if label and any(map(str.isalnum, value)) else ()


def _letters(label: str) -> str:
    return re.sub("[ _-]", "", label)


def _confidence(stated: str) -> float:
    """Clamped to [0, 1]; NaN when `stated` is no clear number."""
    match = _CONFIDENCE.match(_APPROXIMATELY.sub("", stated, count=1))
    if match is None:
        return math.nan
    number = float(match["number"])
    scale = 100.0 if match["percent"] else float(match["scale"] or 1)
    if number > 1 and not (match["percent"] or match["scale"]):
        scale = (10.0 if number <= 10 else 100.0) if number <= 100 and number.is_integer() else 0.0
    number = number / scale if scale > 0 else math.nan
    return number if math.isnan(number) else min(1.0, max(0.0, number))
