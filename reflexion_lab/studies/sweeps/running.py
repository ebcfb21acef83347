"""Running of a sweep: each cell is run, resumed or reused, in this process or by a Hydra launcher."""

from __future__ import annotations

import fcntl
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from reflexion_lab.errors import CapReached, ConfigError, SilentModel
from reflexion_lab.runner.config.assemble import Lab, assemble
from reflexion_lab.runner.config.grid import Cell, cell_digest, lines
from reflexion_lab.runner.config.messages import full_traceback, is_user_error, one_line, one_safe_line
from reflexion_lab.runner.config.parts import draws_from_runs
from reflexion_lab.studies.run import finish
from reflexion_lab.studies.sweeps.finished import CellState, Run, Runs, outcome, record, unfinished
from reflexion_lab.studies.sweeps.launch import Launch
from reflexion_lab.studies.sweeps.sweep import Sweep

if TYPE_CHECKING:
    from reflexion_lab.runner.config.record import RunConfig

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
    launch = Launch(overrides, sweep, run_cell)  # errors show before anything is written
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


def run_cell(cfg: RunConfig, number: int) -> None:
    """Run one cell, or reuse its finished run, unless another process is running it.

    Errors of the cell are recorded and not raised: the sweep continues.
    """
    folder = Path(cfg.run_root) / "sweeps" / str(cfg.sweep_id)
    folder.mkdir(parents=True, exist_ok=True)
    digest = cell_digest(cfg)
    with _alone(Path(cfg.run_root), digest) as alone:
        if alone:
            record(folder, replace(_run_or_reuse(cfg, number, folder), digest=digest))


def _run_or_reuse(cfg: RunConfig, number: int, folder: Path) -> CellState:
    """The state of the cell at its end, with the calls that a failed one had paid for."""
    started, lab, own = time.monotonic(), None, 0
    try:
        runs = Runs(Path(cfg.run_root))
        matching = runs.of(cfg)
        run, again = runs.kept(cfg, matching)
        if run:
            return run.kept(number)
        lab = _assembled(cfg, unfinished(matching, cfg.only is not None))
        own = lab.folder.unfinished_calls
        state = CellState(number=number, status="done", again=again, folder=str(lab.folder.path))
        state = replace(state, **outcome(finish(lab)))
    except Exception as problem:
        with suppress(OSError):  # the disk may be full
            (folder / f"cell-{number}.log").write_text(full_traceback(problem))
        known = is_user_error(problem) or isinstance(problem, CapReached)
        message = one_line(problem) if known else one_safe_line(f"{type(problem).__name__}: {problem}")
        stops = {SilentModel: "silent", CapReached: "stopped"}
        status = next((name for kind, name in stops.items() if isinstance(problem, kind)), "failed")
        state = CellState(number=number, status=status, problem=message)
    state = replace(state, seconds=time.monotonic() - started)
    stored = max(0, lab.models.stored - own) if lab else 0
    return replace(state, made=lab.models.paid, stored=stored, spent=lab.models.spent) if lab else state


def _assembled(cfg: RunConfig, interrupted: Run | None) -> Lab:
    """Resume the interrupted run, unless its data or weights have changed."""
    if interrupted:
        with suppress(ConfigError):
            return assemble(cfg.having({"resume": str(interrupted.folder)}))
    return assemble(cfg)


def _without_end(sweep: Sweep, cell: Cell, reason: str) -> CellState:
    """The state of a cell whose process recorded none; `reason`: why it was lost."""
    if run := Runs(sweep.root).finished(cell.cfg):  # the run finished before its process was lost
        return run.kept(cell.number)
    if not reason:
        return CellState(number=cell.number, problem="another process is running this cell")
    problem = f"its process was lost ({reason}); the same command resumes the cell"
    return CellState(number=cell.number, status="failed", problem=problem)


@contextmanager
def _alone(root: Path, digest: str) -> Iterator[bool]:
    """Whether this process got the lock of the cell; all sweeps of a run root share it."""
    with (root / "sweeps" / f".{digest}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
