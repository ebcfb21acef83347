"""Table, figure and README of this experiment, from `cases.csv` alone; `--check` names what differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from experiments._tools import dose
from experiments._tools.evidence import Row
from experiments._tools.output import save
from experiments._tools.recompute import README, TABLE, csv_text, main, percent, readme

PLANTED = {"none": 0.2, "true": 0.6, "wrong": 0.1}
"""Probability of a repair by the words read, as in `simulated_student.yaml`."""
CASES = "cases.csv"
EARLY = 3
"""Seeds of a first run. Since its results led to seven more seeds, it is shown apart."""


def rows_of(folder: Path, *, early: bool = False) -> list[dict[str, Any]]:
    """A row per arm, and one per truth of the words read, where arms differ in it."""
    cases = [case for case in dose.read(folder / CASES) if (case.seed < EARLY) == early]
    return [row for row in dose.table(cases, PLANTED) if (row["by"], row["name"]) != ("words", "none")]


def held(rows: Sequence[Mapping[str, Any]]) -> int:
    """Intervals that hold the planted share."""
    return sum(row["low"] <= row["planted"] <= row["high"] for row in rows)


def compute(folder: Path) -> Mapping[str, str]:
    rows, early = rows_of(folder), rows_of(folder, early=True)
    missed = [row for row in early if not row["low"] <= row["planted"] <= row["high"]]
    values = {"rows": rows, "held": held(rows), "missed": missed, "n_early": len(early)}
    return {TABLE: csv_text(rows), README: readme(folder, **values)}


def answer(folder: Path) -> Row:
    """The answer in `experiments/README.md`."""
    rows = rows_of(folder)
    by_name = {row["name"]: row for row in rows}
    true, wrong, none = (
        f"{percent(row['share'])} % [{percent(row['low'])}, {percent(row['high'])}]"
        for row in (by_name["true"], by_name["wrong"], by_name["feedback_only"])
    )
    text = (
        f"yes, with a simulated student: repairs after true words {true} (planted 60), after wrong ones {wrong} (10), "
        f"without words {none} (20); {held(rows)} of {len(rows)} intervals hold the planted share"
    )
    seeds = {case.seed for case in dose.read(folder / CASES) if case.seed >= EARLY}
    return Row(text, f"{rows[0]['n']} retries per arm, {len(seeds)} seeds")


def draw(folder: Path) -> Sequence[Path]:
    rows = rows_of(folder)
    return save(rows, partial(dose.draw, rows), folder, salt="dose", line_end="\n")


if __name__ == "__main__":
    raise SystemExit(main(__file__, compute, draw=draw))
