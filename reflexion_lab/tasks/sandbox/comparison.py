"""Comparing what a candidate computed, in a process that it never touches.

Works on plain data alone and on a closed list of operations, so that neither a hostile value nor a test that a model
wrote can do more here than be compared: no attribute of a value is ever looked up, and nothing grows far beyond its
operands.
"""

from __future__ import annotations

import ast
import builtins
import math
import operator
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from reflexion_lab.tasks.sandbox.values import DIGITS, dispersed

BITS = 1 << 16
"""Of what a power gives."""
FACTORS = 1 << BITS
"""Operands of a product, a power or a division stay below this."""
FORMAT = 1000
"""Characters of a text that a `%` fills in, and what its longest field is."""
LONGEST = 1 << 20
"""Of what a repetition gives."""
NUMBER = (int, float, complex, Decimal, Fraction)
WIDE = re.compile(r"\d{4}|\*")
"""A field of a `%`-format that may be longer than `FORMAT`."""


def close(actual: Any, expected: Any, atol: float) -> bool:
    """EvalPlus' comparison (Liu et al. 2023, arXiv:2305.01210): alike in shape, and near in every number.

    Near is within `atol` + 1e-7 · |expected|, or not a number either. Setups that define a `close` of these parameters
    mean this one.
    """
    if actual == expected:
        return True
    if isinstance(expected, list | tuple):
        alike = isinstance(actual, list | tuple) and len(actual) == len(expected)
        return alike and all(close(a, e, atol) for a, e in zip(actual, expected, strict=True))
    if not (isinstance(actual, int | float) and isinstance(expected, int | float)):
        return False
    if math.isnan(actual) or math.isnan(expected):
        return math.isnan(actual) and math.isnan(expected)
    return abs(expected) != math.inf and bool(abs(actual - expected) <= atol + 1e-7 * abs(expected))


def _few(function: Callable[..., Any]) -> Callable[..., Any]:
    def limited(items: Any = ()) -> Any:
        pairs = function is dict and not isinstance(items, dict)
        dispersed([key for key, _ in items] if pairs else items)
        return function(items)

    return limited


def _round(number: Any, digits: int | None = None) -> Any:
    if digits is not None and abs(digits) > DIGITS:  # a power of ten would be computed
        raise OverflowError("rounding to this many digits is not computed")
    return round(number, digits)


def _sum(items: Any) -> Any:
    """Without a start: sums of sequences grow quadratically."""
    return sum(items)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs, "round": _round, "len": len, "min": min, "max": max, "sorted": sorted, "any": any, "all": all,
    "list": list, "tuple": tuple, "str": str, "int": int, "float": float, "bool": bool,
    "sum": _sum, "set": _few(set), "frozenset": _few(frozenset), "dict": _few(dict),
    "Counter": _few(Counter), "collections.Counter": _few(Counter), "isinstance": isinstance, "close": close,
    "isclose": math.isclose, "math.isclose": math.isclose, "math.fabs": math.fabs, "math.sqrt": math.sqrt,
    "math.floor": math.floor, "math.ceil": math.ceil, "math.radians": math.radians, "math.degrees": math.degrees,
}  # fmt: skip
"""What a comparison may call, by the name that tests use."""
CONSTANTS: dict[str, Any] = {
    "int": int, "float": float, "str": str, "bool": bool, "list": list, "tuple": tuple, "dict": dict, "set": set,
    "frozenset": frozenset, "bytes": bytes, "complex": complex,
    "math.pi": math.pi, "math.e": math.e, "math.inf": math.inf, "math.nan": math.nan, "math.tau": math.tau,
}  # fmt: skip
COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip
UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.Not: operator.not_,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
}
ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.Mult: operator.mul, ast.Pow: operator.pow,
}  # fmt: skip


