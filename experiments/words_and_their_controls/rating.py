"""Blind rating of reflections: sheets for people, and their agreement with each other and with the rules.

    python -m experiments.words_and_their_controls.rating RUN... --out SHEET.csv [--limit N] [--seed N]
    python -m experiments.words_and_their_controls.rating --read SHEET.csv... [--key FILE]

A sheet shows task, program, failing checks and words, in random order, without arm, model or verdict. The key, a file
of its own, names the run of each item and what the rules say.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import random
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from experiments._tools import output
from experiments.words_and_their_controls.words import NAMES, Quality, Solutions, quality, solutions
from reflexion_lab.analysis.report import cells
from reflexion_lab.analysis.report.sheets import Sheet
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.stats.bootstrap import interval
from reflexion_lab.analysis.stats.clusters import ALONE, by_cluster
from reflexion_lab.analysis.stats.intervals import Estimate
from reflexion_lab.errors import ConfigError, DataError
from reflexion_lab.records import Attempt, Record, Task
from reflexion_lab.runner.folder.folder import some_folders
from reflexion_lab.runner.solutions import tasks_of

SHEET = ("item", "task", "program", "failing_checks", "words", *NAMES)
KEY = ("item", "run_id", "task_id", "cluster", "number", *NAMES)
ANSWERS = {"yes": True, "y": True, "1": True, "true": True, "no": False, "n": False, "0": False, "false": False}
FORMULA = ("=", "+", "-", "@")
"""First characters that a spreadsheet takes for a formula; a space before them prevents it."""


class Rated(NamedTuple):
    """A reflection and its qualities by the rules."""

    run_id: str
    attempt: Attempt
    cluster: str
    """Cluster of its task."""
    quality: Quality

    @property
    def id(self) -> str:
        """The same in every draw, without a trace of the arm; no number, which a spreadsheet would write in its way."""
        name = f"{self.run_id}:{self.attempt.task_id}:{self.attempt.number}"
        return f"r{hashlib.sha256(name.encode(errors='replace')).hexdigest()[:10]}"


def rated(logs: Iterable[Log], solutions: Solutions) -> list[Rated]:
    """All reflections with a text."""
    return [
        Rated(log.manifest.run_id, attempt, log.clusters.get(attempt.task_id, attempt.task_id), qualities)
        for log in logs
        for attempt in log.every
        if (qualities := quality(attempt, solutions.get(log.manifest.run_id, {}).get(attempt.task_id, "")))
    ]


def write(
    path: Path, reflections: Sequence[Rated], tasks: Mapping[str, Mapping[str, Task]], limit: int = 0, seed: int = 0
) -> Path:
    """Write a sheet and its key; returns the path of the key.

    Parameters
    ----------
    path : Path
        The sheet, a CSV file.
    tasks : Mapping[str, Mapping[str, Task]]
        Tasks by run and id, for their texts.
    limit : int, default 0
        Number of reflections, drawn at random; 0: all.
    seed : int, default 0
        Of draw and order.

    Raises
    ------
    ConfigError
        The sheet or its key exists: it may hold answers.
    """
    for file in (path, key_of(path)):
        if file.exists():
            raise ConfigError("--out", f"{file}, which exists", "a new file: a sheet may hold answers")
    order = list(reflections)
    random.Random(f"{seed}:rating").shuffle(order)
    items = order[: limit or None]
    _save(path, SHEET, (_sheet_row(item, tasks.get(item.run_id, {})) for item in items))
    _save(key_of(path), KEY, map(_key_row, items))
    return key_of(path)


def key_of(path: Path) -> Path:
    """The key beside a sheet: `sheet.key.csv`."""
    return path.with_suffix(f".key{path.suffix}")


def _save(path: Path, columns: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8", errors="backslashreplace") as file:
        table = csv.writer(file)
        table.writerow(columns)
        table.writerows(rows)


def _sheet_row(item: Rated, tasks: Mapping[str, Task]) -> Iterator[object]:
    attempt = item.attempt
    checks = "\n".join(f"{check.name}  # {check.message}".strip("# ") for check in attempt.evaluation.failures)
    words = "\n".join(f"{label}: {text}" for label, text in attempt.reflection.statements) if attempt.reflection else ""
    task = tasks.get(attempt.task_id)
    yield item.id
    for text in (task.prompt if task else attempt.task_id, attempt.trajectory.solution, checks, words):
        yield f" {text}" if text.startswith(FORMULA) else text
    yield from [""] * len(NAMES)


def _key_row(item: Rated) -> Iterator[object]:
    yield from (item.id, item.run_id, item.attempt.task_id, item.cluster, item.attempt.number)
    for name in NAMES:
        value = getattr(item.quality, name)
        yield "" if value is None else "yes" if value else "no"


class Agreement(Record, frozen=True, kw_only=True):
    """Agreement of two raters on one quality."""

    quality: str
    first: str
    second: str
    n: int
    """Reflections that both rated."""
    clusters: int
    """Clusters of their tasks."""
    first_yes: int
    second_yes: int
    agreed: Estimate | None
    """Share of equal ratings, with an interval over clusters of tasks; None without any."""
    kappa: Estimate | None
    """Cohen's kappa (1960, Educational and Psychological Measurement 20:37-46); None if both always say the same one
    word, so that agreement by chance is 1. Its interval is that of the share of equal ratings, at the agreement by
    chance of these ratings."""


def agreements(sheets: Sequence[Path], key: Path | None = None) -> list[Agreement]:
    """Agreement on each quality of all pairs of raters, one a sheet, and of each with the rules.

    Parameters
    ----------
    sheets : Sequence[Path]
        Filled sheets of the same items; empty cells are not rated.
    key : Path | None, optional
        By default, the key beside the first sheet.

    Raises
    ------
    DataError
        A file cannot be read, lacks a column, holds another answer than yes, no or an empty cell, or items that the key
        does not name.
    """
    answers = _read(key or key_of(sheets[0]), ("cluster",))
    clusters = {item: row["cluster"] for item, row in answers.items()}
    raters = {str(path): _read(path) for path in sheets}
    for name, rows in raters.items():
        if strange := sorted(rows.keys() - clusters.keys()):
            raise DataError(
                name, f"item {strange[0]}", "only items of the key", "give the key of this sheet with --key"
            )
    pairs = list(combinations([*raters.items(), ("rules", answers)], 2))
    return [_agreement(name, first, second, clusters) for name in NAMES for first, second in pairs]


Ratings = Mapping[str, Mapping[str, str]]
"""Cells by item."""


def _read(path: Path, others: Sequence[str] = ()) -> dict[str, dict[str, str]]:
    """Raises DataError."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [{name: value or "" for name, value in row.items() if name} for row in csv.DictReader(file)]
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        raise DataError(path, str(problem), "a sheet that --out wrote") from None
    columns = ("item", *others, *NAMES)
    if missing := [name for name in columns if not rows or name not in rows[0]]:
        raise DataError(path, f"no column {missing[0]}" if rows else "no row", f"columns {', '.join(columns)}")
    for number, row in enumerate(rows, 2):
        for name in NAMES:
            if (answer := row[name].strip().casefold()) and answer not in ANSWERS:
                raise DataError(f"{path}, row {number}, {name}", repr(row[name][:40]), "yes, no or an empty cell")
    return {row["item"].strip(): row for row in rows}


