"""MBPP (Austin et al. 2021, arXiv:2108.07732): short problems, each with a reference solution and three asserts.

MBPP+ (EvalPlus) adds a field `test` with many inputs.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from textwrap import indent
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from reflexion_lab.errors import DataError
from reflexion_lab.limits import Count, validated
from reflexion_lab.records import Task
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark
from reflexion_lab.tasks.benchmarks.humaneval_plus import LEFT_OUT, Compute, Release, helper, hidden_of, released
from reflexion_lab.tasks.benchmarks.rows import HUB, Fields, checked, decoded, read, repeated
from reflexion_lab.text.replies.syntax import UNPARSABLE, parse

SEVERAL = (list, tuple, set, dict)
SPLITS = {"prompt": (1, 10), "test": (11, 510), "validation": (511, 600), "train": (601, 974)}
"""The authors' splits: first and last `task_id`, in both subsets."""
Split = Literal["prompt", "test", "validation", "train", "all"]
Subset = Literal["full", "sanitized"]
NAME = "google-research-datasets/mbpp"
LOWER = "lower benchmark.load.visible"


class Problem(msgspec.Struct, frozen=True):
    """One row of either subset: `full` has `text`, `sanitized` has `prompt` and `test_imports`; MBPP+ has `test`."""

    task_id: int
    code: str
    test_list: list[str]
    text: str = ""
    prompt: str = ""
    test_setup_code: str = ""
    test_imports: list[str] = []
    challenge_test_list: list[str] = []
    test: str = ""


@validated
def mbpp(
    path: str | None = None, subset: Subset = "full", split: Split = "test", visible: Count = 1, challenge: bool = False
) -> Benchmark:
    """Problems of a local file or of the hub.

    MBPP has no hidden tests: papers usually show all asserts and judge by all of them. Here the first `visible` asserts
    are visible and only the others are hidden tests, so pass rates are not comparable with those of papers. No assert
    is both; a problem whose asserts are all equal (MBPP/37) has no visible one. `visible=0` judges by all asserts, as
    papers do, but gives no feedback.

    The prompt is the signature of the reference without annotations, with None for defaults that are no literals; its
    docstring is the text and the visible asserts. `canonical_solution` is a whole program. `setup` may need a class
    that only the reference defines. The inputs of a field `test` (MBPP+) are hidden tests, as in `humaneval_plus`,
    except those of visible asserts. Raises ConfigError: an argument is out of range; DataError: see `rows.read`.
    `path`: a file or data set, see `rows.read`; None loads from the hub. `subset`: `full` (974 problems) or `sanitized`
    (427); ignored for a local file. `split`: `prompt`, `test`, `validation` or `train`, by the authors' ranges of
    `task_id`; `all` selects every row. `visible`: number of visible asserts, 0 or more. `challenge`: add
    `challenge_test_list` to the hidden tests.
    """
    first, last = SPLITS.get(split, ("any", "any"))
    # The hub returns only the rows of the split.
    task_of = partial(_selected, split=split if path else "all", visible=visible, challenge=challenge)
    return read(
        path or f"{HUB}{NAME}/{subset}/{'+'.join(SPLITS) if split == 'all' else split}",
        task_of,
        name="mbpp",
        expected=f"a row of split {split} (task_id {first} to {last}); benchmark.load.split=all selects every row",
        instead="set benchmark.load.path to a local file of MBPP (.jsonl or .json)",
    )


def release(row: Fields, visible: int, compute: Compute | None) -> Task:
    """The task of a row of MBPP+'s release file, whose prompt ends in asserts; `compute` as in `humaneval_plus`."""
    plus = decoded(row, Release)
    lines = plus.prompt.strip().strip("'\"").strip().splitlines()
    tests = [line for line in lines if line.startswith("assert ")]
    with suppress(*UNPARSABLE, StopIteration):
        nodes = (node for test in tests for node in ast.walk(parse(test)) if isinstance(node, ast.Call))
        like = ast.literal_eval(ast.List(next(c.args for c in nodes if ast.unparse(c.func) == plus.entry_point)))
        for inputs in (plus.base_input or [], plus.plus_input):
            for i, values in enumerate(inputs):
                with suppress(*UNPARSABLE):  # an input that does not fit stays as it is
                    is_text = {*map(type, values)} == {str} and {*map(type, like)} <= {int, float, complex}
                    numbers = [z if z.imag else z.real for z in map(complex, map(str, values))] if is_text else values
                    inputs[i] = _typed(numbers, like)
    text = "\n".join(line for line in lines if line not in tests)
    problem = Problem(int(plus.task_id.rpartition("/")[2]), plus.canonical_solution, tests, text)
    return task(problem, visible, plus=replace(plus, prompt=""), compute=compute)


