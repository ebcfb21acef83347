"""A sweep whose cells run in other processes, any of which may be lost: killed, out of memory, out of time."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from reflexion_lab.runner.config.grid import Cell
from reflexion_lab.studies.cell_states import CellState, record
from reflexion_lab.studies.finished import Runs, kept
from reflexion_lab.studies.sweep import Sweep, elsewhere, waves

TRIES = 2
"""How often a cell whose process is lost is begun. What it had finished is kept, so the second time is shorter."""


def launched(sweep: Sweep, left: Sequence[Cell], launch: Callable[[Sequence[Cell]], Sequence[str]]) -> None:
    """Hand the cells that are left to `launch`, which says cell by cell why its process failed, until all have ended.

    A cell whose process is lost costs the others nothing: those that never came to run are handed over again, and so is
    the lost one, up to `TRIES` times. Then its line says so, and the same command goes on with it.
    """
    for wave in waves(left):
        _launched(sweep, wave, launch)


def _launched(sweep: Sweep, left: Sequence[Cell], launch: Callable[[Sequence[Cell]], Sequence[str]]) -> None:
    begun = Counter[int]()
    while left:
        for cell in left:
            _note(sweep, CellState(number=cell.number, status="waiting"))
        lost = not_ended(sweep, left, launch(left))
        begun.update(state.number for state in lost if state.folder)
        if len(lost) == len(left) and not any(state.folder for state in lost):
            return  # no process came as far as a cell
        again = {state.number for state in lost if begun[state.number] < TRIES}
        left = [cell for cell in left if cell.number in again]
        if left:
            numbers = ", ".join(str(cell.number) for cell in left)
            print(f"lost before they ended, now begun again: cells {numbers}", file=sys.stderr)


def not_ended(sweep: Sweep, cells: Sequence[Cell], why: Sequence[str]) -> list[CellState]:
    """Of `cells`, which no process is at any more, those without an end; each is noted as lost."""
    states, runs, found = sweep.states, Runs(sweep.root), []
    for cell, problem in zip(cells, why, strict=True):
        state = states[cell.number]
        if state.status not in ("waiting", "running"):
            continue
        if run := runs.finished(cell.cfg):  # it ended, and was lost before it could say so
            _note(sweep, kept(cell.number, run))
            continue
        if sweep.is_elsewhere(cell.number):  # the newest line is another command's
            _note(sweep, elsewhere(cell.number))
            continue
        said = f"its process was lost ({problem or 'no word of it'}); the same command goes on with the cell"
        found.append(replace(state, status="lost", problem=said))
        _note(sweep, found[-1])
    return found


def _note(sweep: Sweep, state: CellState) -> None:
    record(sweep.folder, replace(state, digest=sweep.digests[state.number]))
