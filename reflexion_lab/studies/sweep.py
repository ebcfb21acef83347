"""A sweep: cells that share the call cache and the execution cache, so equal calls are paid once.

A cell with a finished run is not run again; an interrupted cell is resumed; a failing cell does not affect the others.
The folder `<run_root>/sweeps/<sweep_id>` has the state of each cell.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from reflexion_lab.agent.models.capped import CapReached
from reflexion_lab.errors import ConfigError
from reflexion_lab.protocols import Tracker
from reflexion_lab.runner.config.build import build
from reflexion_lab.runner.config.compose import Lab, assemble, draws_from_runs
from reflexion_lab.runner.config.grid import Cell, cell_digest, cells, lines
from reflexion_lab.runner.config.messages import harmless, in_full, mendable, one_line
from reflexion_lab.runner.config.parts import snapshot_path
from reflexion_lab.studies.finished import CellState, Run, Runs, What, harness_problem, kept, read_states, record
from reflexion_lab.studies.run import finish, track_arms

if TYPE_CHECKING:
    from reflexion_lab.runner.config.build import Config
TRIES = 2
"""Starts of a cell whose process is lost. Its finished tasks are kept, so the second start is shorter."""


class Sweep:
    """The cells of a sweep and their states.

    Parameters
    ----------
    cells : Sequence[Cell]
        At least one. Of those that measure the same (equal digests), the first is run, with a warning.
    sweep_id : str, default ""
        Names its folder and its MLflow runs; the cells themselves give one where it is left out, so that
        the same command goes on with the same sweep.

    Raises
    ------
    ConfigError
        There is no cell, `sweep_id` is no name of a folder, or cells would lie in several places.
    """

    def __init__(self, cells: Sequence[Cell], sweep_id: str = "") -> None:
        _check(cells, sweep_id)
        by_digest: dict[str, Cell] = {}
        for cell in cells:
            first = by_digest.setdefault(cell.digest, cell)
            if first is not cell:
                _warn_of_equal(first, cell)
        self.cells = tuple(by_digest.values())
        self.digests = {cell.number: digest for digest, cell in by_digest.items()}
        self.sweep_id = sweep_id or name_of(self.cells)
        self.root = Path(cells[0].cfg.run_root)
        self.folder = self.root / "sweeps" / self.sweep_id
        for cell in self.cells:
            cell.cfg.sweep_id = self.sweep_id

    @classmethod
    def of(cls, overrides: Sequence[str]) -> Sweep:
        """The sweep of the command `reflexion-lab run -m *overrides`."""
        grid_cells = cells(overrides)
        return cls(grid_cells, str(grid_cells[0].cfg.sweep_id or "") if grid_cells else "")

    @property
    def lines(self) -> list[CellState]:
        """All recorded states of these cells, oldest first."""
        return [line for line in read_states(self.folder) if line.digest in ("", self.digests.get(line.number))]

    @property
    def states(self) -> dict[int, CellState]:
        """The newest state of every cell, by its number, in order."""
        known: dict[int, CellState] = {}
        for line in self.lines:
            is_done = line.number in known and known[line.number].status in ("done", "kept")
            if not (is_done and line.status == "elsewhere"):  # written after the other process had ended
                known[line.number] = line
        return {cell.number: known.get(cell.number, CellState(number=cell.number, status="waiting")) for cell in self}

    def is_elsewhere(self, number: int) -> bool:
        """Another process is running this cell."""
        with _alone(_lock(self.root, self.digests[number])) as alone:
            return not alone

    @property
    def runs(self) -> list[Path]:
        """The run folders of the finished cells, each once, in the order of the cells."""
        finished = (state.folder for state in self.states.values() if state.status in ("done", "kept"))
        return [Path(folder) for folder in dict.fromkeys(finished)]

    def __iter__(self) -> Iterator[Cell]:
        return iter(self.cells)

    def __len__(self) -> int:
        return len(self.cells)

    def keep(self) -> list[Cell]:
        """Record the cells with finished runs; returns the cells left to run."""
        self.folder.mkdir(parents=True, exist_ok=True)
        runs, left, states = Runs(self.root), [], self.states
        for cell in self:
            if run := runs.finished(cell.cfg):
                if (snapshot := snapshot_path(cell.cfg)) and not snapshot.exists():
                    shutil.copyfile(run.folder / "memory.json", snapshot)  # later cells start from it too
                state = kept(cell.number, run, states[cell.number])
                record(self.folder, replace(state, digest=self.digests[cell.number]))
            else:
                left.append(cell)
        if left:
            self._tracked.unlink(missing_ok=True)
        return left

    @property
    def is_tracked(self) -> bool:
        """Its arms were shown to the tracker, and no cell was run since."""
        return self._tracked.exists()

    @property
    def _tracked(self) -> Path:
        return self.folder / ".tracked"

    @property
    def tracker(self) -> Tracker:
        """The tracker of its cells."""
        tracker: Tracker = build(self.cells[0].cfg.tracker, "tracker")
        return tracker

    def track(self) -> dict[str, str]:
        """Send its arms to the tracker; returns their links."""
        if links := track_arms(self.cells[0].cfg, self.runs):
            self._tracked.touch()
        return links

    def __repr__(self) -> str:
        counts = Counter(state.status for state in self.states.values())
        return f"Sweep {self.sweep_id}: {', '.join(f'{n} {status}' for status, n in counts.items())}"

    def _repr_html_(self) -> str:
        from reflexion_lab.studies.sweep_report import as_html

        return as_html(self)


def sweep(grid: Mapping[str, Any] | Sequence[str], quiet: bool = False) -> Sweep:
    """Run a sweep from Python: `sweep({"recall.omega": [0, 1, 3], "seed": range(3)})` is, cell by cell, what
    `reflexion-lab run -m recall.omega=0,1,3 seed=0,1,2` is.

    Parameters
    ----------
    grid : Mapping[str, Any] | Sequence[str]
        By config key a value, or a list of them to sweep over; or override lines as the command takes them.

    Raises
    ------
    KeyboardInterrupt
        Finished cells are kept; the same call resumes the sweep.
    """
    from reflexion_lab.studies.sweep_report import shown

    new_sweep = Sweep.of(lines(dict(grid)) if isinstance(grid, Mapping) else list(grid))
    with shown(new_sweep, quiet):
        left = new_sweep.keep()
        for cell in chain(*waves(left)):
            carry_out_cell(cell.cfg, cell.number)
    if left or not new_sweep.is_tracked:
        new_sweep.track()
    return new_sweep


def waves(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Groups of cells that may run at once: cells that read other runs come after those runs have ended."""
    first = [cell for cell in cells if not draws_from_runs(cell.cfg)]
    second = [cell for cell in cells if draws_from_runs(cell.cfg)]
    return [wave for wave in (first, second) if wave]


