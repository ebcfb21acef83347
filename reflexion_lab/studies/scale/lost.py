"""A job that came to no end of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hydra.core.utils import JobReturn


class Lost(Exception):
    """Says all there is to say of it."""


def lost(problem: Exception) -> JobReturn:
    """What Hydra would be told of a job that failed with `problem`."""
    from hydra.core.utils import JobReturn, JobStatus

    return JobReturn(status=JobStatus.FAILED, _return_value=problem)
