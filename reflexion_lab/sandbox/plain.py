"""Values as plain data: what a candidate's process sends, and what the lab reads from it. Standard library only.

JSON, with a tag for what JSON lacks: `{"t": [...]}` is a tuple, `{"o": [...]}` a value that is not plain data. A value
of a subclass travels as its built-in base, so that no method of the candidate's own takes part in a comparison.
"""

from _json import encode_basestring_ascii as quoted
from typing import Any

LARGEST = 1 << 20
"""Characters of one value on its way; what is larger is no plain data."""
DEEPEST = 60
SEQUENCES = {list: "", tuple: "t", set: "s", frozenset: "z"}
EXACT = 1 << 53
"""Integers from here on travel as hexadecimal text."""


def encode(value: Any) -> str:
    """One line of JSON; never longer than about `LARGEST`."""
    try:
        text = _encode(value, 0)
    except (TypeError, ValueError, RecursionError):
        return _opaque(value)
    return text if len(text) <= LARGEST else _opaque(value)


def _encode(value: Any, depth: int) -> str:
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
            items = f"[{','.join([_encode(item, depth + 1) for item in base.__iter__(value)])}]"
            return _tagged(tag, items) if tag else items
    if issubclass(kind, dict):
        pairs = [f"[{_encode(k, depth + 1)},{_encode(v, depth + 1)}]" for k, v in dict.items(value)]
        return _tagged("d", f"[{','.join(pairs)}]")
    return _rarer(value, kind, depth)


def _rarer(value: Any, kind: type, depth: int) -> str:
    if issubclass(kind, bytes | bytearray):
        return _tagged("b", quoted(bytes(value).hex()))
    if issubclass(kind, complex):
        return _tagged("c", f"[{_encode(value.real, depth + 1)},{_encode(value.imag, depth + 1)}]")
    if kind is type({}.keys()) or kind is type({}.items()):
        return _encode(set(value), depth)
    if (kind.__module__, kind.__name__) == ("decimal", "Decimal"):
        return _tagged("n", quoted(str(value)))
    if (kind.__module__, kind.__name__) == ("fractions", "Fraction"):
        return _tagged("q", f"[{_encode(value.numerator, depth + 1)},{_encode(value.denominator, depth + 1)}]")
    if depth:  # inside a container: equal to nothing there either
        return _opaque(value)
    raise TypeError("not plain data")


def _tagged(tag: str, text: str) -> str:
    return f'{{"{tag}":{text}}}'


def _opaque(value: Any) -> str:
    try:
        shown = repr(value)[:200]
    except Exception:  # a candidate's own `__repr__`, or an integer too long to be shown
        shown = ""
    try:
        truth = "true" if value else "false"
    except Exception:
        truth = "true"
    return _tagged("o", f"[{quoted(type(value).__name__)},{quoted(str.__str__(shown))},{truth}]")
