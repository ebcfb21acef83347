"""Your own tasks: a file or data set whose rows have the fields of `Task`, of HumanEval, or of MBPP."""

from __future__ import annotations

from reflexion_lab.errors import DataError
from reflexion_lab.records import Task
from reflexion_lab.tasks.benchmarks import humaneval, mbpp
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark
from reflexion_lab.tasks.benchmarks.rows import checked, decoded, read


def jsonl(path: str) -> Benchmark:
    """Tasks of a `.jsonl` or `.jsonl.gz` file (UTF-8) or data set.

    The fields `task_id`, `prompt` and `entry_point` (a Python identifier) are required; tests are lists of Python
    source. A row with `test` and `canonical_solution` is read as one of HumanEval, a row with `test_list` as one of
    MBPP or MBPP+, whose first test is visible and whose challenge tests are left out. See `rows.read` for `path`, name,
    digest and errors.
    """
    return read(path, _task)


def _task(line: bytes) -> Task:
    fields = decoded(line, dict[str, object]).keys()
    if fields >= {"test", "canonical_solution"}:
        return checked(humaneval.task(line))
    if "test_list" in fields and not fields & {"visible_tests", "hidden_tests"}:
        return mbpp.task(line)
    if unknown := sorted(fields - set(Task.__struct_fields__)):
        expected = ", ".join(Task.__struct_fields__)
        raise DataError(f"field $.{unknown[0]}", "this name", f"one of {expected}")
    return checked(decoded(line, Task))
