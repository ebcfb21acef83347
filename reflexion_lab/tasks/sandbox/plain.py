"""Encodes values of a candidate as plain data; `comparison.py` decodes them in the lab. Standard library only.

JSON with tags: `{"t": [...]}` is a tuple, `{"o": [...]}` a value that is not plain data. A value of a subclass is
encoded as its built-in base, and a dataclass object as its class and fields, so that no `__eq__` of the candidate takes
part in a comparison.
"""

from _json import encode_basestring_ascii as quoted
from typing import Any

LARGEST = 1 << 20
"""Maximum characters of an encoded value; a longer one is not plain data."""
DEEPEST = 60
SEQUENCES = {list: "", tuple: "t", set: "s", frozenset: "z"}
EXACT = 1 << 53
"""Integers from here on are encoded as hexadecimal text."""
DIGITS = 5_000
"""Maximum decimal exponent, as in `comparison`."""
RANGED = 1 << 20
"""Maximum length of a range; a longer one is not plain data."""
IDENTITY = (object.__eq__, type.__eq__)
"""Equality by identity."""
GENERATED = "__create_fn__.<locals>.__eq__"
"""Qualified name of an `__eq__` that `dataclass` generated."""
TYPES = (int, float, str, bool, list, tuple, dict, set, frozenset, bytes, complex)
Memo = dict[int, tuple[int, Any]]
"""Objects of one check by address: the number of each, and the object itself, so that its address is not reused."""


def encode(value: Any, memo: Memo | None = None) -> str:
    """One line of JSON, not much longer than `LARGEST`. The values of one check share `memo`."""
    memo = {} if memo is None else memo
    before = len(memo)
    try:
        text = _encode(value, 0, memo)
    except (TypeError, ValueError, RecursionError):
        text = ""
    if text and len(text) <= LARGEST:
        return text
    for key in list(memo)[before:]:  # later values cannot refer to objects that are not sent
        del memo[key]
    return _opaque(value, memo)


def _encode(value: Any, depth: int, memo: Memo) -> str:
    kind: Any = type(value)
    if value is None:
        return "null"
    if kind is bool:
        return "true" if value else "false"
    if issubclass(kind, int):
        exact = int.__pos__(value)
        return repr(exact) if -EXACT < exact < EXACT else _tagged("i", quoted(format(exact, "x")))
    if issubclass(kind, str):
        return quoted(str.__str__(value))
    if issubclass(kind, float):
        text = float.__repr__(value)
        return text if text[-1].isdigit() else _tagged("f", quoted(text))
    if depth > DEEPEST:
        raise ValueError("nested too deeply")
    base: Any
    for base, tag in SEQUENCES.items():
        if issubclass(kind, base):
            items = _items(base.__iter__(value), depth, memo)
            return _tagged(tag, items) if tag else items
    if issubclass(kind, dict):
        pairs = [f"[{_encode(k, depth + 1, memo)},{_encode(v, depth + 1, memo)}]" for k, v in dict.items(value)]
        name = next((base.__name__ for base in kind.__mro__ if base.__module__ == "collections"), "")
        return _tagged({"OrderedDict": "O", "Counter": "C"}.get(name, "d"), f"[{','.join(pairs)}]")
    return _encode_rare(value, kind, depth, memo)


def _items(values: Any, depth: int, memo: Memo) -> str:
    return f"[{','.join([_encode(item, depth + 1, memo) for item in values])}]"


def _encode_rare(value: Any, kind: type, depth: int, memo: Memo) -> str:
    if issubclass(kind, bytes | bytearray):
        return _tagged("b", quoted(bytes(value).hex()))
    if issubclass(kind, complex):
        return _tagged("c", _items((value.real, value.imag), depth, memo))
    if kind is type({}.keys()) or kind is type({}.items()):
        return _encode(set(value), depth, memo)
    if kind is range and len(value) <= RANGED:
        return _tagged("r", _items((value.start, value.stop, value.step), depth, memo))
    if kind is type and value in TYPES:
        return _tagged("k", quoted(value.__name__))
    for base in kind.__mro__[:-1]:
        if write := LIBRARY.get((base.__module__.removesuffix("._local"), base.__name__)):
            if (written := write(base, value)) is None:
                return _opaque(value, memo)
            tag, inner = written
            text = _encode(inner, depth + 1, memo)
            return _tagged(tag, text) if tag else text
    return _own(value, kind, depth, memo)


