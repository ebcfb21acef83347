"""A sweep: cells that share the call cache and the execution cache, so equal calls are paid once.

A finished cell is not run again, an interrupted cell is resumed, a failing cell does not affect the others. The folder
`<run_root>/sweeps/<sweep_id>` has the state of each cell.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from reflexion_lab.errors import CapReached, ConfigError
from reflexion_lab.protocols import Tracker
from reflexion_lab.runner.config.build import build
from reflexion_lab.runner.config.compose import Lab, assemble, draws_from_runs
from reflexion_lab.runner.config.grid import Cell, cell_digest, cells, lines
from reflexion_lab.runner.config.messages import full_traceback, is_user_error, one_line, one_safe_line
from reflexion_lab.runner.config.parts import snapshot_path
from reflexion_lab.studies.finished import CellState, Run, Runs, kept_state, outcome, read_states, record
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
        At least one. Of cells with equal digests, the first is run, with a warning.
    sweep_id : str, default ""
        Name of its folder and MLflow runs; by default computed from the cells, so the same command resumes it.

    Raises
    ------
    ConfigError
        There is no cell, `sweep_id` is not a folder name, or cells have different run roots.
    """

    def __init__(self, cells: Sequence[Cell], sweep_id: str = "") -> None:
        _check(cells, sweep_id)
        by_digest: dict[str, Cell] = {}
        for cell in cells:
            first = by_digest.setdefault(cell.digest, cell)
            if first is not cell:
                differing = " ".join(override for override in cell.overrides if override not in first.overrides)
                warnings.warn(
                    f"cell {cell.number} ({differing or 'the same overrides'}) measures the same as cell "
                    f"{first.number}; it is run once. To time settings that change no result, give each a run_root of "
                    "its own",
                    RuntimeWarning,
                    stacklevel=2,
                )
        self.digests = {cell.number: digest for digest, cell in by_digest.items()}
        self.sweep_id = sweep_id or _name(cells[0], by_digest)
        self.cells = tuple(cell.within(self.sweep_id) for cell in by_digest.values())
        self.root = Path(cells[0].cfg.run_root)
        self.folder = self.root / "sweeps" / self.sweep_id
        self._tracked = self.folder / ".tracked"

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

    def note(self, state: CellState) -> None:
        """Record the state of a cell."""
        record(self.folder, replace(state, digest=self.digests[state.number]))

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
                self.note(kept_state(cell.number, run, states[cell.number]))
            else:
                left.append(cell)
        if left:
            self._tracked.unlink(missing_ok=True)
        return left

    @property
    def is_tracked(self) -> bool:
        """Whether its arms were sent to the tracker and no cell was run since."""
        return self._tracked.exists()

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
    """Run a sweep from Python: `sweep({"recall.omega": [0, 1], "seed": range(3)})` is the command
    `reflexion-lab run -m recall.omega=0,1 seed=0,1,2`.

    Parameters
    ----------
    grid : Mapping[str, Any] | Sequence[str]
        A value or a list of values by config key; or override lines of the command.

    Raises
    ------
    KeyboardInterrupt
        Finished cells are kept; the same call resumes the sweep.
    """
    from reflexion_lab.studies.sweep_report import live_progress

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
    started, cfg.quiet, lab = time.monotonic(), True, None
    try:
        runs = Runs(Path(cfg.run_root))
        if run := runs.finished(cfg):
            return kept_state(number, run)
        again = runs.why_again(cfg)
        lab = _assembled(cfg, runs.unfinished(cfg))
        state = CellState(number=number, status="running", digest=digest, folder=str(lab.folder.path))
        record(folder, state)
        state = replace(state, status="done", again=again, **outcome(finish(lab, cfg)))
    except Exception as problem:
        with suppress(OSError):  # the disk may be full
            (folder / f"cell-{number}.log").write_text(full_traceback(problem))
        known = is_user_error(problem) or isinstance(problem, CapReached)
        message = one_line(problem) if known else one_safe_line(f"{type(problem).__name__}: {problem}")
        status = "stopped" if isinstance(problem, CapReached) else "failed"
        state = CellState(number=number, status=status, problem=message)
    state = replace(state, seconds=time.monotonic() - started)
    return replace(state, made=lab.models.paid, stored=lab.models.stored, spent=lab.models.spent) if lab else state


def _assembled(cfg: Config, unfinished: Run | None) -> Lab:
    """Resume the interrupted run, unless its data or weights have changed."""
    if unfinished:
        cfg.resume = str(unfinished.folder)
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


def _check(cells: Sequence[Cell], sweep_id: str) -> None:
    if not cells:
        raise ConfigError("sweep", "no cell", "at least one")
    if sweep_id and (Path(sweep_id).name != sweep_id or sweep_id.startswith(".")):
        raise ConfigError("sweep_id", repr(sweep_id), "the name of a folder in RUN_ROOT/sweeps")
    first = cells[0].cfg
    for cfg in (cell.cfg for cell in cells):
        for key in ("run_root", "sweep_id", "resume"):
            if cfg[key] != first[key]:
                raise ConfigError(key, "several values in one sweep", "one for all of its cells")
    if first.resume is not None:
        raise ConfigError("resume: the same command resumes a sweep", hint="leave it out")


def _name(first: Cell, digests: Iterable[str]) -> str:
    """The experiment's name and a digest of the cells, as in `omega_sweep-3fa2c1d0`."""
    named = (override for override in first.overrides if override.startswith("experiment="))
    digest = hashlib.sha256("".join(digests).encode()).hexdigest()[:8]
    return f"{next(named, 'sweep').removeprefix('experiment=')}-{digest}"


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