def _agreement(
    name: str, first: tuple[str, Ratings], second: tuple[str, Ratings], clusters: Mapping[str, str]
) -> Agreement:
    both = {
        item: (answer, other)
        for item in first[1].keys() & second[1].keys()
        if (answer := _answer(first[1][item][name])) is not None
        and (other := _answer(second[1][item][name])) is not None
    }
    of_items = [clusters[item] for item in both]
    agreed, kappa = cohen(list(both.values()), of_items)
    return Agreement(
        quality=name,
        first=first[0],
        second=second[0],
        n=len(both),
        clusters=len(set(of_items)),
        first_yes=sum(answer for answer, _ in both.values()),
        second_yes=sum(answer for _, answer in both.values()),
        agreed=agreed,
        kappa=kappa,
    )


def _answer(cell: str) -> bool | None:
    return ANSWERS.get(cell.strip().casefold())


def cohen(pairs: Sequence[tuple[bool, bool]], clusters: Sequence[Hashable]) -> tuple[Estimate | None, Estimate | None]:
    """Share of equal ratings and Cohen's kappa, with 95 % intervals; see `Agreement`.

    kappa = (p - e) / (1 - e) for the share p of equal ratings and e = a b + (1 - a)(1 - b), where a and b are the
    shares of yes.

    Parameters
    ----------
    pairs : Sequence[tuple[bool, bool]]
        Two ratings by item.
    clusters : Sequence[Hashable]
        Cluster of each item.
    """
    if not pairs:
        return None, None
    a, b = (sum(pair[place] for pair in pairs) / len(pairs) for place in (0, 1))
    chance = a * b + (1 - a) * (1 - b)
    outcomes = [(cluster, first is second) for cluster, (first, second) in zip(clusters, pairs, strict=True)]
    agreed = interval(by_cluster(outcomes, ALONE))
    if chance == 1:
        return agreed, None
    kappa = (max(-1.0, (value - chance) / (1 - chance)) for value in (agreed.value, agreed.low, agreed.high))
    return agreed, Estimate.of(*kappa)


