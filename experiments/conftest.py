"""Fixtures of the tests that stand beside the experiments."""

from tests.analysis.conftest import make_arm, run
from tests.conftest import (
    attempt,
    checkout,
    recorded_runs,
    records,
    reflection,
    sandbox,
    task,
    unsynced,
    write_rows,
    write_run,
)

__all__ = [
    "attempt",
    "checkout",
    "make_arm",
    "recorded_runs",
    "records",
    "reflection",
    "run",
    "sandbox",
    "task",
    "unsynced",
    "write_rows",
    "write_run",
]
