"""Cells in processes of this machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hydra_plugins.hydra_joblib_launcher.joblib_launcher import JoblibLauncher

from reflexion_lab.studies.scale.launch import lost

if TYPE_CHECKING:
    from hydra.core.utils import JobReturn


class Joblib(JoblibLauncher):  # type: ignore[misc]
    """hydra-joblib-launcher; its arguments are those of `joblib.Parallel`."""

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """One dead process ends all of them: loky trusts none of the others any more."""
        from joblib.externals.loky import BrokenProcessPool

        try:
            returns: Sequence[JobReturn] = super().launch(job_overrides, initial_job_idx)
        except BrokenProcessPool as problem:
            return [lost(problem) for _ in job_overrides]
        return returns
