"""What a critic's reply says: the grammar that makes a model write it, and a tolerant parser."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from reflexion_lab.records import Record
from reflexion_lab.text.replies.blocks import without_thoughts

GRAMMAR = r"""
root ::= issue issue? suggestion suggestion? severity | "ISSUE: none\nSEVERITY: 0.0" [0-9] "\n"
issue ::= "ISSUE: In this function " value
suggestion ::= "SUGGESTION: The author should " value
severity ::= "SEVERITY: " ("0." [0-9] [0-9] | "1.00") "\n"
value ::= [A-Za-z] [a-zA-Z]{0,23} (" " word){3,13} "\n"
word ::= [a-zA-Z_.,`']{1,24} | [!-~]{1,10}
"""
"""GBNF for `Sampling.grammar`: one or two issues, as many suggestions and the severity, or that there is no issue.

The openings are for small models, which would repeat the prompt's explanation of each label. Words are bounded, so
that a reply that ends in a loop of them still fits into 256 tokens.
"""

CHARS = 64_000
"""So much of a reply is read."""
OBJECTS = 64
"""So many beginnings of a JSON object are tried."""
ITEMS, ITEM_CHARS = 5, 300
"""Most issues, and suggestions, of one critic, and the length of each."""
SEVERITY_UNSTATED = 0.5
"""Of issues that come without a number: neither the end of a loop nor the worst there is."""
CONFIDENCE_UNSTATED = 0.5
"""Of a critic that does not say how sure it is: an opinion is less than a test that ran."""
WORDS = {
    **dict.fromkeys(("none", "no", "nothing", "ok"), 0.0),
    **dict.fromkeys(("trivial", "negligible"), 0.1),
    **dict.fromkeys(("low", "minor"), 0.2),
    **dict.fromkeys(("medium", "moderate"), 0.5),
    **dict.fromkeys(("high", "major", "serious", "severe"), 0.8),
    **dict.fromkeys(("critical", "fatal", "blocker"), 1.0),
}
"""Numbers of what critics say instead of one."""

NUMBERS, LISTS = ("severity", "score", "confidence"), ("issues", "suggestions")
NONE = re.compile(
    r"""\W*(?:none|nothing|n/?a|no\s+(?:\w+\s+)?(?:issues?|problems?|bugs?|errors?|suggestions?|changes?))
    (?:\s+(?:found|at\ all|needed|here))?\W*""",
    re.IGNORECASE | re.VERBOSE,
)
_LABEL = re.compile(
    r"""\s*(?:[-+*•>]\s+|\d+[.)]\s+)?(?P<heading>\#+\s*)?[*_`]*
    (?P<label>severity|score|confidence|issues?|problems?|suggestions?|fix(?:es)?)
    (?:[ ]?\#?\d+)?(?:[ ]?\([^)]{0,40}\))?[*_`]*(?:\s*:[*_`]*|\s+[-–—]\s|(?(heading)\s*$|(?!)))(?P<value>.*)""",
    re.IGNORECASE | re.VERBOSE,
)
_KEYS = {
    "problem": "issues",
    "fix": "suggestions",
    "fixe": "suggestions",
    "issue": "issues",
    "suggestion": "suggestions",
}
_BULLET = re.compile(r"\s*(?:[-+*•>]|\d+[.)])\s+")
_RULE = re.compile(r"\s*+(?:```\w*+|[-=_*]{3,}+)?\s*+")
_NUMBER = re.compile(
    r"(?P<number>[-+]?(?:\d++(?:\.\d*+)?|\.\d++))\s*"
    r"(?:(?P<percent>%|percent\b)|(?:/|out of)\s*(?P<scale>\d++(?:\.\d*+)?))?",
    re.IGNORECASE,
)
_DECODER = json.JSONDecoder(strict=False)
_BEGINNING = re.compile(r'\{\s*+"')


class Unreadable(ValueError):
    """A reply that says nothing of a draft."""


class Verdict(Record, frozen=True, kw_only=True):
    """What a reply says. Numbers are in [0, 1]; texts are on one line, each once."""

    severity: float
    issues: tuple[str, ...]
    suggestions: tuple[str, ...]
    score: float | None
    confidence: float


