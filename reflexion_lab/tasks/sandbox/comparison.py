"""Values that a candidate reports, and their comparison in the lab's process.

Supports only plain data and a closed list of operations, so that neither hostile values nor tests by a model can do
anything else: no attribute of a value is looked up, and the operations of one comparison together read and create at
most `WORK` parts, each counted as often as it occurs, also where it is shared, as in `[[0] * n] * n`. One file: a
closed list is seen whole.
"""

from __future__ import annotations

import ast
import builtins
import math
import operator
import re
import sys
from array import array
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Any

if "." in __name__:
    from reflexion_lab.tasks.sandbox.plain import RANGED, TYPES
else:  # a file without a package inside the sandbox
    from plain import RANGED, TYPES  # type: ignore[import-not-found,no-redef]

ALIKE = 1 << 20
"""Maximum parts that comparisons of elements with equal hashes read in a set or dictionary. (-1 and -2 have equal
hashes, and so do tuples of them.)"""
FRACTION_BITS = 1 << 17
"""Maximum total bits of the fractions in one report: reducing them takes quadratic time."""
DIGITS = 5_000
"""Maximum decimal exponent, and maximum digits of `round`, so that numbers stay small."""


class Unreadable(ValueError):
    """The candidate's process did not send a valid value, or it cannot be compared."""


class Opaque:
    """Placeholder of a value that is not plain data: equal only to itself, with the truth value of the original."""

    def __init__(self, kind: object, text: object, truth: object) -> None:
        self.kind, self.text, self.truth = str(kind)[:200], str(text)[:200], truth is True

    def __bool__(self) -> bool:
        return self.truth

    def __repr__(self) -> str:
        return self.text or f"<{self.kind}>"


class Decoder:
    """Decodes the values of one report, with bounded total cost."""

    def __init__(self) -> None:
        self.fraction_bits = 0
        self.readers: dict[str, Callable[[Any], Any]] = {
            "q": self._fraction,
            "c": lambda inner: complex(*_listed(self._decode(inner))),
            "V": lambda inner: dict(enumerate(_listed(self._decode(inner)))).values(),
        }

    def decode(self, *values: Any) -> list[Any]:
        """The values of one check, from the parsed JSON of `plain.encode`.

        Raises Unreadable: the JSON is not from `plain.encode`, so the candidate wrote it.
        """
        try:
            return [self._decode(value) for value in values]
        except Exception as problem:  # an invalid report is the candidate's error, not the lab's
            raise Unreadable(f"the value that the program sent cannot be read: {problem}"[:200]) from None

    def _decode(self, encoded: Any) -> Any:
        if isinstance(encoded, list):
            return [self._decode(item) if isinstance(item, list | dict) else item for item in encoded]
        if not isinstance(encoded, dict):
            return encoded
        ((tag, inner),) = encoded.items()
        if tag in self.readers:
            return self.readers[tag](inner)
        if tag in CONTAINERS:
            return self._container(tag, [self._decode(item) for item in inner])
        if tag in LIBRARY:
            return LIBRARY[tag](*self._decode(inner)) if isinstance(inner, list) else LIBRARY[tag](self._decode(inner))
        return DECODERS[tag](inner)

    def _container(self, tag: str, items: list[Any]) -> Any:
        if tag == "t":
            return tuple(items)
        try:
            dispersed([key for key, _ in items] if tag in "dOCI" else items)
            return CONTAINERS[tag](items)
        except Unreadable:  # too many comparisons
            return Opaque(CONTAINERS[tag].__name__.strip("_"), "", bool(items))

    def _fraction(self, inner: list[Any]) -> Fraction:
        numerator, denominator = (self._decode(part) for part in inner)
        if not (isinstance(numerator, int) and isinstance(denominator, int)):  # texts may have exponents
            raise ValueError("a fraction of something else than two integers")
        self.fraction_bits += numerator.bit_length() + denominator.bit_length()
        if self.fraction_bits > FRACTION_BITS:
            raise ValueError("fractions that are too long")
        return Fraction(numerator, denominator)


