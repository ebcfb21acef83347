"""Launching of a sweep's cells: in this process, or by the Hydra launcher that `hydra/launcher=` selects."""

from __future__ import annotations

import functools
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reflexion_lab.errors import ConfigError
from reflexion_lab.runner.config.build import as_job
from reflexion_lab.runner.config.choices import CONF
from reflexion_lab.runner.config.compose import compose, hydra_initialized, in_full
from reflexion_lab.runner.config.record import RunConfig

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from reflexion_lab.runner.config.grid import Cell
    from reflexion_lab.studies.sweeps.sweep import Sweep

    RunCell = Callable[[RunConfig, int], None]


class Launch:
    """Hydra's launcher, as `overrides` select and configure it, for the cells of `sweep`.

    Raises ConfigError: its plugin is missing; HydraException: an override cannot be parsed, or its key does not exist.
    """

    def __init__(self, overrides: Sequence[str], sweep: Sweep, run_cell: RunCell) -> None:
        self.in_sweep, self.total, self.run_cell = f"sweep_id={sweep.sweep_id}", len(sweep), run_cell
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
        job = functools.partial(run_job, self.run_cell, tuple(cell.number for cell in cells), str(Path.cwd()))
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
            return _why(lambda: self.run_cell(cfg, cell.number))


def left(began: float, ended: int, total: int) -> str:
    """What is left of a sweep, by the mean duration of the cells that this start has ended; "" before one has."""
    seconds = (time.monotonic() - began) / max(ended, 1) * (total - ended)
    return f", about {seconds / 60:.1f} min left" if ended else ""


def run_job(run_cell: RunCell, numbers: Sequence[int], folder: str, cfg: DictConfig) -> None:
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
