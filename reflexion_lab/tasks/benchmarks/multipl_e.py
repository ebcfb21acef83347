"""Python rows of MultiPL-E (Cassano et al. 2022, arXiv:2208.08227): `humaneval-py` and `mbpp-py`, with types."""

from __future__ import annotations

import ast
import re

import msgspec

from reflexion_lab.errors import DataError
from reflexion_lab.records import Task
from reflexion_lab.tasks.benchmarks import humaneval
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark
from reflexion_lab.tasks.benchmarks.humaneval import hidden_checks
from reflexion_lab.tasks.benchmarks.rows import checked, decoded, read

MISTRANSLATED: dict[str, dict[str, str]] = {
    "HumanEval/116": {
        "assert sort_array([1, 0, 2, 3, 4]) == [0, 1, 2, 3, 4]": "4 has one binary 1, so it precedes 3",
    },
    "HumanEval/128": {
        "assert prod_signs([1, 2, 2, -4]) == 9": "one factor is negative, so it is -9",
    },
    "HumanEval/140": {
        "assert fix_spaces(' Example') == 'Example'": "the leading space was added; it becomes _",
        "assert fix_spaces(' Example 1') == 'Example_1'": "the leading space was added; it becomes _",
        "assert fix_spaces(' Example 3') == '_Example-3'": "the three spaces before 3 were folded into one",
    },
}
"""By HumanEval task: more examples of the prompts that the canonical solution fails, with the reason."""


class Problem(msgspec.Struct, frozen=True):
    """One row; its test is in `tests` or `test`."""

    name: str
    language: str
    prompt: str
    tests: str = ""
    test: str = ""


def multipl_e(path: str) -> Benchmark:
    """Tasks of a file or data set, see `rows.read`; task ids are the names of the rows.

    Visible tests are the examples of the prompt, without those that HumanEval's canonical solution fails; MBPP rows
    have none. Hidden tests are `check`, split into its asserts; the entry point is the argument of the call of `check`.
    There is no canonical solution.
    """
    return read(path, _task)


def examples(name: str, prompt: str, entry_point: str) -> tuple[str, ...]:
    """Visible tests of `prompt`, without known wrong ones if `name` is HumanEval/N or HumanEval_N_..."""
    number = re.match(r"HumanEval[/_](\d+)(?!\d)", name)
    task_id = f"HumanEval/{number[1]}" if number else ""
    wrong = MISTRANSLATED.get(task_id, {})
    return tuple(test for test in humaneval.examples(task_id, prompt, entry_point) if test not in wrong)


def _task(row: bytes) -> Task:
    problem = decoded(row, Problem)
    if problem.language not in ("py", "python"):
        raise DataError("field $.language", repr(problem.language), "py")
    field = "test" if problem.test else "tests"
    try:
        hidden = hidden_checks(problem.test or problem.tests)
        entry_point = _handed_to_check(problem.test or problem.tests)
    except DataError as wrong:
        raise DataError(f"field $.{field}", *wrong.args[1:]) from None
    return checked(
        Task(
            task_id=problem.name,
            prompt=problem.prompt,
            entry_point=entry_point,
            visible_tests=examples(problem.name, problem.prompt, entry_point),
            hidden_tests=hidden,
        )
    )


def _handed_to_check(test: str) -> str:
    for node in ast.walk(ast.parse(test)):
        match node:
            case ast.Call(func=ast.Name("check"), args=[ast.Name(name)], keywords=[]):
                return name
    raise DataError("field $.test", "none", "a call check(NAME)")
