"""The four labelled fields of a reflection: the grammar that makes a model write them, and their parser."""

from __future__ import annotations

import math
import re

from reflexion_lab.records import Record

LABELS = ("ROOT_CAUSE", "WHAT_WENT_WRONG", "WHAT_TO_CHANGE", "CONFIDENCE")

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

# A label with no colon or dash after it counts only when it is marked as a heading or emphasised.
_LABEL = re.compile(
    rf"""\s*(?:[-+*•>]\s+|\d+[.)]\s+)?(?P<heading>\#+\s*)?(?P<open>[*_`]+)?
    (?P<label>{"|".join(label.replace("_", "[ _-]?") for label in LABELS)})
    (?P<close>[*_`]*)
    (?:\s*:(?P<after>[*_`]*(?=\s|$))?|\s+[-–—](?=\s|$)|(?(heading)\s*$|(?(open)\s*$|(?!))))
    (?P<value>.*)""",
    re.IGNORECASE | re.VERBOSE,
)
_FENCE = re.compile(r"\s*```\w*\s*")
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
# A number glued to more digits or letters ("0,85", "0.8-0.9", "1.2.3") could mean several things: rejected.
_CONFIDENCE = re.compile(
    rf"(?P<number>{_NUMBER})(?!\w|[.,–-]\w)\s*"
    rf"(?:(?P<percent>%|percent\b)|(?:/|out of)\s*(?P<scale>{_NUMBER})(?!\w|[.,]\w))?"
    r"(?!\s*(?:/|out of))",
    re.IGNORECASE,
)


class ParseError(ValueError):
    """A reply that does not hold the four fields; the message names every missing or bad one."""


class Fields(Record, frozen=True, kw_only=True):
    """What a reply says. Texts are on one line and never empty; `confidence` is in [0, 1]."""

    root_cause: str
    what_went_wrong: str
    what_to_change: str
    confidence: float


def parse_fields(text: str) -> Fields:
    """Read the labelled fields of `text`; of a label given twice, the first with a value counts.

    Tolerated: markdown around labels, any case, spaces or hyphens for underscores, indentation, blank lines,
    values over several lines (joined by a space), code fences, prose before the first label, `85%`, `8/10`.
    The confidence is clamped to [0, 1].

    Raises:
        ParseError: a field is missing or empty (all are named), or the confidence is no number.
    """
    found = _values(text)
    missing = [label for label in LABELS if label not in found]
    problems = [f"lacks {', '.join(missing)}"] if missing else []
    confidence = math.nan
    if stated := found.get("CONFIDENCE"):
        confidence = _confidence(stated)
        if math.isnan(confidence):
            problems.append(f"has CONFIDENCE {stated[:40]!r}, which is no number in 0..1 and no percentage")
    if problems:
        raise ParseError(f"the reply {'; '.join(problems)}; expected one line each for {', '.join(LABELS)}")
    cause, wrong, change = (found[label] for label in LABELS[:3])
    return Fields(root_cause=cause, what_went_wrong=wrong, what_to_change=change, confidence=confidence)


def _values(text: str) -> dict[str, str]:
    """The first value of each label, on one line; labels without one are left out."""
    found: dict[str, str] = {}
    label, mark, lines = "", "", list[str]()
    for line in (*text.splitlines(), LABELS[0] + ":"):  # the last one closes the field before it
        match = _LABEL.fullmatch(line)
        if match is None:
            if not _FENCE.fullmatch(line):
                lines.append(line)
            continue
        value = " ".join(" ".join(lines).split()).removesuffix(mark).rstrip()
        if label and any(map(str.isalnum, value)):
            found.setdefault(label, value)
        label = next(name for name in LABELS if _letters(name) == _letters(match["label"].upper()))
        mark = "" if match["close"] or match["after"] else match["open"] or ""
        lines = [match["value"]]
    return found


def _letters(label: str) -> str:
    return re.sub("[ _-]", "", label)


def _confidence(stated: str) -> float:
    """Clamped to [0, 1]; NaN when `stated` is no number."""
    match = _CONFIDENCE.match(stated.lstrip("*_`~ "))
    if match is None:
        return math.nan
    scale = 100.0 if match["percent"] else float(match["scale"] or 1)
    number = float(match["number"]) / scale if scale > 0 else math.nan
    return number if math.isnan(number) else min(1.0, max(0.0, number))
