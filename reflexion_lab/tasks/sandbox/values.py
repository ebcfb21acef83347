"""What a candidate's process sent, read with suspicion: the counterpart of `plain.py`, in the lab."""

from __future__ import annotations

from array import array
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Any

from reflexion_lab.tasks.sandbox.plain import RANGED, TYPES

ALIKE = 1 << 16
"""Pairs of elements of a set or a dictionary that may share a hash: each is compared when it is built. (-1 and -2 share
one, and so do tuples of them.)"""
PAIRS = 1 << 18
"""Comparisons of two objects in one report."""
FRACTION_BITS = 1 << 17
"""Of all fractions in one report: their common divisors take quadratic time."""
DIGITS = 5_000
"""Decimal exponents, and digits to round to, beyond this: numbers would grow."""


class Unreadable(ValueError):
    """What came from the candidate's process is no value."""


class Opaque:
    """Stands for a value that is not plain data: equal to itself alone, true or false as the value was.

    `number`: which object of its check it is; None where its class compares otherwise, in a way that cannot be told.
    """

    def __init__(self, kind: str, shown: str, truth: bool, number: int | None) -> None:
        self.kind, self.shown, self.truth, self.number = kind, shown, truth, number

    def __bool__(self) -> bool:
        return self.truth

    def __eq__(self, other: object) -> bool:
        moving = isinstance(other, datetime | time) and self.number is None  # one of another zone may equal it
        if moving or (isinstance(other, Opaque) and None in (self.number, other.number)):
            raise Unreadable(f"whether an object of {self.kind} equals another cannot be told from outside")
        return isinstance(other, Opaque) and self.number == other.number

    def __hash__(self) -> int:
        return hash(self.number)

    def __repr__(self) -> str:
        return self.shown or f"<{self.kind}>"


class Compared:
    """What is known of the objects of one check, and how often two were compared in the whole report."""

    def __init__(self) -> None:
        self.times = 0
        self.forget()

    def forget(self) -> None:
        self.equal: dict[tuple[int, int], None] = {}
        """Pairs of numbers, in the order of their comparisons; equal until the opposite turns out."""
        self.different: set[tuple[int, int]] = set()


class Own(Opaque):
    """A dataclass' object whose `__eq__` the dataclass generated: two are equal where their class is the same and the
    fields that it compares are equal.
    """

    def __init__(self, kind: str, shown: str, truth: bool, number: int, of: int, compared: Compared) -> None:
        super().__init__(kind, shown, truth, number)
        self.of = of
        self.fields: dict[str, Any] | None = None
        """None until all have been read."""
        self.compared = compared

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Own):
            return super().__eq__(other)
        known, (left, right) = self.compared, sorted((self.number or 0, other.number or 0))
        pair = (left, right)
        known.times += 1
        if known.times > PAIRS:
            raise Unreadable("too many objects to compare")
        if self.number == other.number or self.of != other.of:
            return self.number == other.number
        if self.fields is None or other.fields is None:
            raise Unreadable("an object is compared before its fields are read")
        if pair in known.equal or pair in known.different or self.fields.keys() != other.fields.keys():
            return pair in known.equal
        before, equal = len(known.equal), False
        known.equal[pair] = None  # objects may lead back to themselves
        try:
            equal = all(field == other.fields[name] for name, field in self.fields.items())
        finally:
            while not equal and len(known.equal) > before:  # what followed from it follows no more
                known.equal.popitem()
        if not equal:
            known.different.add(pair)
        return equal

    def __hash__(self) -> int:
        return hash(self.of)


