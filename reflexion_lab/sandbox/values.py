"""What a candidate's process sent, read with suspicion: the counterpart of `plain.py`, in the lab."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

ALIKE = 16
"""Elements of a set or a dictionary that may share a hash: collisions make building it quadratic."""
FRACTION_BITS = 1 << 17
"""Of all fractions in one report: their common divisors take quadratic time."""
DIGITS = 5_000
"""Decimal exponents, and digits to round to, beyond this: numbers would grow."""


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
        self.fraction_bits = 0

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
        if tag == "q":
            return self._fraction(inner)
        if tag in CONTAINERS:
            items = [self._decode(item) for item in inner]
            if tag != "t":
                dispersed(key for key, _ in items) if tag == "d" else dispersed(items)
            return CONTAINERS[tag](items)
        return DECODERS[tag](inner)

    def _fraction(self, inner: list[Any]) -> Fraction:
        numerator, denominator = (self._decode(part) for part in inner)
        if not (isinstance(numerator, int) and isinstance(denominator, int)):  # texts may hold exponents
            raise ValueError("a fraction of something else than two integers")
        self.fraction_bits += numerator.bit_length() + denominator.bit_length()
        if self.fraction_bits > FRACTION_BITS:
            raise ValueError("fractions that are too long")
        return Fraction(numerator, denominator)


def dispersed(keys: Iterable[Hashable]) -> None:
    """Raises `Unreadable` where so many keys share a hash that a set of them would take quadratic time."""
    if max(Counter(map(hash, keys)).values(), default=0) > ALIKE:
        raise Unreadable(f"more than {ALIKE} elements share a hash")


def _decimal(text: str) -> Decimal:
    value = Decimal(text)
    if value.is_finite() and abs(value.adjusted()) > DIGITS:
        raise ValueError("an exponent out of range")
    return value


CONTAINERS: dict[str, Callable[[Iterable[Any]], Any]] = {"t": tuple, "s": set, "z": frozenset, "d": dict}
DECODERS: dict[str, Callable[[Any], Any]] = {
    "i": lambda inner: int(inner, 16),
    "f": float,
    "b": bytes.fromhex,
    "c": lambda inner: complex(*inner),
    "n": _decimal,
    "o": lambda inner: Opaque(str(inner[0])[:200], str(inner[1])[:200], inner[2] is True),
}
