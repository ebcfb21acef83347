"""Table and README of the calibrations, from `planted.csv` and the files of `calibrate`; `--check` compares."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from scipy.stats import binom

from experiments._tools.evidence import Row, read_rows
from experiments._tools.recompute import README, TABLE, csv_text, main, readme
from reflexion_lab.analysis.stats.intervals import LEVEL, Rate

FILES = {"SmolLM2-135M-Instruct": "smollm2.json", "stand-in for a hosted model": "stub.json"}


def recovered(folder: Path) -> Iterator[dict[str, Any]]:
    """By figure, its planted value, the mean of the calibrations, and how many intervals hold what is planted."""
    by_figure: dict[str, list[dict[str, str]]] = {}
    for row in read_rows(folder / "planted.csv"):
        by_figure.setdefault(row["figure"], []).append(row)
    for name, rows in by_figure.items():
        planted = float(rows[0]["planted"])
        held = Rate.over(float(row["low"]) <= planted <= float(row["high"]) for row in rows)
        yield {
            "figure": name,
            "planted": f"{100 * planted:.1f}",
            "mean": f"{100 * fmean(float(row['value']) for row in rows):.1f}",
            "held": held.k,
            "n": held.n,
        }


def calibrations(folder: Path) -> dict[str, dict[str, Any]]:
    """What `calibrate` wrote, by model."""
    return {name: json.loads((folder / file).read_text()) for name, file in FILES.items()}


def compute(folder: Path) -> Mapping[str, str]:
    rows = list(recovered(folder))
    fewest = min(rows, key=lambda row: row["held"])
    answers = {row["seed"]: row["answer"] for row in read_rows(folder / "planted.csv")}
    values = {
        "rows": rows,
        "held": sum(row["held"] for row in rows),
        "n": sum(row["n"] for row in rows),
        "seeds": len(answers),
        "can": sum(answer == "this model can use words" for answer in answers.values()),
        "models": calibrations(folder),
        "fewest": fewest,
        "chance": float(binom.cdf(fewest["held"], fewest["n"], LEVEL)),
    }
    return {TABLE: csv_text(rows), README: re.sub(r"(?<=[\[ ])-(?=\d)", "−", readme(folder, **values))}


def answer(folder: Path) -> Row:
    """The answer in `experiments/README.md`."""
    rows, smol = list(recovered(folder)), calibrations(folder)["SmolLM2-135M-Instruct"]
    figures = {name: figure["text"] for name, figure in smol["figures"].items()}
    text = (
        f"{smol['answer']}; first attempt {figures['first attempt']}, room {figures['room (most harm)']}, ceiling "
        f"{figures['ceiling (most help)']}; of a simulated student {sum(row['held'] for row in rows)} of "
        f"{sum(row['n'] for row in rows)} intervals hold what is planted"
    ).replace("-", "−")
    return Row(text, f"{smol['figures']['first attempt']['value']['n']} tasks")


if __name__ == "__main__":
    raise SystemExit(main(__file__, compute))
