"""Coverage of the pooled difference's interval, on the flags, models and tasks of the primary comparison, and of its
whole and cut programs apart.

    python -m experiments.recorded_reflections.coverage

Outcomes are simulated: each model's own share of repairs without the flag, plus a planted difference with it. With
probability `together`, all cases of a task follow one random number, so that they are repaired together.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from experiments._tools import output
from experiments.recorded_reflections.analysis import COVERAGE, POOLED, read_cases, wrong
from experiments.recorded_reflections.stratified import jackknife
from reflexion_lab.analysis.stats.intervals import t_quantile

FOLDER = Path(__file__).parent
DRAWS = 4000
SUBSETS = (POOLED, "whole programs", "cut programs")
SCENARIOS = [
    (subset, planted, together) for subset in SUBSETS for planted in (0.0, 0.2) for together in (0.0, 0.5, 1.0)
]


def coverage(
    folder: Path, subset: str, planted: float, together: float, draws: int = DRAWS, seed: int = 0
) -> dict[str, object]:
    """Share of intervals with the planted difference, share that exclude 0, and their mean width in points."""
    import numpy as np

    rng = np.random.default_rng([seed, round(100 * planted), round(100 * together)])
    endings = {POOLED: (True, False), "whole programs": (True,), "cut programs": (False,)}[subset]
    cases = [case for case in wrong(read_cases(folder)) if case.is_whole in endings]
    tasks, models = (sorted({getattr(case, name) for case in cases}) for name in ("task", "group"))
    places = np.array(
        [[tasks.index(case.task), models.index(case.group), bool(case.flags["names_check"])] for case in cases]
    )
    base = {model: _base([bool(case.next_right) for case in cases if case.group == model]) for model in models}
    chance = np.array([base[case.group] + planted * bool(case.flags["names_check"]) for case in cases])
    table = np.zeros((draws, len(tasks), len(models), 2, 2))
    shared, own = rng.random((draws, len(tasks))), rng.random((draws, len(cases)))
    is_shared = rng.random((draws, len(tasks))) < together
    drawn = np.where(is_shared[:, places[:, 0]], shared[:, places[:, 0]], own)
    for place, (task, model, flag) in enumerate(places):
        table[:, task, model, flag, 0] += drawn[:, place] < chance[place]
        table[:, task, model, flag, 1] += 1
    values, errors = jackknife(table)
    half = t_quantile(len(tasks) - 1) * errors
    return {
        "cases": subset,
        "planted": planted,
        "together": together,
        "draws": draws,
        "coverage": round(float((np.abs(values - planted) <= half).mean()), 4),
        "excludes_0": round(float((np.abs(values) > half).mean()), 4),
        "width": round(float(200 * half.mean()), 1),
    }


def _base(repaired: list[bool]) -> float:
    """The model's share of repairs, at most 0.7, so that the planted difference fits."""
    return min(0.7, sum(repaired) / len(repaired))


def write(options: argparse.Namespace) -> int:
    rows = [coverage(options.folder, *scenario) for scenario in SCENARIOS]
    output.print_written([output.write_csv(options.folder / COVERAGE, rows)])
    return 0


def parser() -> argparse.ArgumentParser:
    top = output.script_parser("coverage", "coverage of the pooled interval, by simulation", "recorded_reflections")
    top.add_argument("--folder", metavar="DIR", type=Path, default=FOLDER, help="folder of the evidence")
    return top


if __name__ == "__main__":
    raise SystemExit(output.run(parser(), write, None))
