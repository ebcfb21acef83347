"""README of this plan from `designs.csv`, the differences that designs detect; `--check` names what differs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from experiments._tools.evidence import Row, read_rows
from experiments._tools.recompute import README, main, percent, readme

DESIGNS = "designs.csv"


def designs(folder: Path) -> list[dict[str, float]]:
    """Designs as `run.sh` names them, with the difference that 80 % of simulated studies detect."""
    return [
        {name: float(value) if "." in value else int(value) for name, value in row.items()}
        for row in read_rows(folder / DESIGNS)
    ]


def compute(folder: Path) -> Mapping[str, str]:
    rows = designs(folder)
    return {README: readme(folder, designs=rows, first=rows[0])}


def answer(folder: Path) -> Row:
    """The answer in `experiments/README.md`."""
    first = designs(folder)[0]
    size = f"{first['clusters']} templates × {first['seeds']} seeds detect {percent(first['detectable'])} points"
    return Row(f"planned: not with this model, whose retries do not react to true words; {size}", "none")


if __name__ == "__main__":
    raise SystemExit(main(__file__, compute))
