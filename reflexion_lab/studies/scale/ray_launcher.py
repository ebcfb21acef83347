"""Cells as tasks of Ray."""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hydra_plugins.hydra_ray_launcher.ray_launcher import RayLauncher

from reflexion_lab.errors import HarnessError
from reflexion_lab.studies.scale.cluster import Cluster
from reflexion_lab.studies.scale.launch import lost

if TYPE_CHECKING:
    from hydra.core.utils import JobReturn

STARTS = 3
"""Of a cluster of this machine: Ray's own processes give each other half a minute, too little on a busy machine."""


class Ray(RayLauncher):  # type: ignore[misc]
    """hydra-ray-launcher, but a lost task takes no other with it, and Ray is started as `executor=ray` starts it.

    A cluster started here ends with this process; lost cells are restarted on the same cluster.
    """

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        connect(self.ray_cfg.init.address, self.ray_cfg.init.num_cpus)
        tasks = [self._task(list(overrides), number) for number, overrides in enumerate(job_overrides, initial_job_idx)]
        return [_returned(task) for task in tasks]

    def _task(self, overrides: list[str], number: int) -> Any:
        from hydra.core.singleton import Singleton
        from hydra_plugins.hydra_ray_launcher._launcher_util import launch_job_on_ray
        from omegaconf import open_dict

        config = self.hydra_context.config_loader.load_sweep_config(self.config, overrides)
        with open_dict(config):
            config.hydra.job.id, config.hydra.job.num = str(number), number
        return launch_job_on_ray(
            self.hydra_context, self.ray_cfg.remote, config, self.task_function, Singleton.get_state()
        )


def connect(address: str | None, cpus: int | None) -> None:
    """Raises HarnessError: the cluster cannot be had."""
    for left in reversed(range(STARTS)):
        cluster = Cluster(address, cpus, patience=60.0)
        atexit.register(cluster.close)
        try:
            cluster.connect()
            return
        except HarnessError:
            cluster.close()
            if not left or cluster.address:
                raise


def _returned(task: Any) -> JobReturn:
    import ray

    try:
        job_return: JobReturn = ray.get(task)
    except ray.exceptions.RayError as problem:
        return lost(problem)
    return job_return
