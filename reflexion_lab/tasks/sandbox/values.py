"""Decodes values from a candidate's process, in the lab, and trusts none of them. The counterpart of `plain.py`."""

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
"""Maximum pairs of elements with equal hashes in a set or dictionary, each of which costs a comparison. (-1 and -2 have
equal hashes, and so do tuples of them.)"""
PAIRS = 1 << 18
"""Maximum comparisons of two objects in one report."""
FRACTION_BITS = 1 << 17
"""Maximum total bits of the fractions in one report: reducing them takes quadratic time."""
DIGITS = 5_000
"""Maximum decimal exponent, and maximum digits of `round`, so that numbers stay small."""


class Unreadable(ValueError):
    """The candidate's process did not send a valid value, or it cannot be compared."""


class Opaque:
    """Placeholder of a value that is not plain data: equal only to itself, with the truth value of the original.

    `number`: number of the object within its check; None if its class does not compare by identity, so that its
    equality is unknown.
    """

    def __init__(self, kind: str, text: str, truth: bool, number: int | None) -> None:
        self.kind, self.text, self.truth, self.number = kind, text, truth, number

    def __bool__(self) -> bool:
        return self.truth

    def __eq__(self, other: object) -> bool:
        is_time = isinstance(other, datetime | time) and self.number is None  # may be equal in another time zone
        if is_time or (isinstance(other, Opaque) and None in (self.number, other.number)):
            raise Unreadable(f"whether an object of {self.kind} equals another cannot be told from outside")
        return isinstance(other, Opaque) and self.number == other.number

    def __hash__(self) -> int:
        return hash(self.number)

    def __repr__(self) -> str:
        return self.text or f"<{self.kind}>"


class Comparisons:
    """Results of comparisons within one check, and the number of comparisons in the whole report."""

    def __init__(self) -> None:
        self.count = 0
        self.forget()

    def forget(self) -> None:
        self.equal: dict[tuple[int, int], None] = {}
        """Pairs of object numbers in order of comparison; a pair under comparison counts as equal."""
        self.different: set[tuple[int, int]] = set()


class Own(Opaque):
    """An object with the generated `__eq__` of a dataclass: equal if class and compared fields are equal.

    `of` is the number of the class.
    """

    def __init__(self, kind: str, text: str, truth: bool, number: int, of: int, comparisons: Comparisons) -> None:
        super().__init__(kind, text, truth, number)
        self.of = of
        self.fields: dict[str, Any] | None = None
        """None until all fields are decoded."""
        self.comparisons = comparisons

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Own):
            return super().__eq__(other)
        known, (left, right) = self.comparisons, sorted((self.number or 0, other.number or 0))
        pair = (left, right)
        known.count += 1
        if known.count > PAIRS:
            raise Unreadable("too many objects to compare")
        if self.number == other.number or self.of != other.of:
            return self.number == other.number
        if self.fields is None or other.fields is None:
            raise Unreadable("an object is compared before its fields are read")
        if pair in known.equal or pair in known.different or self.fields.keys() != other.fields.keys():
            return pair in known.equal
        before, equal = len(known.equal), False
        known.equal[pair] = None  # for cyclic references
        try:
            equal = all(field == other.fields[name] for name, field in self.fields.items())
        finally:
            while not equal and len(known.equal) > before:  # undo results that assumed this pair to be equal
                known.equal.popitem()
        if not equal:
            known.different.add(pair)
        return equal

    def __hash__(self) -> int:
        return hash(self.of)


class Decoder:
    """Decodes the values of one report, with bounded total cost."""

    def __init__(self) -> None:
        self.fraction_bits = 0
        self.objects: dict[int, Own] = {}
        self.comparisons = Comparisons()
        self.readers: dict[str, Callable[[Any], Any]] = {
            "q": self._fraction,
            "p": self._own,
            "=": lambda number: self.objects[number],
        }

    def decode(self, *values: Any) -> list[Any]:
        """The values of one check, from the parsed JSON of `plain.encode`.

        Raises
        ------
        Unreadable
            The JSON is not from `plain.encode`, so the candidate wrote it.
        """
        self.objects = {}
        self.comparisons.forget()
        try:
            return [self._decode(value) for value in values]
        except Exception as problem:  # an invalid report is the candidate's error, not the lab's
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
        except Unreadable:  # unknown equality of its objects, or too many comparisons
            return Opaque(CONTAINERS[tag].__name__.strip("_"), "", bool(items), None)

    def _own(self, inner: list[Any]) -> Own:
        number, of, kind, text, truth, fields = inner
        if not (type(number) is int and type(of) is int) or number in self.objects:
            raise ValueError("an object that is another one")
        own = self.objects[number] = Own(str(kind)[:200], str(text)[:200], truth is True, number, of, self.comparisons)
        own.fields = {str(name): self._decode(field) for name, field in fields}
        return own

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
    if sum(n * n for n in Counter(map(hash, keys)).values() if n > 1) > ALIKE:
        raise Unreadable("too many elements share a hash")


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


def _deque(items: list[Any], max_length: int | None) -> deque[Any]:
    return deque(_listed(items), max_length)


def _array(code: str, items: list[Any]) -> array[Any]:
    return array(code, _listed(items))


def _listed(items: Any) -> list[Any]:
    """`items`, which must be a list: elements of a range would take more memory than the report."""
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
