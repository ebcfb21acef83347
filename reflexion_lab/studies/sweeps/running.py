"""Running of a sweep: its cells in waves, and those whose process is lost once more."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from reflexion_lab.runner.config.grid import Cell, lines
from reflexion_lab.runner.config.parts import draws_from_runs
from reflexion_lab.studies.sweeps.finished import CellState, Runs
from reflexion_lab.studies.sweeps.launch import Launch
from reflexion_lab.studies.sweeps.sweep import Sweep

TRIES = 2
"""Starts of a cell whose process is lost. Its finished tasks are kept, so the second start is shorter."""


def sweep(grid: Mapping[str, Any] | Sequence[str], quiet: bool = False) -> Sweep:
    """Run a sweep from Python: `sweep({"recall.omega": [0, 1], "seed": range(3)})` is the command
    `reflexion-lab run -m recall.omega=0,1 seed=0,1,2`.

    Raises KeyboardInterrupt: finished cells are kept; the same call resumes the sweep. `grid`: a value or a list of
    values by config key; or override lines of the command.
    """
    new_sweep = Sweep.of(lines(dict(grid)) if isinstance(grid, Mapping) else list(grid))
    if run_all(new_sweep, (), quiet) or not new_sweep.is_tracked:
        new_sweep.track()
    return new_sweep


def run_all(sweep: Sweep, overrides: Sequence[str], quiet: bool) -> bool:
    """Run the cells without a finished run by the launcher of `overrides`; returns whether there were any.

    A lost process does not affect the other cells, and is started once more; the same command resumes the sweep.
    """
    launch = Launch(overrides, sweep)  # errors show before anything is written
    if not quiet:
        print(*sweep.outlook(), sep="\n", end="\n" * sweep.is_open, file=sys.stderr)
    left = sweep.keep()
    for wave in waves(left):
        pending, reasons = wave, dict[int, str]()
        for _ in range(TRIES):
            before = len(sweep.lines)
            reasons = dict(zip((cell.number for cell in pending), launch(pending, quiet), strict=True))
            ended = {state.number for state in sweep.lines[before:] if state.status != "waiting"}
            pending = [cell for cell in pending if cell.number not in ended]
        for cell in pending:
            sweep.note(_without_end(sweep, cell, reasons[cell.number]))
    return bool(left)


def waves(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Groups of cells that may run at once: cells that read other runs come after those runs have ended."""
    first = [cell for cell in cells if not draws_from_runs(cell.cfg)]
    second = [cell for cell in cells if draws_from_runs(cell.cfg)]
    return [wave for wave in (first, second) if wave]


def _without_end(sweep: Sweep, cell: Cell, reason: str) -> CellState:
    """The state of a cell whose process recorded none; `reason`: why it was lost."""
    if run := Runs(sweep.root).finished(cell.cfg):  # the run finished before its process was lost
        return run.kept(cell.number)
    if not reason:
        return CellState(number=cell.number, problem="another process is running this cell")
    problem = f"its process was lost ({reason}); the same command resumes the cell"
    return CellState(number=cell.number, status="failed", problem=problem)
