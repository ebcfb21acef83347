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
"""Probability of a repair by the words read, as in `conf/model/simulated_student.yaml`."""
CASES = "cases.csv"
EARLY = 3
"""Seeds of the first run, to which the others were added."""


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return dose.table(dose.read(folder / CASES), PLANTED)


def compute(folder: Path) -> Mapping[str, str]:
    rows = rows_of(folder)
    inside = [row["low"] <= row["planted"] <= row["high"] for row in rows]
    early = dose.table([case for case in dose.read(folder / CASES) if case.seed < EARLY], PLANTED)
    values = {"rows": rows, "inside": sum(inside), "intervals": len(inside), "early": early[-1], "early_seeds": EARLY}
    return {TABLE: csv_text(rows), README: readme(folder, **values)}


def answer(folder: Path) -> Row:
    """The answer in `experiments/README.md`."""
    rows = rows_of(folder)
    words = {row["name"]: row for row in rows if row["by"] == "words"}
    cells = {
        name: f"{percent(row['share'])} % [{percent(row['low'])}, {percent(row['high'])}]"
        for name, row in words.items()
    }
    inside = sum(row["low"] <= row["planted"] <= row["high"] for row in rows)
    text = (
        f"yes, with a simulated student: repairs after true words {cells['true']} (planted 60), after wrong ones "
        f"{cells['wrong']} (10), without words {cells['none']} (20); {inside} of {len(rows)} intervals hold the "
        "planted share"
    )
    cases = dose.read(folder / CASES)
    return Row(text, f"{rows[0]['n']} retries per arm, {len({case.seed for case in cases})} seeds")


def draw(folder: Path) -> Sequence[Path]:
    rows = rows_of(folder)
    return save(rows, partial(dose.draw, rows), folder, salt="dose", line_end="\n")


if __name__ == "__main__":
    raise SystemExit(main(__file__, compute, draw=draw))