def name_of(node: ast.expr) -> str:
    """`f` or `module.f`; "" for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return ""


BUILT_IN = frozenset(name for name in (*FUNCTIONS, *CONSTANTS) if name in dir(builtins))
"""What every test may name; the rest must have been imported or set up."""


def comparable(node: ast.expr, names: Collection[str]) -> bool:
    """Whether `evaluate` knows every operation in `node`, and tests may name what it names.

    Names that stand for values begin with `$`; `names` are the others that a test knows beyond Python's own.
    """

    def known(part: ast.expr) -> bool:
        return comparable(part, names)

    def named(part: ast.expr, table: Mapping[str, Any]) -> bool:
        name = name_of(part)
        return name in table and (name in BUILT_IN or name in names or name.partition(".")[0] in names)

    match node:
        case ast.Constant():
            return node.value is not Ellipsis
        case ast.Name() if node.id.startswith("$"):
            return True
        case ast.Name() | ast.Attribute():
            return named(node, CONSTANTS)
        case ast.List() | ast.Tuple() | ast.Set():
            return all(map(known, node.elts))
        case ast.Dict():
            return all(key is not None and known(key) for key in node.keys) and all(map(known, node.values))
        case ast.Compare():
            sides = [node.left, *node.comparators]
            identity = any(isinstance(op, ast.Is | ast.IsNot) for op in node.ops)
            return all(map(known, sides)) and not (identity and not any(map(_single, sides)))
        case ast.BoolOp():
            return all(map(known, node.values))
        case ast.UnaryOp():
            return known(node.operand)
        case ast.BinOp():
            return type(node.op) in ARITHMETIC and known(node.left) and known(node.right)
        case ast.Subscript():
            return known(node.value) and known(node.slice)
        case ast.Call():
            arguments = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg in NAMED)]
            passes = all(keyword.arg in NAMED for keyword in node.keywords)
            return named(node.func, FUNCTIONS) and passes and all(map(known, arguments))
    return False


def _single(node: ast.expr) -> bool:
    """Whether there is one object of this value: copies of any other are not what `is` asks about."""
    return isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, bool))


NAMED = ("rel_tol", "abs_tol", "reverse")
"""Keyword arguments that a comparison may pass."""


def evaluate(node: ast.expr, values: Mapping[str, Any]) -> Any:
    """The value of a `comparable` expression, as Python would have it. Raises what Python would."""

    def value(part: ast.expr) -> Any:
        return evaluate(part, values)

    match node:
        case ast.Constant():
            return node.value
        case ast.Name() | ast.Attribute():
            name = name_of(node)
            return values[name] if name.startswith("$") else CONSTANTS[name]
        case ast.List() | ast.Tuple() | ast.Set():
            return {ast.List: list, ast.Tuple: tuple, ast.Set: set}[type(node)](map(value, node.elts))
        case ast.Dict():
            return {value(key): value(item) for key, item in zip(node.keys, node.values, strict=True) if key}
        case ast.Compare():
            sides = [value(side) for side in (node.left, *node.comparators)]
            pairs = zip(node.ops, sides, sides[1:], strict=False)
            return all(COMPARE[type(op)](left, right) for op, left, right in pairs)
        case ast.BoolOp():
            result = False
            for part in node.values:
                result = value(part)
                if bool(result) is isinstance(node.op, ast.Or):
                    break
            return result
        case ast.UnaryOp():
            return UNARY[type(node.op)](value(node.operand))
        case ast.BinOp():
            return _arithmetic(node.op, value(node.left), value(node.right))
        case ast.Subscript():
            return value(node.value)[value(node.slice)]
        case ast.Call():
            named = {str(keyword.arg): value(keyword.value) for keyword in node.keywords}
            return FUNCTIONS[name_of(node.func)](*map(value, node.args), **named)
    raise TypeError(f"no comparison: {ast.dump(node)[:80]}")


def _arithmetic(op: ast.operator, left: Any, right: Any) -> Any:
    numbers = isinstance(left, NUMBER) and isinstance(right, NUMBER)
    if isinstance(op, ast.Mod) and isinstance(left, str) and len(left) <= FORMAT and not WIDE.search(left):
        return left % right
    if isinstance(op, ast.Mult) and not numbers:
        many, times = (right, left) if isinstance(left, int) else (left, right)
        if isinstance(times, int) and isinstance(many, str | bytes | list | tuple) and len(many) * times <= LONGEST:
            return many * times
    if isinstance(op, ast.Add | ast.Sub) or numbers:
        if isinstance(op, ast.Mult) and not (abs(left) < FACTORS and abs(right) < FACTORS):
            raise OverflowError("a product of numbers this large is not computed")
        if isinstance(op, ast.Pow) and not _bits(left) * abs(right) <= BITS:
            raise OverflowError("a power this large is not computed")
        if isinstance(op, ast.FloorDiv | ast.Mod) and not abs(right) < FACTORS:
            raise OverflowError("a division by a number this large is not computed")
        return ARITHMETIC[type(op)](left, right)
    if isinstance(left, timedelta) or isinstance(right, timedelta):
        return ARITHMETIC[type(op)](left, right)
    raise TypeError(f"unsupported operands: {type(left).__name__!r} and {type(right).__name__!r}")


def _bits(number: Any) -> int:
    """How long the exact powers of `number` grow with each step."""
    if isinstance(number, Fraction):
        return max(number.numerator.bit_length(), number.denominator.bit_length())
    return number.bit_length() if isinstance(number, int) else 1
