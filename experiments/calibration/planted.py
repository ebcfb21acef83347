"""Calibrations of a simulated student whose rates are known: `planted.csv`, a line per seed and figure.

python -m experiments.calibration.planted --out experiments/calibration
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from experiments._tools.output import run, script_parser
from reflexion_lab.studies.calibrate import CHECKS, VARIANTS, WORDS, calibrate, plan

FIRST, CHECK_REPAIRS, WRONG_WORDS, SOLUTION = 0.4, 0.2, 0.1, 0.6
"""Chance of a right first program, and of a repair after failing checks, after words that are not true (those that the
student writes), and after the quoted solution."""
FAILED = 1 - FIRST
PLANTED = {
    "first attempt": FIRST,
    f"retries, {CHECKS}": CHECK_REPAIRS,
    f"retries, {WORDS}": WRONG_WORDS,
    **{f"retries, {name}": SOLUTION for name in VARIANTS},
    "room (most harm)": FAILED * CHECK_REPAIRS,
    "ceiling (most help)": FAILED * SOLUTION,
    "own words - checks": FAILED * (WRONG_WORDS - CHECK_REPAIRS),
}
SEEDS = range(40)
COLUMNS = ("seed", "figure", "planted", "value", "low", "high", "answer")
STUDENT = Path(__file__).parents[1] / "dose_and_response_simulated" / "conf"


def rows(folder: Path) -> Iterator[tuple[object, ...]]:
    """A line per seed and figure; run folders and replies go below `folder`."""
    for seed in SEEDS:
        overrides = (
            *(f"hydra.searchpath=[file://{STUDENT}]", "model=simulated_student", "actor=single_shot"),
            *(f"model.first={FIRST}", f"model.repair={CHECK_REPAIRS}", f"model.repair_wrong={WRONG_WORDS}"),
            *(f"model.repair_true={SOLUTION}", f"model.seed={seed}", f"seed={seed}"),
            *(f"run_root={folder / 'runs'}", f"cache.path={folder / 'calls.sqlite'}"),
        )
        result = calibrate(plan(overrides)[0], quiet=True)
        for name, planted in PLANTED.items():
            value = result.figures[name].value
            assert value is not None and not isinstance(value, float)
            ends = (f"{number:.6g}" for number in (planted, value.value, value.low, value.high))
            yield seed, name, *ends, result.answer.partition(":")[0]


def main(argv: Sequence[str] | None = None) -> int:
    parser = script_parser("planted", "calibrations of a simulated student with known rates")
    parser.add_argument("--runs", metavar="FOLDER", type=Path, default=Path("runs/calibrations"))
    parser.add_argument("--out", metavar="FOLDER", type=Path, required=True)

    def study(options: argparse.Namespace) -> int:
        with (options.out / "planted.csv").open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows([COLUMNS, *rows(options.runs)])
        return 0

    return run(parser, study, argv)


if __name__ == "__main__":
    sys.exit(main())
