"""The verdict of a critic: its grammar and its parser."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping

from reflexion_lab.records import Record
from reflexion_lab.text.replies.extract import without_thoughts
from reflexion_lab.text.replies.labelled import BULLET, CHARS, Labels, Numeral, entries, number, objects, one_line

GRAMMAR = r"""
root ::= issue issue? suggestion suggestion? severity | "ISSUE: none\nSEVERITY: 0.0" [0-9] "\n"
issue ::= "ISSUE: In this function " value
suggestion ::= "SUGGESTION: The author should " value
severity ::= "SEVERITY: " ("0." [0-9] [0-9] | "1.00") "\n"
value ::= [A-Za-z] [a-zA-Z]{0,23} (" " word){3,13} "\n"
word ::= [a-zA-Z_.,`']{1,24} | [!-~]{1,10}
"""
"""GBNF for `Sampling.grammar`: one or two issues, up to two suggestions and the severity; or no issue.

The fixed openings prevent small models from repeating the prompt's explanation of each label. The length of words is
bounded, so that a reply that ends in a repetition still fits into 256 tokens.
"""

ITEMS, ITEM_CHARS = 5, 300
"""Largest number of issues (and of suggestions) of one critic, and their length."""
SEVERITY_UNSTATED = 0.5
"""Severity of issues without a number."""
CONFIDENCE_UNSTATED = 0.5
"""Confidence of a critic that states none: less than that of an executed test."""
WORDS = {
    **dict.fromkeys(("none", "no", "nothing", "ok"), 0.0),
    **dict.fromkeys(("trivial", "negligible"), 0.1),
    **dict.fromkeys(("low", "minor"), 0.2),
    **dict.fromkeys(("medium", "moderate"), 0.5),
    **dict.fromkeys(("high", "major", "serious", "severe"), 0.8),
    **dict.fromkeys(("critical", "fatal", "blocker"), 1.0),
}
"""Numeric values of words."""

KEYS = {
    "severity": ("severity",),
    "score": ("score",),
    "confidence": ("confidence",),
    "issues": ("issues", "issue", "problems", "problem"),
    "suggestions": ("suggestions", "suggestion", "fixes", "fix"),
}
"""Spellings of each label in lines and JSON keys; the first key of an object counts."""
LISTS, MEASURES = ("issues", "suggestions"), ("score", "confidence")
NONE = re.compile(
    r"""\W*(?:none|nothing|n/?a|no\s+(?:\w+\s+)?(?:issues?|problems?|bugs?|errors?|suggestions?|changes?))
    (?:\s+(?:found|at\ all|needed|here))?\W*""",
    re.IGNORECASE | re.VERBOSE,
)
_RULE = re.compile(r"\s*+(?:[-=_*]{3,}+)?\s*+")
_LABELS = Labels(KEYS, "critique*")


class Unreadable(ValueError):
    """The reply contains no verdict."""


class Verdict(Record, frozen=True, kw_only=True):
    """Severity, issues and suggestions of one reply. Numbers are in [0, 1]; texts are distinct single lines."""

    severity: float
    issues: tuple[str, ...]
    suggestions: tuple[str, ...]
    score: float | None
    confidence: float


def parse_verdict(text: str) -> Verdict:
    """Parse a JSON object, or lines that begin with SEVERITY, ISSUE, SUGGESTION, SCORE, CONFIDENCE.

    Tolerated: markdown around labels, any case, plurals, numbered or bulleted lists under a label, code fences, prose
    before the first label, `80%`, `8/10`, `high`; `none` for no issue. The highest of several severities counts, capped
    at 1. A score or confidence above 1, such as `SCORE: 3`, has no known scale and is ignored. Without a number, the
    severity is `SEVERITY_UNSTATED` if there are issues or suggestions, and 0 if the reply states that there is none.
    Raises Unreadable: the reply has no severity, issue or suggestion. No other exception is raised.
    """
    reply = _LABELS.answer(without_thoughts(text[:CHARS])[0])
    values = _from_json(reply) or _from_lines(reply)
    issues, suggestions = (_items(values.get(key, ())) for key in LISTS)
    firsts = (value[0] if isinstance(value, list) and value else value for value in map(values.get, MEASURES))
    score, confidence = map(_number, firsts)
    stated = [severity for severity in map(_number, _severities(values)) if not math.isnan(severity)]
    severity = min(1.0, max(stated)) if stated else math.nan
    says_none = "issues" in values or bool(NONE.fullmatch(reply))
    if math.isnan(severity) and not (issues or suggestions or says_none):
        raise Unreadable(
            f"the reply says neither how severe nor what is wrong: {' '.join(reply.split())[:80]!r}; expected lines of "
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


def _from_json(text: str) -> Mapping[str, object]:
    """The first JSON object that has a severity, issues or suggestions; else {}."""
    for fields in objects(text):
        values = {label: fields[key] for label, keys in KEYS.items() for key in reversed(keys) if key in fields}
        if values.keys() & {"severity", *LISTS}:
            return values
    return {}


def _from_lines(text: str) -> Mapping[str, object]:
    """The texts under each label, in the order of the reply; lists without words are left out."""
    values: dict[str, list[str]] = {}
    for label, lines, _ in _LABELS.sections(text):
        values.setdefault(label, []).extend(_joined(lines) if label in LISTS else lines[:1])
    return {label: texts for label, texts in values.items() if label not in LISTS or any(map(str.strip, texts))}


def _joined(lines: tuple[str, ...]) -> list[str]:
    """The entries of a list; a line without a bullet continues the previous entry."""
    joined = [lines[0]]
    for line in lines[1:]:
        if _RULE.fullmatch(line):
            continue
        if BULLET.match(line) or not joined[-1].strip():
            joined.append(line)
        else:
            joined[-1] += f" {line}"
    return joined


def _severities(values: Mapping[str, object]) -> Iterator[object]:
    """The overall severity and those of single issues."""
    severity, issues = values.get("severity", ()), values.get("issues", ())
    yield from severity if isinstance(severity, list) else [severity]
    for issue in issues if isinstance(issues, list) else [issues]:
        if isinstance(issue, Mapping):
            yield issue.get("severity")


def _items(value: object) -> tuple[str, ...]:
    """The entries that have content, without duplicates up to case."""
    items: dict[str, str] = {}
    for entry in value if isinstance(value, list) else [value]:
        # The texts of an issue with several fields are joined; numbers, such as a line number, are ignored.
        fields = entry.values() if isinstance(entry, Mapping) else [entry]
        texts = [text for text in fields if isinstance(text, str) and not isinstance(text, Numeral)]
        item = one_line(BULLET.sub("", ": ".join(texts), count=1))
        if not NONE.fullmatch(item):
            items.setdefault(item.casefold(), item)
    return entries(items.values(), ITEMS, ITEM_CHARS)


def _number(value: object) -> float:
    """A number of 0 or more; NaN if there is none."""
    text = value.strip().lstrip("*_`~ ") if isinstance(value, str) else ""
    if measure := number(text) or number(text, is_lenient=True):
        scale = 1.0 if measure.scale is None else measure.scale
        return max(0.0, measure.value / scale) if scale > 0 else math.nan
    word = re.match(r"\w+", text)
    return WORDS.get(word[0].casefold(), math.nan) if word else math.nan
