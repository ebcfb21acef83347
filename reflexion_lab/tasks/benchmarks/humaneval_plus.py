"""HumanEval+ (EvalPlus; Liu et al. 2023, arXiv:2305.01210): HumanEval with hundreds of inputs per task.

Inputs and expected values are read as literals; nothing of the file is executed. MBPP+ has tests of the same form.
"""

from __future__ import annotations

import ast
import contextlib
import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from reflexion_lab.errors import DataError
from reflexion_lab.records import Task
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark
from reflexion_lab.tasks.benchmarks.humaneval import Problem, task_of
from reflexion_lab.tasks.benchmarks.rows import Fields, checked, decoded, read
from reflexion_lab.text.replies.syntax import IMPORTS, UNPARSABLE, literal_eval, parse, read_names

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


def checks(entry_point: str, cases: Sequence[Case], atol: float, by: str = "") -> tuple[str, ...]:
    """One assert per case, of values, sets or truth (`by`: "", "set", "bool"); for `find_zero`, of valid roots only."""
    if by == "bool":
        return tuple(f"assert {'' if case.value else 'not '}candidate({case.arguments})" for case in cases)
    if by == "set":
        return tuple(f"assert set(candidate({case.arguments})) == set({case.expected})" for case in cases)
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
        (coefficients,), root = literal_eval(f"({case.arguments},)"), case.value
        return isinstance(root, int | float) and abs(sum(c * root**i for i, c in enumerate(coefficients))) <= atol
    except (*UNPARSABLE, ArithmeticError):
        return False


Compute = Callable[[str, str, Sequence[str]], Sequence[str | None]]
"""Maps a program, its entry point and calls `candidate(...)` to the calls' values as literals; None for no value."""

NOT_SPLIT = "test_not_split"
"""Tag: the test has more than inputs and results, and stays one check."""
ASSERT_CLOSE = r"np\.testing\.assert_allclose\(out, exp,(?: rtol=1e-07,)? atol=atol\)"
ALL_CLOSE = r"np\.allclose\(out, exp, rtol=1e-07, atol=atol\)"
WITHOUT_NUMPY = {
    r"import numpy as np\n": CLOSE,
    ASSERT_CLOSE: "assert close(out, exp, atol)",
    ALL_CLOSE: "close(out, exp, atol)",
    r"isinstance\(x, np\.ndarray\)": "False",
    r"\bnp\.float\d+": "None",
}
"""The comparison of the hub's rows in plain Python: the sandbox has only the standard library."""
LEFT_OUT = "inputs_left_out"
"""Tag, followed by a colon and a number: inputs for which the reference has no value or a wrong one."""
LOOP = re.compile(
    r"for i, \(inp, exp\) in enumerate\(zip\(inputs, results\)\):\n"
    r"    (?:assertion\((\w+)\(\*inp\), exp, ([\d.e-]+)\)|assert .*_poly\(.*\) <= ([\d.e-]+))"
)
ASSERTION = re.compile(
    r"(exact_match = out == exp\n)?if atol == 0 and is_floats\(exp\):\n    atol = 1e-06\n"
    r"(?(1)|(out = set\(out\)\nexp = set\(exp\)\n)?)if (?(1)not exact_match|out != exp) and atol != 0:\n"
    rf"    (?:assert {ALL_CLOSE}|{ASSERT_CLOSE})\nelse:\n    assert (?(1)exact_match|out == exp)(?:, .*)?"
)
"""Bodies of EvalPlus' `assertion`; group 2: it ignores the order."""


class Release(Problem, frozen=True):
    """One row of the hub, with `test`, or of EvalPlus' release, with inputs but no expected values."""

    base_input: list[list[object]] | None = None
    plus_input: list[list[object]] = msgspec.field(default_factory=list)
    atol: float = 0.0
    contract: str = ""
    assertion: str = ""


def humaneval_plus(path: str, compute: Compute | None = None) -> Benchmark:
    """Tasks of a file or data set (see `rows.read`) with rows of the hub or of EvalPlus' release.

    Hidden tests: one per distinct input, `assert candidate(...) == ...` or, with a tolerance, `assert
    abs(candidate(...) - x) <= ...` or `assert close(candidate(...), [...], atol)`; `setup` defines `close`. A hub row
    that is not made of literals is one check with the tag `test_not_split`; an input without a correct value is left
    out and counted in a tag. Visible tests are those of HumanEval; some are also hidden tests. `canonical_solution` is
    the body that completes `prompt`. `path`: a file or data set. `compute`: runs the canonical solutions of a release
    file in a sandbox; hub rows do not need it.
    """
    return read(path, partial(task, compute=compute))


def task(row: Fields, compute: Compute | None) -> Task:
    """The task of a row; `compute` as in `humaneval_plus`."""
    problem, base = decoded(row, Release), 0
    tags: tuple[str, ...] = ()
    if problem.base_input is not None:
        inputs, hidden, base = released(problem, problem.base_input, compute)
    else:
        inputs, hidden, tags = hidden_of(problem.test, problem.entry_point)
    if not hidden:
        field = "test" if problem.base_input is None else "base_input"
        raise DataError(f"field $.{field}", "none", "inputs for which the reference has a correct value")
    if left_out := inputs - len(hidden):
        tags = (f"{LEFT_OUT}:{left_out}",)
    task = checked(task_of(problem, (), "\n".join(hidden)))  # hundreds of tests, generated above: not checked
    setup = task.setup + helper(problem.entry_point, hidden)
    return msgspec.structs.replace(task, hidden_tests=hidden, setup=setup, tags=tags, base_tests=base)


