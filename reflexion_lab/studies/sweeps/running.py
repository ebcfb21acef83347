"""Running of a sweep: each cell is run, resumed or reused, in this process or by a launcher."""

from __future__ import annotations

import fcntl
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from reflexion_lab.errors import CapReached, ConfigError, SilentModel
from reflexion_lab.runner.config.assemble import Lab, assemble, draws_from_runs
from reflexion_lab.runner.config.grid import Cell, cell_digest, lines
from reflexion_lab.runner.config.messages import full_traceback, is_user_error, one_line, one_safe_line
from reflexion_lab.studies.run import finish
from reflexion_lab.studies.sweeps.finished import CellState, Run, Runs, kept_state, outcome, record, unfinished
from reflexion_lab.studies.sweeps.progress import live_progress
from reflexion_lab.studies.sweeps.sweep import Sweep

if TYPE_CHECKING:
    from reflexion_lab.runner.config.build import Config

TRIES = 2
"""Starts of a cell whose process is lost. Its finished tasks are kept, so the second start is shorter."""


def sweep(grid: Mapping[str, Any] | Sequence[str], quiet: bool = False) -> Sweep:
    """Run a sweep from Python: `sweep({"recall.omega": [0, 1], "seed": range(3)})` is the command
    `reflexion-lab run -m recall.omega=0,1 seed=0,1,2`.

    Raises KeyboardInterrupt: finished cells are kept; the same call resumes the sweep. `grid`: a value or a list of
    values by config key; or override lines of the command.
    """
    new_sweep = Sweep.of(lines(dict(grid)) if isinstance(grid, Mapping) else list(grid))
    with live_progress(new_sweep, quiet):
        left = new_sweep.keep()
        for cell in chain(*waves(left)):
            run_cell(cell.cfg, cell.number)
    if left or not new_sweep.is_tracked:
        new_sweep.track()
    return new_sweep


def waves(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Groups of cells that may run at once: cells that read other runs come after those runs have ended."""
    first = [cell for cell in cells if not draws_from_runs(cell.cfg)]
    second = [cell for cell in cells if draws_from_runs(cell.cfg)]
    return [wave for wave in (first, second) if wave]


def run_cell(cfg: Config, number: int) -> float:
    """Run one cell, or reuse its finished run; returns its pass@1, NaN where it has none.

    Errors of the cell are recorded and not raised: the sweep continues.
    """
    folder = Path(cfg.run_root) / "sweeps" / cfg.sweep_id
    folder.mkdir(parents=True, exist_ok=True)
    digest = cell_digest(cfg)
    with _alone(Path(cfg.run_root), digest) as alone:
        state = _run_or_reuse(cfg, number, folder, digest) if alone else elsewhere(number)
    record(folder, replace(state, digest=digest))
    return state.pass_at_1.share if state.pass_at_1 and state.pass_at_1.n else float("nan")


def elsewhere(number: int) -> CellState:
    return CellState(number=number, status="elsewhere", problem="another process is running this cell")


def _run_or_reuse(cfg: Config, number: int, folder: Path, digest: str) -> CellState:
    """The final state, with the calls that a failed cell had paid for."""
    started, cfg.quiet, lab, own = time.monotonic(), True, None, 0
    try:
        runs = Runs(Path(cfg.run_root))
        matching = runs.of(cfg)
        run, again = runs.kept(cfg, matching)
        if run:
            return kept_state(number, run)
        lab = _assembled(cfg, unfinished(matching, cfg.only is not None))
        own = lab.folder.unfinished_calls
        state = CellState(number=number, status="running", digest=digest, folder=str(lab.folder.path))
        record(folder, state)
        state = replace(state, status="done", again=again, **outcome(finish(lab, cfg)))
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


def _assembled(cfg: Config, interrupted: Run | None) -> Lab:
    """Resume the interrupted run, unless its data or weights have changed."""
    if interrupted:
        cfg.resume = str(interrupted.folder)
        with suppress(ConfigError):
            return assemble(cfg)
        cfg.resume = None
    return assemble(cfg)


def launch_all(sweep: Sweep, left: Sequence[Cell], launch: Callable[[Sequence[Cell]], Sequence[str]]) -> None:
    """Pass the remaining cells to `launch`, which returns the failure of each cell's process, until all have ended.

    A lost process does not affect the other cells: cells that never started are passed again, and so is the lost one,
    up to `TRIES` times. Then its state is `lost`, and the same command resumes it.
    """
    for wave in waves(left):
        pending, starts = wave, Counter[int]()
        while pending:
            for cell in pending:
                sweep.note(CellState(number=cell.number, status="waiting"))
            lost = not_ended(sweep, pending, launch(pending))
            started = [state.number for state in lost if state.folder]
            starts.update(started)
            if len(lost) == len(pending) and not started:
                break  # no process reached a cell
            again = {state.number for state in lost if starts[state.number] < TRIES}
            pending = [cell for cell in pending if cell.number in again]
            if pending:
                numbers = ", ".join(str(cell.number) for cell in pending)
                print(f"lost, now restarted: cells {numbers}", file=sys.stderr)


def not_ended(sweep: Sweep, cells: Sequence[Cell], why: Sequence[str]) -> list[CellState]:
    """Record the cells whose process ended without a final state as lost, and return these states."""
    states, runs, lost = sweep.states, Runs(sweep.root), []
    for cell, problem in zip(cells, why, strict=True):
        state = states[cell.number]
        if state.status not in ("waiting", "running"):
            continue
        if run := runs.finished(cell.cfg):  # the run finished before its process was lost
            state = kept_state(cell.number, run)
        else:
            message = f"its process was lost ({problem or 'reason unknown'}); the same command resumes the cell"
            with _alone(sweep.root, sweep.digests[cell.number]) as alone:  # else another command wrote the newest state
                state = replace(state, status="lost", problem=message) if alone else elsewhere(cell.number)
            lost += [state] * alone
        sweep.note(state)
    return lost


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
