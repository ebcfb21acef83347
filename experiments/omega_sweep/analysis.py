"""Table, figure and README of this experiment, from `cases.csv.gz` alone; `--check` names what differs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from experiments._tools import studies
from experiments._tools.evidence import Row
from experiments._tools.recompute import main, points


def compute(folder: Path) -> Mapping[str, str]:
    return studies.page(folder, studies.read(folder))


def answer(folder: Path) -> Row:
    """The answer in `experiments/README.md`."""
    study = studies.read(folder)
    both = [study.row(arm).equal["attempts"] for arm in ("omega_1", "omega_2")]
    cells = (f"Ω = {omega} {points(each.estimate)} ({each.verdict})" for omega, each in enumerate(both, 1))
    return Row(f"{', '.join(cells)} points against Ω = 0", str(both[0].n))


if __name__ == "__main__":
    raise SystemExit(main(__file__, compute, draw=studies.draw))
