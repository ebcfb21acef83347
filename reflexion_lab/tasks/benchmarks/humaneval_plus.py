"""HumanEval+ (EvalPlus; Liu et al. 2023, arXiv:2305.01210): HumanEval with hundreds of inputs per task.

Inputs and expected values are read as literals; nothing of the file is executed.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from reflexion_lab.errors import DataError
from reflexion_lab.records import Task
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark
from reflexion_lab.tasks.benchmarks.humaneval import examples, helpers
from reflexion_lab.tasks.benchmarks.rows import checked, decoded, read
from reflexion_lab.text.replies.syntax import UNPARSABLE

CLOSE = '''def close(actual, expected, atol):
    """Equal, or alike in shape with every number within atol + 1e-07 * abs(expected)."""
    if actual == expected:
        return True
    if isinstance(expected, (list, tuple)):
        alike = isinstance(actual, (list, tuple)) and len(actual) == len(expected)
        return alike and all(close(a, e, atol) for a, e in zip(actual, expected))
    if not (isinstance(actual, (int, float)) and isinstance(expected, (int, float))):
        return False
    if actual != actual or expected != expected:
        return actual != actual and expected != expected
    return abs(expected) != 1e309 and abs(actual - expected) <= atol + 1e-07 * abs(expected)
'''
POLY = '''def poly(xs, x):
    """xs[0] + xs[1] * x + xs[2] * x ** 2 + ..."""
    return sum(c * x**i for i, c in enumerate(xs))
'''


class Case(NamedTuple):
    """One input with its expected value, as Python source."""

    arguments: str
    expected: str
    value: object
    """The value of `expected`."""


def checks(entry_point: str, cases: Sequence[Case], atol: float) -> tuple[str, ...]:
    """One assert per case, which needs `helper(entry_point, ...)`; for `find_zero`, only cases with a valid root."""
    if entry_point == "find_zero":
        roots = [case for case in cases if _vanishes(case, atol)]
        return tuple(f"assert abs(poly({c.arguments}, candidate({c.arguments}))) <= {atol}" for c in roots)
    return tuple(_check(case, atol) for case in cases)


def helper(entry_point: str, tests: Sequence[str]) -> str:
    """Source of the function that the tests of `checks` call besides `candidate`; "" for none."""
    if entry_point == "find_zero":
        return POLY
    return CLOSE if any(test.startswith("assert close(") for test in tests) else ""


def _check(case: Case, atol: float) -> str:
    call, value = f"candidate({case.arguments})", case.value
    items = value if isinstance(value, list | tuple) else (value,)
    if items and all(isinstance(item, float) for item in items):
        atol = atol or 1e-06
    if atol and isinstance(value, float) and math.isfinite(value):
        return f"assert abs({call} - {case.expected}) <= {atol} + 1e-07 * abs({case.expected})"
    if atol and items and isinstance(value, int | float | list | tuple) and not isinstance(value, bool):
        return f"assert close({call}, {case.expected}, {atol})"
    return f"assert {call} == {case.expected}"


def _vanishes(case: Case, atol: float) -> bool:
    """Whether the reference's root passes; for badly conditioned polynomials it does not."""
    try:
        (coefficients,), root = ast.literal_eval(f"({case.arguments},)"), case.value
        return isinstance(root, int | float) and abs(sum(c * root**i for i, c in enumerate(coefficients))) <= atol
    except (*UNPARSABLE, ArithmeticError):
        return False


Compute = Callable[[str, str, Sequence[str]], Sequence[str | None]]
"""Maps a program, its entry point and calls `candidate(...)` to the calls' values as literals; None for no value."""

NOT_SPLIT = "test_not_split"
"""Tag: the test has more than inputs and results, and stays one check."""
NUMPY = {"np", "numpy", "is_floats"}
ASSERTION = f"""{CLOSE}

def assertion(out, exp, atol):
    items = exp if isinstance(exp, (list, tuple)) else (exp,)
    if atol == 0 and items and all(isinstance(item, float) for item in items):
        atol = 1e-06
    assert close(out, exp, atol) if atol else out == exp
"""
"""Replaces the hub's version, which needs numpy; the sandbox has only the standard library."""
LEFT_OUT = "inputs_left_out"
"""Tag, followed by a colon and a number: inputs for which the reference has no value or a wrong one."""
LOOP = re.compile(
    r"for i, \(inp, exp\) in enumerate\(zip\(inputs, results\)\):\n"
    r"    (?:assertion\(candidate\(\*inp\), exp, ([\d.e-]+)\)|assert .*_poly\(.*\) <= ([\d.e-]+))"
)


class Problem(msgspec.Struct, frozen=True):
    """One row of the hub, with `test`, or of EvalPlus' release, with inputs but no expected values."""

    task_id: str
    prompt: str
    entry_point: str
    canonical_solution: str
    test: str = ""
    base_input: list[list[object]] | None = None
    plus_input: list[list[object]] = []
    atol: float = 0.0


def humaneval_plus(path: str, compute: Compute | None = None) -> Benchmark:
    """Tasks of a file or data set (see `rows.read`) with rows of the hub or of EvalPlus' release.

    Hidden tests: one per distinct input, `assert candidate(...) == ...` or, with a tolerance, `assert
    abs(candidate(...) - x) <= ...` or `assert close(candidate(...), [...], atol)`; `setup` defines `close`. A hub row
    that is not made of literals is one check with the tag `test_not_split`; an input without a correct value is left
    out and counted in a tag. Visible tests are those of HumanEval; some are also hidden tests. `canonical_solution` is
    the body that completes `prompt`. `path`: a file or data set. `compute`: runs the canonical solutions of a release
    file in a sandbox; hub rows do not need it.
    """
    return read(path, partial(_task, compute=compute))


