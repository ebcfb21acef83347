"""Table, figure and README of this experiment, from `cases.csv.gz` alone; `--check` names what differs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from experiments._tools import studies
from experiments._tools.evidence import Row
from experiments._tools.recompute import main, points
from reflexion_lab.analysis.comparison.lines import compared


def compute(folder: Path) -> Mapping[str, str]:
    study = studies.read(folder)
    verdicts = {arm.label: arm.verdicts() for arm in study.arms}
    wider = compared(verdicts["omega_2"], verdicts["omega_1"], clusters=study.arms[0].clusters)
    return studies.page(folder, study, wider=wider)


def answer(folder: Path) -> Row:
    """The answer in `experiments/README.md`."""
    study = studies.read(folder)
    both = [study.row(arm).differences["equal_attempts"] for arm in ("omega_1", "omega_2")]
    cells = (f"Ω = {omega} {points(each)} points, {studies.claim(each)}" for omega, each in enumerate(both, 1))
    return Row(f"{'; '.join(cells)}, against Ω = 0 (Ω = 1 are the loops of the row above)", str(both[0].n))


if __name__ == "__main__":
    raise SystemExit(main(__file__, compute, draw=studies.draw))
