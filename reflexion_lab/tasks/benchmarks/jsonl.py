"""Your own tasks: a file with one JSON object a line, or a data set, its fields those of `Task`."""

from __future__ import annotations

from reflexion_lab.errors import DataError
from reflexion_lab.records import Task
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark
from reflexion_lab.tasks.benchmarks.rows import checked, decoded, read


def jsonl(path: str) -> Benchmark:
    """Read the tasks of `path`: `.jsonl` or `.jsonl.gz`, UTF-8, blank lines skipped; or a data set, see `rows.read`.

    Required are `task_id`, `prompt` and `entry_point`, a Python identifier; tests are lists of Python source.
    The benchmark is named as the file, without suffix; its digest is that of the file's bytes.

    Raises
    ------
    DataError
        There is no such file, or it does not hold tasks; names the file, and line and field of up to ten bad lines.
    """
    return read(path, _task)


def _task(line: bytes) -> Task:
    """The task of one line; a DataError names the field, what it holds and what was expected."""
    if unknown := sorted(decoded(line, dict[str, object]).keys() - set(Task.__struct_fields__)):
        expected = ", ".join(Task.__struct_fields__)
        raise DataError(f"field $.{unknown[0]}", "this name", f"one of {expected}")
    return checked(decoded(line, Task))
