"""Checks of one call each, by the rule of EvalPlus: equal, or near where floats are compared.

A value is near if it is within `atol + 1e-07 * abs(expected)`, number by number, in sequences of the same shape.
The hub's tests are laxer: numpy spreads a bare number over a sequence, and takes it for an empty list; EvalPlus' own
evaluator is stricter: a near value must be of the very type. `find_zero` (HumanEval/32) has many right answers, so the
polynomial must vanish at the one given; the hub's test of it raises for every program. (Rules: `evalplus/eval`.)
"""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from typing import NamedTuple

UNREADABLE = (SyntaxError, ValueError, TypeError, MemoryError, RecursionError)
"""What `ast.literal_eval` raises on what is no literal."""
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
    """One input, and what the reference gives for it."""

    arguments: str
    expected: str
    value: object
    """The value of `expected`."""


def checks(entry_point: str, cases: Sequence[Case], atol: float) -> tuple[str, ...]:
    """One assert a case; of `find_zero` only cases whose own answer passes. They need `helper(entry_point, ...)`."""
    if entry_point == "find_zero":
        roots = [case for case in cases if _vanishes(case, atol)]
        return tuple(f"assert abs(poly({c.arguments}, candidate({c.arguments}))) <= {atol}" for c in roots)
    return tuple(_check(case, atol) for case in cases)


def helper(entry_point: str, tests: Sequence[str]) -> str:
    """The function that `tests`, made by `checks`, call beside `candidate`; "" for none."""
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
    """Whether the reference's own answer passes; on badly conditioned polynomials it does not."""
    try:
        (coefficients,), root = ast.literal_eval(f"({case.arguments},)"), case.value
        return isinstance(root, int | float) and abs(sum(c * root**i for i, c in enumerate(coefficients))) <= atol
    except (*UNREADABLE, ArithmeticError):
        return False
