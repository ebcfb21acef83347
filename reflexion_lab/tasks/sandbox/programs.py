"""Checks of whole programs: an input, and the output that it must give. The comparison stays in the lab.

A check is JSON, `{"input": "2 3", "output": "5"}`. Two rules compare outputs, by `Task.data["compare"]`:

- `tokens`, the default: the parts between blanks and line ends are equal, byte by byte. With `Task.data["tolerance"]`
  two numbers, of which one has a decimal point or an exponent, may differ by that much, or that share of the right one.
- `lines`, as LiveCodeBench compares: the lines are equal without blanks at both ends, and so are their numbers: two
  lines of which every part is a number are equal if these are, as 1.0 and 1.

A program that ends in another exit code than 0 fails, whatever it printed, as with the judges of contests.
"""

from __future__ import annotations

import functools
import hashlib
import math
import re
from decimal import Decimal, InvalidOperation
from typing import Literal

import msgspec

from reflexion_lab.errors import DataError
from reflexion_lab.limits import Above0, Count, NotNegative
from reflexion_lab.records import Check, Record, Task

SHOWN = 100
"""Maximum characters of an output in a message."""
STUCK = 3
"""Time-outs in a row after which the remaining checks of a program are not run."""
RAISED = re.compile(r"^([A-Za-z_][\w.]*)(?:: (.*))?$", re.MULTILINE)
PLACE = re.compile(r'^  File "<candidate>", line (\d+)', re.MULTILINE)
NUMBER = re.compile(rb"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
LONGEST = 100
"""Maximum characters of a number that is compared as such."""


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    input: str
    output: str


class Terms(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the outputs of a task are compared, and its own limits, which only lower those of the config."""

    compare: Literal["tokens", "lines"] = "tokens"
    tolerance: NotNegative = 0.0
    """Absolute or relative; of `tokens` alone."""
    seconds: Above0 = math.inf
    """CPU seconds of one check on the reference machine."""
    memory_mb: Count = 0
    """Memory beyond that of Python itself; 0 for the config's limit."""
    requires: tuple[str, ...] = ()
    """Packages that the program may import."""

    @classmethod
    def of(cls, task: Task) -> Terms:
        """From `Task.data`. Raises DataError: a key is unknown, or a value is out of range."""
        try:
            return msgspec.convert(task.data | {"requires": task.requires}, cls)
        except msgspec.ValidationError as problem:
            raise DataError(f"field $.data: {problem}") from None


@functools.lru_cache(maxsize=8)  # they may be large
def case(check: str) -> Case:
    """The check's input and output. Raises DataError: it is not such JSON."""
    try:
        return msgspec.json.decode(check, type=Case)
    except (msgspec.MsgspecError, UnicodeEncodeError) as problem:
        expected = 'JSON such as {"input": "2 3", "output": "5"}'
        raise DataError("a check of a program", f"{check[:60]!r} ({problem})", expected) from None


def difference(printed: bytes, wanted: str, terms: Terms) -> int | None:
    """Index of the first part or line that differs, from 0; None without one."""
    expected, got = (parts(text, terms.compare) for text in (wanted.encode(), printed))
    equal = _equal_lines if terms.compare == "lines" else _equal_tokens
    pairs = enumerate(zip(expected, got, strict=False))
    places = (i for i, (a, b) in pairs if a != b and not equal(a, b, terms.tolerance))
    return next(places, None if len(expected) == len(got) else min(len(expected), len(got)))


def parts(text: bytes, rule: str) -> list[bytes]:
    if rule == "tokens":
        return text.split()
    whole = text.strip()
    return [line.strip() for line in whole.split(b"\n")] if whole else []


def _equal_tokens(expected: bytes, got: bytes, tolerance: float) -> bool:
    sides = expected, got
    if not tolerance or not any(re.search(rb"[.eE]", side) for side in sides) or max(map(len, sides)) > LONGEST:
        return False
    if not all(map(NUMBER.fullmatch, sides)):
        return False
    wanted, value = map(float, sides)
    share = tolerance if re.search(rb"[.eE]", expected) else 0.0  # an integer is exact: 3.0 is 3
    return abs(value - wanted) <= share * max(1.0, abs(wanted)) < math.inf


def _equal_lines(expected: bytes, got: bytes, tolerance: float) -> bool:
    ours, theirs = expected.split(), got.split()
    long = [(a, b) for a, b in zip(ours, theirs, strict=False) if max(len(a), len(b)) > LONGEST]
    if len(ours) != len(theirs) or not all(a == b and NUMBER.fullmatch(a) for a, b in long):
        return False
    try:
        short = (pair for pair in zip(ours, theirs, strict=True) if max(map(len, pair)) <= LONGEST)
        return all(Decimal(a.decode()) == Decimal(b.decode()) for a, b in short)
    except (InvalidOperation, UnicodeDecodeError):
        return False


def name_of(check: str) -> str:
    """The check's source, shortened to one line."""
    return " ".join(check[:1000].split())[:200].encode(errors="replace").decode()


def compared(check: str, printed: bytes, terms: Terms, seconds: float) -> Check:
    """The verdict on the output of a program that ended with code 0."""
    wanted, name = case(check).output, name_of(check)
    if (place := difference(printed, wanted, terms)) is None:
        return Check(name=name, outcome="pass", seconds=seconds)
    sides = [wanted, printed.decode(errors="backslashreplace")]
    if max(map(len, sides)) <= SHOWN:
        message = f"expected {sides[0].strip()!r}, got {sides[1].strip()!r}"
    else:
        noun = terms.compare.removesuffix("s")
        both = [parts(text, terms.compare) for text in (wanted.encode(), printed)]
        a, b = (repr(side[place].decode(errors="replace")[:SHOWN]) if place < len(side) else "none" for side in both)
        message = f"{noun} {place + 1}: expected {a}, got {b}; {len(both[0])} expected in all, {len(both[1])} printed"
    expected, actual = map(_capped, sides)
    return Check(name=name, outcome="fail", message=message, expected=expected, actual=actual, seconds=seconds)


def _capped(text: str) -> str:
    """`repr`, and a digest of a long text, since equal outputs are one behaviour."""
    if len(text) <= SHOWN:
        return repr(text)
    return f"{text[:SHOWN]!r}… {len(text)} characters, {hashlib.sha256(text.encode(errors='replace')).hexdigest()[:8]}"


def raised(errors: str) -> tuple[str, str, int]:
    """Exception, message and line of the program in the last traceback of its standard error; "", "" and 0 if none."""
    place = next(reversed([*PLACE.finditer(errors)]), None)
    last = RAISED.search(errors, place.end()) if place else None
    return (last[1].rpartition(".")[2], last[2] or "", int(place[1])) if place and last else ("", "", 0)