def hidden_of(test: str, entry_point: str) -> tuple[int, tuple[str, ...], tuple[str, ...]]:
    """Number of distinct inputs of a field `test`, its checks (one per input where they are literals), and tags."""
    if (literals := _of_test(test, entry_point)) is None:
        return 1, (_whole(test, entry_point),), (NOT_SPLIT,)
    cases, atol, by = literals
    return len(cases), checks(entry_point, cases, atol, by), ()


def _of_test(test: str, entry_point: str) -> tuple[list[Case], float, str] | None:
    """Cases of a hub row's test, tolerance, and `by` of `checks`; None if it is not made of literals.

    HumanEval+ has the loop in `check(candidate)`, MBPP+ at module level.
    """
    try:
        lines = test.encode().split(b"\n")
        tree = parse(test)
        functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        body = [node for node in tree.body if not isinstance(node, ast.FunctionDef | IMPORTS)]
        compared = _compared(functions.get("assertion"))
        match functions["check"].body if "check" in functions else body:
            case [
                ast.Assign([ast.Name("inputs")], ast.List(inputs)),
                ast.Assign([ast.Name("results")], ast.List(results)),
                ast.For() as loop,
            ] if compared and len(inputs) == len(results) and (matched := LOOP.fullmatch(ast.unparse(loop))):
                if matched[1] in (None, "candidate", "check" not in functions and entry_point):
                    cases = [_case(lines, arguments, result) for arguments, result in zip(inputs, results, strict=True)]
                    distinct = list({case.arguments: case for case in cases}.values())
                    return distinct, float(matched[2] or matched[3]), "set" * (compared == "sets")
    except UNPARSABLE:
        pass
    return None


def _compared(assertion: ast.FunctionDef | None) -> str:
    """What the row's `assertion` compares: "values", "sets", or "" for anything else."""
    if assertion is None:
        return "values"
    body = ast.Module(assertion.body[ast.get_docstring(assertion) is not None :], [])
    matched = ASSERTION.fullmatch(ast.unparse(body)) if ast.unparse(assertion.args) == "out, exp, atol" else None
    return ("sets" if matched[2] else "values") if matched else ""


def _case(lines: list[bytes], arguments: ast.expr, result: ast.expr) -> Case:
    if not isinstance(arguments, ast.List | ast.Tuple):
        raise DataError("an input is not a sequence of arguments")
    for argument in arguments.elts:
        _value(argument)
    return Case(", ".join(_text(lines, node) for node in arguments.elts), _text(lines, result), _value(result))


def _text(lines: list[bytes], node: ast.expr) -> str:
    is_long = node.lineno != node.end_lineno
    line = lines[node.lineno - 1][node.col_offset : node.end_col_offset]
    return _special(ast.unparse(node) if is_long else line.decode())


def _value(node: ast.expr) -> object:
    """`ast.literal_eval` that also accepts infinities."""
    try:
        return ast.literal_eval(node)
    except ValueError:
        text = re.sub(r"float\('(-?)(?:inf|Infinity)'\)", r"\g<1>1e309", ast.unparse(node))
        return literal_eval(_special(text))


def released(
    problem: Release, base: list[list[object]], compute: Compute | None, by: str = ""
) -> tuple[int, tuple[str, ...], int]:
    """Number of distinct inputs, checks of those with a value of the canonical solution, and how many are of `base`."""
    if not callable(compute):
        expected = "a function `compute`, which runs the canonical solutions (in a config: none), or the hub's rows"
        raise DataError("field $.base_input", "inputs without expected values", expected)
    every = [", ".join(_special(repr(value)) for value in inputs) for inputs in base + problem.plus_input]
    calls, n_base = list(dict.fromkeys(every)), len(set(every[: len(base)]))
    program = problem.prompt + problem.canonical_solution
    form = "bool(candidate({}))" if by == "bool" else "candidate({})"  # a match of `re` is no literal
    texts = compute(program, problem.entry_point, [form.format(arguments) for arguments in calls])
    tests, base_tests = list[str](), 0
    for number, (arguments, text) in enumerate(zip(calls, texts, strict=True)):
        with contextlib.suppress(*UNPARSABLE):
            case = Case(arguments, text or "", literal_eval(text or ""))
            tests += checks(problem.entry_point, [case], problem.atol, by)
        if number < n_base:
            base_tests = len(tests)
    return len(calls), tuple(tests), base_tests


def _special(source: str) -> str:
    """`source` with infinities and NaN as Python has them."""
    special = {"inf": "1e309", "nan": "float('nan')"}
    strings = r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
    return re.sub(rf"{strings}|\b(?:inf|nan)\b", lambda part: part[1] or special[part[0]], source)


def _whole(test: str, entry_point: str) -> str:
    try:
        tree = parse(test)
        compile(test, "test", "exec", dont_inherit=True)
        plain = ast.unparse(tree)
    except UNPARSABLE as problem:
        raise DataError("field $.test", f"{test[:60]!r} ({problem})", "Python") from None
    has_check = "def check(" in test
    if not has_check and not {"candidate", entry_point} & read_names(*(n for n in tree.body if isinstance(n, ast.For))):
        raise DataError("field $.test", repr(test[:60]), "a function `check`, or a loop over inputs")
    for pattern, instead in WITHOUT_NUMPY.items():
        plain = re.sub(pattern, instead, plain)
    if "numpy" in test and "np" not in read_names(parse(plain)):
        test = plain
    is_called = not has_check or re.search(r"^check\(", test, re.MULTILINE)
    return test if is_called else f"{test.rstrip()}\n\ncheck(candidate)\n"