class Decoder:
    """Reads the values of one report; what a hostile one may cost is bounded over all of it."""

    def __init__(self) -> None:
        self.fraction_bits = 0
        self.objects: dict[int, Own] = {}
        self.compared = Compared()
        self.readers: dict[str, Callable[[Any], Any]] = {
            "q": self._fraction,
            "p": self._own,
            "=": lambda number: self.objects[number],
        }

    def decode(self, *values: Any) -> list[Any]:
        """The values of one check that `plain.encode` wrote, from their parsed JSON.

        Raises
        ------
        Unreadable
            It wrote no such thing; the candidate did.
        """
        self.objects = {}
        self.compared.forget()
        try:
            return [self._decode(value) for value in values]
        except Exception as problem:  # the report is the candidate's: nothing in it is an error of the lab
            raise Unreadable(f"the value that the program sent cannot be read: {problem}"[:200]) from None

    def _decode(self, encoded: Any) -> Any:
        if isinstance(encoded, list):
            return [self._decode(item) for item in encoded]
        if not isinstance(encoded, dict):
            return encoded
        ((tag, inner),) = encoded.items()
        if tag in self.readers:
            return self.readers[tag](inner)
        if tag in CONTAINERS:
            return self._container(tag, [self._decode(item) for item in inner])
        if tag in LIBRARY:
            return LIBRARY[tag](*self._decode(inner)) if isinstance(inner, list) else LIBRARY[tag](inner)
        return DECODERS[tag](inner)

    def _container(self, tag: str, items: list[Any]) -> Any:
        if tag == "t":
            return tuple(items)
        try:
            dispersed([key for key, _ in items] if tag in "dOC" else items)
            return CONTAINERS[tag](items)
        except Unreadable:  # which of its objects are equal cannot be told, or not in time
            return Opaque(CONTAINERS[tag].__name__.strip("_"), "", bool(items), None)

    def _own(self, inner: list[Any]) -> Own:
        number, of, kind, text, truth, fields = inner
        if not (type(number) is int and type(of) is int) or number in self.objects:
            raise ValueError("an object that is another one")
        own = self.objects[number] = Own(str(kind)[:200], str(text)[:200], truth is True, number, of, self.compared)
        own.fields = {str(name): self._decode(field) for name, field in fields}
        return own

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
    if sum(n * n for n in Counter(map(hash, keys)).values() if n > 1) > ALIKE:
        raise Unreadable("too many elements share a hash")


def _decimal(text: str) -> Decimal:
    value = Decimal(text)
    if value.is_finite() and value and abs(value.adjusted()) > DIGITS:
        raise ValueError("an exponent out of range")
    return value


def _counter(items: list[Any]) -> Counter[Any]:
    """With these counts, whatever they are."""
    counts: Counter[Any] = Counter()
    dict.update(counts, items)
    return counts


def _range(*parts: int) -> range:
    """No longer than `plain` sends: a search through it takes its whole length."""
    if len(numbers := range(*parts)) > RANGED:
        raise ValueError("a range that is too long")
    return numbers


def _deque(items: list[Any], most: int | None) -> deque[Any]:
    return deque(_listed(items), most)


def _array(code: str, items: list[Any]) -> array[Any]:
    return array(code, _listed(items))


def _listed(items: Any) -> list[Any]:
    """As they were sent, one by one: a range would become larger than the report."""
    if not isinstance(items, list):
        raise TypeError("elements that are no list")
    return items


def _zone(offset: list[int] | None) -> timezone | None:
    return None if offset is None else timezone(timedelta(*offset))


def _time(parts: list[int], offset: list[int] | None) -> time:
    hour, minute, second, micro, fold = parts
    return time(hour, minute, second, micro, _zone(offset), fold=fold)


def _datetime(parts: list[int], offset: list[int] | None) -> datetime:
    year, month, day, hour, minute, second, micro, fold = parts
    return datetime(year, month, day, hour, minute, second, micro, _zone(offset), fold=fold)


CONTAINERS: dict[str, Callable[[Any], Any]] = {
    "t": tuple, "s": set, "z": frozenset, "d": dict, "O": OrderedDict, "C": _counter,
}  # fmt: skip
LIBRARY: dict[str, Callable[..., Any]] = {
    "r": _range, "date": date, "time": _time, "datetime": _datetime, "delta": timedelta, "deque": _deque,
    "array": _array, "path": PurePosixPath,
}  # fmt: skip
DECODERS: dict[str, Callable[[Any], Any]] = {
    "i": lambda inner: int(inner, 16),
    "f": float,
    "b": bytes.fromhex,
    "c": lambda inner: complex(*inner),
    "n": _decimal,
    "k": {kind.__name__: kind for kind in TYPES}.__getitem__,
    "o": lambda inner: Opaque(
        str(inner[0])[:200], str(inner[1])[:200], inner[2] is True, inner[3] if type(inner[3]) is int else None
    ),
}
