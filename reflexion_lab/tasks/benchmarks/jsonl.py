"""Your own tasks: a file or data set whose rows have the fields of `Task`, of HumanEval, or of MBPP."""

from __future__ import annotations

import ast
from functools import partial

import msgspec

from reflexion_lab.errors import DataError
from reflexion_lab.limits import Count, validated
from reflexion_lab.records import Task
from reflexion_lab.tasks.benchmarks import humaneval, humaneval_plus, mbpp
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark
from reflexion_lab.tasks.benchmarks.humaneval_plus import Compute
from reflexion_lab.tasks.benchmarks.rows import SAME, Fields, Names, checked, decoded, read


class Tests(msgspec.Struct, frozen=True):
    """The tests of a row that tells no visible ones from hidden ones, in a list or as one text."""

    tests: list[str] | str


@validated
def jsonl(path: str, visible: Count = 1, fields: Names = SAME, compute: Compute | None = None) -> Benchmark:
    """Tasks of a file or data set.

    The fields `task_id`, `prompt` and `entry_point` (a Python identifier) are required; tests are lists of Python
    source. A row without `hidden_tests` but with `test` is read as one of HumanEval, whose `canonical_solution` may be
    missing; a row with `test_list` as one of MBPP or MBPP+, whose first test is visible and whose challenge tests are
    left out. Of a list `tests`, as of `test_list`, the first `visible` ones are visible and the others hidden; one text
    is split into its asserts. A row with `base_input` is one of EvalPlus' release, as `humaneval_plus` reads it with
    `compute`. See `rows.read` for `path`, `fields`, name, digest and errors.
    """
    return read(path, partial(_task, visible=visible, compute=compute), fields=fields)


def _task(row: Fields, visible: int, compute: Compute | None = None) -> Task:
    if "base_input" in row:
        is_mbpp = str(row.get("task_id")).startswith("Mbpp")
        return mbpp.release(row, visible, compute) if is_mbpp else humaneval_plus.task(row, compute)
    if "test_list" in row and not row.keys() & {"visible_tests", "hidden_tests"}:
        return mbpp.task(decoded(row, mbpp.Problem), visible)
    if type(row.get("task_id")) is int:
        row["task_id"] = str(row["task_id"])
    if "tests" in row and not row.keys() & {"test", "visible_tests", "hidden_tests"}:
        tests = decoded(row, Tests).tests
        checks = list(humaneval.hidden_checks(tests)) if isinstance(tests, str) else tests
        if len(checks) <= visible:
            raise DataError("field $.tests", len(checks), f"a test beyond the {visible} visible", mbpp.LOWER)
        if isinstance(tests, str):  # whose parts share a namespace
            setup = [node for node in ast.parse("\n".join(checks[:visible])).body if not _asserts(node)]
            checks[visible] = "\n".join([*map(ast.unparse, setup), checks[visible]])
        row |= {"visible_tests": checks[:visible], "hidden_tests": checks[visible:]}
    if "test" in row and "hidden_tests" not in row:
        return checked(humaneval.task(row))
    return checked(decoded(row, Task))


def _asserts(node: ast.stmt) -> bool:
    return any(isinstance(part, ast.Assert) for part in ast.walk(node))