def carry_out_cell(cfg: Config, number: int) -> float:
    """Run one cell, or reuse its finished run; returns its pass@1, NaN where it has none.

    Errors of the cell are recorded and not raised: the sweep continues.
    """
    folder = Path(cfg.run_root) / "sweeps" / cfg.sweep_id
    folder.mkdir(parents=True, exist_ok=True)
    digest = cell_digest(cfg)
    with _alone(_lock(Path(cfg.run_root), digest)) as alone:
        state = _carried_out(cfg, number, folder) if alone else elsewhere(number)
    record(folder, replace(state, digest=digest))
    return state.pass_at_1.share if state.pass_at_1 and state.pass_at_1.n else float("nan")


def elsewhere(number: int) -> CellState:
    return CellState(number=number, status="elsewhere", problem="another process runs this very cell")


def _carried_out(cfg: Config, number: int, folder: Path) -> CellState:
    began, cfg.quiet, lab = time.monotonic(), True, None
    try:
        runs, what = Runs(Path(cfg.run_root)), What.of(cfg)
        if run := runs.finished(cfg):
            return kept(number, run)
        again = runs.why_again(cfg)
        lab = _assembled(cfg, runs.unfinished(what))
        path = str(lab.folder.path)
        record(folder, CellState(number=number, status="running", digest=cell_digest(cfg), folder=path))
        figures = finish(lab, cfg)
    except Exception as problem:
        with suppress(OSError):  # the disk may be full
            (folder / f"cell-{number}.log").write_text(in_full(problem))
        known = mendable(problem) or isinstance(problem, CapReached)
        message = one_line(problem) if known else harmless(f"{type(problem).__name__}: {problem}")
        status = "stopped" if isinstance(problem, CapReached) else "failed"
        return _ended(CellState(number=number, status=status, problem=message), lab, began)
    state = CellState(number=number, status="done", folder=path, problem=harness_problem(figures.harness_errors))
    state = replace(state, feedback_source=figures.feedback_source, pass_at_1=figures.pass_at_1, again=again)
    return _ended(state, lab, began)


def _ended(state: CellState, lab: Lab | None, began: float) -> CellState:
    """`state` with its time and calls, including the calls that a failed cell had paid for."""
    state = replace(state, seconds=time.monotonic() - began)
    if lab is None:
        return state
    return replace(state, made=lab.models.made, stored=lab.models.stored, spent=lab.models.spent)