def _own(value: Any, kind: Any, depth: int, memo: Memo) -> str:
    """An object of the program's own class: its number, its class, and the fields that its dataclass compares."""
    if kind.__eq__ in IDENTITY:
        return _opaque(value, memo)
    if id(value) in memo:
        return _tagged("=", str(memo[id(value)][0]))
    fields = _fields(value, kind)
    if fields is None:
        return _opaque(value, memo)
    number = _number(value, memo)
    pairs = ",".join([f"[{quoted(name)},{_encode(field, depth + 1, memo)}]" for name, field in sorted(fields.items())])
    return _tagged("p", f"[{number},{_number(kind, memo)},{_shown(value, kind)},[{pairs}]]")


def _number(value: Any, memo: Memo) -> int:
    return memo.setdefault(id(value), (len(memo), value))[0]


def _fields(value: Any, kind: Any) -> dict[str, Any] | None:
    """Fields that the `__eq__` of a dataclass compares; None for an object without a generated `__eq__`."""
    base = next(base for base in kind.__mro__ if "__eq__" in vars(base))
    if getattr(getattr(vars(base)["__eq__"], "__code__", None), "co_qualname", "") != GENERATED:
        return None
    try:
        fields = vars(base)["__dataclass_fields__"].values()
        return {field.name: getattr(value, field.name) for field in fields if field.compare and _is_field(field)}
    except Exception:  # a field without a value, or a candidate's property that raises
        return None


def _is_field(field: Any) -> bool:
    """Whether `field` is neither a `ClassVar` nor an `InitVar`."""
    return bool(field._field_type.name == "_FIELD")


def _delay(base: Any, value: Any) -> tuple[int, ...]:
    return (base.days.__get__(value), base.seconds.__get__(value), base.microseconds.__get__(value))


def _moment(base: Any, value: Any, names: tuple[str, ...]) -> tuple[str, Any] | None:
    zone = base.tzinfo.__get__(value)
    if zone is not None and (type(zone).__module__, type(zone).__name__) != ("datetime", "timezone"):
        return None  # its offset may change over time
    offset = base.utcoffset(value)
    parts = [getattr(base, name).__get__(value) for name in names]
    return base.__name__, [parts, None if offset is None else list(_delay(type(offset), offset))]


CLOCK = ("hour", "minute", "second", "microsecond", "fold")
LIBRARY: dict[tuple[str, str], Any] = {
    ("decimal", "Decimal"): lambda base, value: (
        ("n", base.__str__(value)) if not base.__bool__(value) or abs(base.adjusted(value)) <= DIGITS else None
    ),
    ("fractions", "Fraction"): lambda base, value: ("q", [value.numerator, value.denominator]),
    ("datetime", "datetime"): lambda base, value: _moment(base, value, ("year", "month", "day", *CLOCK)),
    ("datetime", "time"): lambda base, value: _moment(base, value, CLOCK),
    ("datetime", "date"): lambda base, value: (
        "date", [base.year.__get__(value), base.month.__get__(value), base.day.__get__(value)]
    ),
    ("datetime", "timedelta"): lambda base, value: ("delta", list(_delay(base, value))),
    ("collections", "deque"): lambda base, value: ("deque", [list(base.__iter__(value)), base.maxlen.__get__(value)]),
    ("collections", "UserList"): lambda base, value: ("", value.data),
    ("collections", "UserDict"): lambda base, value: ("", value.data),
    ("collections", "UserString"): lambda base, value: ("", value.data),
    ("array", "array"): lambda base, value: ("array", [base.typecode.__get__(value), base.tolist(value)]),
    ("pathlib", "PurePath"): lambda base, value: ("path", base.__str__(value)),
}  # fmt: skip
"""By module and class name of the standard library: tag and plain data of an instance, by methods of the class itself,
not of a subclass."""


def _tagged(tag: str, text: str) -> str:
    return f'{{"{tag}":{text}}}'


def _shown(value: Any, kind: Any) -> str:
    """Name of the type, `repr`, and truth value."""
    try:
        text = repr(value)[:200]
    except Exception:  # a candidate's `__repr__`, or an integer too long for `repr`
        text = ""
    try:
        truth = "true" if value else "false"
    except Exception:
        truth = "true"
    return f"{quoted(kind.__name__)},{quoted(str.__str__(text))},{truth}"


def _opaque(value: Any, memo: Memo) -> str:
    """A value that is not plain data: with its number if its class compares by identity, else with None."""
    kind: Any = type(value)
    number = _number(value, memo) if kind.__eq__ in IDENTITY else "null"
    return _tagged("o", f"[{_shown(value, kind)},{number}]")
