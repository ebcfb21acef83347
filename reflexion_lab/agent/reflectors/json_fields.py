"""Reads the fields of a reflection from a reply in JSON. Hostile replies cost bounded time, and are never an error."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice

from reflexion_lab.agent.reflectors.categories import named

CHARS = 64_000
"""So much of a reply is searched."""
OBJECTS = 256
"""So many beginnings of objects are tried."""
ANALYSIS_CHARS = 500
ITEMS, ITEM_CHARS = 5, 200
"""Most entries of a list, and the length of each."""
NEUTRAL = "0.5"
"""The confidence of a shape that has none: it speaks neither for a reflection nor against it."""
UNSTATED = "UNSTATED"
"""Stands beside the labels where the confidence is `NEUTRAL` because none was stated."""

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
"""By label, the keys that give its value, letters alone; the first one that the reply has counts."""
LABELS = ("ROOT_CAUSE", "WHAT_WENT_WRONG", "WHAT_TO_CHANGE", "CONFIDENCE")
LISTS = ("LESSONS", "ACTION_ITEMS")
WITHOUT_CONFIDENCE = {"whatfailed", "strategychange"}
"""Keys of the shape that has none."""

Lines = tuple[str, ...]
_BEGINNING = re.compile(r'\{\s*+"')


def _first_given(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Of a key given twice, the first with a value counts, as of a label."""
    found: dict[str, object] = {}
    for key, value in pairs:
        found[key] = found.get(key) or value
    return found


# Numbers stay text: no digit is lost, and NaN is judged where all confidences are.
_DECODER = json.JSONDecoder(
    strict=False, parse_int=str, parse_float=str, parse_constant=str, object_pairs_hook=_first_given
)


def values(text: str) -> dict[str, Lines]:
    """What the object in `text` says under each label of `KEYS`, each value on one line; lists have several.

    Keys may have any case and separators. Three shapes are known, and may be mixed:

    - our labels as keys;
    - `category, analysis, suggestion, actionItems, confidence`: the analysis, cut at 500 characters, is both root cause
      and what went wrong, since it tells them in one;
    - `what_worked, what_failed, root_cause, strategy_change, key_insight`: without a confidence it gets 0.5.

    The object may stand anywhere, also in a code fence or in another object; of several the one with most of the four
    labels counts, the earlier on a tie. Labels without words are left out; {} where there is no object.
    """
    best: dict[str, Lines] = {}
    for found in map(_labelled, _objects(text[:CHARS])):
        if not best or stated(found) > stated(best):
            best = found
        if stated(best) == len(LABELS):
            break
    return best


def stated(found: Mapping[str, Lines]) -> int:
    """How many of the four labels have a value."""
    return sum(label in found for label in LABELS)


def items(lines: Lines) -> Lines:
    """The entries of a list: those with words, at most five, each cut at 200 characters."""
    return tuple(line[:ITEM_CHARS].rstrip() for line in lines if _says_something(line))[:ITEMS]


def _objects(text: str) -> Iterator[dict[str, object]]:
    """Every JSON object in `text`, also those within others."""
    for beginning in islice(_BEGINNING.finditer(text), OBJECTS):
        try:
            found, _ = _DECODER.raw_decode(text, beginning.start())
        except (ValueError, RecursionError):
            continue
        yield found


def _labelled(found: dict[str, object]) -> dict[str, Lines]:
    given: dict[str, object] = {}
    for key, value in found.items():
        name = re.sub(r"[\W_]", "", key).casefold()
        given[name] = given.get(name) or value
    lines = {label: _first(given, keys, label in LISTS) for label, keys in KEYS.items()}
    if lines["CATEGORY"]:
        lines["CATEGORY"] = (named(lines["CATEGORY"][0]).value,)
    if given.get("confidence") is None and WITHOUT_CONFIDENCE & given.keys():
        lines["CONFIDENCE"] = lines[UNSTATED] = (NEUTRAL,)
    return {label: value for label, value in lines.items() if value}


def _first(given: Mapping[str, object], keys: tuple[str, ...], several: bool) -> Lines:
    for key in keys:
        entries = given.get(key)
        lines = tuple(map(_line, entries if isinstance(entries, list) else [entries]))
        if several:
            return items(lines)
        text = " ".join(filter(None, lines))
        if _says_something(text):
            return (text[:ANALYSIS_CHARS].rstrip() if key == "analysis" else text,)
    return ()


def _line(value: object) -> str:
    """A text on one line, without halves of characters, which no file could hold; "" for what is none."""
    return " ".join(value.encode(errors="replace").decode().split()) if isinstance(value, str) else ""


def _says_something(text: str) -> bool:
    return any(map(str.isalnum, text))