def _assembled(cfg: Config, unfinished: Run | None) -> Lab:
    """Resume the interrupted run, unless its data or weights have changed."""
    if unfinished:
        cfg.resume = str(unfinished.folder)
        with suppress(ConfigError):
            return assemble(cfg)
        cfg.resume = None
    return assemble(cfg)


def launched(sweep: Sweep, left: Sequence[Cell], launch: Callable[[Sequence[Cell]], Sequence[str]]) -> None:
    """Pass the remaining cells to `launch`, which returns the failure of each cell's process, until all have ended.

    A lost process does not affect the other cells: cells that never started are passed again, and so is the lost one,
    up to `TRIES` times. Then its state is `lost`, and the same command resumes it.
    """
    for wave in waves(left):
        _launched(sweep, wave, launch)


def _launched(sweep: Sweep, left: Sequence[Cell], launch: Callable[[Sequence[Cell]], Sequence[str]]) -> None:
    starts = Counter[int]()
    while left:
        for cell in left:
            _note(sweep, CellState(number=cell.number, status="waiting"))
        lost = not_ended(sweep, left, launch(left))
        starts.update(state.number for state in lost if state.folder)
        if len(lost) == len(left) and not any(state.folder for state in lost):
            return  # no process reached a cell
        again = {state.number for state in lost if starts[state.number] < TRIES}
        left = [cell for cell in left if cell.number in again]
        if left:
            numbers = ", ".join(str(cell.number) for cell in left)
            print(f"lost before they ended, now begun again: cells {numbers}", file=sys.stderr)


def not_ended(sweep: Sweep, cells: Sequence[Cell], why: Sequence[str]) -> list[CellState]:
    """Those of `cells` whose process ended without a final state; each is recorded as lost."""
    states, runs, lost = sweep.states, Runs(sweep.root), []
    for cell, problem in zip(cells, why, strict=True):
        state = states[cell.number]
        if state.status not in ("waiting", "running"):
            continue
        if run := runs.finished(cell.cfg):  # the run finished before its process was lost
            _note(sweep, kept(cell.number, run))
            continue
        if sweep.is_elsewhere(cell.number):  # the newest state was written by another command
            _note(sweep, elsewhere(cell.number))
            continue
        message = f"its process was lost ({problem or 'no word of it'}); the same command goes on with the cell"
        lost.append(replace(state, status="lost", problem=message))
        _note(sweep, lost[-1])
    return lost


def _note(sweep: Sweep, state: CellState) -> None:
    record(sweep.folder, replace(state, digest=sweep.digests[state.number]))


def _check(cells: Sequence[Cell], sweep_id: str) -> None:
    if not cells:
        raise ConfigError("sweep", "no cell", "one at least")
    if sweep_id and (Path(sweep_id).name != sweep_id or sweep_id.startswith(".")):
        raise ConfigError("sweep_id", repr(sweep_id), "the name of a folder in RUN_ROOT/sweeps")
    for key in ("run_root", "sweep_id", "resume"):
        if any(cell.cfg[key] != cells[0].cfg[key] for cell in cells):
            raise ConfigError(key, "several values in one sweep", "one for all of its cells")
    if cells[0].cfg.resume is not None:
        raise ConfigError("resume: a sweep's cells go on where they stopped by themselves", hint="leave it out")


def _warn_of_equal(first: Cell, cell: Cell) -> None:
    differing = " ".join(override for override in cell.overrides if override not in first.overrides)
    warnings.warn(
        f"cell {cell.number} ({differing or 'the same overrides'}) measures the same as cell {first.number}; it is run "
        "once. To time settings that change no result, give each a run_root of its own",
        RuntimeWarning,
        stacklevel=3,
    )


def name_of(cells: Sequence[Cell]) -> str:
    """The experiment's name and a digest of the cells, as in `omega_sweep-3fa2c1d0`."""
    experiments = {
        override.removeprefix("experiment=") for override in cells[0].overrides if override.startswith("experiment=")
    }
    digest = hashlib.sha256("".join(cell.digest for cell in cells).encode()).hexdigest()[:8]
    return f"{''.join(experiments) or 'sweep'}-{digest}"


def _lock(root: Path, digest: str) -> Path:
    """Shared by all sweeps of a run root: a cell that two of them contain is run by one."""
    return root / "sweeps" / f".{digest}.lock"


@contextmanager
def _alone(path: Path) -> Iterator[bool]:
    """Whether this process holds the lock of the cell; it is kept until the end of the block."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
