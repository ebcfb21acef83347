"""Your own tasks: a file or data set whose rows have the fields of `Task`, of HumanEval, or of MBPP."""

from __future__ import annotations

from reflexion_lab.records import Task
from reflexion_lab.tasks.benchmarks import humaneval, mbpp
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark
from reflexion_lab.tasks.benchmarks.rows import Fields, checked, decoded, read


def jsonl(path: str) -> Benchmark:
    """Tasks of a `.jsonl` or `.jsonl.gz` file (UTF-8) or data set.

    The fields `task_id`, `prompt` and `entry_point` (a Python identifier) are required; tests are lists of Python
    source. A row without `hidden_tests` but with `test` is read as one of HumanEval, whose `canonical_solution` may be
    missing; a row with `test_list` as one of MBPP or MBPP+, whose first test is visible and whose challenge tests are
    left out. See `rows.read` for `path`, name, digest and errors.
    """
    return read(path, _task)


def _task(row: Fields) -> Task:
    if "test_list" in row and not row.keys() & {"visible_tests", "hidden_tests"}:
        return mbpp.task(row)
    if "test" in row and "hidden_tests" not in row:
        return checked(humaneval.task(row))
    return checked(decoded(row, Task))