def _task(line: bytes, compute: Compute | None) -> Task:
    problem = decoded(line, Problem, loads=json.loads)  # the file has Infinity, which is not valid JSON
    tags: tuple[str, ...] = ()
    if problem.base_input is not None:
        inputs, cases, atol = _released(problem, problem.base_input, compute)
        hidden = checks(problem.entry_point, cases, atol)
    elif literals := _of_test(problem.test):
        inputs, (cases, atol) = len(literals[0]), literals
        hidden = checks(problem.entry_point, cases, atol)
    else:
        inputs, hidden, tags = 1, (_whole(problem.test),), (NOT_SPLIT,)
    if not hidden:
        field = "test" if problem.base_input is None else "base_input"
        raise DataError(f"field $.{field}", "none", "inputs for which the reference has a correct value")
    if left_out := inputs - len(hidden):
        tags = (f"{LEFT_OUT}:{left_out}",)
    task = Task(
        task_id=problem.task_id,
        prompt=problem.prompt,
        entry_point=problem.entry_point,
        visible_tests=examples(problem.task_id, problem.prompt, problem.entry_point),
        setup=helpers(problem.prompt, problem.entry_point, "\n".join(hidden)) + helper(problem.entry_point, hidden),
        canonical_solution=problem.canonical_solution,
        tags=tags,
    )
    return msgspec.structs.replace(checked(task), hidden_tests=hidden)  # hundreds, generated above: not checked


def _of_test(test: str) -> tuple[list[Case], float] | None:
    """Cases and tolerance of a hub row's test; None if it is not made of literals."""
    lines = test.encode().split(b"\n")
    try:
        check = next(
            node for node in ast.parse(test).body if isinstance(node, ast.FunctionDef) and node.name == "check"
        )
        match check.body:
            case [
                ast.Assign([ast.Name("inputs")], ast.List(inputs)),
                ast.Assign([ast.Name("results")], ast.List(results)),
                ast.For() as loop,
            ] if len(inputs) == len(results) and (matched := LOOP.fullmatch(ast.unparse(loop))):
                cases = [_case(lines, arguments, result) for arguments, result in zip(inputs, results, strict=True)]
                return list({case.arguments: case for case in cases}.values()), float(matched[1] or matched[2])
    except (*UNPARSABLE, StopIteration):
        pass
    return None


def _case(lines: list[bytes], arguments: ast.expr, result: ast.expr) -> Case:
    if not isinstance(arguments, ast.List | ast.Tuple):
        raise DataError("an input is not a sequence of arguments")
    for argument in arguments.elts:
        _value(argument)
    return Case(", ".join(_text(lines, node) for node in arguments.elts), _text(lines, result), _value(result))


def _text(lines: list[bytes], node: ast.expr) -> str:
    if node.lineno != node.end_lineno:
        return ast.unparse(node)
    return lines[node.lineno - 1][node.col_offset : node.end_col_offset].decode()


def _value(node: ast.expr) -> object:
    """`ast.literal_eval` that also accepts `float('inf')`."""
    try:
        return ast.literal_eval(node)
    except ValueError:
        text = re.sub(r"float\('(-?)(?:inf|Infinity)'\)", r"\g<1>1e309", ast.unparse(node))
        return ast.literal_eval(text)


def _released(problem: Problem, base: list[list[object]], compute: Compute | None) -> tuple[int, list[Case], float]:
    """Number of distinct inputs, cases of those with a value of the canonical solution, and tolerance."""
    if compute is None:
        raise DataError(
            "field $.base_input: a release file of EvalPlus has no expected values; pass `compute`, which runs its "
            "canonical solutions, or use the hub's rows, which have the field test"
        )
    calls = list(dict.fromkeys(", ".join(map(_source, arguments)) for arguments in base + problem.plus_input))
    program = problem.prompt + problem.canonical_solution
    texts = compute(program, problem.entry_point, [f"candidate({arguments})" for arguments in calls])
    cases = []
    for arguments, text in zip(calls, texts, strict=True):
        try:
            cases.append(Case(arguments, text or "", ast.literal_eval(text or "")))
        except UNPARSABLE:
            continue
    return len(calls), cases, problem.atol


def _source(value: object) -> str:
    """`repr`, with infinities and NaN as Python source."""
    special = {"inf": "1e309", "nan": "float('nan')"}
    strings = r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
    return re.sub(rf"{strings}|\b(?:inf|nan)\b", lambda part: part[1] or special[part[0]], repr(value))


def _whole(test: str) -> str:
    try:
        compile(test, "test", "exec", dont_inherit=True)
    except UNPARSABLE as problem:
        raise DataError("field $.test", f"{test[:60]!r} ({problem})", "Python") from None
    if "def check(" not in test:
        raise DataError("field $.test", repr(test[:60]), "a function `check`")
    test = _without_numpy(test)
    return test if re.search(r"^check\(", test, re.MULTILINE) else f"{test.rstrip()}\n\ncheck(candidate)\n"


def _without_numpy(test: str) -> str:
    """`test` with its comparison of floats in plain Python; unchanged if it needs numpy for anything else."""
    tree = ast.parse(test)
    statements = [node for node in tree.body if not _compares(node)]
    needed = {part.id for node in statements for part in ast.walk(node) if isinstance(part, ast.Name)}
    if not any(isinstance(node, ast.Import) and _compares(node) for node in tree.body) or needed & NUMPY:
        return test
    return ASSERTION + "\n\n" + "\n\n".join(map(ast.unparse, statements))


def _compares(node: ast.stmt) -> bool:
    """Whether this statement belongs to the comparison that all rows of the hub share."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names] == ["numpy"]
    return isinstance(node, ast.FunctionDef) and node.name in ("assertion", "is_floats")
