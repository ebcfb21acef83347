"""Table, figure and README of this experiment, from its evidence alone; `--check` names what differs."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from experiments._tools import dose, studies
from experiments._tools.evidence import Row
from experiments._tools.output import save
from experiments._tools.recompute import main, points
from experiments.oracle_words.ceiling import ceilings

RETRIES = "retries.csv"
WITH_PROGRAM = "retries_with_program.csv"
"""Retries whose prompt shows the failed program, too."""


def by_dose(folder: Path, retries: str = RETRIES) -> list[dict[str, Any]]:
    """Shares of repaired programs by arm, from the least wrong words to the most."""
    rows = [row for row in dose.table(dose.read(folder / retries), {}) if row["by"] == "arm"]
    return sorted(rows, key=lambda row: (row["dose"] == "", row["dose"] or 0, row["name"]))


def naming_lines(folder: Path) -> tuple[int, int]:
    """Diagnoses of the arm `oracle_words` that name a line of the program by its number, and all of them."""
    with zipfile.ZipFile(folder / "oracle_words.bundle.zip") as bundle:
        attempts = map(json.loads, bundle.read("attempts.jsonl").splitlines())
        words = [json.dumps(attempt["reflection"]) for attempt in attempts if attempt.get("reflection")]
    return sum(bool(re.search(r"\blines? \d", text)) for text in words), len(words)


def compute(folder: Path) -> Mapping[str, str]:
    study = studies.read(folder)
    with_program = {row["name"]: row for row in by_dose(folder, WITH_PROGRAM)}
    base = next(arm for arm in study.arms if arm.label == study.comparison.baseline)
    pairs = {(row.arm, row.ceiling): row for row in ceilings(study.arms, base)}
    values = {
        "doses": by_dose(folder),
        "with_program": with_program,
        "naming_lines": naming_lines(folder),
        "share_of_ceiling": pairs["oracle_words", "quoted"].share,
    }
    return studies.page(folder, study, **values)


def answer(folder: Path) -> Row:
    """The answer in `experiments/README.md`."""
    study = studies.read(folder)
    oracle, quoted = (study.row(arm).differences["equal_attempts"] for arm in ("oracle_words", "quoted"))
    text = (
        f"not detected for diagnoses by line of a program that the prompt does not show: "
        f"{points(oracle)} points, wrong ones alike; "
        f"the quoted solution helps, {points(quoted)}"
    )
    return Row(text, str(oracle.n))


def draw(folder: Path) -> Sequence[Path]:
    rows = by_dose(folder)
    return save(rows, partial(dose.draw, rows), folder, salt="oracle_words", table="doses.csv", line_end="\n")


if __name__ == "__main__":
    raise SystemExit(main(__file__, compute, draw=draw))
