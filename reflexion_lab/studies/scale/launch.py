"""Launching of a sweep's cells: in this process, or by the Hydra launcher that `hydra/launcher=` selects."""

from __future__ import annotations

import functools
import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reflexion_lab.errors import ConfigError
from reflexion_lab.runner.config.build import as_job
from reflexion_lab.runner.config.compose import CONF, compose, in_full
from reflexion_lab.studies.sweeps.running import run_cell

if TYPE_CHECKING:
    from hydra._internal.hydra import Hydra
    from hydra.core.utils import JobReturn
    from omegaconf import DictConfig

    from reflexion_lab.runner.config.grid import Cell

NEEDS = {
    "joblib_launcher": ("joblib", "joblib"),
    "ray_launcher": ("ray", "ray"),
    "slurm_launcher": ("submitit", "slurm"),
}
"""By module of this package: the package of Hydra's plugin, and our extra that installs both."""


class Launch:
    """Hydra's launcher, as `overrides` select and configure it.

    Raises
    ------
    ConfigError
        Its plugin is not installed.
    HydraException
        An override cannot be parsed, or its key does not exist.
    """

    def __init__(self, overrides: Sequence[str], sweep_id: str) -> None:
        self.overrides = (f"sweep_id={sweep_id}", *in_full(overrides))
        if any(override.startswith("hydra/launcher") for override in overrides):
            with self._composed():
                pass  # errors show before anything is written

    def __call__(self, cells: Sequence[Cell]) -> list[str]:
        """Run `cells` in the launcher's processes; returns, cell by cell, why its job failed, or "".

        A lost job is no failure of the launch, and a failing run is no failure of its job.

        Raises
        ------
        ConfigError
            The launcher itself failed.
        """
        if not any(override.startswith("hydra") for override in self.overrides):
            return [_run_here(cell, self.overrides[0]) for cell in cells]
        job = functools.partial(run_job, tuple(cell.number for cell in cells), str(Path.cwd()))
        with self._composed() as (hydra, cfg):
            launcher = _launcher(hydra, cfg, job)
            try:
                returns = launcher.launch([[self.overrides[0], *cell.overrides] for cell in cells], initial_job_idx=0)
            except Exception as problem:
                message = " ".join(f"{type(problem).__name__}: {problem}".split())
                raise ConfigError(f"hydra/launcher={_name(cfg)}: {message}") from problem
        return [_failure(job_return) for job_return in returns]

    @contextmanager
    def _composed(self) -> Iterator[tuple[Hydra, DictConfig]]:
        """The config as `hydra.main` composes it in a multirun."""
        from hydra import initialize_config_dir
        from hydra.core.config_store import ConfigStore
        from hydra.core.global_hydra import GlobalHydra
        from hydra.core.hydra_config import HydraConfig
        from hydra.types import RunMode

        with initialize_config_dir(version_base="1.3", config_dir=str(CONF), job_name="reflexion-lab"):
            hydra = GlobalHydra.instance().hydra
            assert hydra is not None
            theirs = ConfigStore.instance().repo["hydra"]["launcher"]
            for path in (CONF / "hydra" / "launcher").glob("*.yaml"):
                theirs.pop(path.name, None)  # Hydra would merge the plugin's config into ours, with a warning
            cfg = hydra.compose_config("config", overrides=list(self.overrides), run_mode=RunMode.MULTIRUN)
            HydraConfig.instance().set_config(cfg)
            _check(_name(cfg), str(cfg.hydra.launcher._target_))
            yield hydra, cfg


def _run_here(cell: Cell, sweep_id: str) -> str:
    """Run a cell in this process, as Hydra's basic launcher would after composing it again; why it failed, or ""."""
    try:
        with as_job((sweep_id, *cell.overrides)):
            run_cell(cell.cfg, cell.number)
    except Exception as problem:
        return f"{type(problem).__name__}: {next(iter(str(problem).splitlines()), '')}"
    return ""


def run_job(numbers: Sequence[int], folder: str, cfg: DictConfig) -> float:
    """One job: the cell whose number is at the job's place in `numbers`. Runs in a launcher's process.

    Raises
    ------
    ConfigError
        `folder`, where the sweep was started and relative paths begin, is not on this machine.
    """
    from hydra.core.hydra_config import HydraConfig

    try:
        os.chdir(folder)
    except OSError as problem:
        expected = "expected the file system that the sweep's machines share"
        raise ConfigError(f"{folder}: not to be opened on {platform.node()} ({problem.strerror}); {expected}") from None
    job = HydraConfig.get()
    searched = [override for override in job.overrides.hydra if override.startswith("hydra.searchpath")]
    return run_cell(compose(*searched, *job.overrides.task), numbers[job.job.num])  # with the parts that fit the model


def _name(cfg: DictConfig) -> str:
    return str(cfg.hydra.runtime.choices["hydra/launcher"])


def _check(name: str, target: str) -> None:
    package, _, module = target.rpartition(".")[0].rpartition(".")
    if package != __package__ or module not in NEEDS:
        return
    package, extra = NEEDS[module]
    plugin = f"hydra_plugins.hydra_{package}_launcher"
    missing = [part for part in (package, plugin) if not _is_there(part)]
    if missing:
        raise ConfigError(
            f"hydra/launcher={name}: {missing[0]} is not installed", expected=f"pip install 'reflexion_lab[{extra}]'"
        )


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # its parent is missing
        return False


def _launcher(hydra: Hydra, cfg: DictConfig, job: Any) -> Any:
    """Hydra's launcher, set up: Hydra instantiates launchers of `hydra_plugins` only."""
    from hydra._internal.callbacks import Callbacks
    from hydra.core.plugins import Plugins
    from hydra.types import HydraContext
    from hydra.utils import instantiate

    context = HydraContext(config_loader=hydra.config_loader, callbacks=Callbacks(cfg))
    parts = {"hydra_context": context, "task_function": job, "config": cfg}
    if Plugins.is_in_toplevel_plugins_module(cfg.hydra.launcher._target_):
        return Plugins.instance().instantiate_launcher(**parts)
    launcher = instantiate(cfg.hydra.launcher)
    launcher.setup(**parts)
    return launcher


def _failure(job_return: JobReturn) -> str:
    from hydra.core.utils import JobStatus

    if job_return.status == JobStatus.COMPLETED:
        return ""
    problem = job_return._return_value
    text = next((line.strip() for line in str(problem).splitlines() if line.strip()), "")
    return text if isinstance(problem, Lost) else f"{type(problem).__name__}: {text}"


class Lost(Exception):
    """A job that ended without a result. The message is complete."""


def lost(problem: Exception) -> JobReturn:
    """Hydra's record of a job that failed with `problem`."""
    from hydra.core.utils import JobReturn, JobStatus

    return JobReturn(status=JobStatus.FAILED, _return_value=problem)
