"""The cells of a sweep, run, resumed or reused: in this process, or by the launcher that `hydra/launcher=` selects."""

from __future__ import annotations

import fcntl
import functools
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from reflexion_lab.errors import CapReached, ConfigError, SilentModel
from reflexion_lab.runner.config.assemble import Lab, assemble
from reflexion_lab.runner.config.build import as_job
from reflexion_lab.runner.config.choices import CONF
from reflexion_lab.runner.config.compose import compose, hydra_initialized, in_full
from reflexion_lab.runner.config.grid import Cell, cell_digest
from reflexion_lab.runner.config.messages import full_traceback, is_user_error, one_line, one_safe_line
from reflexion_lab.runner.config.record import RunConfig
from reflexion_lab.studies.run import finish
from reflexion_lab.studies.sweeps.finished import CellState, Run, Runs, outcome, record, unfinished

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from reflexion_lab.studies.sweeps.sweep import Sweep


class Launch:
    """Hydra's launcher, as `overrides` select and configure it, for the cells of `sweep`.

    Raises ConfigError: its plugin is missing; HydraException: an override cannot be parsed, or its key does not exist.
    """

    def __init__(self, overrides: Sequence[str], sweep: Sweep) -> None:
        self.in_sweep, self.total = f"sweep_id={sweep.sweep_id}", len(sweep)
        self.overrides = [word for word in in_full(overrides) if word.lstrip("+~").startswith("hydra")]
        if self.overrides:
            with hydra_initialized():
                _launcher([*self.overrides, *sweep.cells[0].overrides])

    def __call__(self, cells: Sequence[Cell], quiet: bool) -> list[str]:
        """Run `cells`; returns, cell by cell, why its job failed, or "". A failing run is no failure of its job.

        Launchers differ in how a lost process ends the others: what they raise is the reason of every cell.
        """
        if not self.overrides or not cells:
            began = time.monotonic()
            return [self._run_here(cell, quiet, left(began, n, len(cells))) for n, cell in enumerate(cells)]
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        job = functools.partial(run_job, tuple(cell.number for cell in cells), str(Path.cwd()))
        jobs = [[self.in_sweep, *cell.overrides] for cell in cells]
        with hydra_initialized():
            launcher = _launcher([*self.overrides, *jobs[0]], job)
            try:
                return [_why(functools.partial(getattr, ended, "return_value")) for ended in launcher.launch(jobs, 0)]
            except Exception as problem:
                return [_reason(problem)] * len(cells)

    def _run_here(self, cell: Cell, quiet: bool, left: str) -> str:
        """Run a cell in this process; returns why it failed, or ""."""
        cfg = cell.cfg.having({"quiet": quiet or cell.cfg.quiet})
        if not cfg.quiet:
            print(f"cell {cell.number} of {self.total}{left}: {' '.join(cell.overrides)}", file=sys.stderr)
        with as_job((self.in_sweep, *cell.overrides)):
            return _why(lambda: run_cell(cfg, cell.number))


def left(began: float, ended: int, total: int) -> str:
    """What is left of a sweep, by the mean duration of the cells that this start has ended; "" before one has."""
    seconds = (time.monotonic() - began) / max(ended, 1) * (total - ended)
    return f", about {seconds / 60:.1f} min left" if ended else ""


def run_job(numbers: Sequence[int], folder: str, cfg: DictConfig) -> None:
    """One job: the cell whose number is at the job's place in `numbers`. Runs in a launcher's process.

    Raises ConfigError: `folder`, where the sweep was started and relative paths begin, is not on this machine.
    """
    from hydra.core.hydra_config import HydraConfig

    try:
        os.chdir(folder)
    except OSError as problem:
        got = f"none on {platform.node()} ({problem.strerror})"
        raise ConfigError(folder, got, "the file system that the sweep's machines share") from None
    job = HydraConfig.get()
    searched = [override for override in job.overrides.hydra if override.startswith("hydra.searchpath")]
    own = RunConfig.of(compose(*searched, *job.overrides.task))  # with the parts that fit the model
    run_cell(own.having({"quiet": True}), numbers[job.job.num])


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
    return replace(state, paid=lab.models.paid, stored=stored, spent=lab.models.spent) if lab else state


def _assembled(cfg: RunConfig, interrupted: Run | None) -> Lab:
    """Resume the interrupted run, unless its data or weights have changed."""
    if interrupted:
        with suppress(ConfigError):
            return assemble(cfg.having({"resume": str(interrupted.folder)}))
    return assemble(cfg)


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


def _launcher(overrides: Sequence[str], job: Any = None) -> Any:
    """Hydra's launcher, set up for `job`. Call it while Hydra is initialized."""
    import hydra
    from hydra._internal.callbacks import Callbacks  # no public module has it
    from hydra.core.config_store import ConfigStore
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.plugins import Plugins
    from hydra.types import HydraContext

    plugins = Plugins.instance()
    theirs = ConfigStore.instance().repo["hydra"]["launcher"]
    for path in (CONF / "hydra" / "launcher").glob("*.yaml"):
        theirs.pop(path.name, None)  # Hydra would merge the plugin's config into ours, with a warning
    cfg = hydra.compose("config", overrides=list(overrides), return_hydra_config=True)
    context = HydraContext(config_loader=GlobalHydra.instance().config_loader(), callbacks=Callbacks(cfg))
    try:
        return plugins.instantiate_launcher(hydra_context=context, task_function=job, config=cfg)
    except (ImportError, RuntimeError) as problem:  # Hydra raises the latter for a plugin that is not there
        name = cfg.hydra.runtime.choices["hydra/launcher"]
        raise ConfigError(f"hydra/launcher={name}: {problem}", hint=f"pip install 'reflexion_lab[{name}]'") from problem


def _why(job: Callable[[], Any]) -> str:
    """Why the job failed, or ""."""
    try:
        job()
    except Exception as problem:
        return _reason(problem)
    return ""


def _reason(problem: Exception) -> str:
    """The first line of the problem."""
    return f"{type(problem).__name__}: {next(filter(None, map(str.strip, str(problem).splitlines())), '')}"
