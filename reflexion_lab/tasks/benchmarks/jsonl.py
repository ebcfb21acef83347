"""Your own tasks: a file or data set whose rows have the fields of `Task`."""

from __future__ import annotations

from reflexion_lab.errors import DataError
from reflexion_lab.records import Task
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark
from reflexion_lab.tasks.benchmarks.rows import checked, decoded, read


def jsonl(path: str) -> Benchmark:
    """Tasks of a `.jsonl` or `.jsonl.gz` file (UTF-8) or data set.

    The fields `task_id`, `prompt` and `entry_point` (a Python identifier) are required; tests are lists of Python
    source. See `rows.read` for `path`, name, digest and errors.
    """
    return read(path, _task)


def _task(line: bytes) -> Task:
    if unknown := sorted(decoded(line, dict[str, object]).keys() - set(Task.__struct_fields__)):
        expected = ", ".join(Task.__struct_fields__)
        raise DataError(f"field $.{unknown[0]}", "this name", f"one of {expected}")
    return checked(decoded(line, Task))
