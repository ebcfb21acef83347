"""Human labels of failures: the sample to label, the text that a reader sees, and the labels."""

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
"""Share of the cases with the most common exception type, usually AssertionError."""
FIELDS = ("file", "attempt", "model", "part", "label", "why")
PARTS = ("first", "second", "fresh")
"""Two halves of a sample, and a second sample: `first` may be used to correct rules; `fresh` is read after that."""
HELD_OUT = PARTS[1:]


class Label(Record, frozen=True, kw_only=True):
    """The class that a reader gave to a failure, without knowing its exception type."""

    part: str
    label: str
    """One of the lab's classes or `unknown`."""
    why: str = ""


def draw(failures: Sequence[Failure], seed: int = 0, cases: int = CASES, known: Container[str] = ()) -> list[Failure]:
    """A random sample of failures: at most one per problem, and none of the problems in `known`.

    The share `COMMONEST` has the most common exception type; the other types take turns, those of the rarest class
    first; a type with two classes counts twice. The order is by a random number per failure, so one failure that ends
    differently on another machine changes little, and both halves are random samples.
    """

    def order(failure: Failure) -> float:
        return random.Random(f"{seed}:{':'.join(failure.id)}").random()

    eligible = [failure for failure in failures if failure.raised and failure.sample.task_id not in known]
    failed = sorted(eligible, key=order)
    rest = cases - round(COMMONEST * cases)
    by_type: dict[tuple[str, str], list[Failure]] = {}
    for failure in failed:
        by_type.setdefault((failure.raised, failure.truth), []).append(failure)
    classes = Counter(failure.truth for failure in failed)
    *turns, commonest = sorted(by_type, key=lambda kind: (classes[kind[1]], len(by_type[kind]), kind))
    drawn: dict[str, Failure] = {}
    while turns and len(drawn) < rest:
        for kind in turns[: rest - len(drawn)]:
            if fresh := _fresh(by_type[kind], drawn):
                drawn[fresh.sample.task_id] = fresh
        turns = [kind for kind in turns if _fresh(by_type[kind], drawn)]
    while len(drawn) < cases and (fresh := _fresh(by_type[commonest], drawn)):
        drawn[fresh.sample.task_id] = fresh
    return sorted(drawn.values(), key=order)


def _fresh(failures: Sequence[Failure], drawn: Mapping[str, Failure]) -> Failure | None:
    """The first failure at a problem without a case."""
    return next((failure for failure in failures if failure.sample.task_id not in drawn), None)


def write_cases(drawn: Sequence[Failure], path: Path, fresh: bool = False) -> list[Path]:
    """Write `path`, a table without labels, and beside it a `.txt` for the reader, without exception types."""
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
    """Labels by file and attempt.

    Raises ConfigError: the file cannot be read, a field is missing, a label or part is unknown, or an attempt comes
    twice.
    """
    expected = f"a table with the columns {', '.join(FIELDS)}"
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        raise ConfigError(f"{path}: cannot be read ({problem})", expected=expected) from None
    if not rows:
        raise ConfigError(path, "no label", expected)
    if missing := [name for name in FIELDS if name not in rows[0]]:
        raise ConfigError(path, f"no column {missing[0]}", expected)
    labels: dict[tuple[str, str], Label] = {}
    for line, row in enumerate(rows, 2):
        for name, values in (("label", list(CLASSES)), ("part", PARTS)):
            if row.get(name) not in values:
                where = f"{path}, line {line}, field {name}"
                raise ConfigError(where, repr(row.get(name)), f"one of {', '.join(values)}")
        labels[row["file"], row["attempt"]] = Label(part=row["part"], label=row["label"], why=row["why"] or "")
    if repeated := [key for key, count in Counter((row["file"], row["attempt"]) for row in rows).items() if count > 1]:
        raise ConfigError(path, f"{' '.join(repeated[0])} more than once", "one label per case")
    return labels
