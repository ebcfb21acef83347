"""Cells as jobs of SLURM, or as processes of this machine."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra_plugins.hydra_submitit_launcher.config import BaseQueueConf
from hydra_plugins.hydra_submitit_launcher.submitit_launcher import SlurmLauncher

from reflexion_lab.studies.scale.launch import Lost, lost

if TYPE_CHECKING:
    from hydra.core.utils import JobReturn
    from submitit import AutoExecutor, Job

EVERY = 0.5
"""Seconds between polls of the jobs."""


class Slurm(SlurmLauncher):  # type: ignore[misc]
    """hydra-submitit-launcher, but a lost job affects no other, and an interrupt cancels the rest."""

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        from hydra.core.singleton import Singleton

        state = Singleton.get_state()
        calls = [
            (list(overrides), "hydra.sweep.dir", number, str(number), state)
            for number, overrides in enumerate(job_overrides, initial_job_idx)
        ]
        jobs: list[Job[Any]] = []
        try:
            self._submit(self._executor(), calls, jobs)
        except BaseException:
            self._cancel(jobs)
            raise
        return [_returned(job) for job in jobs]

    def _submit(self, executor: AutoExecutor, calls: Sequence[tuple[Any, ...]], jobs: list[Job[Any]]) -> None:
        """Start one job per call, append it to `jobs`, and wait for all. SLURM limits `array_parallelism` itself."""
        jobs += executor.map_array(self, *zip(*calls, strict=True))
        _wait(jobs, at_most=0)

    def _cancel(self, jobs: Sequence[Job[Any]]) -> None:
        for job in jobs:
            job.cancel(check=False)

    def _executor(self) -> AutoExecutor:
        from dataclasses import fields

        import submitit

        parameters = dict(self.params)
        folder, timeouts = parameters.pop("submitit_folder"), parameters.pop("max_num_timeout")
        executor = submitit.AutoExecutor(folder, cluster=self._EXECUTOR, slurm_max_num_timeout=timeouts)
        everywhere = {field.name for field in fields(BaseQueueConf)}
        executor.update_parameters(
            **{
                key if key in everywhere else f"slurm_{key}": value
                for key, value in parameters.items()
                if value is not None
            }
        )
        return executor


class Local(Slurm):
    """The same jobs without SLURM, `array_parallelism` at once; submitit would start all."""

    _EXECUTOR = "local"

    def _submit(self, executor: AutoExecutor, calls: Sequence[tuple[Any, ...]], jobs: list[Job[Any]]) -> None:
        for call in calls:
            _wait(jobs, at_most=max(1, self.params["array_parallelism"]) - 1)
            with _stderr_in(Path(self.params["submitit_folder"]).with_name("controllers.log")):
                jobs.append(executor.submit(self, *call))
        _wait(jobs, at_most=0)

    def _cancel(self, jobs: Sequence[Job[Any]]) -> None:
        super()._cancel(jobs)
        _wait(jobs, at_most=0)  # at most a second: then submitit kills it


@contextmanager
def _stderr_in(path: Path) -> Iterator[None]:
    """Redirect the errors of processes started meanwhile: an interrupted controller prints a traceback."""
    ours = os.dup(2)
    try:
        with path.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)


def _wait(jobs: Sequence[Job[Any]], at_most: int) -> None:
    left = list(jobs)
    while len(left := [job for job in left if not job.done()]) > at_most:
        time.sleep(EVERY)


def _returned(job: Job[JobReturn]) -> JobReturn:
    if not job.paths.result_pickle.exists():
        return lost(Lost(f"job {job.job_id}, {job.state}; its output is {job.paths.stderr}"))
    outcome, result = job._get_outcome_and_result()
    if outcome == "error":
        return lost(Lost(f"job {job.job_id}: {result.strip().splitlines()[-1]}"))
    returned: JobReturn = result
    return returned
