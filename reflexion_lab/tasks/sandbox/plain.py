"""Encodes values of a candidate as plain data; `comparison.py` decodes them in the lab. Standard library only.

JSON with tags: `{"t": [...]}` is a tuple, `{"o": [...]}` a value that is not plain data. A value of a subclass is
encoded as its built-in base, so that no `__eq__` of the candidate takes part in a comparison.
"""

from _json import encode_basestring_ascii as quoted
from collections import OrderedDict
from typing import Any

LARGEST = 1 << 20
"""Maximum characters of an encoded value for the lab; a longer one is not plain data."""
LARGEST_CALLED = 1 << 24
"""The same for a trusted child."""
DEEPEST = 150
"""Maximum nesting; a deeper value is not plain data."""
SEQUENCES = {list: "", tuple: "t", set: "s", frozenset: "z"}
EXACT = 1 << 53
"""Integers from here on are encoded as hexadecimal text."""
DIGITS = 5_000
"""Maximum decimal exponent, as in `comparison`."""
RANGED = 1 << 20
"""Maximum length of a range; a longer one is not plain data."""
_DICTIONARIES: tuple[dict[str, int], ...] = ({}, OrderedDict())
VIEWS = {type(getattr(d, name)()): name[0].upper() for d in _DICTIONARIES for name in ("keys", "items", "values")}
"""Tags of the views of dictionaries, which keep their order."""
TYPES = (int, float, str, bool, list, tuple, dict, set, frozenset, bytes, complex)
Memo = Any
"""None, or a `standin.Kept`, for objects that stay in the candidate's process."""


class TooDeep(ValueError):
    pass


def encode(value: Any, memo: Memo = None) -> str:
    """One line of JSON, not much longer than `LARGEST`."""
    largest = LARGEST if memo is None else LARGEST_CALLED
    try:
        text = _encode(value, 0, memo)
        return text if len(text) <= largest else _opaque(value, memo)
    except (TooDeep, RecursionError):
        return _opaque(value, memo, f"a {type(value).__name__} nested deeper than {DEEPEST}")
    except (TypeError, ValueError):
        return _opaque(value, memo)


def _encode(value: Any, depth: int, memo: Memo) -> str:
    kind: Any = type(value)
    if value is None:
        return "null"
    if kind is bool:
        return "true" if value else "false"
    if issubclass(kind, int):
        number = int.__pos__(value)
        if memo and kind is not int and any((c.__module__, c.__name__) == ("enum", "Flag") for c in kind.__mro__):
            return _tagged("w", quoted(format(number, "x")))
        return repr(number) if -EXACT < number < EXACT else _tagged("i", quoted(format(number, "x")))
    if issubclass(kind, str):
        return quoted(str.__str__(value))
    if issubclass(kind, float):
        text = float.__repr__(value)
        return text if text[-1].isdigit() else _tagged("f", quoted(text))
    if memo is not None and id(value) in memo.shared:
        return _tagged("L", str(memo.shared[id(value)]))
    if depth > DEEPEST:
        raise TooDeep
    base: Any
    for base, tag in SEQUENCES.items():
        if issubclass(kind, base):
            items = _items(base.__iter__(value), depth, memo)
            return _tagged(tag, items) if tag else items
    if issubclass(kind, dict):
        is_ordered = issubclass(kind, OrderedDict)  # its order is not that of `dict.items`
        pairs = _pairs(OrderedDict.items(value) if is_ordered else dict.items(value), depth, memo)
        name = next((base.__name__ for base in kind.__mro__ if base.__module__ == "collections"), "")
        return _tagged("O" if is_ordered else "C" if name == "Counter" else "d", pairs)
    return _encode_rare(value, kind, depth, memo)


def _items(values: Any, depth: int, memo: Memo) -> str:
    return f"[{','.join([_encode(item, depth + 1, memo) for item in values])}]"


def _pairs(values: Any, depth: int, memo: Memo) -> str:
    return f"[{','.join([f'[{_encode(k, depth + 1, memo)},{_encode(v, depth + 1, memo)}]' for k, v in values])}]"


def _encode_rare(value: Any, kind: type, depth: int, memo: Memo) -> str:
    if issubclass(kind, bytes | bytearray):
        return _tagged("b" if issubclass(kind, bytes) else "bytearray", quoted(bytes(value).hex()))
    if issubclass(kind, complex):
        return _tagged("c", _items((value.real, value.imag), depth, memo))
    if tag := VIEWS.get(kind):
        return _tagged(tag, (_pairs if tag == "I" else _items)(value, depth, memo))
    if kind is range and len(value) <= RANGED:
        return _tagged("r", _items((value.start, value.stop, value.step), depth, memo))
    if (kind is type and value in TYPES) or value is ... or value is NotImplemented:
        return _tagged("k", quoted(value.__name__ if kind is type else repr(value)))
    for base in kind.__mro__[:-1]:
        if write := LIBRARY.get((base.__module__.removesuffix("._local"), base.__name__)):
            if (written := write(base, value)) is None:
                return _opaque(value, memo)
            tag, inner = written
            text = _encode(inner, depth + 1, memo)
            return _tagged(tag, text) if tag else text
    return _opaque(value, memo)


def _delay(base: Any, value: Any) -> tuple[int, ...]:
    return (base.days.__get__(value), base.seconds.__get__(value), base.microseconds.__get__(value))


def _moment(base: Any, value: Any, names: tuple[str, ...]) -> tuple[str, Any]:
    """With its present offset in place of its time zone."""
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
    ("re", "Pattern"): lambda base, value: ("re", [value.pattern, value.flags]),
    ("uuid", "UUID"): lambda base, value: ("uuid", base.__int__(value)),
    ("pathlib", "PurePath"): lambda base, value: ("path", base.__str__(value)),
    ("collections", "ChainMap"): lambda base, value: ("", {k: v for m in value.maps[::-1] for k, v in m.items()}),
    ("builtins", "mappingproxy"): lambda base, value: ("", base.copy(value)),
    ("builtins", "memoryview"): lambda base, value: ("view", bytes(value).hex()),
}  # fmt: skip
"""By module and name of a standard class: tag and plain data of an instance, by methods of no subclass."""


def _tagged(tag: str, text: str) -> str:
    return f'{{"{tag}":{text}}}'


def _shown(value: Any, kind: Any, why: str) -> str:
    """Name of the type, `repr`, and truth value."""
    try:
        text = why or repr(value)[:200]
    except Exception:  # a candidate's `__repr__`, or an integer too long for `repr`
        text = ""
    try:
        truth = "true" if value else "false"
    except Exception:
        truth = "true"
    return f"{quoted(kind.__name__)},{quoted(str.__str__(text))},{truth}"


def _opaque(value: Any, memo: Memo, why: str = "") -> str:
    """A value that is not plain data; `why` replaces its `repr`."""
    shown = _shown(value, type(value), why)
    return _tagged("o", f"[{shown}]") if memo is None else str(memo.handle(value, shown))
