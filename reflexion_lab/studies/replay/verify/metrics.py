"""The figures of `summary.json` against those that the records give, field by field, to the last digit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from reflexion_lab.analysis.canonical_form import differences
from reflexion_lab.analysis.summary import Log, summary
from reflexion_lab.studies.replay.verify.finding import Finding, unlike

FILE = "summary.json"
NAME = "figures"


def metrics(folder: Path, log: Log) -> tuple[Finding, tuple[str, ...]]:
    """The finding, and the fields that are not in the summary since an earlier version wrote it."""
    path = folder / FILE
    if not path.is_file():
        return Finding(name=NAME, unchecked=f"no {FILE}: a run writes it at its end, and no bundle holds it"), ()
    now = _plain(json.dumps(msgspec.to_builtins(summary(log))))
    try:
        then = _plain(path.read_text())
    except ValueError as problem:
        return Finding(name=NAME, disagreements=(unlike(FILE, str(problem), "JSON"),)), ()
    if not isinstance(then, dict):
        return Finding(name=NAME, disagreements=(unlike(FILE, type(then).__name__, "an object"),)), ()
    then.pop("ended_at", None)  # a time, and no figure of the records
    absent = tuple(_absent(then, now))
    wrong = tuple(
        unlike(f"{FILE}, {at}", one, f"{other!r}, by the records")
        for at, one, other in differences(then, now)
        if at not in absent
    )
    return Finding(name=NAME, told=f"{_leaves(now)} figures", disagreements=wrong), absent


def _plain(text: str) -> Any:
    """JSON as plain values; what is not a number becomes a word, which equals itself."""
    return json.loads(text, parse_constant=str)


def _absent(then: Any, now: Any, at: str = "") -> Iterator[str]:
    """Places of `now` that `then` has no key for."""
    if isinstance(then, dict) and isinstance(now, dict):
        for key, value in now.items():
            place = f"{at}.{key}" if at else key
            if key not in then:
                yield place
            else:
                yield from _absent(then[key], value, place)


def _leaves(node: Any) -> int:
    if isinstance(node, dict | list):
        return sum(map(_leaves, node.values() if isinstance(node, dict) else node))
    return 1