def parse_verdict(text: str) -> Verdict:
    """Read `text`: a JSON object, or lines that begin with SEVERITY, ISSUE, SUGGESTION, SCORE, CONFIDENCE.

    Tolerated: markdown around labels, any case, plurals, numbered or bulleted lists under a label, code fences, prose
    before the first label, `80%`, `8/10`, `high`; `none` for no issue. Of several severities the highest
    counts, 1 at most; a score or confidence above 1, such as `SCORE: 3`, has no known scale and is left out. Without a
    number, issues or suggestions weigh `SEVERITY_UNSTATED`, and the word that there is no issue 0.

    Raises:
        Unreadable: neither a severity nor an issue nor a suggestion. Nothing else, ever.
    """
    said, _ = without_thoughts(text[:CHARS])
    given = _object(said) or _lines(said)
    issues, suggestions = (_items(given.get(key, ())) for key in LISTS)
    score, confidence = (_number(_first(given.get(key))) for key in ("score", "confidence"))
    stated = [number for number in map(_number, _severities(given)) if not math.isnan(number)]
    severity = min(1.0, max(stated)) if stated else math.nan
    nothing = "issues" in given or bool(NONE.fullmatch(said))
    if math.isnan(severity) and not (issues or suggestions or nothing):
        raise Unreadable(
            f"the reply says neither how severe nor what is wrong: {' '.join(said.split())[:80]!r}; expected lines of "
            "ISSUE, SUGGESTION and SEVERITY, or a JSON object with these keys"
        )
    if math.isnan(severity):
        severity = SEVERITY_UNSTATED if issues or suggestions else 0.0
    return Verdict(
        severity=severity,
        issues=issues,
        suggestions=suggestions,
        score=score if score <= 1 else None,
        confidence=confidence if confidence <= 1 else CONFIDENCE_UNSTATED,
    )


def _object(text: str) -> Mapping[str, object]:
    """The first JSON object that has one of the keys; {} where there is none."""
    for beginning in islice(_BEGINNING.finditer(text), OBJECTS):
        try:
            found, _ = _DECODER.raw_decode(text, beginning.start())
        except (ValueError, RecursionError):
            continue
        given = {_key(key): value for key, value in reversed(found.items())}
        if given.keys() & {"severity", *LISTS}:
            return given
    return {}


def _key(label: str) -> str:
    word = label.casefold().strip()
    return word if word in (*NUMBERS, *LISTS) else _KEYS.get(word.removesuffix("s"), word)


def _lines(text: str) -> Mapping[str, object]:
    """What stands under each label, in the order of the reply; a list without any words is left out."""
    given: dict[str, list[str]] = {}
    key = ""
    for line in text.splitlines():
        if label := _LABEL.fullmatch(line):
            key = _key(label["label"])
            given.setdefault(key, []).append(label["value"])
        elif key in LISTS and not _RULE.fullmatch(line):
            if _BULLET.match(line) or not given[key][-1].strip():
                given[key].append(line)
            else:
                given[key][-1] += f" {line}"
    return {key: values for key, values in given.items() if key not in LISTS or any(map(str.strip, values))}


def _severities(given: Mapping[str, object]) -> Iterator[object]:
    """Those of the whole and those of single issues."""
    for key in ("severity", "issues"):
        value = given.get(key, ())
        for entry in value if isinstance(value, list | tuple) else [value]:
            if key == "severity":
                yield entry
            elif isinstance(entry, Mapping):
                yield from (number for name, number in entry.items() if _key(str(name)) == "severity")


def _first(value: object) -> object:
    return value[0] if isinstance(value, list) and value else value


def _items(value: object) -> tuple[str, ...]:
    """The entries that say something, each once, whatever their case."""
    entries = value if isinstance(value, list | tuple) else [value]
    kept: dict[str, str] = {}
    for entry in entries:
        said = " ".join(_texts(entry))
        bullet = _BULLET.match(said)
        line = " ".join(said[bullet.end() if bullet else 0 :].split()).encode(errors="replace").decode()
        if any(map(str.isalnum, line)) and not NONE.fullmatch(line):
            kept.setdefault(line.casefold(), line[:ITEM_CHARS].rstrip())
    return tuple(kept.values())[:ITEMS]


def _texts(entry: object) -> Iterator[str]:
    """The words of one entry; those of an object with several fields one behind the other."""
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, Mapping):
        values: Iterable[object] = entry.values()
        yield ": ".join(value for value in values if isinstance(value, str))


def _number(value: object) -> float:
    """0 or more; NaN for what is no number."""
    if isinstance(value, bool):
        return math.nan
    if isinstance(value, int | float):
        return math.nan if math.isnan(value) else float(max(0, value))
    words = value.strip().lstrip("*_`~ ") if isinstance(value, str) else ""
    if found := _NUMBER.match(words):
        scale = 100.0 if found["percent"] else float(found["scale"] or 1)
        return max(0.0, float(found["number"]) / scale) if scale > 0 else math.nan
    first = re.match(r"\w+", words)
    return WORDS.get(first[0].casefold(), math.nan) if first else math.nan