def dispersed(keys: Iterable[Hashable]) -> None:
    """Raise Unreadable if so many keys have equal hashes that a set of them would take quadratic time."""
    keys = {key if type(key) is str else id(key): key for key in keys}.values()
    alike, left = Counter(map(hash, keys)), ALIKE
    for key in keys if len(alike) < len(keys) else ():
        if (n := alike[hash(key)]) > 1:
            try:
                left -= n * size(key, left // n)
            except OverflowError:
                raise Unreadable("too many elements share a hash") from None


def _decimal(text: str) -> Decimal:
    value = Decimal(text)
    if value.is_finite() and value and abs(value.adjusted()) > DIGITS:
        raise ValueError("an exponent out of range")
    return value


def _counter(items: list[Any]) -> Counter[Any]:
    """A Counter with these counts, also if they are not numbers."""
    counts: Counter[Any] = Counter()
    dict.update(counts, items)
    return counts


def _range(*parts: int) -> range:
    """A range within the bound of `plain`, because a search takes time proportional to its length."""
    if len(numbers := range(*parts)) > RANGED:
        raise ValueError("a range that is too long")
    return numbers


def _listed(items: Any) -> list[Any]:
    """`items`, which must be a list: elements of a range would take more memory than the report."""
    if not isinstance(items, list):
        raise TypeError("elements that are no list")
    return items


def _zone(offset: list[int] | None) -> timezone | None:
    return None if offset is None else timezone(timedelta(*_listed(offset)))


def _time(parts: list[int], offset: list[int] | None) -> time:
    hour, minute, second, micro, fold = parts
    return time(hour, minute, second, micro, _zone(offset), fold=fold)


def _datetime(parts: list[int], offset: list[int] | None) -> datetime:
    year, month, day, hour, minute, second, micro, fold = parts
    return datetime(year, month, day, hour, minute, second, micro, _zone(offset), fold=fold)


CONTAINERS: dict[str, Callable[[Any], Any]] = {
    "t": tuple, "s": set, "z": frozenset, "d": dict, "O": OrderedDict, "C": _counter,
    "K": lambda items: dict.fromkeys(items).keys(), "I": lambda items: dict(items).items(),
}  # fmt: skip
VIEWS = tuple(type(view) for view in (CONTAINERS.keys(), CONTAINERS.items(), CONTAINERS.values()))
SINGLE = {str, int, float, bool, type(None), bytes, bytearray, complex, Decimal, array, memoryview}
SEVERAL = (list, tuple, set, frozenset, deque, range, *VIEWS)
LIBRARY: dict[str, Callable[..., Any]] = {
    "r": _range, "date": date, "time": _time, "datetime": _datetime, "delta": timedelta,
    "deque": lambda items, longest: deque(_listed(items), longest), "path": PurePosixPath,
    "array": lambda code, items: array(code, _listed(items)), "re": lambda pattern, _: Opaque("Pattern", pattern, True),
    "uuid": lambda number: Opaque("UUID", number, True),
}  # fmt: skip
DECODERS: dict[str, Callable[[Any], Any]] = {
    "i": lambda inner: int(inner, 16), "f": float, "b": bytes.fromhex, "bytearray": bytearray.fromhex, "n": _decimal,
    "view": lambda inner: memoryview(bytes.fromhex(inner)), "o": lambda inner: Opaque(*inner),
    "k": {**{kind.__name__: kind for kind in TYPES}, "Ellipsis": ..., "NotImplemented": NotImplemented}.__getitem__,
}  # fmt: skip


BITS = 1 << 16
"""Maximum length of a power, in bits."""
FACTORS = 1 << BITS
"""Upper bound of the operands of products and divisions."""
FORMAT = 1000
"""Maximum characters of a `%`-format, and of one of its fields."""
LONGEST = 1 << 20
"""Maximum length of a repeated sequence."""
WORK = 1 << 21
"""Maximum parts of all values that the operations of one comparison read or create."""
HEAD, WORD = 64, 8
"""Bytes of a single value that count as one part, and further ones that count as one more."""
NUMBER = (int, float, complex, Decimal, Fraction)
WIDE = re.compile(r"\d{4}|\*")
"""A field of a `%`-format that can be longer than `FORMAT`."""


def size(value: Any, most: int = WORK) -> int:
    """Number of parts of `value`, each counted as often as it occurs. Raises OverflowError beyond `most`."""
    parts, waiting = 1, [[value]]
    while waiting:
        items = waiting.pop()
        single = items if SINGLE.issuperset(map(type, items)) else [item for item in items if type(item) in SINGLE]
        parts += max(0, sum(map(sys.getsizeof, single)) - HEAD * len(single)) // WORD
        for item in items if single is not items else ():
            inside = _parts(item)
            parts += len(inside)
            if parts > most:
                break
            waiting.append(inside)
        if parts > most:
            raise OverflowError(f"values of more than {WORK:,} parts are not computed")
    return parts


def _parts(value: Any) -> Any:
    if isinstance(value, dict):
        return [*value, *value.values()]
    if isinstance(value, Fraction):
        return [value.numerator, value.denominator]
    return value if isinstance(value, SEVERAL) else ()


class Work:
    """Parts that the operations of one comparison may still read or create."""

    def __init__(self, left: int = WORK) -> None:
        self.left = left

    def charge(self, *values: Any) -> None:
        """Raises OverflowError: the values are too large."""
        for value in values:
            self.left -= size(value, self.left)


def close(actual: Any, expected: Any, atol: float) -> bool:
    """EvalPlus' comparison (Liu et al. 2023, arXiv:2305.01210): equal shapes with numbers within a tolerance.

    The tolerance is `atol` + 1e-7 · |expected|; NaN equals NaN. It replaces a `close` with these parameters in a setup.
    """
    if actual == expected:
        return True
    if isinstance(expected, list | tuple):
        same_shape = isinstance(actual, list | tuple) and len(actual) == len(expected)
        return same_shape and all(close(a, e, atol) for a, e in zip(actual, expected, strict=True))
    if not (isinstance(actual, int | float) and isinstance(expected, int | float)):
        return False
    if math.isnan(actual) or math.isnan(expected):
        return math.isnan(actual) and math.isnan(expected)
    return abs(expected) != math.inf and bool(abs(actual - expected) <= atol + 1e-7 * abs(expected))


def _bounded(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` that refuses items with too many equal hashes."""

    def limited(items: Any = ()) -> Any:
        pairs = function is dict and not isinstance(items, dict)
        dispersed([key for key, _ in items] if pairs else items)
        return function(items)

    return limited


def _round(number: Any, digits: int | None = None) -> Any:
    if digits is not None and abs(digits) > DIGITS:  # it would compute a power of ten
        raise OverflowError("rounding to this many digits is not computed")
    return round(number, digits)


def _sum(items: Any) -> Any:
    """`sum` without `start`, because summing sequences takes quadratic time."""
    return sum(items)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs, "round": _round, "len": len, "min": min, "max": max, "sorted": sorted, "any": any, "all": all,
    "list": list, "tuple": tuple, "str": str, "int": int, "float": float, "bool": bool,
    "sum": _sum, "set": _bounded(set), "frozenset": _bounded(frozenset), "dict": _bounded(dict),
    "Counter": _bounded(Counter), "collections.Counter": _bounded(Counter), "isinstance": isinstance, "close": close,
    "isclose": math.isclose, "math.isclose": math.isclose, "math.fabs": math.fabs, "math.sqrt": math.sqrt,
    "math.floor": math.floor, "math.ceil": math.ceil, "math.radians": math.radians, "math.degrees": math.degrees,
}  # fmt: skip
"""Functions that a comparison may call, by their name in tests."""
CONSTANTS: dict[str, Any] = {
    "int": int, "float": float, "str": str, "bool": bool, "list": list, "tuple": tuple, "dict": dict, "set": set,
    "frozenset": frozenset, "bytes": bytes, "complex": complex,
    "math.pi": math.pi, "math.e": math.e, "math.inf": math.inf, "math.nan": math.nan, "math.tau": math.tau,
}  # fmt: skip
LITERALS: dict[type[ast.expr], Callable[[Any], Any]] = {
    ast.List: list, ast.Tuple: tuple, ast.Set: lambda items: _bounded(set)(list(items)),
    ast.Dict: lambda pairs: _bounded(dict)(list(pairs)),
}  # fmt: skip
COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip
UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.Not: operator.not_, ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert,
}  # fmt: skip
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
"""Names that every test may use; the others must be imported or defined by the setup."""


def comparable(node: ast.expr, names: Collection[str]) -> bool:
    """Whether `evaluate` supports every operation and name in `node`.

    Names of values start with `$`; `names` are those that the test imports or its setup defines.
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
            return all(map(known, sides)) and not (identity and not any(map(is_single, sides)))
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


def is_single(node: ast.expr) -> bool:
    """Whether there is only one object of this value, so that `is` holds for a copy."""
    return isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, bool))


NAMED = ("rel_tol", "abs_tol", "reverse")
"""Keyword arguments that a comparison may pass."""


def evaluate(node: ast.expr, values: Mapping[str, Any], work: Work) -> Any:
    """The value of a `comparable` expression. Raises as Python does, and OverflowError for more than `work`."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, (ast.Name, ast.Attribute)):
        name = name_of(node)
        return values[name] if name.startswith("$") else CONSTANTS[name]

    def value(part: ast.expr) -> Any:
        return evaluate(part, values, work)

    match node:
        case ast.Compare():
            return _compared(node.ops, [value(side) for side in (node.left, *node.comparators)], work)
        case ast.List() | ast.Tuple() | ast.Set():
            return LITERALS[type(node)](map(value, node.elts))
        case ast.Dict():
            return LITERALS[ast.Dict]((value(k), value(v)) for k, v in zip(node.keys, node.values, strict=True) if k)
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
            return _arithmetic(node.op, value(node.left), value(node.right), work)
        case ast.Subscript():
            return value(node.value)[value(node.slice)]
        case ast.Call():
            arguments = [value(argument) for argument in node.args]
            named = {str(keyword.arg): value(keyword.value) for keyword in node.keywords}
            work.charge(*arguments)
            return FUNCTIONS[name_of(node.func)](*arguments, **named)
    raise TypeError(f"no comparison: {ast.dump(node)[:80]}")


def _compared(ops: Sequence[ast.cmpop], sides: list[Any], work: Work) -> bool:
    kinds = [*map(type, ops)]
    if ast.In in kinds or ast.NotIn in kinds:
        work.charge(*sides)
    return all(COMPARE[kind](a, b) for kind, a, b in zip(kinds, sides, sides[1:], strict=False))


def _arithmetic(op: ast.operator, left: Any, right: Any, work: Work) -> Any:
    numbers = isinstance(left, NUMBER) and isinstance(right, NUMBER)
    if isinstance(op, ast.Mod) and isinstance(left, str) and len(left) <= FORMAT and not WIDE.search(left):
        work.charge(*[right] * left.count("%"))  # `%(a)s` reads it again
        return left % right
    if isinstance(op, ast.Mult) and not numbers:
        items, n = (right, left) if isinstance(left, int) else (left, right)
        if isinstance(n, int) and isinstance(items, str | bytes | list | tuple) and len(items) * n <= LONGEST:
            work.charge(repeated := items * n)
            return repeated
    if isinstance(op, ast.Add | ast.Sub) or numbers:
        if not numbers:
            work.charge(left, right)
        if isinstance(op, ast.Mult) and not (abs(left) < FACTORS and abs(right) < FACTORS):
            raise OverflowError("a product of numbers this large is not computed")
        if isinstance(op, ast.Pow) and not _bits(left) * abs(right) <= BITS:
            raise OverflowError("a power this large is not computed")
        if isinstance(op, ast.FloorDiv | ast.Mod) and not abs(right) < FACTORS:
            raise OverflowError("a division by a number this large is not computed")
        return ARITHMETIC[type(op)](left, right)
    raise TypeError(f"unsupported operands: {type(left).__name__!r} and {type(right).__name__!r}")


def _bits(number: Any) -> int:
    """Bits that each further power of `number` adds."""
    if isinstance(number, Fraction):
        return max(number.numerator.bit_length(), number.denominator.bit_length())
    return number.bit_length() if isinstance(number, int) else 1
