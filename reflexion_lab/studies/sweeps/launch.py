"""Launching of a sweep's cells: in this process, or by the Hydra launcher that `hydra/launcher=` selects."""

from __future__ import annotations

import functools
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reflexion_lab.errors import ConfigError
from reflexion_lab.runner.config.build import as_job
from reflexion_lab.runner.config.choices import CONF
from reflexion_lab.runner.config.compose import compose, hydra_initialized, in_full
from reflexion_lab.studies.sweeps.running import run_cell

if TYPE_CHECKING:
    from hydra.core.utils import JobReturn
    from omegaconf import DictConfig

    from reflexion_lab.runner.config.grid import Cell
    from reflexion_lab.studies.sweeps.sweep import Sweep


class Launch:
    """Hydra's launcher, as `overrides` select and configure it, for the cells of `sweep`.

    Raises ConfigError: its plugin is missing; HydraException: an override cannot be parsed, or its key does not exist.
    """

    def __init__(self, overrides: Sequence[str], sweep: Sweep) -> None:
        self.in_sweep = f"sweep_id={sweep.sweep_id}"
        self.overrides = [word for word in in_full(overrides) if word.lstrip("+~").startswith("hydra")]
        if self.overrides:
            with hydra_initialized():
                _launcher([*self.overrides, *sweep.cells[0].overrides])  # errors show before anything is written

    def __call__(self, cells: Sequence[Cell]) -> list[str]:
        """Run `cells` in the launcher's processes; returns, cell by cell, why its job failed, or "".

        A failing run is no failure of its job. Launchers differ in how a lost process ends the others: what they raise
        is the reason for every cell that has not ended.
        """
        if not self.overrides:
            return [_run_here(cell, self.in_sweep) for cell in cells]
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        job = functools.partial(run_job, tuple(cell.number for cell in cells), str(Path.cwd()))
        jobs = [[self.in_sweep, *cell.overrides] for cell in cells]
        with hydra_initialized():
            launcher = _launcher([*self.overrides, *jobs[0]], job)
            try:
                returns = launcher.launch(jobs, initial_job_idx=0)
            except Exception as problem:
                return [_reason(problem)] * len(cells)
        return [_failure(job_return) for job_return in returns]


def _run_here(cell: Cell, in_sweep: str) -> str:
    """Run a cell in this process, as Hydra's basic launcher would after composing it again; why it failed, or ""."""
    try:
        with as_job((in_sweep, *cell.overrides)):
            run_cell(cell.cfg, cell.number)
    except Exception as problem:
        return _reason(problem)
    return ""


def run_job(numbers: Sequence[int], folder: str, cfg: DictConfig) -> float:
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
    return run_cell(compose(*searched, *job.overrides.task), numbers[job.job.num])  # with the parts that fit the model


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


def _failure(job_return: JobReturn) -> str:
    """Why the job failed, or ""."""
    try:
        job_return.return_value  # noqa: B018, raises what the job has raised
    except Exception as problem:
        return _reason(problem)
    return ""


def _reason(problem: Exception) -> str:
    """The first line of the problem."""
    return f"{type(problem).__name__}: {next(filter(None, map(str.strip, str(problem).splitlines())), '')}"
