"""Fixtures of the tests that stand beside the experiments."""

from tests.analysis.conftest import make_arm, run
from tests.conftest import attempt, recorded_runs, records, reflection, sandbox, task, write_rows, write_run

__all__ = [
    "attempt",
    "make_arm",
    "recorded_runs",
    "records",
    "reflection",
    "run",
    "sandbox",
    "task",
    "write_rows",
    "write_run",
]
