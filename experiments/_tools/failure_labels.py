"""Cases that were read by hand: which are drawn, what their reader sees, and what the reader said."""

from __future__ import annotations

import csv
import random
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from pathlib import Path

from experiments._tools.failing_attempts import Failure, untyped
from reflexion_lab.agent.reflectors.evidence import CLASSES
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Record

CASES = 100
COMMONEST = 0.4
"""Share of the cases that are plain assertions, or of whatever type else is the commonest."""
FIELDS = ("file", "attempt", "model", "part", "label", "why")
PARTS = ("first", "second", "fresh")
"""Halves of a draw, and a second draw: rules may be mended by `first`; `fresh` is read when they are frozen."""
HELD_OUT = PARTS[1:]


class Label(Record, frozen=True, kw_only=True):
    """What a reader makes of a failure without the type of its exception."""

    part: str
    label: str
    """One of the lab's classes, `unknown` among them."""
    why: str = ""


def draw(failures: Sequence[Failure], seed: int = 0, cases: int = CASES, known: Container[str] = ()) -> list[Failure]:
    """At most one case of a problem, and none of the problems in `known`.

    `COMMONEST` of them are of the commonest type of exception, the others of the other types in turn, those of the
    rarest class first; a type counts once for each class it falls into. Each failure draws a number of its own, so that
    one that ends otherwise on another machine changes little. One half is as good a sample as the other.
    """

    def lot(failure: Failure) -> float:
        return random.Random(f"{seed}:{':'.join(failure.id)}").random()

    failed = sorted(
        (failure for failure in failures if failure.raised and failure.sample.task_id not in known), key=lot
    )
    most = round(COMMONEST * cases)
    by_type: dict[tuple[str, str], list[Failure]] = {}
    for failure in failed:
        by_type.setdefault((failure.raised, failure.truth), []).append(failure)
    classes = Counter(failure.truth for failure in failed)
    *turns, commonest = sorted(by_type, key=lambda kind: (classes[kind[1]], len(by_type[kind]), kind))
    drawn: dict[str, Failure] = {}
    while turns and len(drawn) < cases - most:
        for kind in turns[: cases - most - len(drawn)]:
            if fresh := _fresh(by_type[kind], drawn):
                drawn[fresh.sample.task_id] = fresh
        turns = [kind for kind in turns if _fresh(by_type[kind], drawn)]
    while len(drawn) < cases and (fresh := _fresh(by_type[commonest], drawn)):
        drawn[fresh.sample.task_id] = fresh
    return sorted(drawn.values(), key=lot)


def _fresh(some: Sequence[Failure], drawn: Mapping[str, Failure]) -> Failure | None:
    """The first at a problem of which there is no case yet."""
    return next((failure for failure in some if failure.sample.task_id not in drawn), None)


def write_cases(drawn: Sequence[Failure], path: Path, fresh: bool = False) -> list[Path]:
    """Write `path`, a table without labels, and beside it, as `.txt`, what their reader sees: no exception's type."""
    with path.open("w", newline="", encoding="utf-8", errors="replace") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(FIELDS)
        for place, failure in enumerate(drawn):
            part = PARTS[2] if fresh else PARTS[place >= len(drawn) / 2]
            writer.writerow((*failure.id, failure.model, part, "", ""))
    texts_path = path.with_suffix(".txt")
    texts = [
        f"=== {number} {failure.id}\n{failure.sample.program}\n--- evidence\n{untyped(failure.source, failure.raised)}"
        for number, failure in enumerate(drawn)
    ]
    texts_path.write_text("\n\n".join(texts), encoding="utf-8", errors="replace")
    return [path, texts_path]


def read_labels(path: Path) -> dict[tuple[str, str], Label]:
    """By file and attempt.

    Raises ConfigError: it cannot be read, a row lacks a field, or holds a label or a part that does not exist, or an
    attempt comes twice.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        columns = ", ".join(FIELDS)
        raise ConfigError(
            f"{path}: cannot be read ({problem})", expected=f"a table with the columns {columns}"
        ) from None
    if rows and (missing := [name for name in FIELDS if name not in rows[0]]):
        raise ConfigError(path, f"no column {missing[0]}", f"the columns {', '.join(FIELDS)}")
    labels: dict[tuple[str, str], Label] = {}
    for line, row in enumerate(rows, 2):
        allowed: Mapping[str, Sequence[str]] = {"label": list(CLASSES), "part": PARTS}
        for name, values in allowed.items():
            if row.get(name) not in values:
                raise ConfigError(
                    f"{path}, line {line}, field {name}", repr(row.get(name)), f"one of {', '.join(values)}"
                )
        labels[row["file"], row["attempt"]] = Label(part=row["part"], label=row["label"], why=row["why"] or "")
    if twice := [key for key, count in Counter((row["file"], row["attempt"]) for row in rows).items() if count > 1]:
        raise ConfigError(path, f"{' '.join(twice[0])} more than once", "one label a case")
    if not labels:
        raise ConfigError(path, "no label", f"a table with the columns {', '.join(FIELDS)}")
    return labels
