"""MBPP (Austin et al. 2021, arXiv:2108.07732): short problems in prose, each with a reference and three asserts."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence
from functools import partial
from textwrap import indent
from typing import Literal

import msgspec

from reflexion_lab.errors import DataError
from reflexion_lab.limits import Count, validated
from reflexion_lab.records import Task
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark
from reflexion_lab.tasks.benchmarks.rows import HUB, LINES, checked, decoded, read, repeated

SPLITS = {"prompt": (1, 10), "test": (11, 510), "validation": (511, 600), "train": (601, 974)}
"""The authors' own: first and last `task_id`, in both subsets."""
Split = Literal["prompt", "test", "validation", "train", "all"]
Subset = Literal["full", "sanitized"]
NAME = "google-research-datasets/mbpp"


class Problem(msgspec.Struct, frozen=True):
    """One row, in either of the public shapes; `full` says `text`, `sanitized` says `prompt` and `test_imports`."""

    task_id: int
    code: str
    test_list: list[str]
    text: str = ""
    prompt: str = ""
    test_setup_code: str = ""
    test_imports: list[str] = []
    challenge_test_list: list[str] = []


@validated
def mbpp(
    path: str | None = None,
    subset: Subset = "full",
    split: Split = "test",
    visible: Count = 1,
    challenge: bool = False,
) -> Benchmark:
    """The problems of a local file (`.jsonl`, `.jsonl.gz` or `.json`, in either public shape), else of the hub.

    MBPP has no hidden tests of its own: customarily all asserts are shown, and all of them judge. Here the first
    `visible` asserts are shown and only the others judge, with the challenge tests if `challenge`; no assert is in
    both, and a problem whose asserts are all the same (MBPP/37) shows none. Rates are therefore not those of papers;
    `visible=0` judges by all of the asserts, as they do, but gives no feedback.

    The prompt is the signature of the reference, whose names are customarily shown, since the tests call them;
    annotations are left out and a default that is no literal reads None. Its docstring is the text and the visible
    asserts. `canonical_solution` is a whole program. `setup` may need a class that only the reference defines.

    Parameters
    ----------
    path : str, optional
        A file or data set, see `rows.read`; None loads from the hub.
    subset : str, default "full"
        `full` (974 problems) or `sanitized` (427); a local file is what it is.
    split : str, default "test"
        `prompt`, `test`, `validation` or `train`, by the authors' ranges of `task_id`; `all` takes every row.
    visible : int, default 1
        Asserts shown, at least 0.
    challenge : bool, default False
        Whether the tests of `challenge_test_list` judge too.

    Raises
    ------
    ConfigError
        An argument is not as it should be.
    DataError
        The file, the package `datasets` or the hub is missing, or a row is not as it should be; names the file, and
        place and field of the row.
    """
    first, last = SPLITS.get(split, ("any", "any"))
    rows_of = split if path else "all"  # the hub's rows of a split are just those
    task_of = partial(_selected, split=rows_of, visible=visible, challenge=challenge)
    return read(
        path or f"{HUB}{NAME}/{subset}/{'+'.join(SPLITS) if split == 'all' else split}",
        task_of,
        name="mbpp",
        suffixes=(*LINES, ".json"),
        expected=f"a row of split {split} (task_id {first} to {last}); benchmark.load.split=all takes every row",
        instead="set benchmark.load.path to a local file of MBPP (.jsonl or .json)",
    )


def _selected(row: bytes, split: str, visible: int, challenge: bool) -> Task | None:
    problem = decoded(row, Problem)
    first, last = SPLITS.get(split, (problem.task_id, problem.task_id))
    return _task(problem, visible, challenge) if first <= problem.task_id <= last else None


def _task(problem: Problem, visible: int, challenge: bool) -> Task:
    if not (text := (problem.text or problem.prompt).strip()):
        raise DataError("field $.text", "nothing", "the problem in words, here or in $.prompt")
    tests = [test.strip() for test in problem.test_list + problem.challenge_test_list * challenge]
    function = _function(problem.code, tests)
    if len(tests) <= visible:
        raise DataError(
            "field $.test_list", len(tests), f"a test beyond the {visible} visible", "lower benchmark.load.visible"
        )
    examples = tests[:visible]
    both = repeated(tests, examples, function.name)
    if len(both) == len(tests):
        examples, both = [], ()
    return checked(
        Task(
            task_id=f"MBPP/{problem.task_id}",
            prompt=_prompt(function, text, examples),
            entry_point=function.name,
            visible_tests=tuple(examples),
            hidden_tests=tuple(test for test in tests if test not in both),
            setup="\n".join([*problem.test_imports, problem.test_setup_code]).strip(),
            canonical_solution=problem.code.replace("\r\n", "\n"),
        )
    )


def _function(code: str, tests: Sequence[str]) -> ast.FunctionDef:
    """The function of `code` that the tests call most often; of equals, the one on the outside."""
    try:
        functions = {node.name: node for node in ast.parse(code).body if isinstance(node, ast.FunctionDef)}
        calls = [node for test in tests for node in ast.walk(ast.parse(test)) if isinstance(node, ast.Call)]
    except (SyntaxError, ValueError, MemoryError, RecursionError) as problem:
        raise DataError("fields $.code and $.test_list", problem, "Python") from None
    names = Counter(call.func.id for call in calls if isinstance(call.func, ast.Name) and call.func.id in functions)
    if not names:
        got = f"only {', '.join(functions)}" if functions else "none"
        raise DataError("field $.code", got, "the function that the tests of $.test_list call")
    return functions[names.most_common(1)[0][0]]


def _prompt(function: ast.FunctionDef, text: str, examples: Sequence[str]) -> str:
    arguments = function.args
    for argument in ast.walk(arguments):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    arguments.defaults = [_literal(node) for node in arguments.defaults]
    arguments.kw_defaults = [node and _literal(node) for node in arguments.kw_defaults]
    docstring = "\n".join([text, *([""] if examples else []), *examples])
    docstring = docstring.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    body = indent(f'"""\n{docstring}\n"""\n', "    ")
    return f"def {function.name}({ast.unparse(arguments)}):\n{body}"


def _literal(node: ast.expr) -> ast.expr:
    try:
        ast.literal_eval(node)
    except ValueError:
        return ast.Constant(None)
    return node