def _typed(value: Any, like: Any) -> Any:
    """`value` of JSON with the tuples and sets of `like`, another value of the same parameter."""
    if isinstance(value, dict) and isinstance(like, dict):
        return {key: _typed(item, next(iter(like.values()), item)) for key, item in value.items()}
    if not isinstance(value, list) or not isinstance(like, SEVERAL):
        return value
    samples = [(*x, x) if type(x) is type(like) is tuple else x for x in like]  # tuples in tuples nest to any depth
    pairs = [(item, [*samples[i : i + 1], *samples]) for i, item in enumerate(value)]
    likes = [next((x for x in of if isinstance(x, SEVERAL) == isinstance(v, SEVERAL)), v) for v, of in pairs]
    return (set if value and isinstance(like, dict) else type(like))(map(_typed, value, likes))


def _selected(row: Fields, split: str, visible: int, challenge: bool) -> Task | None:
    problem = decoded(row, Problem)
    first, last = SPLITS.get(split, (problem.task_id, problem.task_id))
    return task(problem, visible, challenge) if first <= problem.task_id <= last else None


def task(
    problem: Problem, visible: int, challenge: bool = False, plus: Release | None = None, compute: Compute | None = None
) -> Task:
    """The task of a row, with its first tests visible. `plus`: its row of MBPP+'s release, with `compute`."""
    if not (text := (problem.text or problem.prompt).strip()):
        raise DataError("field $.text", "nothing", "the problem in words, here or in $.prompt")
    tests = [test.strip() for test in problem.test_list + problem.challenge_test_list * challenge]
    function = _function(problem.code, [*tests, f"{plus.entry_point}()"] if plus else tests)
    (_, inputs, tags), n_base = (hidden_of(problem.test, function.name) if problem.test else (0, (), ())), 0
    if plus:
        nodes = [node for test in tests for node in ast.walk(parse(test))]
        modules = sys.stdlib_module_names & {ast.unparse(n.value) for n in nodes if isinstance(n, ast.Attribute)}
        problem = replace(problem, test_imports=[f"import {module}" for module in sorted(modules)])
        true = [getattr(node.test, "operand", node.test) for node in nodes if isinstance(node, ast.Assert)]
        is_bare = plus.entry_point in [ast.unparse(getattr(test, "func", test)) for test in true]  # assert not f(x)
        by = "bool" if is_bare else "set" * any(f"assert set({plus.entry_point}(" in test for test in tests)
        n, inputs, n_base = released(plus, plus.base_input or [], compute, by)
        tags = (f"{LEFT_OUT}:{n - len(inputs)}",) * (n > len(inputs))
    if len(tests) + len(inputs) <= visible:
        raise DataError("field $.test_list", len(tests), f"a test beyond the {visible} visible", LOWER)
    examples = tests[:visible]
    both = repeated(tests, examples, function.name)
    known = repeated(inputs, tests, function.name)
    base = [test for test in inputs[:n_base] if test not in known]
    inputs = tuple(test for test in inputs if test not in known)
    if len(both) == len(tests) and not inputs:
        examples, both = [], ()
    whole = Task(
        task_id=f"MBPP/{problem.task_id}",
        prompt=_prompt(function, text, examples),
        entry_point=function.name,
        visible_tests=tuple(examples),
        hidden_tests=tuple(test for test in tests if test not in both),
        setup="\n".join([*problem.test_imports, problem.test_setup_code, helper(function.name, inputs)]).strip(),
        canonical_solution=problem.code.replace("\r\n", "\n"),
        tags=tags,
    )
    n_base = (len(whole.hidden_tests) + len(base)) * bool(inputs)
    hidden = whole.hidden_tests + inputs  # of which `inputs` are generated
    return replace(checked(whole), hidden_tests=hidden, base_tests=n_base)


def _function(code: str, tests: Sequence[str]) -> ast.FunctionDef:
    """The function of `code` that the tests call most often; on a tie, the outermost call."""
    try:
        functions = {node.name: node for node in parse(code).body if isinstance(node, ast.FunctionDef)}
        calls = [node for test in tests for node in ast.walk(parse(test)) if isinstance(node, ast.Call)]
    except UNPARSABLE as problem:
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
    with suppress(ValueError):
        ast.literal_eval(node)
        return node
    return ast.Constant(None)