def parser() -> argparse.ArgumentParser:
    top = output.script_parser("rating", "blind rating of reflections", "words_and_their_controls")
    top.add_argument("runs", metavar="RUN", nargs="*", help="run folders, for --out")
    top.add_argument("--out", metavar="SHEET", type=Path, help="write a shuffled sheet (CSV), and its key beside it")
    top.add_argument("--limit", metavar="N", type=int, default=0, help="number of reflections, drawn; 0 for all")
    top.add_argument("--seed", metavar="N", type=int, default=0, help="of the draw and the order")
    filled = "filled sheets of one key, one per rater: agreement with each other and with the rules"
    top.add_argument("--read", metavar="SHEET", type=Path, nargs="+", help=filled)
    top.add_argument("--key", metavar="FILE", type=Path, help="with --read: the key (default: beside the first sheet)")
    return top


def rate(options: argparse.Namespace) -> int:
    from rich.console import Console

    if bool(options.read) == bool(options.runs and options.out):
        raise ConfigError("rating", "neither or both of them", "RUN... --out SHEET, or --read SHEET...")
    if options.read:
        output.show_sheet(agreement_sheet(agreements(options.read, options.key)), Console())
        return 0
    runs = some_folders(*options.runs)
    tasks, programs = tasks_of(runs), solutions(runs)
    reflections = rated([Log.read(run, texts=False) for run in runs], programs)
    key = write(options.out, reflections, tasks, options.limit, options.seed)
    output.print_written([options.out, key])
    return 0


def agreement_sheet(rows: Sequence[Agreement]) -> Sheet:
    columns: dict[str, Callable[[Agreement], str]] = {
        "quality": lambda row: row.quality,
        "raters": lambda row: f"{row.first} : {row.second}",
        "n": lambda row: str(row.n),
        "clusters": lambda row: str(row.clusters),
        "yes, first": lambda row: str(row.first_yes),
        "yes, second": lambda row: str(row.second_yes),
        "agreed, % [95 %]": lambda row: cells.estimate(row.agreed) if row.agreed else cells.NONE,
        "kappa [95 %]": lambda row: cells.estimate(row.kappa, digits=2, scale=1) if row.kappa else cells.NONE,
    }
    note = "kappa: Cohen's; 1 all equal, 0 as by chance. Intervals: over clusters. Empty cells do not count."
    return Sheet.of("Agreement of ratings", rows, columns, note, names=2)


if __name__ == "__main__":
    raise SystemExit(output.run(parser(), rate, None))
