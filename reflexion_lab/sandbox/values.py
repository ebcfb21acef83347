"""What a candidate's process sent, read with suspicion: the counterpart of `plain.py`, in the lab."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

HASHED = 10_000
"""Elements of all sets and dictionaries in one report: hash collisions make building them quadratic."""
DIGITS = 5_000
"""Decimal exponents beyond this would grow when rounded."""


class Unreadable(ValueError):
    """What came from the candidate's process is no value."""


class Opaque:
    """Stands for a value that is not plain data: equal to nothing, true or false as the value was."""

    def __init__(self, kind: str, shown: str, truth: bool) -> None:
        self.kind, self.shown, self.truth = kind, shown, truth

    def __bool__(self) -> bool:
        return self.truth

    def __repr__(self) -> str:
        return self.shown or f"<{self.kind}>"


class Decoder:
    """Reads the values of one report; what a hostile one may cost is bounded over all of it."""

    def __init__(self) -> None:
        self.hashed = 0

    def decode(self, told: Any) -> Any:
        """The value that `plain.encode` wrote, from its parsed JSON.

        Raises:
            Unreadable: it wrote no such thing; the candidate did.
        """
        try:
            return self._decode(told)
        except (TypeError, ValueError, ArithmeticError, RecursionError, KeyError) as problem:
            raise Unreadable(f"the value that the program sent cannot be read: {problem}"[:200]) from None

    def _decode(self, told: Any) -> Any:
        if isinstance(told, list):
            return [self._decode(item) for item in told]
        if not isinstance(told, dict):
            return told
        ((tag, inner),) = told.items()
        if tag in CONTAINERS:
            if tag != "t":
                self.hashed += len(inner)
            if self.hashed > HASHED:
                raise ValueError(f"more than {HASHED} elements of sets and dictionaries")
            return CONTAINERS[tag](self._decode(item) for item in inner)
        return DECODERS[tag](inner)


def _decimal(text: str) -> Decimal:
    value = Decimal(text)
    if value.is_finite() and abs(value.adjusted()) > DIGITS:
        raise ValueError("an exponent out of range")
    return value


def _fraction(inner: list[Any]) -> Fraction:
    numerator, denominator = (Decoder().decode(part) for part in inner)
    if not (isinstance(numerator, int) and isinstance(denominator, int)):  # of a text, an exponent would be computed
        raise ValueError("a fraction of something else than two integers")
    return Fraction(numerator, denominator)


CONTAINERS: dict[str, Callable[[Iterable[Any]], Any]] = {"t": tuple, "s": set, "z": frozenset, "d": dict}
DECODERS: dict[str, Callable[[Any], Any]] = {
    "i": lambda inner: int(inner, 16),
    "f": float,
    "b": bytes.fromhex,
    "c": lambda inner: complex(*inner),
    "n": _decimal,
    "q": _fraction,
    "o": lambda inner: Opaque(str(inner[0])[:200], str(inner[1])[:200], inner[2] is True),
}
